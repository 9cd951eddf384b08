"""The queue. A job is a wake-up: it says only which account, conversation or item to look at.

So a lost, doubled, late or reordered job changes nothing, and job arguments (which the queue logs) are ids only.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from procrastinate import App, PsycopgConnector
from procrastinate.exceptions import AlreadyEnqueued, ConnectorException
from procrastinate.types import JSONDict

from email_assistant.db.pool import Connection, Pool, StoppablePool, session_settings

log = logging.getLogger(__name__)

BACKGROUND, DECISIONS, BACKFILL = "background", "decisions", "backfill"
_DECISION_SLOTS = 2
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
        # A pool of its own: the listener opens its connection with the pool's settings and autocommit, named twice.
        self._app = App(
            connector=PsycopgConnector(
                pool_factory=StoppablePool,
                conninfo=url,
                kwargs=session_settings(url),
                min_size=0,
                max_size=_CONNECTIONS,
            )
        )

    async def open(self) -> None:
        await self._app.open_async()

    async def close(self) -> None:
        await self._app.close_async()

    async def decided(self, conn: Connection, thread_id: UUID, at: datetime | None) -> None:
        """Wake a conversation for a person, at the end of the undo window, in the caller's transaction."""
        task = self._app.configure_task("advance_thread", queue=DECISIONS, connection=conn, schedule_at=at)
        with _errors_of_the_database():
            await task.defer_async(thread_id=str(thread_id))

    async def arrived(self, conn: Connection, thread_ids: Iterable[UUID]) -> None:
        """Wake conversations for new mail, in the caller's transaction."""
        jobs: list[JSONDict] = [{"thread_id": str(thread_id)} for thread_id in thread_ids]
        if jobs:
            task = self._app.configure_task("advance_thread", queue=BACKGROUND, connection=conn)
            with _errors_of_the_database():
                await task.batch_defer_async(*jobs)

    async def sweep(self, due: Iterable[Due], account_ids: Iterable[UUID]) -> None:
        """Wake what was forgotten, unless a job for it is waiting already."""
        for thread in due:
            queue = DECISIONS if thread.decided else BACKGROUND
            await self._once("advance_thread", f"{queue}/{thread.id}", 0, queue, thread_id=str(thread.id))
        for account_id in account_ids:
            await self._once("learn", f"learn/{account_id}", 0, BACKGROUND, account_id=str(account_id))

    async def poll(self, account_ids: Iterable[UUID]) -> None:
        """Have mailboxes looked at; triggers from several processes collapse into one job."""
        for account_id in account_ids:
            await self._once("sync_account", f"account/{account_id}", _FIRST, BACKGROUND, account_id=str(account_id))

    async def backfill(self, account_id: UUID) -> None:
        """Have a batch of older mail fetched, apart from all else, which never waits for it."""
        await self._once("backfill_account", f"backfill/{account_id}", 0, BACKFILL, account_id=str(account_id))

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

    async def _once(self, task: str, lock: str, priority: int, queue: str, **ids: str) -> None:
        deferrer = self._app.configure_task(task, queue=queue, queueing_lock=lock, priority=priority)
        with suppress(AlreadyEnqueued), _errors_of_the_database():
            await deferrer.defer_async(**ids)


@contextmanager
def _errors_of_the_database() -> Iterator[None]:
    """Procrastinate raises one of its own for each; who adds a job knows them as they are."""
    try:
        yield
    except ConnectorException as error:
        raise error.__cause__ or error from None
