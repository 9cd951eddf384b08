"""Wake-ups: one of each waits at a time, and adding them costs one statement that never fails."""

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from typing import Any
from uuid import UUID

import psycopg
import pytest
from procrastinate import App, PsycopgConnector

from email_assistant.db.pool import Connection, session_settings
from email_assistant.work.tasks import BACKGROUND, DECISIONS, Due
from tests.doubles.google import Google
from tests.doubles.model import Model
from tests.integration.home import Home, OpenHome, in_one_loop, until
from tests.integration.scene import BOB, DONE, reply

pytestmark = in_one_loop

MAILS = 50
COUNT_JOBS = """
create table added (task text);
create function count_job() returns trigger language plpgsql as
$$ begin insert into public.added values (new.task_name); return new; end $$;
create trigger count_job after insert on email_assistant.procrastinate_jobs for each row
execute function public.count_job()"""


async def conversations(home: Home, count: int) -> list[UUID]:
    """Their mail came, and nobody was woken."""

    async def nobody(conn: Connection, thread_ids: set[UUID]) -> None:
        pass

    for number in range(count):
        home.google.deliver(BOB, f"Lunch {number}?", "Does Friday suit you?")
    await home.mailboxes(nobody).sync(home.account_id)
    return [row["id"] for row in await home.sql("select id from threads order by id")]


async def arrive(home: Home, *thread_ids: UUID) -> None:
    async with home.app.pool.connection() as conn, conn.transaction():
        await home.app.queue.arrived(conn, thread_ids)


async def waiting(home: Home) -> list[tuple[str, str]]:
    """Queue and conversation of each job."""
    jobs = await home.sql(
        "select queue_name, args->>'thread_id' as id from procrastinate_jobs where status = 'todo' order by 1, 2"
    )
    return [(job["queue_name"], job["id"]) for job in jobs]


class TestOnceOnly:
    async def test_mail_that_came_is_not_swept_while_its_job_waits(self, home: Home) -> None:
        first, second = await conversations(home, 2)
        await arrive(home, first)
        await home.works.sweep()
        await home.works.sweep()
        await arrive(home, first, second)
        assert await waiting(home) == [(BACKGROUND, str(first)), (BACKGROUND, str(second))]

    async def test_one_that_runs_keeps_none_from_waiting(self, home: Home) -> None:
        """It may have looked already."""
        [thread_id] = await conversations(home, 1)
        await arrive(home, thread_id)
        await home.sql("update procrastinate_jobs set status = 'doing'")
        await arrive(home, thread_id)
        assert await waiting(home) == [(BACKGROUND, str(thread_id))]

    async def test_background_work_holds_up_no_decision(self, home: Home) -> None:
        [thread_id] = await conversations(home, 1)
        await arrive(home, thread_id)
        await home.app.queue.sweep([Due(thread_id, decided=True)], [])
        assert await waiting(home) == [(BACKGROUND, str(thread_id)), (DECISIONS, str(thread_id))]

    async def test_the_end_of_an_undo_window_holds_up_no_sweep(self, home: Home) -> None:
        [thread_id] = await conversations(home, 1)
        async with home.app.pool.connection() as conn:
            await home.app.queue.decided(conn, thread_id, (await home.account()).triage_since.replace(year=2100))
        await home.app.queue.sweep([Due(thread_id, decided=True)], [])
        assert await waiting(home) == [(DECISIONS, str(thread_id))] * 2

    async def test_of_two_that_add_the_same_at_once_neither_fails(self, home: Home) -> None:
        threads = await conversations(home, 8)
        await asyncio.gather(*(arrive(home, *order) for order in [threads, threads[::-1]] * 6))
        assert len(await waiting(home)) == len(threads)

    async def test_with_the_transaction_that_fails_goes_its_job(self, home: Home) -> None:
        [thread_id] = await conversations(home, 1)
        async with home.app.pool.connection() as conn, conn.transaction(force_rollback=True):
            await home.app.queue.arrived(conn, [thread_id])
        assert await waiting(home) == []


class TestWhatWeKnowOfProcrastinate:
    """Its table of jobs, which it documents nowhere and our statements name; what it says of a new job is held by
    `test_polling.py::TestReminders`."""

    @pytest.fixture
    async def procrastinate(self, home: Home, database_url: str) -> AsyncIterator[App]:
        """On the database of this home, without anything of ours."""
        connector = PsycopgConnector(conninfo=database_url, kwargs=session_settings(database_url))
        async with App(connector=connector).open_async() as app:
            yield app

    async def test_a_job_that_we_add_is_as_one_that_it_adds(self, home: Home, procrastinate: App) -> None:
        [thread_id] = await conversations(home, 1)
        jobs = "select to_jsonb(job) - 'id' as job from procrastinate_jobs as job"
        await arrive(home, thread_id)
        ours = await home.sql(jobs)
        await home.sql("delete from procrastinate_jobs")
        await procrastinate.configure_task(
            "advance_thread", queue=BACKGROUND, queueing_lock=f"{BACKGROUND}/{thread_id}", priority=0
        ).defer_async(thread_id=str(thread_id))
        assert await home.sql(jobs) == ours

    async def test_jobs_of_dead_processes_alone_are_forgotten(self, home: Home, procrastinate: App) -> None:
        """Neither those that a worker is at, nor those that wait."""
        await arrive(home, *await conversations(home, 2))
        jobs = procrastinate.job_manager
        alive = await jobs.register_worker()
        assert await jobs.fetch_job([BACKGROUND], alive)
        statuses = "select status::text from procrastinate_jobs order by status"
        await home.app.queue.forget_dead()
        assert [row["status"] for row in await home.sql(statuses)] == ["doing", "todo"]
        await home.sql("update procrastinate_workers set last_heartbeat = '-infinity'")
        assert await jobs.prune_stalled_workers(60) == [alive]
        await home.app.queue.forget_dead()
        assert [row["status"] for row in await home.sql(statuses)] == ["todo"]


@pytest.mark.long
async def test_a_burst_of_mail_makes_one_job_of_each_and_nothing_is_rolled_back(
    open_home: OpenHome, google: Google, model: Model, database_url: str
) -> None:
    """What a connection has rolled back is told of when it closes, so it is compared with a time of no mail. What is
    cut off in the end is rolled back, too: a few, and not of each mail."""
    model.script(lambda _: [reply("Friday is fine."), DONE])
    with psycopg.connect(database_url, autocommit=True) as monitor:
        monitor.execute(COUNT_JOBS)
        async with open_home() as home, home.at_work():
            await until(lambda: google.calls("history.list"))
        idle = rolled_back(monitor)
        # A sweep in the midst of a burst that takes long adds jobs of its own.
        async with open_home(sweep_seconds=600) as home, home.at_work():
            for number in range(MAILS):
                google.deliver(BOB, f"Lunch {number}?", "Does Friday suit you?")
            await until(partial(all_wait, home), seconds=120)
        assert rolled_back(monitor) - idle < MAILS / 10
        [jobs] = monitor.execute("select count(*) from added where task = 'advance_thread'").fetchall()
    assert MAILS <= jobs[0] <= 1.1 * MAILS


async def all_wait(home: Home) -> bool:
    [row] = await home.sql("select count(*) as n from mails where state = 'waiting'")
    return bool(row["n"] == MAILS)


def rolled_back(monitor: psycopg.Connection[Any]) -> int:
    query = "select xact_rollback from pg_stat_database where datname = current_database()"
    return sum(row[0] for row in monitor.execute(query).fetchall())
