"""What one mail costs the database: statements of an ignored and of an accepted one, and jobs in a burst.

All that the server runs from a mail's arrival until it is done counts: the poll that fetches it, jobs, and, of an
accepted one, the look at its item and the decision by HTTP. Told apart are the ends of transactions, and looks for what
can be learned from. Not counted is as much as runs in that time while there is no mail, and what the benchmark asks.

In a burst, what counts are the jobs of conversations that came to be, each of which a worker takes up. One that a sweep
offers while another waits comes to nothing, in one statement for all. Polls and lessons are told apart, since how many
there are goes by the time it takes and not by the mails.

uv run python -m tests.benchmark.mail --mails 20 --burst 100
"""

import argparse
import re
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg

from email_assistant.db.embedded import EmbeddedPostgres
from tests.benchmark.due import machine
from tests.doubles.daemon import Daemon
from tests.doubles.google import Google
from tests.doubles.model import Model
from tests.integration.scene import DONE, reply

_SENDER = "bob@example.org"
_IDLE_SECONDS = 5.0
_LOOK_SECONDS = 0.02
_SHOWN = 60
_OURS = "asked by the benchmark"
_ENDS = re.compile(r"begin|commit|rollback|savepoint|release", re.IGNORECASE)
_LESSONS = re.compile(r"from corrections|learned_at is null|learning_until", re.IGNORECASE)
_LOAD = "t.drafted, t.complete"
_STATEMENTS = """
select query, sum(calls)::int from pg_stat_statements
where dbid = (select oid from pg_database where datname = 'mail') and query not like %s group by query"""
_COUNT_JOBS = """
create table public.added (task text);
create function public.count_job() returns trigger language plpgsql as
$$ begin insert into public.added values (new.task_name); return new; end $$;
create trigger count_job after insert on procrastinate_jobs for each row execute function public.count_job()"""
_ADDED = "select task, count(*)::int from public.added group by task"
_ROLLED_BACK = "select xact_rollback::int from pg_stat_database where datname = current_database()"

Watch = psycopg.Connection[tuple[Any, ...]]


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--mails", type=int, default=20)
    arguments.add_argument("--burst", type=int, default=100)
    given = arguments.parse_args()
    print(machine())  # noqa: T201
    with tempfile.TemporaryDirectory() as folder:
        server = EmbeddedPostgres(Path(folder) / "postgres")
        with server, psycopg.connect(server.url(), autocommit=True) as conn:
            conn.execute("alter system set shared_preload_libraries = 'pg_stat_statements'")
            conn.execute("alter system set track_activity_query_size = 16384")
        with server, psycopg.connect(server.url(), autocommit=True) as conn:
            conn.execute("create database mail")
            conn.execute("create extension pg_stat_statements")
            _measure(Path(folder), server.url("mail"), conn, given.mails, given.burst)


def _measure(home: Path, url: str, conn: Watch, mails: int, burst: int) -> None:
    with Google() as google, Model() as model, Daemon(home, url, google, model) as daemon:
        model.on_triage(lambda request: "ignore" if "News" in request.mail.subject else "respond")
        model.script(lambda _: [reply("Friday suits me."), DONE])
        daemon.account_add(google.address)
        daemon.up()
        with psycopg.connect(url, autocommit=True, options="-c search_path=email_assistant") as watch:
            ways = {"News": _ignored, "Lunch": _accepted}
            for subject, way in ways.items():
                way(daemon, watch, google.deliver(_SENDER, f"Warm {subject}", "Does Friday suit you?"))
            idle = _rates(conn, lambda: time.sleep(_IDLE_SECONDS))
            for subject, way in ways.items():
                counted = [
                    _counted(conn, idle, daemon, watch, google.deliver(_SENDER, f"{subject} {n}", "Friday?"), way)
                    for n in range(mails)
                ]
                _show(way.__name__.strip("_"), counted)
            _show_burst(conn, google, watch, burst)


def _ignored(daemon: Daemon, watch: Watch, mail_id: str) -> None:
    _until(watch, "select 1 from mails where gmail_id = %s and state = 'done' and labelled is not null", mail_id)


def _accepted(daemon: Daemon, watch: Watch, mail_id: str) -> None:
    _until(watch, "select 1 from inbox_items where mail_id = %s and status = 'pending'", mail_id)
    [(item,)] = watch.execute(f"select id::text from inbox_items where mail_id = %s /* {_OURS} */".encode(), (mail_id,))
    daemon.decide(item, "accept")
    _until(watch, "select 1 from mails where gmail_id = %s and state = 'done'", mail_id)


def _until(watch: Watch, query: str, *parameters: object) -> None:
    while not watch.execute(f"{query} /* {_OURS} */".encode(), parameters).fetchone():
        time.sleep(_LOOK_SECONDS)


def _rates(conn: Watch, what: Callable[[], object]) -> dict[str, float]:
    """How often each statement runs in a second of it."""
    conn.execute("select pg_stat_statements_reset()")
    began = time.monotonic()
    what()
    took = time.monotonic() - began
    found: dict[str, int] = dict(conn.execute(_STATEMENTS, (f"%{_OURS}%",)).fetchall())
    return {query: calls / took for query, calls in found.items()}


def _counted(
    conn: Watch,
    idle: dict[str, float],
    daemon: Daemon,
    watch: Watch,
    mail_id: str,
    way: Callable[[Daemon, Watch, str], None],
) -> dict[str, float]:
    """How often each statement ran for one mail, without what runs while there is none."""
    took = time.monotonic()
    found = _rates(conn, lambda: way(daemon, watch, mail_id))
    took = time.monotonic() - took
    return {query: max(0, (rate - idle.get(query, 0)) * took) for query, rate in found.items()}


def _show(way: str, counted: list[dict[str, float]]) -> None:
    work = [sum(calls for query, calls in mail.items() if _kind(query) == "work") for mail in counted]
    texts = {query for mail in counted for query in mail}
    each = {query: statistics.mean(mail.get(query, 0) for mail in counted) for query in texts}
    apart = {
        kind: sum(calls for query, calls in each.items() if _kind(query) == kind)
        for kind in ("ends of transactions", "looks for lessons")
    }
    loads = sum(calls for query, calls in each.items() if _LOAD in query)
    print(f"{way}: {statistics.median(work):.0f} statements ({min(work):.0f} to {max(work):.0f}), {loads:.1f} loads")  # noqa: T201
    print("  apart from " + ", ".join(f"{calls:.1f} {kind}" for kind, calls in apart.items()))  # noqa: T201
    for query, calls in sorted(each.items(), key=lambda item: -item[1])[:_SHOWN]:
        print(f"  {calls:6.1f}  {' '.join(query.split())[:150]}")  # noqa: T201


def _kind(query: str) -> str:
    if _ENDS.match(query):
        return "ends of transactions"
    return "looks for lessons" if _LESSONS.search(query) else "work"


def _show_burst(conn: Watch, google: Google, watch: Watch, burst: int) -> None:
    watch.execute(_COUNT_JOBS.encode())
    [(before,)] = watch.execute(_ROLLED_BACK.encode()).fetchall()
    began = time.monotonic()
    for n in range(burst):
        google.deliver(_SENDER, f"News in a burst {n}", "Read this.")
    _until(
        watch,
        "select 1 from mails where subject like 'News in a burst%%' and state = 'done' having count(*) = %s",
        burst,
    )
    took = time.monotonic() - began
    [(after,)] = watch.execute(_ROLLED_BACK.encode()).fetchall()
    jobs: dict[str, int] = dict(watch.execute(_ADDED.encode()).fetchall())
    of_mail = jobs.pop("advance_thread")
    print(f"burst of {burst}: {of_mail / burst:.3f} jobs a mail, {after - before} transactions rolled back")  # noqa: T201
    print(f"  in {took:.0f} s, and besides {jobs}")  # noqa: T201


if __name__ == "__main__":
    main()
