"""What is asked about a mailbox where much mail is stored: what is found by an index does not grow with it."""

from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime, timedelta

import pytest

from email_assistant.accounts.account import Account
from email_assistant.accounts.accounts import Accounts
from email_assistant.accounts.vault import Vault
from email_assistant.db.pool import Pool, fetched, make_pool
from email_assistant.sync.mails import back_in, missing_from, waiting_since

DONE, SOME = 20_000, 20
KEY = "0PyWcc7w5s3Mvg7e8xrGNHfQ2h2MZzqOsjcAGEbnhLo="
FILL = """
with conversations as (
    insert into threads (user_id, account_id, gmail_id) select %(user)s, %(account)s, n::text
    from generate_series(1, %(all)s) n returning id, gmail_id::int as n),
closed as (
    insert into runs (id, user_id, account_id, thread_id, mail_id, attempt, input, state)
    select gen_random_uuid(), %(user)s, %(account)s, id, n::text, 1, '{}', 'done'
    from conversations where n <= %(some)s returning id)
insert into mails
    (account_id, gmail_id, user_id, thread_id, own, sender, subject, content, received_at, state, put_away)
select %(account)s, n::text, %(user)s, id, false, 'bob@example.org', 'Lunch?', '{}',
       timestamptz '2020-01-01Z' + n * interval '1 hour',
       case when n > %(all)s - %(some)s then 'waiting' else 'done' end,
       case when n <= %(all)s - %(some)s then 'archived' end
from conversations"""


@pytest.fixture
async def pool(database_url: str) -> AsyncIterator[Pool]:
    async with make_pool(database_url, size=1, idle_seconds=60) as pool:
        yield pool


@pytest.fixture
async def account(pool: Pool) -> Account:
    accounts = Accounts(pool, Vault(KEY), "google")
    user = await accounts.home_user()
    account = await accounts.add(user, "ada@example.org", {}, datetime(2020, 1, 1, tzinfo=UTC))
    await fetched(pool, FILL, {"user": user, "account": account.id, "all": DONE, "some": SOME})
    return account


async def closed(pool: Pool, count: int) -> None:
    await fetched(pool, "update runs set closed_with = mail_id where mail_id::int between 2 and %s", (count,))


async def read_whole(pool: Pool, look: Callable[[], Awaitable[object]]) -> list[str]:
    """The tables that a look reads from end to end."""
    counted = "select relname as name, seq_tup_read as n from pg_stat_user_tables where relname in ('mails', 'runs')"
    await fetched(pool, "vacuum analyze")
    await fetched(pool, "select pg_stat_force_next_flush()")
    before = {row["name"]: row["n"] for row in await fetched(pool, counted)}
    await look()
    await fetched(pool, "select pg_stat_force_next_flush()")
    return [row["name"] for row in await fetched(pool, counted) if row["n"] - before[row["name"]] > SOME]


async def test_since_when_something_waits(pool: Pool, account: Account) -> None:
    assert await read_whole(pool, lambda: waiting_since(pool, account.id)) == []
    assert await waiting_since(pool, account.id) == datetime(2020, 1, 1, tzinfo=UTC) + timedelta(hours=DONE - SOME + 1)
    await closed(pool, SOME)
    assert await read_whole(pool, lambda: waiting_since(pool, account.id)) == []
    assert await waiting_since(pool, account.id) == datetime(2020, 1, 1, 2, tzinfo=UTC)


async def test_what_is_gone_from_the_inbox(pool: Pool, account: Account) -> None:
    async def missing() -> list[str]:
        async with pool.connection() as conn:
            return sorted(await missing_from(conn, account, [str(n) for n in range(5, DONE)]))

    assert await read_whole(pool, missing) == []
    assert await missing() == [str(DONE)]


async def test_what_is_back_in_the_inbox(pool: Pool, account: Account) -> None:
    async def back() -> list[str]:
        async with pool.connection() as conn:
            return sorted(await back_in(conn, account, [str(n) for n in range(5)]))

    await closed(pool, SOME)
    assert await read_whole(pool, back) == []
    assert await back() == ["2", "3", "4"]
