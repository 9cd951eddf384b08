"""Google's quota: what is spent of it, by whom first, and what happens when there is none left."""

import asyncio
import json
import time
from collections import Counter
from datetime import UTC, datetime, timedelta
from itertools import accumulate
from typing import Any

import pytest
from googleapiclient.discovery_cache import get_static_doc

from email_assistant.accounts.quota import AccountQuota
from email_assistant.google.errors import RateLimited, Transient
from email_assistant.google.quota import UNITS, Limits, Urgency, calls_are
from email_assistant.settings import Settings
from tests.doubles.front import Call
from tests.doubles.google import Google
from tests.doubles.model import Model
from tests.integration.conftest import Start
from tests.integration.home import Home, OpenHome, in_one_loop
from tests.integration.scene import BOB, DONE, reply

PRICES = {
    "getProfile": 1,
    "sendAs.list": 1,
    "history.list": 2,
    "messages.list": 5,
    "messages.modify": 5,
    "drafts.create": 10,
    "drafts.list": 5,
    "drafts.send": 100,
    "messages.get": 20,
    "threads.get": 40,
}
"""Of Google's table; what is not in it costs no Gmail units."""


def spent(calls: list[Call]) -> list[tuple[float, int]]:
    return [(call.time, PRICES[call.name]) for call in calls if call.name in PRICES]


def most_over(spending: list[tuple[float, int]], limit: int, late: float = 1.5) -> float:
    """The most units by which some stretch of time passed its part of what a minute allows, burst included.

    If no stretch does, no 60 s can hold more than the limit: 0.2 + 0.78 * 61.5 / 60 < 1.
    """
    sums = [0, *accumulate(units for _, units in spending)]
    return max(
        sums[last + 1] - sums[first] - 0.2 * limit - 0.78 * limit / 60 * (spending[last][0] - spending[first][0] + late)
        for last in range(len(spending))
        for first in range(last + 1)
    )


class TestBucket:
    @pytest.mark.long
    def test_two_processes_together_never_pass_the_limit(self, connect: Start, google: Google, model: Model) -> None:
        model.on_triage("ignore")
        for n in range(60):
            google.deliver(BOB, f"Old {n}", "Long ago.", age=timedelta(days=3, minutes=n))
        daemon = connect(gmail_units_per_minute=12_000, google_timeout_seconds=5, lease_seconds=10)
        by_worker, by_scheduler = google.roots
        daemon.worker(google_root=by_worker)  # which fetches older mail
        daemon.scheduler(EMAIL_ASSISTANT_GOOGLE_ROOT=by_scheduler)  # which looks for new mail
        daemon.wait_for(lambda: google.calls("messages.get"), "older mail is fetched")
        for n in range(120):
            google.deliver(BOB, f"New {n}", "Just now.")
        daemon.wait_for(lambda: len(google.calls("messages.get")) == 180, "all is fetched", 240)
        assert {call.root for call in google.calls("messages.get")} == set(google.roots)
        spending = spent(google.calls())
        assert sum(units for _, units in spending) > 3600
        assert most_over(spending, 12_000) <= 0
        assert most_over(spending, 6_000) > 0  # so the measure can fail

    def test_every_price_is_of_a_method_that_there_is(self) -> None:
        def methods(resource: dict[str, dict[str, dict[str, str]]]) -> set[str]:
            below = [methods(r) for r in resource.get("resources", {}).values()]  # type: ignore[arg-type]
            return {method["id"] for method in resource.get("methods", {}).values()}.union(*below)

        document = json.loads(get_static_doc("gmail", "v1"))  # type: ignore[no-untyped-call]
        assert set(UNITS) <= methods(document)

    def test_googles_own_limits_hold_at_google_only(self) -> None:
        at_google = Settings(google_root=None)
        limits = (at_google.gmail_user_limit, at_google.gmail_project_limit, at_google.calendar_user_limit)
        assert limits == (6_000, 1_200_000, 600)
        elsewhere = at_google.model_copy(update={"google_root": "http://127.0.0.1:1"})
        assert elsewhere.gmail_user_limit is elsewhere.gmail_project_limit is elsewhere.calendar_user_limit is None
        assert elsewhere.model_copy(update={"gmail_units_per_minute": 2_000}).gmail_user_limit == 2_000


def priced(units: int) -> dict[str, object]:
    """Of a bucket that loses 45.5 units a second, background work may fill 525."""
    return {"gmail_units_per_minute": 3500, "quota_units": {"gmail.users.getProfile": units}}


@in_one_loop
class TestWait:
    async def test_many_at_once_spend_all_that_may_be_spent_and_no_more(
        self, open_home: OpenHome, google: Google
    ) -> None:
        own: dict[str, Any] = {"gmail_units_per_minute": 6000, "quota_units": {"gmail.users.getProfile": 50}}
        own |= {"google_timeout_seconds": 30}

        async def spend(home: Home, ends: float) -> None:
            gmail = (await home.app.clients.get(home.account_id)).gmail
            while time.monotonic() < ends:
                with calls_are(Urgency.PERSON):
                    await gmail.profile()

        async with (
            open_home(**own) as home,
            open_home(**own) as two,
        ):
            ends = time.monotonic() + 3
            await asyncio.gather(*(spend(each, ends) for each in (home, two) for _ in range(4)))
        spending = [(call.time, 50) for call in google.calls("getProfile")]
        assert most_over(spending, 6000) <= 0
        took = spending[-1][0] - spending[0][0]
        assert sum(units for _, units in spending) > 0.7 * (1200 + 78 * took)

    async def test_a_call_waits_for_its_turn(self, open_home: OpenHome, google: Google) -> None:
        async with open_home(**priced(300)) as home:
            gmail = (await home.app.clients.get(home.account_id)).gmail
            began = time.monotonic()
            await gmail.profile()
            await gmail.profile()
        _, second = google.calls("getProfile")
        assert second.time - began > (300 + 300 - 525) / 45.5 - 0.1  # two clocks: ours, and the database's

    async def test_a_call_that_would_wait_too_long_fails_at_once_unless_it_is_a_persons(
        self, open_home: OpenHome, google: Google
    ) -> None:
        async with open_home(**priced(420)) as home:
            gmail = (await home.app.clients.get(home.account_id)).gmail
            began = datetime.now(UTC)
            await gmail.profile()
            spent_by = datetime.now(UTC)
            with pytest.raises(RateLimited, match=r"quota is used up until") as refused:
                await gmail.profile()
            until = refused.value.until
            assert until
            assert until > datetime.now(UTC)
            seconds = (420 + 420 - 525) / 45.5
            assert began + timedelta(seconds=seconds - 0.1) < until < spent_by + timedelta(seconds=seconds + 2)
            assert len(google.calls("getProfile")) == 1
            with calls_are(Urgency.PERSON):
                await gmail.profile()
            assert len(google.calls("getProfile")) == 2

    async def test_accounts_of_one_oauth_client_share_its_projects_quota(
        self, open_home: OpenHome, google: Google
    ) -> None:
        own = {"gmail_project_units_per_minute": 3500, "quota_units": {"gmail.users.getProfile": 500}}
        async with open_home(**own) as home:
            await home.sql(
                """insert into accounts (user_id, address, provider, token, triage_since)
                   select user_id, 'other@example.com', provider, token, triage_since from accounts"""
            )
            ids = [account.id for account in await home.app.accounts.of_user(home.app.user_id)]
            first, second = [(await home.app.clients.get(account_id)).gmail for account_id in ids]
            await first.profile()
            with pytest.raises(RateLimited):
                await second.profile()

    async def test_without_the_database_nothing_is_sent(self, open_home: OpenHome, google: Google) -> None:
        async with open_home(google_timeout_seconds=1) as home:
            gmail = (await home.app.clients.get(home.account_id)).gmail
            async with home.app.pool.connection() as conn, conn.transaction():
                await conn.execute("lock table quota")
                with pytest.raises(Transient, match="not known in time"):
                    await gmail.profile()
            await home.app.pool.close()
            with pytest.raises(Transient, match="the database is not available"):
                await gmail.profile()
        assert google.calls("getProfile") == []

    async def test_while_little_is_spent_as_much_again_is_taken_for_a_second(self, home: Home) -> None:
        now = 0.0
        limits = Limits(user=3500, project=None, calendar=None, units={"gmail.users.drafts.send": 60})
        quota, other = (
            AccountQuota(home.app.pool, limits, home.account_id, "client", now=lambda: now) for _ in range(2)
        )

        async def takes(method: str, by: AccountQuota = quota) -> float:
            """Units that a call takes of an empty bucket."""
            await home.sql("update quota set level = 0")
            await by.admit(f"gmail.users.{method}", 1)
            [bucket] = await home.sql("select level from quota where account_id is not null")
            return float(bucket["level"])

        assert await takes("messages.get") == 40
        assert await takes("messages.modify") == 0
        assert await takes("messages.modify", other) == 10
        assert await takes("messages.get") == 40  # more than is left
        now = 1.1
        assert await takes("messages.modify") == 10  # what was left is good no longer
        assert await takes("watch") == 100  # as much again would be more than a little
        for _ in range(2):
            assert await takes("drafts.send") == 120  # asked for each time
        await quota.close("gmail.users.messages.get", datetime.now(UTC) + timedelta(seconds=90))
        with pytest.raises(RateLimited):
            await quota.admit("gmail.users.messages.modify", 1)

    async def test_a_removed_account_leaves_no_bucket(self, home: Home) -> None:
        await home.sync()
        assert await home.sql("select name from quota")
        await home.sql("delete from accounts")
        assert await home.sql("select name from quota") == []


@in_one_loop
class TestGoogleSaysWhen:
    @pytest.mark.parametrize("where", ["header", "message"])
    async def test_no_process_calls_before(self, open_home: OpenHome, google: Google, where: str) -> None:
        until = datetime.now(UTC) + timedelta(seconds=90)
        async with open_home() as home, open_home() as other:
            gmail = (await home.app.clients.get(home.account_id)).gmail
            await gmail.profile()
            if where == "header":
                google.fault("getProfile", status=429, reason="rateLimitExceeded", retry_after=90)
            else:
                google.fault("getProfile", status=429, reason=f"Retry after {until:%Y-%m-%dT%H:%M:%S.000Z}")
            with pytest.raises(RateLimited):
                await gmail.profile()
            asked = len(google.calls())
            elsewhere = await other.app.clients.get(home.account_id)
            for urgency in Urgency:
                with calls_are(urgency), pytest.raises(RateLimited) as refused:
                    await elsewhere.gmail.profile()
                assert refused.value.until
                assert abs((refused.value.until - until).total_seconds()) < 30
            assert len(google.calls()) == asked
            assert await elsewhere.calendar.timezone()  # which has a quota of its own
            await home.sql("update quota set closed_until = clock_timestamp() + interval '1 second'")
            await asyncio.gather(elsewhere.gmail.profile(), gmail.profile())

    async def test_the_days_limit_of_sent_mail_holds_up_only_what_is_to_be_sent(
        self, home: Home, google: Google, model: Model
    ) -> None:
        model.script(lambda _: [reply("Friday is fine."), DONE])
        await home.receive()
        [item] = await home.pending()
        google.fault("drafts.send", status=429, reason="rateLimitExceeded", retry_after=36_000)
        await home.decide(item, "accept")
        await home.step()
        await home.receive("Dinner?")
        assert len(await home.pending()) == 1
        assert [message.text for message in google.sent] == ["Friday is fine."]  # once its back-off was over


@in_one_loop
class TestDecision:
    async def test_it_is_carried_out_from_what_all_else_leaves_free(
        self, open_home: OpenHome, google: Google, model: Model
    ) -> None:
        model.script([[reply("Friday is fine."), DONE]])
        async with open_home(gmail_units_per_minute=3500, google_timeout_seconds=1) as home:
            await home.receive()
            [item] = await home.pending()
            await home.decide(item, "accept")
            await home.sql("update quota set level = 560, at = clock_timestamp()")
            with pytest.raises(RateLimited):
                await (await home.app.clients.get(home.account_id)).gmail.drafts()
            await home.step()
            assert [message.text for message in google.sent] == ["Friday is fine."]


@in_one_loop
class TestUsedUp:
    """Within a batch: with less left than a batch costs, one that begins anew each time never ends."""

    AMONG = 9

    @pytest.mark.parametrize("age", [timedelta(), timedelta(days=3)], ids=["new", "older"])
    async def test_what_was_given_before_is_kept(self, home: Home, google: Google, age: timedelta) -> None:
        mails = [
            google.deliver(BOB, f"Mail {n}", "Hello.", age=age and age - timedelta(minutes=n))
            for n in range(self.AMONG)
        ]
        refused = google.fault("messages.get", status=429, reason="rateLimitExceeded", about=mails[5])
        with pytest.raises(RateLimited):
            await home.sync()
        assert not refused.times
        assert 0 < len(await home.mails()) < self.AMONG
        await home.sync()
        assert {mail.id for mail in await home.mails()} == set(mails)
        asked = Counter(call.path_params["id"] for call in google.calls("messages.get"))
        assert asked == dict.fromkeys(mails, 1) | {mails[5]: 2}

    async def test_what_is_asked_for_again_is_not_taken_for_gone(self, home: Home, google: Google) -> None:
        mails = [google.deliver(BOB, f"Mail {n}", "Hello.") for n in range(self.AMONG)]
        withheld = google.fault("messages.get", times=1000, status=400, reason="failedPrecondition")
        await home.sync()
        withheld.times = 0
        await home.sql("update mails set received_at = received_at - interval '80 seconds'")
        google.fault("messages.get", status=429, reason="rateLimitExceeded", about=mails[5])
        with pytest.raises(RateLimited):
            await home.sync()
        await home.sync()
        assert {mail.state for mail in await home.mails()} == {"new"}


class TestPerson:
    def test_a_send_and_new_mail_go_ahead_of_a_backfill(self, connect: Start, google: Google, model: Model) -> None:
        model.script([[reply("Friday is fine."), DONE]])
        for n in range(100):
            google.deliver(BOB, f"Old {n}", "Long ago.", age=timedelta(days=3, minutes=n))
        # 45.5 units a second: the backfill takes 44 s.
        daemon = connect(gmail_units_per_minute=3_500, google_timeout_seconds=5, lease_seconds=10)
        daemon.up()
        daemon.wait_for(lambda: len(google.calls("messages.get")) > 10, "older mail is fetched")
        mail_id = google.deliver(BOB, "Lunch?", "Does Friday suit you?")
        [item] = daemon.pending()
        daemon.accept(item)
        daemon.wait_for(lambda: google.sent, "it is sent")
        daemon.until_done(mail_id)
        account = daemon.http.get("/api/accounts").json()["items"][0]
        assert account["older_mail"]["done"] < account["older_mail"]["total"] == 100
        assert most_over(spent(google.calls()), 3_500) <= 0
