"""The queue. A job is a wake-up: it says only which account, conversation or item to look at.

So a lost, doubled, late or reordered job changes nothing, and job arguments (which the queue logs) are ids only.
"""

import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from psycopg.types.json import Jsonb

from email_assistant.db.pool import Connection, Pool, Statement
from email_assistant.work.heartbeat import Heartbeat

log = logging.getLogger(__name__)

BACKGROUND, DECISIONS, MAILBOXES = "background", "decisions", "backfill"
_FIRST = 10
"""Priority of looking for new mail, before older mail."""
# As Procrastinate tells of a job that was added (`procrastinate_notify_queue_job_inserted_v1`).
_REMIND = """
select pg_notify('procrastinate_queue_v1#' || name, json_build_object('type', 'job_inserted', 'job_id', job.id)::text),
       null as seconds
from unnest(%s::text[]) as queue (name) cross join lateral (
    select id from procrastinate_jobs where queue_name = name and status = 'todo'
    and coalesce(scheduled_at, '-infinity') <= clock_timestamp() limit 1) as job
union all
select null, extract(epoch from min(scheduled_at) - clock_timestamp())
from procrastinate_jobs where status = 'todo' and scheduled_at > clock_timestamp()"""


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
        self._url = url
        self.heartbeat: Final = Heartbeat()
        """Of what this process does over and over with the queue."""

    async def decided(self, conn: Connection, thread_id: UUID, at: datetime | None) -> None:
        """Wake a conversation for a person, at the end of the undo window, in the caller's transaction."""
        await _add(conn, [_job(DECISIONS, "advance_thread", thread_id, lock=None, at=at)])

    async def arrived(self, conn: Connection, thread_ids: Iterable[UUID]) -> None:
        """Wake conversations for new mail, in the caller's transaction."""
        await _add(conn, [_advance(BACKGROUND, thread_id) for thread_id in thread_ids])

    def reminder(self) -> Statement:
        """What reminds workers of the jobs that should have begun, such as those whose notification was lost or whose
        time has come, and gives as `seconds` how long it is until the next one; null: none is known."""
        return _REMIND, ([BACKGROUND, DECISIONS, MAILBOXES],)

    async def sweep(self, due: Iterable[Due], account_ids: Iterable[UUID]) -> None:
        """Wake what was forgotten."""
        jobs = [_advance(DECISIONS if thread.decided else BACKGROUND, thread.id) for thread in due]
        await self._wake([*jobs, *(_job(BACKGROUND, "learn", each, lock="learn") for each in account_ids)])

    async def poll(self, account_ids: Iterable[UUID]) -> None:
        """Have mailboxes looked at before their time; triggers from several processes collapse into one job."""
        await self._wake(
            [_job(MAILBOXES, "sync_account", each, lock="account", priority=_FIRST) for each in account_ids]
        )

    async def backfill(self, account_id: UUID) -> None:
        """Have a batch of older mail fetched, apart from all else, which never waits for it."""
        await self._wake([_job(MAILBOXES, "backfill_account", account_id, lock="backfill")])

    async def _wake(self, jobs: list[dict[str, object]]) -> None:
        async with self._pool.connection() as conn:
            await _add(conn, jobs)

    async def forget_dead(self, holders: Sequence[int] = ()) -> None:
        """Remove the jobs that were running in processes that died; what they were about is woken by the sweep.

        Args:
            holders: of those of which nobody else knows it yet.
        """
        async with self._pool.connection() as conn:
            await conn.execute(
                """delete from procrastinate_workers
                   where id in (select unnest(workers) from presences where holder = any(%s))""",
                (list(holders),),
            )
            await conn.execute("delete from procrastinate_jobs where status = 'doing' and worker_id is null")

    async def work(
        self, handlers: Handlers, works_as: Callable[[int], Awaitable[None]], *, slots: int, stop_seconds: float
    ) -> None:
        """Run jobs until cancelled; then those that run get `stop_seconds` to end, and are handed back after that.

        Args:
            works_as: told under which ids.
        """
        from email_assistant.work.worker import work  # whose library takes long to load; most commands run no jobs

        await work(self._url, handlers, works_as, self.heartbeat, slots=slots, stop_seconds=stop_seconds)


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
