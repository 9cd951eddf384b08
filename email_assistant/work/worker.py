"""The queue's jobs, done: Procrastinate's workers, each queue with slots of its own."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Final, LiteralString
from uuid import UUID

import psycopg
from procrastinate import App, JobContext, PsycopgConnector
from procrastinate.worker import Worker
from psycopg import AsyncConnection

from email_assistant.db.pool import ListeningConnection, StoppablePool, session_settings
from email_assistant.meters import measured
from email_assistant.work.heartbeat import Heartbeat
from email_assistant.work.tasks import BACKGROUND, DECISIONS, MAILBOXES, Handlers

log = logging.getLogger(__name__)

_DECISION_SLOTS: Final = 24
_MAILBOX_SLOTS: Final = 2
_CONNECTIONS: Final = 4
_POLL_SECONDS: Final = 30.0
"""How late a job starts at most when its notification was lost, and no sweep runs that reminds of it."""
_HEARTBEAT_SECONDS: Final = 60.0
_STALLED_SECONDS: Final = 600.0
"""Nothing rests on it: the lease tells who is at work."""
_UNPOLLED_SECONDS: Final = 3 * _POLL_SECONDS
"""A queue that nobody asked for a job for so long, with slots free, is served no more."""


WorksAs = Callable[[int], Awaitable[None]]


async def work(
    url: str, handlers: Handlers, works_as: WorksAs, heartbeat: Heartbeat, *, slots: int, stop_seconds: float
) -> None:
    """Run jobs until cancelled; then those that run get `stop_seconds` to end, and are handed back after that.

    Args:
        works_as: told of each worker by the id that the queue knows it by, before its first job.
        slots: how many jobs on mail at a time.
        heartbeat: told that the queues are asked for jobs.
    """
    # A pool of its own: the listener opens its connection with the pool's settings and names autocommit again, so
    # that it can't stand among them.
    connector = _Connector(
        lambda queue: heartbeat.beat(_unpolled(queue)),
        pool_factory=StoppablePool,
        connection_class=ListeningConnection,
        conninfo=url,
        kwargs=session_settings(url),
        min_size=0,
        max_size=_CONNECTIONS,
        configure=_autocommit,
    )
    async with App(connector=connector).open_async() as app:
        _bind(app, handlers)
        async with asyncio.TaskGroup() as workers:  # which, unlike gather, waits for all when it is cancelled
            for queue, most in ((BACKGROUND, slots), (DECISIONS, _DECISION_SLOTS), (MAILBOXES, _MAILBOX_SLOTS)):
                workers.create_task(_work(app, queue, works_as, heartbeat, most, stop_seconds))


async def _work(app: App, queue: str, works_as: WorksAs, heartbeat: Heartbeat, slots: int, stop_seconds: float) -> None:
    heartbeat.expect(_unpolled(queue), _UNPOLLED_SECONDS)
    busy = 0
    told: int | None = None

    async def run(job: Callable[[], Awaitable[Any]], context: JobContext, worker: Worker) -> Any:
        nonlocal busy, told
        busy += 1
        if busy == slots:  # so nothing is asked for, which is as it should be
            heartbeat.pause(_unpolled(queue))
        try:
            if worker.worker_id is not None and worker.worker_id != told:
                with suppress(psycopg.Error):  # all that it costs is that a dead one's jobs are shown for longer
                    await works_as(worker.worker_id)
                    told = worker.worker_id
            with measured("job", context.job.task_name):
                return await job()
        finally:
            busy -= 1
            heartbeat.beat(_unpolled(queue))

    # A restart of the database makes a worker return as if it had been asked to.
    while True:
        try:
            await app.run_worker_async(
                queues=[queue],
                name=queue,
                concurrency=slots,
                fetch_job_polling_interval=_POLL_SECONDS,
                update_heartbeat_interval=_HEARTBEAT_SECONDS,
                stalled_worker_timeout=_STALLED_SECONDS,
                install_signal_handlers=False,
                shutdown_graceful_timeout=stop_seconds,
                delete_jobs="always",
                worker_middleware=[run],
            )
        except asyncio.CancelledError:
            raise
        except Exception:
            log.warning("the worker of queue %s stopped; starting it again", queue, exc_info=True)
        await asyncio.sleep(1)


def _bind(app: App, handlers: Handlers) -> None:
    @app.task(name="sync_account", queue=MAILBOXES)
    async def sync_account(account_id: str) -> None:
        await handlers.sync_account(UUID(account_id))

    @app.task(name="backfill_account", queue=MAILBOXES)
    async def backfill_account(account_id: str) -> None:
        await handlers.backfill_account(UUID(account_id))

    @app.task(name="advance_thread", queue=BACKGROUND)
    async def advance_thread(thread_id: str) -> None:
        await handlers.advance_thread(UUID(thread_id))

    @app.task(name="learn", queue=BACKGROUND)
    async def learn(account_id: str) -> None:
        await handlers.learn(UUID(account_id))

    # With a periodic task a worker notices that the database restarted; without one it loses its notifications.
    @app.periodic(cron="*/10 * * * *")
    @app.task(name="tidy", queue=BACKGROUND, queueing_lock="tidy")
    async def tidy(timestamp: int) -> None:
        await handlers.tidy()


class _Connector(PsycopgConnector):
    """Tells which queue was asked for a job, and has answered."""

    def __init__(self, asked: Callable[[str], None], **settings: Any) -> None:
        super().__init__(**settings)
        self._asked = asked

    async def execute_query_one_async(self, query: LiteralString, **arguments: Any) -> dict[str, Any]:
        row: dict[str, Any] = await super().execute_query_one_async(query, **arguments)
        for queue in arguments.get("queues") or ():
            self._asked(queue)
        return row


def _unpolled(queue: str) -> str:
    return f"the queue {queue} has not been asked for work"


async def _autocommit(conn: AsyncConnection[Any]) -> None:
    """Each of Procrastinate's statements stands alone."""
    await conn.set_autocommit(True)
