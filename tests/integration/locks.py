"""Which rows a piece of the program locks, in the order in which it asks for them, whatever statement does so.

Every row is locked by a session of its own before. Whoever then waits for one says by that which it wants next; it is
given way, and goes on to the next.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Any, Final
from uuid import UUID

import psycopg
import pytest
from psycopg.rows import dict_row

from email_assistant.db.pool import Connection, Pool, session_settings
from tests.integration.home import until

TABLES: Final = ("accounts", "threads", "inbox_items", "runs", "mails")
"""In the order in which they are to be locked."""
_UNDER_THREAD: Final = ("runs", "mails")
_KEY_OF: Final = {table: "gmail_id" if table == "mails" else "id" for table in TABLES}
_PATIENCE_SECONDS = 20.0
_WAITING: Final = """
select pid, xact_start, pg_blocking_pids(pid) as blockers from pg_stat_activity
where datname = current_database() and wait_event_type = 'Lock'"""


@dataclass(frozen=True)
class Row:
    table: str
    key: str
    """Sorts as Postgres sorts it."""
    thread: UUID | None
    """The conversation that is to be locked before, for runs and mails."""

    @property
    def rank(self) -> int:
        return TABLES.index(self.table)


async def locks_of(pool: Pool, url: str, work: Callable[[], Awaitable[object]]) -> list[list[Row]]:
    """What a piece of work locks `for share` or stronger, one transaction after the other."""
    found: dict[tuple[int, datetime], list[Row]] = {}
    with _session(url) as monitor, ExitStack() as stack:
        monitor.autocommit = True
        blockers = [_Blocker(row, stack.enter_context(_session(url))) for row in _rows(monitor)]
        by_pid = {blocker.session.info.backend_pid: blocker for blocker in blockers}
        with _before_each_transaction(pool, blockers):
            task = asyncio.ensure_future(work())
            async with asyncio.timeout(_PATIENCE_SECONDS):
                while not task.done():
                    for waiting in monitor.execute(_WAITING.encode()).fetchall():
                        for pid in by_pid.keys() & set(waiting["blockers"]):
                            found.setdefault((waiting["pid"], waiting["xact_start"]), []).append(by_pid[pid].row)
                            by_pid[pid].give_way()
                    await asyncio.sleep(0.005)
            await task
    return list(found.values())


@dataclass
class _Blocker:
    row: Row
    session: psycopg.Connection[dict[str, Any]]
    locks: bool = False

    def lock(self) -> None:
        """Lock the row, unless a transaction that has not ended holds it."""
        if self.locks:
            return
        query = f"select from {self.row.table} where {_KEY_OF[self.row.table]} = %s for no key update nowait"
        try:
            self.session.execute(query.encode(), (self.row.key,))
            self.locks = True
        except psycopg.errors.LockNotAvailable:
            self.session.rollback()

    def give_way(self) -> None:
        self.session.rollback()
        self.locks = False


@contextmanager
def _before_each_transaction(pool: Pool, blockers: Sequence[_Blocker]) -> Iterator[None]:
    """Every row is locked again, as far as no transaction holds it."""
    lend = pool.connection

    @asynccontextmanager
    async def connection(*given: Any, **named: Any) -> AsyncIterator[Connection]:
        async with lend(*given, **named) as conn:
            for blocker in blockers:
                blocker.lock()
            yield conn

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pool, "connection", connection)
        yield


@contextmanager
def referred_to(url: str) -> Iterator[None]:
    """All the while, another transaction that is not over has made rows that refer to every row that there is."""
    with _session(url) as session:
        for table in TABLES:
            session.execute(f"select from {table} for key share".encode())
        yield


async def as_far_as_it_goes(url: str, work: Awaitable[object]) -> "asyncio.Future[object]":
    """Begin it, and return when it is done or waits for a lock."""
    with _session(url) as monitor:
        monitor.autocommit = True
        before = len(monitor.execute(_WAITING.encode()).fetchall())
        task = asyncio.ensure_future(work)
        await until(lambda: task.done() or len(monitor.execute(_WAITING.encode()).fetchall()) > before)
    return task


def out_of_order(transaction: Sequence[Row]) -> str | None:
    """What is wrong with the order in which a transaction locks; None if nothing is."""
    for before, after in pairwise(transaction):
        if before.rank > after.rank and not {before.table, after.table} <= {*_UNDER_THREAD}:
            return f"{before.table} before {after.table}"
        if before.table == after.table and after.table not in _UNDER_THREAD and before.key > after.key:
            return f"{after.table} not by their ids"
    threads = {row.key for row in transaction if row.table == "threads"}
    for row in transaction:
        if row.table in _UNDER_THREAD and str(row.thread) not in threads:
            return f"{row.table} without their thread"
    return None


def _rows(session: psycopg.Connection[dict[str, Any]]) -> Iterator[Row]:
    for table in TABLES:
        thread = "thread_id" if table in _UNDER_THREAD else "null::uuid"
        for found in session.execute(f"select {_KEY_OF[table]}::text as key, {thread} as thread from {table}".encode()):
            yield Row(table, found["key"], found["thread"])


def _session(url: str) -> psycopg.Connection[dict[str, Any]]:
    return psycopg.connect(url, options=session_settings(url)["options"], row_factory=dict_row)
