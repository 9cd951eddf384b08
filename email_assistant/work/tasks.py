"""The queue. A job is a wake-up: it says only which account, conversation or item to look at.

So a lost, doubled, late or reordered job changes nothing, and job arguments (which the queue logs) are ids only.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from procrastinate import App, PsycopgConnector
from psycopg import AsyncConnection
from psycopg.types.json import Jsonb

from email_assistant.db.pool import Connection, Pool, StoppablePool, session_settings

log = logging.getLogger(__name__)

BACKGROUND, DECISIONS, BACKFILL = "background", "decisions", "backfill"
_DECISION_SLOTS = 24
_BACKFILL_SLOTS = 2
_CONNECTIONS = 4
_POLL_SECONDS = 2.0
"""How late a job starts at most when its notification was lost."""
_FIRST = 10
"""Priority of looking for mail, before work on what was found."""


@dataclass(frozen=True, slots=True)
class Due:
    """A conversation with work that nobody is at."""

    id: UUID
    decided: bool
    """A person's answer waits in it to be acted on."""


@dataclass(frozen=True, slots=True)
class Handlers:
    """What the tasks do; every one may be repeated."""

    sync_account: Callable[[UUID], Awaitable[None]]
    backfill_account: Callable[[UUID], Awaitable[None]]
    advance_thread: Callable[[UUID], Awaitable[None]]
    learn: Callable[[UUID], Awaitable[None]]
    tidy: Callable[[], Awaitable[None]]


class Queue:
    def __init__(self, pool: Pool, url: str) -> None:
        self._pool = pool
        # A pool of its own: the listener opens its connection with the pool's settings and names autocommit again, so
        # that it can't stand among them.
        self._app = App(
            connector=PsycopgConnector(
                pool_factory=StoppablePool,
                conninfo=url,
                kwargs=session_settings(url),
                min_size=0,
                max_size=_CONNECTIONS,
                configure=_autocommit,
            )
        )

    async def open(self) -> None:
        await self._app.open_async()

    async def close(self) -> None:
        await self._app.close_async()

    async def decided(self, conn: Connection, thread_id: UUID, at: datetime | None) -> None:
        """Wake a conversation for a person, at the end of the undo window, in the caller's transaction."""
        await _add(conn, [_job(DECISIONS, "advance_thread", thread_id, lock=None, at=at)])

    async def arrived(self, conn: Connection, thread_ids: Iterable[UUID]) -> None:
        """Wake conversations for new mail, in the caller's transaction."""
        await _add(conn, [_advance(BACKGROUND, thread_id) for thread_id in thread_ids])

    async def sweep(self, due: Iterable[Due], account_ids: Iterable[UUID]) -> None:
        """Wake what was forgotten."""
        jobs = [_advance(DECISIONS if thread.decided else BACKGROUND, thread.id) for thread in due]
        await self._wake([*jobs, *(_job(BACKGROUND, "learn", each, lock="learn") for each in account_ids)])

    async def poll(self, account_ids: Iterable[UUID]) -> None:
        """Have mailboxes looked at; triggers from several processes collapse into one job."""
        await self._wake(
            [_job(BACKGROUND, "sync_account", each, lock="account", priority=_FIRST) for each in account_ids]
        )

    async def backfill(self, account_id: UUID) -> None:
        """Have a batch of older mail fetched, apart from all else, which never waits for it."""
        await self._wake([_job(BACKFILL, "backfill_account", account_id, lock="backfill")])

    async def _wake(self, jobs: list[dict[str, object]]) -> None:
        async with self._pool.connection() as conn:
            await _add(conn, jobs)

    async def forget_dead(self) -> None:
        """Remove the jobs that were running in processes that died; what they were about is woken by the sweep."""
        async with self._pool.connection() as conn:
            await conn.execute("delete from procrastinate_jobs where status = 'doing' and worker_id is null")

    async def work(self, handlers: Handlers, *, slots: int, stop_seconds: float) -> None:
        """Run jobs until cancelled; then those that run get `stop_seconds` to end, and are handed back after that."""
        self._bind(handlers)
        async with asyncio.TaskGroup() as workers:  # which, unlike gather, waits for all when it is cancelled
            workers.create_task(self._work(BACKGROUND, slots, stop_seconds))
            workers.create_task(self._work(DECISIONS, _DECISION_SLOTS, stop_seconds))
            workers.create_task(self._work(BACKFILL, _BACKFILL_SLOTS, stop_seconds))

    async def _work(self, queue: str, slots: int, stop_seconds: float) -> None:
        # A restart of the database makes a worker return as if it had been asked to.
        while True:
            try:
                await self._app.run_worker_async(
                    queues=[queue],
                    name=queue,
                    concurrency=slots,
                    fetch_job_polling_interval=_POLL_SECONDS,
                    install_signal_handlers=False,
                    shutdown_graceful_timeout=stop_seconds,
                    delete_jobs="always",
                )
            except asyncio.CancelledError:
                raise
            except Exception:
                log.warning("the worker of queue %s stopped; starting it again", queue, exc_info=True)
            await asyncio.sleep(1)

    def _bind(self, handlers: Handlers) -> None:
        @self._app.task(name="sync_account", queue=BACKGROUND)
        async def sync_account(account_id: str) -> None:
            await handlers.sync_account(UUID(account_id))

        @self._app.task(name="backfill_account", queue=BACKFILL)
        async def backfill_account(account_id: str) -> None:
            await handlers.backfill_account(UUID(account_id))

        @self._app.task(name="advance_thread", queue=BACKGROUND)
        async def advance_thread(thread_id: str) -> None:
            await handlers.advance_thread(UUID(thread_id))

        @self._app.task(name="learn", queue=BACKGROUND)
        async def learn(account_id: str) -> None:
            await handlers.learn(UUID(account_id))

        # With a periodic task a worker notices that the database restarted; without one it loses its notifications.
        @self._app.periodic(cron="*/10 * * * *")
        @self._app.task(name="tidy", queue=BACKGROUND, queueing_lock="tidy")
        async def tidy(timestamp: int) -> None:
            await handlers.tidy()


def _advance(queue: str, thread_id: UUID) -> dict[str, object]:
    """Mail that came and the sweep add one and the same job; for what a person decided there is another."""
    return _job(queue, "advance_thread", thread_id, lock=queue)


def _job(
    queue: str, task: str, id_: UUID, *, lock: str | None, priority: int = 0, at: datetime | None = None
) -> dict[str, object]:
    """
    Args:
        lock: of the jobs with this one, one waits at a time for each id; None: any number.
        at: when it may begin, at the earliest.
    """
    argument = "thread_id" if task == "advance_thread" else "account_id"
    return {
        "queue_name": queue,
        "task_name": task,
        "args": {argument: str(id_)},
        "queueing_lock": lock and f"{lock}/{id_}",
        "priority": priority,
        "scheduled_at": at and at.isoformat(),
    }


async def _add(conn: Connection, jobs: list[dict[str, object]]) -> None:
    """Add jobs, but none that waits already: it will see what this one was to look at.

    Unless it begins before the caller's transaction ends; what it misses then, the sweep finds. Procrastinate's own way
    to add them fails if one waits, with all the others and with the caller's transaction.
    """
    if not jobs:
        return
    # In the order of their locks, as who adds a job waits for whoever is just adding the same.
    await conn.execute(
        """insert into procrastinate_jobs (queue_name, task_name, args, queueing_lock, priority, scheduled_at)
           select queue_name, task_name, args, queueing_lock, priority, scheduled_at
           from jsonb_to_recordset(%s) as job (queue_name text, task_name text, args jsonb, queueing_lock text,
                                               priority int, scheduled_at timestamptz)
           order by queueing_lock on conflict do nothing""",
        (Jsonb(jobs),),
    )


async def _autocommit(conn: AsyncConnection[Any]) -> None:
    """Each of Procrastinate's statements stands alone."""
    await conn.set_autocommit(True)
