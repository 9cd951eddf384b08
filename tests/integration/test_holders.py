"""Whose lease it is: that of a dead process is taken up within seconds, that of a live one runs its whole term."""

import asyncio
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg
import pytest
from psycopg.rows import dict_row

from email_assistant.db.lease import claim, held, release
from email_assistant.db.pool import session_settings
from email_assistant.db.presence import Holder
from tests.chaos.postgres import PostgresServer
from tests.doubles.daemon import Daemon
from tests.doubles.google import Google
from tests.doubles.model import Model
from tests.doubles.serving import Hold
from tests.integration.conftest import Start
from tests.integration.home import Home, in_one_loop, until
from tests.integration.scene import ADA, BOB, DONE, reply

pytestmark = pytest.mark.long

TAKEN_UP_SECONDS = 30.0
"""After /health of the process that was started again: on a busy machine too it is long before the lease's term ends,
of which 40 s are left at the least."""
WRITE_SECONDS = 8.0
CLOCKS = 0.3
"""What the moments at which two processes note the same thing may differ by."""
RUNS = 16
BACK_SECONDS = 1.5
"""Within which a process that lost its lock must have it again, or others may take its work, which is then done twice:
as a machine that is too busy for that can't but show. Nothing is sent twice on any."""
WAITS = "select pid from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
LIVE = "select id, epoch from threads where lease_until > clock_timestamp() order by id"


@pytest.fixture
def alone(connect: Start, google: Google, model: Model) -> Daemon:
    """One process, with the lease that is shipped; it looks for mail once, and then only where a decision asks."""
    model.script(lambda _: [reply("Friday is fine."), DONE])
    return connect(lease_seconds=60, google_timeout_seconds=WRITE_SECONDS, poll_seconds=600, sweep_seconds=2)


class TestKilled:
    """`kill -9` of the only process, which is then started again."""

    def test_what_was_decided_is_taken_up_at_once(self, alone: Daemon, google: Google) -> None:
        mail_id = google.deliver(BOB, "Lunch?", "Does Friday suit you?")
        alone.up()
        [item] = alone.pending()
        at_work = Hold()
        google.fault("history.list", hold=at_work)  # the look before the answer is applied
        alone.accept(item)
        at_work.reached()
        alone.kill()
        at_work.abandon()

        alone.up()

        alone.wait_for(lambda: google.sent, "it is taken up", timeout=TAKEN_UP_SECONDS)
        alone.until_done(mail_id)
        alone.stop()
        assert [sent.text for sent in google.sent] == ["Friday is fine."]

    def test_what_was_applied_is_taken_up_at_once(self, alone: Daemon, google: Google, model: Model) -> None:
        mail_id = google.deliver(BOB, "Lunch?", "Does Friday suit you?")
        model.script([[reply("Friday is fine.")], [DONE], [DONE]])
        alone.up()
        [item] = alone.pending()
        at_work = Hold()
        model.fault("response", hold=at_work)
        alone.accept(item)
        at_work.reached()
        alone.kill()
        at_work.abandon()

        alone.up()

        alone.until_mail(mail_id, "done", timeout=TAKEN_UP_SECONDS)
        assert [sent.text for sent in google.sent] == ["Friday is fine."]

    def test_the_queue_tells_of_no_work_that_nobody_does(self, alone: Daemon, google: Google, model: Model) -> None:
        google.deliver(BOB, "Lunch?", "Does Friday suit you?")
        at_work = Hold()
        model.fault("triage", hold=at_work)
        alone.up()
        at_work.reached()

        def at_it() -> list[str]:
            with psycopg.connect(alone.environment["DATABASE_URL"]) as conn:
                rows = conn.execute("select task_name from email_assistant.procrastinate_jobs where status = 'doing'")
                return [name for (name,) in rows]

        assert at_it() == ["advance_thread"]
        alone.kill()
        at_work.abandon()
        hold = Hold()
        model.fault("triage", hold=hold)
        alone.up()
        hold.reached()
        alone.wait_for(lambda: len(at_it()) == 1, "the dead one's job is gone", timeout=TAKEN_UP_SECONDS)
        hold.release()
        alone.wait_for(lambda: at_it() == [], "so is that of its heir")

    @pytest.mark.parametrize("call", ["drafts.create", "drafts.send"])
    def test_a_write_under_way_is_left_alone_until_its_deadline(self, alone: Daemon, google: Google, call: str) -> None:
        mail_id = google.deliver(BOB, "Lunch?", "Does Friday suit you?")
        alone.up()
        [item] = alone.pending()
        at_work = Hold()
        google.fault(call, hold=at_work)
        alone.accept(item)
        at_work.reached()
        alone.kill()
        [write] = google.calls(call)
        deadline = write.time + WRITE_SECONDS

        alone.up()
        alone.wait_for(lambda: time.monotonic() > deadline - 1, "one second is left")
        at_work.release()  # and now Google carries it out

        alone.until_mail(mail_id, "done", timeout=TAKEN_UP_SECONDS + 3)
        alone.wait_for(lambda: not google.drafts, "no draft is left over")
        alone.stop()
        touched = [c.time for c in google.calls() if c.name.startswith("drafts.") and c.time > write.time]
        assert min(touched) > deadline - CLOCKS
        assert [sent.text for sent in google.sent] == ["Friday is fine."]
        assert google.drafts == []

    def test_a_draft_under_way_is_left_alone_until_its_deadline(self, alone: Daemon, google: Google) -> None:
        """In draft mode."""
        alone.cli("account", "mode", ADA, "draft")
        google.deliver(BOB, "Lunch?", "Does Friday suit you?")
        at_work = Hold()
        google.fault("drafts.create", hold=at_work)
        alone.up()
        at_work.reached()
        alone.kill()
        [write] = google.calls("drafts.create")
        deadline = write.time + WRITE_SECONDS

        alone.up()
        alone.wait_for(lambda: time.monotonic() > deadline - 1, "one second is left")
        at_work.release()
        alone.wait_for(lambda: google.calls("drafts.list"), "it is looked for", timeout=TAKEN_UP_SECONDS + 3)
        alone.wait_for(lambda: not rows(alone, "select from left_drafts where state <> 'left'"), "it is found")
        alone.stop()

        assert min(c.time for c in google.calls("drafts.list")) > deadline - CLOCKS
        assert len(google.calls("drafts.create")) == len(google.drafts) == 1


class TestAlive:
    def test_who_is_frozen_keeps_the_conversation_for_the_term(
        self, connect: Start, google: Google, model: Model
    ) -> None:
        model.script(lambda _: [reply("Friday is fine."), DONE])
        daemon = connect(lease_seconds=600)
        hold = Hold()
        model.fault("response", hold=hold)
        frozen = daemon.worker()
        daemon.scheduler()
        google.deliver(BOB, "Lunch?", "Does Friday suit you?")
        hold.reached()
        before = rows(daemon, LIVE)
        frozen.freeze()
        daemon.worker()

        daemon.until_polled(2 * round(TAKEN_UP_SECONDS))

        assert rows(daemon, LIVE) == before
        hold.release()
        frozen.thaw()
        daemon.wait_for(lambda: daemon.cli("inbox", "list", "--json")["items"], "the item is there")
        assert len(model.calls("response")) == 1

    def test_a_restart_of_the_server_takes_nothing_from_anybody(
        self, tmp_path: Path, server: PostgresServer, google: Google, model: Model
    ) -> None:
        model.script(lambda request: [reply(f"To {request.mail.id}."), DONE])
        # The queue's worker stops and starts again with the server, and hands back what goes on for longer than this.
        settings = {"lease_seconds": 60, "google_timeout_seconds": 20, "concurrency": RUNS, "stop_seconds": 60}
        with Daemon(tmp_path, server.url("leases"), google, model, **settings) as daemon:
            daemon.account_add(ADA)
            hold = Hold()
            model.fault("response", times=RUNS, hold=hold)
            mails = {google.deliver(BOB, f"Lunch {n}?", "Does Friday suit you?") for n in range(RUNS)}
            at_work = daemon.worker()
            daemon.scheduler()
            daemon.wait_for(lambda: len(model.calls("response")) == RUNS, "all are at work")
            before = rows(daemon, LIVE)
            daemon.worker()
            polls = len(google.calls("history.list"))
            daemon.wait_for(lambda: holders(daemon) == 3, "the other process watches")

            server.kill("immediate")
            server.start()
            began = time.monotonic()
            daemon.wait_for(lambda: holders(daemon) == 3, "they are there again")
            in_time = time.monotonic() - began < BACK_SECONDS
            daemon.wait_for(lambda: len(google.calls("history.list")) > polls + 10, "they are at work again")

            assert rows(daemon, LIVE) == before or not in_time
            hold.release()
            assert at_work.is_running
            pending = "select id from inbox_items where status = 'pending'"
            daemon.wait_for(lambda: len(rows(daemon, pending)) == RUNS, "every item waits")
            for item in rows(daemon, pending):
                daemon.cli("inbox", "accept", str(item["id"]))
            daemon.wait_for(lambda: len(google.sent) == RUNS, "every mail is sent")
            daemon.stop()
        assert Counter(request.mail.id for request in model.calls("response")) == Counter(mails) or not in_time
        assert Counter(sent.text for sent in google.sent) == Counter(f"To {mail}." for mail in mails)

    @in_one_loop
    async def test_it_is_given_back_though_the_connection_is_lost_just_then(self, home: Home) -> None:
        thread_id = await a_conversation(home)

        async def work() -> None:
            async with held(home.app.pool, "conversation", thread_id, 60, home.app.holder) as lease:
                assert lease
                await locked.wait()

        locked = asyncio.Event()
        working = asyncio.create_task(work())
        await until(lambda: home.sql(LIVE))
        async with home.app.pool.connection() as other, other.transaction():
            await other.execute("select from threads for update")
            locked.set()
            await until(lambda: home.sql(WAITS))
            await home.sql(f"select pg_terminate_backend(pid) from ({WAITS}) as waiting")
        await working

        assert await home.sql(LIVE) == []

    @in_one_loop
    async def test_without_a_lock_it_holds_for_the_term(self, home: Home) -> None:
        thread_id = await a_conversation(home)
        nobody = Holder("postgresql://127.0.0.1:1/none")
        lease = await claim(home.app.pool, "conversation", thread_id, 60, nobody)

        assert lease
        assert await home.sql("select holder from threads") == [{"holder": None}]
        await release(home.app.pool, lease)
        await nobody.aclose()


async def a_conversation(home: Home) -> UUID:
    """One in which mail is to be worked on."""
    home.google.deliver(BOB, "Lunch?", "Does Friday suit you?")
    await home.sync()
    [due] = await home.works.due.due()
    return due.id


@pytest.fixture
def server(tmp_path: Path) -> Iterator[PostgresServer]:
    with closing(PostgresServer(tmp_path / "postgres.log")) as own:
        own.start()
        with psycopg.connect(own.url(), autocommit=True) as conn:
            conn.execute("create database leases")
        yield own


def rows(daemon: Daemon, query: str) -> list[dict[str, Any]]:
    url = daemon.environment["DATABASE_URL"]
    with psycopg.connect(url, options=session_settings(url)["options"], row_factory=dict_row) as conn:
        return conn.execute(query.encode()).fetchall()


def holders(daemon: Daemon) -> int:
    """How many processes hold a lock of their own."""
    return len(rows(daemon, "select from pg_locks where locktype = 'advisory' and classid <> 0"))
