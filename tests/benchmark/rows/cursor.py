"""How long it takes with very much mail stored to find what left the inbox while nobody looked: what is asked when the
mailbox's cursor has expired."""

import time
from datetime import UTC, datetime, timedelta
from typing import Any

from email_assistant.app import open_app
from email_assistant.db.pool import Pool, make_pool
from email_assistant.settings import Settings
from email_assistant.sync.mails import missing_from, waiting_since
from tests.benchmark.rows.figures import Limit, Reading, RowProgress, Size
from tests.benchmark.rows.stage import postgres, scratch

_TIMES = 15
_MOST_MS = 5.0
_INBOX = 2000
_WAITING = 50
_FILL = """
with conversations as (insert into threads (user_id, account_id, gmail_id)
                       select %(user)s, %(account)s, n::text from generate_series(%(first)s::int, %(last)s::int) n
                       returning id, gmail_id)
insert into mails (account_id, gmail_id, user_id, thread_id, own, sender, subject, content, received_at, state)
select %(account)s, gmail_id, %(user)s, id, false, 'bob@bench.example', 'Lunch', '{}',
       now() - gmail_id::int * interval '20 seconds',
       case when gmail_id::int <= %(waiting)s then 'waiting' else 'done' end
from conversations
"""
_BATCH = 50_000


async def expired_cursor(size: Size, progress: RowProgress) -> list[Reading]:
    """Queries about an account with very much mail, of which some waits."""
    mails = size.of(1_000_000, 1000)
    with scratch() as folder, postgres(folder) as server:
        url = server.create("cursor")
        settings = Settings(home=folder / "home", database_url=url, google_root="http://127.0.0.1:1")
        async with open_app(settings, url) as app:
            account = await app.accounts.add(
                app.user_id, "ada@bench.example", {"bench": "none"}, datetime.now(UTC) - timedelta(days=400)
            )
        with server.watch(url) as watch:
            for first in range(1, mails + 1, _BATCH):
                last = min(mails, first + _BATCH - 1)
                progress(f"{last:,} of {mails:,} mails are stored")
                given = {"user": account.user_id, "account": account.id, "waiting": _WAITING}
                watch.execute(_FILL.encode(), {**given, "first": first, "last": last})
            watch.execute("vacuum analyze")
        inbox = [str(number) for number in range(_WAITING // 2, _INBOX)]
        async with make_pool(url, size=1, idle_seconds=60) as pool:

            async def missing() -> list[str]:
                async with pool.connection() as conn:
                    return await missing_from(conn, account, inbox)

            asked: dict[str, Any] = {
                "waiting_since": lambda: waiting_since(pool, account.id),
                "missing_from": missing,
            }
            return [await _timed(name, ask, pool, mails) for name, ask in asked.items()]


async def _timed(name: str, ask: Any, pool: Pool, mails: int) -> Reading:
    scans, took = await _scans(pool), []
    for _ in range(_TIMES):
        began = time.perf_counter()
        await ask()
        took.append((time.perf_counter() - began) * 1000)
    whole = (await _scans(pool) - scans) / _TIMES
    plan = "reads the whole table" if whole else "by an index"
    return Reading(f"expired cursor, `{name}`", "ms", took, Limit(_MOST_MS), note=f"{mails:,} mails, {plan}")


async def _scans(pool: Pool) -> int:
    """How often the whole table of mails was read so far."""
    async with pool.connection() as conn:
        await conn.execute("select pg_stat_force_next_flush()")
        await conn.execute("select")
        query = "select seq_scan from pg_stat_user_tables where relname = 'mails'"
        row = await (await conn.execute(query)).fetchone()
    assert row is not None
    return int(row["seq_scan"])
