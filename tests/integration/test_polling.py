"""Looks at mailboxes: many at once, on slots of their own, and none holds up another."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID

import psycopg
import pytest
from googleapiclient.discovery import build_from_document  # type: ignore[attr-defined]

from email_assistant.db.lease import held
from email_assistant.google.client import methods
from tests.doubles.google import Google
from tests.doubles.model import Model
from tests.doubles.serving import Hold
from tests.integration.home import Home, OpenHome, in_one_loop, reached, until
from tests.integration.scene import BOB, DONE, reply

pytestmark = in_one_loop

OTHERS = 12


async def connected(home: Home, number: int, folder: Path) -> dict[UUID, Google]:
    """So many more accounts, each of a mailbox of its own with a mail in it."""
    boxes = {}
    for n in range(number):
        box = home.google.another(f"person{n}@example.net", "Europe/Berlin")
        box.deliver(BOB, "Lunch?", "Does Friday suit you?")
        token = json.loads(box.write_token_file(folder / "token.json").read_text())
        since = datetime.now(UTC) - timedelta(days=2)
        boxes[(await home.app.accounts.add(home.app.user_id, box.address, token, since)).id] = box
    return boxes


@asynccontextmanager
async def looked_at(home: Home) -> AsyncIterator[None]:
    """Mailboxes are looked at until the block ends."""
    looks = asyncio.create_task(home.works.schedule())
    try:
        yield
    finally:
        looks.cancel()
        await asyncio.gather(looks, return_exceptions=True)


async def with_mail(home: Home) -> int:
    [row] = await home.sql("select count(distinct account_id) as n from mails")
    return int(row["n"])


async def leased(home: Home) -> int:
    [row] = await home.sql("select count(*) as n from accounts where syncing_until > clock_timestamp()")
    return int(row["n"])


class TestNoneHoldsUpAnother:
    async def test_one_that_hangs(self, open_home: OpenHome, google: Google, tmp_path: Path) -> None:
        hold = Hold()
        google.deliver(BOB, "Lunch?", "Does Friday suit you?")
        async with open_home(google_timeout_seconds=300, lease_seconds=600) as home:
            await connected(home, OTHERS, tmp_path)
            google.fault("getProfile", hold=hold)
            async with looked_at(home):
                await reached(hold)

                async def all_others_are_looked_at() -> bool:
                    return await with_mail(home) == OTHERS and await leased(home) == 1

                await until(all_others_are_looked_at)
                hold.release()

                async def that_one_too() -> bool:
                    return await with_mail(home) == OTHERS + 1

                await until(that_one_too)

    async def test_one_that_fails(self, home: Home, google: Google, tmp_path: Path) -> None:
        await connected(home, OTHERS, tmp_path)
        google.fault("messages.list", status=500)
        await home.works.poll()
        assert await with_mail(home) >= OTHERS - 1
        troubled = await home.sql("select history_id from accounts where last_error is not null")
        assert troubled == [{"history_id": None}]
        await home.works.poll()
        assert await with_mail(home) == OTHERS
        assert await home.sql("select 1 from accounts where last_error is not null") == []

    async def test_one_whose_login_is_dead(self, home: Home, tmp_path: Path) -> None:
        dead, *_ = (await connected(home, OTHERS, tmp_path)).items()
        dead[1].revoke()
        await home.works.poll()
        assert await with_mail(home) == OTHERS - 1
        assert (await home.app.accounts.get(dead[0])).state == "login"


class TestEachUnderItsLease:
    async def test_one_that_somebody_looks_at_is_left_alone(self, home: Home, google: Google, tmp_path: Path) -> None:
        [other] = await connected(home, 1, tmp_path)
        async with held(home.app.pool, "new mail", other, 60):
            await home.works.poll()
            assert await with_mail(home) == 0
        await home.works.poll()
        assert await with_mail(home) == 1

    async def test_one_that_gmail_calls_about_meanwhile_is_looked_at_after(
        self, home: Home, google: Google, tmp_path: Path
    ) -> None:
        """Whoever looks may have asked Gmail before the mail was there."""
        [other] = await connected(home, 1, tmp_path)
        async with held(home.app.pool, "new mail", other, 60):
            look = asyncio.create_task(home.works.polling.look(other))
            await asyncio.sleep(0.3)
            assert await with_mail(home) == 0
        await look
        assert await with_mail(home) == 1

    async def test_it_is_given_back(self, home: Home, google: Google, tmp_path: Path) -> None:
        await connected(home, 3, tmp_path)
        await home.works.poll()
        assert await leased(home) == 0

    async def test_it_is_given_back_where_the_program_stops(self, home: Home, google: Google) -> None:
        hold = Hold()
        google.fault("getProfile", hold=hold)
        async with looked_at(home):
            await reached(hold)
        assert await leased(home) == 0

    async def test_a_look_where_nothing_is_new_moves_the_cursor(self, home: Home) -> None:
        await home.works.poll()
        before = await home.account()
        await home.works.poll()
        after = await home.account()
        assert after.listed_at
        assert before.listed_at
        assert after.listed_at > before.listed_at
        assert (after.history_id or 0) >= (before.history_id or 0) > 0


async def test_mail_comes_in_while_all_slots_are_taken_by_a_slow_model(
    open_home: OpenHome, google: Google, model: Model
) -> None:
    hold = Hold()
    model.script(lambda _: [reply("Friday is fine."), DONE])
    model.fault("triage", hold=hold)
    async with open_home(workers=1) as home:
        google.deliver(BOB, "Lunch?", "Does Friday suit you?")
        async with home.at_work():
            await reached(hold)
            google.deliver(BOB, "Dinner?", "Does Friday suit you?")

            async def both_are_there() -> bool:
                return len(await home.mails()) == 2

            await until(both_are_there, 60)
            hold.release()


async def test_threads_and_services_are_not_of_one_account(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built = []

    def counted(document: object, **more: object) -> object:
        built.append(document)
        return build_from_document(document, **more)

    monkeypatch.setattr("email_assistant.google.client.build_from_document", counted)
    methods.cache_clear()
    boxes = await connected(home, OTHERS, tmp_path)
    for account_id in boxes:
        await home.works.polling.look(account_id)
    assert await with_mail(home) == OTHERS
    assert len(built) == 2  # Gmail and Calendar
    assert sum(thread.name.startswith("google") for thread in threading.enumerate()) < OTHERS


class TestReminders:
    async def test_of_a_job_whose_notification_was_lost(self, home: Home, google: Google, database_url: str) -> None:
        google.deliver(BOB, "Lunch?", "Does Friday suit you?")
        with psycopg.connect(database_url, autocommit=True) as listener:
            listener.execute('listen "procrastinate_queue_v1#background"')
            await home.sync()
            [told] = listener.notifies(timeout=10, stop_after=1)
            await home.works.sweep()
            [reminded] = listener.notifies(timeout=10, stop_after=1)
            assert json.loads(reminded.payload) == json.loads(told.payload)

    async def test_when_the_next_job_may_begin_that_waits_for_its_time(self, home: Home, google: Google) -> None:
        google.deliver(BOB, "Lunch?", "Does Friday suit you?")
        await home.sync()
        [thread] = await home.sql("select id from threads")
        assert (await home.works.sweep()).next > 3600
        async with home.app.pool.connection() as conn:
            await home.app.queue.decided(conn, thread["id"], datetime.now(UTC) + timedelta(minutes=1))
        assert 0 < (await home.works.sweep()).next <= 60
