"""The day's budget for models: what is spent, what waits for midnight, what goes on without."""

import json
from datetime import datetime, timedelta, tzinfo
from typing import Self

import pytest

import email_assistant.usage
from email_assistant.settings import Settings
from email_assistant.settings.environment import SettingsError
from tests.doubles.daemon import Daemon
from tests.doubles.google import Google
from tests.doubles.model import Model
from tests.integration.conftest import Start
from tests.integration.home import Home, OpenHome, in_one_loop
from tests.integration.scene import BERLIN, BOB, DONE, reply

PRICES = json.dumps({"stub-model": {"prompt": 1000, "completion": 0}})


def account(daemon: Daemon) -> dict[str, object]:
    [only] = daemon.http.get("/api/accounts").json()["items"]
    assert isinstance(only, dict)
    return only


class TestWhatIsSpent:
    @pytest.mark.long
    def test_new_mail_waits_and_says_so_while_answers_are_carried_out(
        self, start: Start, google: Google, model: Model
    ) -> None:
        model.script([[reply("Friday is fine."), DONE]])
        daemon = start(budget_tokens=1_000_000)
        first = google.deliver(BOB, "Lunch?", "Does Friday suit you?")
        [item] = daemon.pending()
        daemon.stop()
        daemon.environment["EMAIL_ASSISTANT_BUDGET_TOKENS"] = "100"
        daemon.up()
        second = google.deliver("Carol <carol@example.org>", "Dinner?", "Are you free?")

        daemon.wait_for(
            lambda: "budget" in (daemon.mail(second).get("reason") or ""), "the mail says what it waits for"
        )

        shown = account(daemon)
        midnight = (datetime.now(BERLIN) + timedelta(days=1)).replace(hour=0, minute=0, second=0, microsecond=0)
        assert datetime.fromisoformat(str(shown["spent_until"])) == midnight
        assert "budget for the model is spent" in daemon.http.get("/").text
        assert daemon.cli("status", "--json")["accounts"][0]["spent_until"]
        assert "budget" in daemon.cli("status")
        asked = len(model.requests)
        daemon.accept(item)
        daemon.until_done(first)
        assert [sent.text for sent in google.sent] == ["Friday is fine."]
        assert daemon.mail(second)["state"] in ("new", "triaging")
        assert len(model.requests) == asked

        daemon.stop()
        daemon.environment["EMAIL_ASSISTANT_BUDGET_TOKENS"] = "1000000"
        model.on_triage("ignore")
        daemon.up()
        daemon.until_done(second)
        assert account(daemon)["spent_until"] is None

    def test_by_rules_mail_is_sorted_by_its_headers(self, start: Start, google: Google, model: Model) -> None:
        daemon = start(budget_tokens=0, when_spent="rules")
        bulk = google.deliver(
            "News <news@shop.example>", "Sale", "50 %", headers={"List-Unsubscribe": "<mailto:x@y.z>"}
        )
        letter = google.deliver(BOB, "Lunch?", "Does Friday suit you?")

        [item] = daemon.pending()

        assert (item["mail_id"], item["kind"]) == (letter, "notification")
        assert "budget" in daemon.mail(letter)["reason"]
        daemon.until_done(bulk)
        assert daemon.mail(bulk)["classification"] == "ignore"
        assert model.requests == []
        daemon.answer(item, "ignore")
        daemon.until_done(letter)

    def test_money_is_counted_by_the_prices(self, start: Start, google: Google, model: Model) -> None:
        model.on_triage("ignore")
        daemon = start(budget_money="0.10", prices=PRICES)  # a triage call of some 200 tokens costs 0.20
        daemon.until_done(google.deliver(BOB, "Hello", "Nothing new."))
        [call] = model.requests
        waiting = google.deliver(BOB, "Hello again", "Still nothing.")

        daemon.wait_for(lambda: "in money" in (daemon.mail(waiting).get("reason") or ""), "the mail waits")

        today = account(daemon)["today"]
        assert isinstance(today, dict)
        assert today["money"] == pytest.approx(call.prompt_tokens / 1000)
        assert today["most_money"] == pytest.approx(0.1)


@in_one_loop
class TestADay:
    async def test_work_goes_on_when_it_has_ended(self, open_home: OpenHome, google: Google, model: Model) -> None:
        model.on_triage("ignore")
        async with open_home(budget_tokens=100) as home:
            await home.receive("One")
            waiting = await home.receive("Two")
            assert (await home.mail(waiting)).state in ("new", "triaging")
            assert await home.works.is_idle()
            assert not await home.works.due.due()

            await home.sql("update model_usage set at = at - interval '1 day'")
            await home.sql("update accounts set spent_until = clock_timestamp()")
            await home.carry_on()

            assert (await home.mail(waiting)).state == "done"

    async def test_it_is_the_accounts_own_and_as_long_as_its_clock_says(
        self, home: Home, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        class Clock(datetime):
            """Noon on the day on which Berlin's clocks go back: 25 hours long."""

            @classmethod
            def now(cls, tz: tzinfo | None = None) -> Self:
                return cls(2026, 10, 25, 12, tzinfo=BERLIN).astimezone(tz)

        monkeypatch.setattr(email_assistant.usage, "datetime", Clock)
        await home.sql("update accounts set timezone = 'Europe/Berlin'")
        for at in ("2026-10-24 21:59+00", "2026-10-24 22:01+00", "2026-10-25 22:59+00"):
            await home.app.usage.record(home.account_id, None, "triage", "stub-model", 10, 1)
            await home.sql("update model_usage set at = %s where at > '2026-10-26'", at)
        day = await home.app.usage.today(await home.account())
        assert day.tokens == 22
        assert day.ends == datetime.fromisoformat("2026-10-25T23:00:00+00:00")

    async def test_a_server_that_counts_nothing_is_counted_for(self, home: Home, model: Model) -> None:
        model.on_triage("ignore")
        model.reports_usage = False
        await home.receive(text="word " * 300)
        day = await home.app.usage.today(await home.account())
        assert day.tokens > 300


def test_money_needs_the_price_of_every_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EMAIL_ASSISTANT_BUDGET_MONEY", "1")
    monkeypatch.setenv("EMAIL_ASSISTANT_MODEL", "stub-model")
    monkeypatch.setenv("EMAIL_ASSISTANT_MODEL_MEMORY", "other-model")
    monkeypatch.setenv("EMAIL_ASSISTANT_PRICES", PRICES)
    with pytest.raises(SettingsError, match="EMAIL_ASSISTANT_PRICES for other-model"):
        Settings.load()
