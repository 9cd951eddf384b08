"""What a scrape of /metrics asks of the database, with 10,000 finished mails stored and with 1,000,000."""

import argparse
import asyncio
import statistics
import tempfile
import time
from pathlib import Path

import psycopg

from email_assistant.db.embedded import EmbeddedPostgres
from email_assistant.db.migrate import migrate
from email_assistant.db.pool import SCHEMA, Pool, fetched, make_pool
from email_assistant.db.statements import statements
from email_assistant.google.quota import Limits
from email_assistant.metrics.gauges import Gauges
from tests.benchmark.measured import spread

_LIMITS = Limits(user=6_000, project=1_200_000, calendar=600, units={})
_FILL = """
set search_path = email_assistant, public;
set session_replication_role = replica;
insert into users (name) values ('ada');
insert into accounts (user_id, address, provider, token, triage_since, listed_at, backfilled_at)
select u.id, n || '@example.org', 'google', '', now(), now(), now() from users u, generate_series(1, {accounts}) n
where u.name = 'ada';
create temp table own as select id, user_id, row_number() over () - 1 as n from accounts where provider = 'google';
insert into threads (user_id, account_id, gmail_id)
select user_id, own.id, m::text from own, generate_series(1, {mails}) m where m % {accounts} = own.n;
insert into mails (account_id, gmail_id, user_id, thread_id, own, sender, subject, content, received_at, state,
                   classification, triaged_at, labelled)
select account_id, gmail_id, user_id, id, false, 'bob@example.org', 'Lunch?',
       json_build_object('text', 'Does Friday suit you?', 'kept', repeat('word ', 200)),
       now() - gmail_id::int * interval '1 minute', case when gmail_id::int <= {open} then 'new' else 'done' end,
       case when gmail_id::int > {open} then 'ignore' end, case when gmail_id::int > {open} then now() end, 'ignore'
from threads;
insert into runs (id, user_id, account_id, thread_id, mail_id, attempt, input, state)
select gen_random_uuid(), user_id, account_id, id, gmail_id, 1, '{{}}', 'done' from threads;
insert into inbox_items (user_id, account_id, thread_id, run_id, mail_id, call_id, kind, action, args, allowed,
                         mail_text, marks, teaches, status)
select user_id, account_id, thread_id, id, mail_id, 'call', 'draft', 'send_email_tool', '{{}}', '{{}}', '', '[]',
       true, case when mail_id::int <= {open} then 'pending' else 'applied' end
from runs where mail_id::int <= {mails} / 5;
insert into effects (key, run_id, call_id, user_id, account_id, thread_id, tool, args, args_hash, state, finished_at)
select id || '/call', id, 'call', user_id, account_id, thread_id, 'send_email_tool', '{{}}', '', 'done',
       now() - mail_id::int * interval '1 minute' from runs where mail_id::int between {open} + 1 and {mails} / 5;
insert into model_usage (user_id, account_id, role, model, prompt_tokens, completion_tokens, at)
select user_id, account_id, 'triage', 'model', 1000, 100, now() - gmail_id::int * interval '1 minute' from threads;
"""


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--few", type=int, default=10_000)
    parser.add_argument("--many", type=int, default=1_000_000)
    parser.add_argument("--open", type=int, default=1_000, help="mails that wait to be worked on, and items")
    parser.add_argument("--accounts", type=int, default=1_000)
    parser.add_argument("--scrapes", type=int, default=20)
    parser.add_argument("--plan", action="store_true", help="show Postgres' plan as well")


def main(given: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory() as folder, EmbeddedPostgres(Path(folder) / "postgres") as server:
        medians = [asyncio.run(_measured(server, mails, given)) for mails in (given.few, given.many)]
    print(f"{given.many:,} mails: × {medians[1] / medians[0]:.2f}")


async def _measured(server: EmbeddedPostgres, mails: int, given: argparse.Namespace) -> float:
    database = f"of_{mails}"
    with psycopg.connect(server.url(), autocommit=True) as conn:
        conn.execute(f"create database {database}".encode())
    await migrate(server.url(database))
    with psycopg.connect(server.url(database), autocommit=True) as conn:
        conn.execute(_FILL.format(mails=mails, open=given.open, accounts=given.accounts).encode())
        conn.execute("vacuum analyze")
        size = conn.execute(f"select pg_size_pretty(pg_table_size('{SCHEMA}.mails'))".encode()).fetchone()
    async with make_pool(server.url(database), size=2, idle_seconds=60) as pool:
        await _scraped(pool)
        times = [await _scraped(pool) for _ in range(given.scrapes)]
        if given.plan:
            await _show_plan(pool)
    print(f"{mails:,} mails, table of {size and size[0]}: {spread(times)}", flush=True)
    return statistics.median(times)


async def _scraped(pool: Pool) -> float:
    """In milliseconds."""
    gauges = Gauges(pool, "google", _LIMITS, waits_when_spent=True)
    began = time.perf_counter()
    await gauges.families()
    return (time.perf_counter() - began) * 1000


async def _show_plan(pool: Pool) -> None:
    rates = _LIMITS.rates()
    parameters = {"provider": "google", "waits": True, "buckets": list(rates), "rates": list(rates.values())}
    statement = statements("metrics", "standing.sql")["all"]
    for row in await fetched(pool, f"explain (analyze, costs off) {statement}", parameters):
        print(row["QUERY PLAN"])
