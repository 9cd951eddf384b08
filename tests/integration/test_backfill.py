"""The mail from before an account was connected: fetched beside all else, each message once, progress shown."""

import re
from collections import Counter
from datetime import timedelta

import pytest

from email_assistant.google.errors import RateLimited
from tests.doubles.daemon import Daemon, Item
from tests.doubles.google import Google
from tests.doubles.model import Model
from tests.doubles.serving import Hold
from tests.integration.conftest import Start
from tests.integration.home import Home, OpenHome, in_one_loop
from tests.integration.scene import BOB, DONE, reply


def deliver_old(google: Google, count: int) -> list[str]:
    """Mail of three days ago, newest first; every tenth is a draft or a chat, which are left alone."""

    def labels(n: int) -> tuple[str, ...]:
        return ("DRAFT",) if n % 20 == 0 else ("CHAT",) if n % 10 == 0 else ("INBOX",)

    return [
        google.deliver(BOB, f"Old {n}", "Long ago.", labels=labels(n), age=timedelta(days=3, minutes=n))
        for n in range(count)
    ]


def fetched(google: Google) -> list[str]:
    return [call.path_params["id"] for call in google.calls("messages.get")]


def account(daemon: Daemon) -> Item:
    [only] = daemon.http.get("/api/accounts").json()["items"]
    return dict(only)


class TestResume:
    @pytest.mark.parametrize("end", ["kill", "stop"])
    def test_it_goes_on_where_it_was_and_fetches_each_message_once(
        self, connect: Start, google: Google, model: Model, end: str
    ) -> None:
        model.on_triage("ignore")
        old = deliver_old(google, 300)
        daemon = connect(google_timeout_seconds=10, lease_seconds=20)  # on a busy machine too nothing is given up
        hold = Hold()
        if end == "kill":
            google.fault("messages.get", times=120)
            google.fault("messages.get", hold=hold)
        else:
            google.fault("messages.get", times=1000, delay=0.01)
        daemon.up()
        if end == "kill":
            hold.reached()
            daemon.kill()
            hold.abandon()
        else:
            daemon.wait_for(lambda: len(fetched(google)) >= 60, "some are fetched")
            daemon.stop()
        before = fetched(google)
        assert 60 <= len(before) < 300
        assert set(before) <= set(old[: len(before) + 3])  # newest first, four at a time
        daemon.up()
        new = google.deliver(BOB, "New", "Just now.")
        daemon.until_done(new)
        daemon.wait_for(lambda: account(daemon)["older_mail"] is None and len(daemon.mails()) == 271, "all are there")
        times = Counter(fetched(google))
        assert set(times) == {*old, new}
        twice = {mail_id for mail_id, n in times.items() if n > 1}
        # Those whose answer no process lived to take.
        assert twice <= set(before[-4:])
        assert {mail["state"] for mail in daemon.mails()} == {"done"}
        assert len(google.calls("messages.list")) == 2


class TestProgress:
    @pytest.mark.long
    def test_it_is_shown_everywhere_with_an_honest_time_left_and_gone_at_the_end(
        self, connect: Start, google: Google, model: Model
    ) -> None:
        model.on_triage("ignore")
        deliver_old(google, 250)
        # 13 messages a second.
        daemon = connect(gmail_units_per_minute=20_000, google_timeout_seconds=5, lease_seconds=10)
        daemon.up()
        page = daemon.http.get("/accounts").text
        older = daemon.wait_for(lambda: account(daemon)["older_mail"], "its progress is known")
        assert older["seconds_left"] is None
        assert "min left" not in page
        daemon.wait_for(lambda: account(daemon)["older_mail"]["seconds_left"], "its pace is known")
        told, times = account(daemon)["older_mail"], [call.time for call in google.calls("messages.get")]
        pace = len(times) / (times[-1] - times[0])
        words = re.compile(r"\d+ of 250, less than a minute left")
        assert words.search(daemon.http.get("/accounts").text)
        assert words.search(daemon.cli("status"))
        assert "older_mail" in daemon.cli("account", "list")
        assert set(daemon.cli("status", "--json")["accounts"][0]["older_mail"]) == {"done", "total", "seconds_left"}
        new = google.deliver(BOB, "New", "Just now.")
        daemon.until_done(new)
        assert account(daemon)["older_mail"]
        daemon.wait_for(lambda: account(daemon)["older_mail"] is None, "it has ended")
        assert told["seconds_left"] == pytest.approx((told["total"] - told["done"]) / pace, rel=0.5, abs=2)
        for shown in (daemon.http.get("/accounts").text, daemon.cli("status"), daemon.cli("account", "list")):
            assert "lder" not in shown.replace("Folder", "")
        assert daemon.cli("account", "list", "--json")["items"][0]["older_mail"] is None


@in_one_loop
class TestBatches:
    async def test_a_pause_does_not_count_and_a_restart_keeps_the_pace(
        self, open_home: OpenHome, google: Google
    ) -> None:
        deliver_old(google, 160)
        async with open_home() as home:
            await home.works.mailboxes.sync(home.account_id)
            assert await home.works.backfill.run(home.account_id)
            first = (await home.account()).older_mail
            assert first
            assert (first.done, first.total, first.seconds_left) == (50, 160, None)
            await home.sql(
                """update accounts set backfill_seconds = 100, backfill_messages = 50,
                          backfill_at = backfill_at - interval '1 hour'"""
            )
        async with open_home() as home:
            assert await home.works.backfill.run(home.account_id)
            second = (await home.account()).older_mail
            assert second
            assert (second.done, second.seconds_left) == (100, 120)
            assert str(second) == "100 of 160, about 2 min left"

    async def test_the_program_is_not_idle_before_all_is_fetched(self, home: Home, google: Google) -> None:
        deliver_old(google, 60)
        await home.works.mailboxes.sync(home.account_id)
        assert not await home.works.is_idle()
        assert await home.works.backfill.run(home.account_id)
        assert not await home.works.is_idle()
        assert not await home.works.backfill.run(home.account_id)
        assert await home.works.is_idle()
        asked = len(google.calls())
        assert not await home.works.backfill.run(home.account_id)
        assert len(google.calls()) == asked

    async def test_what_a_conversation_has_brought_already_is_not_fetched_again(
        self, home: Home, google: Google, model: Model
    ) -> None:
        model.script([[reply("Yes."), DONE]])
        old = deliver_old(google, 60)[55]
        await home.works.mailboxes.sync(home.account_id)
        assert await home.works.backfill.run(home.account_id)
        newer = google.deliver(BOB, "Re: Old", "And?", thread=google.message(old).thread_id)
        await home.works.mailboxes.sync(home.account_id)
        await home.carry_on()
        assert google.calls("threads.get")
        await home.sync()
        assert old not in fetched(google)
        assert len(fetched(google)) == 60
        assert not await home.is_done(newer)

    async def test_what_is_wrong_with_it_stops_no_poll(self, home: Home, google: Google) -> None:
        deliver_old(google, 10)
        await home.works.mailboxes.sync(home.account_id)
        google.fault("messages.get", status=403, reason="rateLimitExceeded", retry_after=60)
        with pytest.raises(RateLimited):
            await home.works.backfill.run(home.account_id)
        await home.works.backfill_account(home.account_id)  # logs it only
        assert [a.id for a in await home.app.accounts.pollable()] == [home.account_id]
        assert (await home.account()).last_error is None
        await home.sql("update quota set closed_until = '-infinity'")
        await home.sync()
        assert len(await home.mails()) == 9

    async def test_a_message_that_google_never_gives_holds_up_no_other(self, home: Home, google: Google) -> None:
        newest = deliver_old(google, 20)[-1]
        await home.works.mailboxes.sync(home.account_id)
        google.fault("messages.get", times=1000, about=newest, status=500)
        for _ in range(10):
            await home.works.backfill_account(home.account_id)
        kept = [mail.id for mail in await home.mails()]
        assert len(kept) == 20 - 2 - 1  # without a draft, a chat, and that one
        assert newest not in kept
