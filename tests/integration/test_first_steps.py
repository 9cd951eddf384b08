"""What somebody meets who begins: the steps to their own mail, the demo's story, and what a day and a week came to."""

import re
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from decimal import Decimal
from typing import Any

import httpx
import pytest

from email_assistant.settings.values import Price
from email_assistant.web.app import create_api
from tests.doubles.daemon import Daemon
from tests.doubles.google import Google
from tests.doubles.model import Model
from tests.integration.conftest import Start
from tests.integration.home import Home, OpenHome, in_one_loop
from tests.integration.scene import ADA, DONE, reply

PHISHER = "jonas.weber@kanthoiz.example"


@asynccontextmanager
async def browser(home: Home) -> AsyncIterator[httpx.AsyncClient]:
    """Keeps cookies, and follows where a form leads."""
    transport = httpx.ASGITransport(app=create_api(home.app, home.works.chat, token=None, host="127.0.0.1"))
    origin = {"origin": "http://127.0.0.1"}
    async with httpx.AsyncClient(
        transport=transport, base_url="http://127.0.0.1", headers=origin, follow_redirects=True
    ) as client:
        yield client


def steps(page: str) -> list[bool]:
    """Whether each step that the page shows is done."""
    return [mark == "✓" for mark in re.findall(r'class="tick-mark" aria-hidden="true">(.)<', page)]


@in_one_loop
class TestFirstSteps:
    async def test_each_tells_the_truth_and_all_go_when_they_are_done(self, home: Home) -> None:
        async with browser(home) as http:
            assert steps((await http.get("/")).text) == [True, True, True, False], "nobody asked who they are"
            assert ">Say who you are</a>" in (await http.get("/")).text
            await http.post("/memory/background", data={"account": ADA, "background": ""})
            assert steps((await http.get("/")).text) == [], "connected, a model, it may send, and they say nothing"
            await home.app.inbox.set_mode(home.app.accounts, await home.account(), "shadow")
            shown = (await http.get("/")).text
            assert steps(shown) == [True, True, False, True]
            assert f"Connected: {ADA}" in shown
            assert f"account mode {ADA} send" in shown
            await home.app.accounts.set_state(home.account_id, "login", "the login has expired")
            assert steps((await http.get("/")).text) == [False, True, False]

    async def test_what_stands_for_the_real_thing_is_no_step_done_and_is_said_on_every_page(
        self, open_home: OpenHome
    ) -> None:
        stand_ins = {"mailbox_stand_in": "A made-up mailbox", "model_stand_in": "Canned answers"}
        async with open_home(**stand_ins) as home, browser(home) as http:
            shown = (await http.get("/")).text
            assert steps(shown) == [False, False, False]
            for path in ("/", "/mails", "/activity", "/chat"):
                assert "A made-up mailbox. Canned answers." in (await http.get(path)).text

    async def test_they_can_be_put_away(self, home: Home) -> None:
        await home.app.inbox.set_mode(home.app.accounts, await home.account(), "shadow")
        async with browser(home) as http:
            assert steps((await http.post("/first-steps")).text) == []
            assert steps((await http.get("/")).text) == []
        async with browser(home) as elsewhere:
            assert steps((await elsewhere.get("/")).text) == [True, True, False, False]


def test_status_tells_the_steps_that_are_left(connect: Start) -> None:
    program = connect()
    assert "○ Say who you are: On the page Memory" in program.cli("status")
    program.cli("memory", "background", "A gardener.")
    assert "First steps" not in program.cli("status")
    assert program.cli("status", "--json")["first_steps"] == []
    program.cli("account", "mode", ADA, "shadow")
    said = program.cli("status")
    assert f"✓ Connect your mailbox: Connected: {ADA}" in said
    assert "○ Watch it in shadow mode" in said
    assert [step["done"] for step in program.cli("status", "--json")["first_steps"]] == [True, True, False, True]


@in_one_loop
class TestInASentence:
    async def say(self, home: Home, model: Model) -> None:
        """Three mails: one answered as proposed, one with changes, one ignored."""
        model.on_triage(lambda request: "ignore" if request.mail.subject == "News" else "respond")
        model.script(lambda _: [reply("Fine."), DONE])
        for subject in ("One", "Two", "News"):
            await home.receive(subject)
        waits = {item.subject: item for item in await home.pending()}
        await home.answer(waits["One"], "accept")
        await home.answer(waits["Two"], "edit", {**waits["Two"].args, "response_text": "No."})

    async def test_a_week_and_a_day_say_what_was_done_and_nothing_of_an_unknown_cost(
        self, home: Home, model: Model
    ) -> None:
        await self.say(home, model)
        await home.sql(
            """insert into lessons (user_id, account_id, profile, rule, version, text, removed, taken_back_at)
               select user_id, id, 'response_preferences', r.rule, 1, 'Be brief.', false, r.back
               from accounts, (values ('a', null), ('b', now())) as r (rule, back)"""
        )
        [news] = [mail for mail in await home.mails() if mail.subject == "News"]
        await home.app.corrections.correct(home.app.user_id, news.id, "notify", by="test")
        await home.carry_on()
        [notice] = await home.pending()
        await home.answer(notice, "accept")
        await home.sql("update mails set stage = 'habits' where subject = 'One'")
        says = (
            "3 mails, 1 sorted without a model, 1 corrected by you (33 of 100), 1 answered as proposed, "
            "1 answered with your changes, 50% of the drafted sentences kept, 1 rule learned"
        )
        async with browser(home) as http:
            [week] = (await http.get("/api/activity")).json()["weeks"]
            assert week["says"] == says
            assert f"<dt>This week</dt><dd>{says}</dd>" in (await http.get("/activity")).text
            assert f"<strong>Nothing waits for you.</strong> Today: {says}." in (await http.get("/")).text

    async def test_a_known_cost_is_told_in_its_currency(self, open_home: OpenHome, model: Model) -> None:
        price = Price(prompt=Decimal(1000), completion=Decimal(1000))
        async with open_home(prices={"stub-model": price}, currency="€") as home, browser(home) as http:
            await self.say(home, model)

            async def says() -> str:
                said: str = (await http.get("/api/activity")).json()["weeks"][0]["says"]
                return said

            assert re.search(r", \d+\.\d\d €$", await says())
            await home.sql("update model_usage set cost = 1e-6")
            assert (await says()).endswith(", less than 0.01 €")
            await home.sql("update model_usage set cost = 0 where id = (select min(id) from model_usage)")
            assert "€" not in await says(), "one call has no price, so the sum is not known"


def test_the_command_line_tells_the_weeks(start: Start, google: Google, model: Model) -> None:
    model.on_triage("ignore")
    daemon = start()
    daemon.until_done(google.deliver("bob@example.org", "News", "Nothing to do."))
    assert daemon.cli("activity") == "This week: 1 mail\n"
    assert daemon.cli("activity", "--json", "--account", ADA)["weeks"][0]["says"] == "1 mail"
    assert "This week: 1 mail" in daemon.cli("status")
    assert daemon.cli("inbox", "list") == "Nothing waits for you. Today: 1 mail.\n"
    assert daemon.cli("status", "--json")["this_week"] == "1 mail"


@pytest.mark.long
class TestDemo:
    @pytest.fixture
    def program(self, connect: Start) -> Daemon:
        program = connect()
        program.environment |= {"OPENAI_API_KEY": "", "OPENAI_BASE_URL": ""}
        return program

    def test_its_story_needs_no_mark_but_on_the_phishers_mail(self, program: Daemon) -> None:
        done = program.run("demo", "--exit-when-idle", "--json", "--port", "0")
        assert "canned answers from a file, no language model" in done.stderr
        items: list[dict[str, Any]] = program.cli("--demo", "inbox", "list", "--json")["items"]
        kinds = {"draft": 6, "meeting": 1, "question": 1, "notification": 4}
        assert Counter(item["kind"] for item in items) == kinds
        marked = {item["sender"]: [mark["kind"] for mark in item["marks"]] for item in items if item["marks"]}
        assert marked == {PHISHER: ["lookalike"]}
        drafts = [item["args"]["response_text"] for item in items if item["kind"] == "draft"]
        assert not [text for text in drafts if "get back to you" in text or "No language model wrote this" not in text]
        assert [text for text in drafts if "65 euros" in text]
        ignored = [
            mail for mail in program.cli("--demo", "mails", "--json")["items"] if mail["classification"] == "ignore"
        ]
        assert {mail["sender"].partition("@")[2] for mail in ignored} == {
            "harbour-letter.example",
            "loomandthread.example",
        }
        assert "○ Connect your mailbox: A made-up mailbox" in program.cli("status", "--demo")

    def test_accepted_it_sends_what_was_shown_and_is_thanked(self, program: Daemon) -> None:
        summary = program.cli("demo", "--exit-when-idle", "--json", "--port", "0", "--answer", "accept")
        assert (summary["mails"], summary["sent"], summary["waiting"]) == (21, 7, 0)
        said = program.cli("--demo", "activity")
        assert re.search(r"answered as proposed", said)
