"""How long a look for what is due takes, at 100 open conversations and at 100,000."""

import argparse
import asyncio
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from pathlib import Path
from uuid import UUID

import psycopg

from email_assistant.db.embedded import EmbeddedPostgres
from email_assistant.db.migrate import migrate
from email_assistant.db.pool import Pool, make_pool
from email_assistant.db.presence import Holder
from email_assistant.work.due import DueWork
from tests.benchmark.measured import spread

_OPEN = """
with person as (insert into users (name) values ('ada') returning id),
account as (insert into accounts (user_id, address, provider, token, triage_since, mode, listed_at, backfilled_at,
                                  spent_until, state)
            select id, 'ada@example.org', 'google', '', now(), 'draft', now(), now(), %(spent)s, %(account)s
            from person returning id, user_id),
conversations as (insert into threads (user_id, account_id, gmail_id)
                  select user_id, id, n::text from account, generate_series(1, %(n)s) n
                  returning id, user_id, account_id, gmail_id),
work as (insert into runs (id, user_id, account_id, thread_id, mail_id, attempt, input, state)
         select gen_random_uuid(), user_id, account_id, id, gmail_id, 1, '{}', %(run)s
         from conversations where %(run)s <> '' returning id, mail_id),
letters as (insert into mails (account_id, gmail_id, user_id, thread_id, own, sender, subject, content, received_at,
                               state, classification, triaged_at, run_id)
            select account_id, gmail_id, user_id, c.id, false, 'bob@example.org', 'Lunch?', '{}', now(), %(mail)s,
                   %(class)s::text, case when %(class)s::text is not null then clock_timestamp() end, w.id
            from conversations c left join work w on w.mail_id = c.gmail_id),
drafts as (insert into left_drafts (run_id, call_id, user_id, account_id, thread_id, args, state)
           select w.id, 'call', user_id, account_id, c.id, '{}', 'left'
           from conversations c join work w on w.mail_id = c.gmail_id where %(draft)s)
insert into inbox_items (user_id, account_id, thread_id, run_id, mail_id, call_id, interrupt_id, kind, action, args,
                         allowed, mail_text, marks, teaches, status, undo_until)
select user_id, account_id, c.id, w.id, mail_id, 'call', mail_id, 'draft', 'send_email_tool', '{}', '{}', '', '[]',
       true, %(item)s, %(undo)s
from conversations c join work w on w.mail_id = c.gmail_id where %(item)s <> ''
"""
_BACK = "update threads set not_before = %(back)s where not_before <> %(back)s"
"""Once they are there, as what goes wrong does."""
_PLAIN = {
    "spent": "-infinity",
    "account": "active",
    "back": "-infinity",
    "run": "",
    "mail": "new",
    "class": None,
    "draft": False,
    "item": "",
    "undo": "-infinity",
}
_WAITS: dict[str, object] = {"run": "waiting", "mail": "waiting", "item": "pending"}
_STATES: dict[str, dict[str, object]] = {
    "new mail": {},
    "new mail, account paused": {"account": "paused"},
    "new mail, budget spent": {"spent": "infinity"},
    "new mail, backing off": {"back": "infinity"},
    "being worked on": {"run": "running", "mail": "triaging"},
    "waiting for the person": _WAITS,
    "waiting, labels to be set": {**_WAITS, "class": "respond"},
    "waiting, drafts left at Gmail": {**_WAITS, "draft": True},
    "decided": {"run": "waiting", "mail": "waiting", "item": "decided"},
    "decided, may be undone": {"run": "waiting", "mail": "waiting", "item": "decided", "undo": "infinity"},
}


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--few", type=int, default=100)
    parser.add_argument("--many", type=int, default=100_000)
    parser.add_argument("--states", nargs="*", choices=_STATES, default=list(_STATES), metavar="STATE")
    parser.add_argument("--looks", type=int, default=30)


def main(given: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory() as folder, EmbeddedPostgres(Path(folder) / "postgres") as server:
        asyncio.run(_measure(server, given.few, given.many, given.looks, given.states))


def _show(state: str, look: str, times: list[tuple[float, float]]) -> None:
    few, many = (list(column) for column in zip(*times, strict=True))
    ratio = statistics.median(many) / statistics.median(few)
    print(f"{state:30} {look:11} × {ratio:.2f}: {spread(few)} → {spread(many)}", flush=True)


async def _measure(server: EmbeddedPostgres, few: int, many: int, looks: int, states: list[str]) -> None:
    """Look at both in turn, so that what else the machine does is in both figures."""
    async with _database(server, "few") as small, _database(server, "many") as large:
        for name in states:
            await _fill(small, few, _STATES[name])
            await _fill(large, many, _STATES[name])
            in_small, in_large = (DueWork(pool, "google", Holder(""), labels=True) for pool in (small, large))
            threads = zip(await _some_threads(small, looks), await _some_threads(large, looks), strict=True)
            _show(
                name, "is_due", [(await _time(in_small.is_due(a)), await _time(in_large.is_due(b))) for a, b in threads]
            )
            # As many of each, so that the same is asked of both.
            _show(name, "due", [(await _time(in_small.due(few)), await _time(in_large.due(few))) for _ in range(looks)])
            _show(
                name,
                "is_at_rest",
                [(await _time(in_small.is_at_rest()), await _time(in_large.is_at_rest())) for _ in range(looks)],
            )


@asynccontextmanager
async def _database(server: EmbeddedPostgres, name: str) -> AsyncIterator[Pool]:
    with psycopg.connect(server.url(), autocommit=True) as conn:
        conn.execute(f"create database {name}".encode())
    await migrate(server.url(name))
    async with make_pool(server.url(name), size=1, idle_seconds=60) as pool:
        yield pool


async def _fill(pool: Pool, conversations: int, state: dict[str, object]) -> None:
    await _execute(pool, "truncate users cascade")
    given = {**_PLAIN, **state, "n": conversations}
    await _execute(pool, _OPEN, given)
    await _execute(pool, _BACK, given)
    await _execute(pool, "vacuum analyze")


async def _time(look: Awaitable[object]) -> float:
    """In milliseconds."""
    began = time.perf_counter()
    await look
    return (time.perf_counter() - began) * 1000


async def _execute(pool: Pool, statement: str, given: dict[str, object] | None = None) -> None:
    async with pool.connection() as conn:
        await conn.execute(statement.encode(), given)


async def _some_threads(pool: Pool, number: int) -> list[UUID]:
    async with pool.connection() as conn:
        rows = await (await conn.execute("select id from threads order by random() limit %s", (number,))).fetchall()
    return [row["id"] for row in rows]
