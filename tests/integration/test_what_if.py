"""A rule is tried on mail of the past; nothing is changed by it."""

from collections.abc import AsyncIterator

import httpx
import pytest
import pytest_asyncio

from email_assistant.db.mails import redact_text
from email_assistant.mail.message import NOT_KEPT
from email_assistant.web.app import create_api
from tests.doubles.google import Google
from tests.doubles.model import Model
from tests.integration.conftest import Start
from tests.integration.home import Home, OpenHome, in_one_loop
from tests.integration.scene import ADA, DONE, reply

ORIGIN = {"Origin": "http://127.0.0.1"}
EVE = "Eve <eve@shop.example>"


@pytest_asyncio.fixture(loop_scope="module")
async def http(home: Home) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(app=create_api(home.app, home.works.chat, token=None, host="127.0.0.1"))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", params={"account": ADA}) as client:
        yield client


@pytest.fixture
def model(model: Model) -> Model:
    model.on_triage("notify")
    model.script(lambda _: [reply("Fine."), DONE])
    return model


async def everything(home: Home) -> object:
    tables = ("mails", "runs", "inbox_items", "store", "rule_fires", "lessons_to_confirm", "lessons")
    return [await home.sql(f"select t::text from {table} t order by 1") for table in tables]


@in_one_loop
class TestWhatIf:
    async def test_a_rule_on_a_sender_is_tried_by_code(self, home: Home, model: Model, http: httpx.AsyncClient) -> None:
        await home.receive()
        sold = await home.receive("Sale", from_=EVE)
        before, asked = await everything(home), len(model.calls())
        found = (await http.post("/api/memory/try", json={"text": "Ignore mail from shop.example."})).json()
        assert [(mail["mail"], mail["was"], mail["becomes"]) for mail in found["otherwise"]] == [
            (sold, "notify", "ignore")
        ]
        assert (found["mails"], found["to_ask"]) == (2, 0)
        same = (await http.post("/api/memory/try", json={"text": "Notify me of mail from shop.example."})).json()
        assert same["otherwise"] == []
        assert len(model.calls()) == asked
        assert await everything(home) == before

    async def test_leaves_out_mail_without_text(self, home: Home, model: Model, http: httpx.AsyncClient) -> None:
        await home.receive()
        gone = await home.receive("Sale", from_=EVE)
        async with home.app.pool.connection() as conn:
            threads = await home.sql(f"select thread_id as id from mails where gmail_id = '{gone}'")
            await redact_text(conn, [row["id"] for row in threads], NOT_KEPT)
        told = (await http.post("/api/memory/try", json={"text": "What is sold is nothing to me."})).json()
        assert (told["mails"], told["to_ask"]) == (1, 1)

    async def test_of_any_other_the_model_is_asked_if_they_say_so(
        self, home: Home, model: Model, http: httpx.AsyncClient
    ) -> None:
        await home.receive()
        sold = await home.receive("Sale", from_=EVE)
        before, asked = await everything(home), len(model.calls())
        rule = {"text": "What is sold is nothing to me."}
        told = (await http.post("/api/memory/try", json=rule)).json()
        assert (told["otherwise"], told["to_ask"], told["cost"]) == ([], 2, None)
        taken = sum(call.prompt_tokens for call in model.calls("triage"))
        assert taken / 2 < told["tokens"] < taken * 2
        assert len(model.calls()) == asked

        model.on_triage({"Sale": "ignore", "Lunch?": "notify"})
        found = (await http.post("/api/memory/try", json={**rule, "ask": True})).json()

        assert [(mail["mail"], mail["becomes"]) for mail in found["otherwise"]] == [(sold, "ignore")]
        calls = model.calls()[asked:]
        assert len(calls) == 2
        assert all("1. What is sold is nothing to me." in call.text for call in calls)
        assert await everything(home) == before

    async def test_a_model_that_refuses_is_told_of(self, home: Home, model: Model, http: httpx.AsyncClient) -> None:
        await home.receive()
        await home.receive("Sale", from_=EVE)
        model.fault("triage", status=400, times=9)
        rule = {"text": "What is sold is nothing to me.", "ask": True}
        refused = await http.post("/api/memory/try", json=rule)
        assert "refuses the request" in refused.json()["detail"]

    async def test_mail_that_another_rule_decides_is_not_asked_about(
        self, home: Home, model: Model, http: httpx.AsyncClient
    ) -> None:
        await home.app.memory.add(home.account_id, "triage_preferences", "Ignore mail from shop.example.", "test")
        await home.receive("Sale", from_=EVE)
        found = (await http.post("/api/memory/try", json={"text": "Sales are dear to me."})).json()
        assert (found["to_ask"], found["otherwise"]) == (0, [])
        contrary = (await http.post("/api/memory/try", json={"text": "Answer mail from shop.example."})).json()
        assert contrary["to_ask"] == 1  # the two contradict

    async def test_the_page_tells_what_it_costs_before_it_asks(self, open_home: OpenHome, model: Model) -> None:
        prices = {"stub-model": {"prompt": 1000, "completion": 1000}}
        async with open_home(prices=prices, currency="€") as home:
            transport = httpx.ASGITransport(app=create_api(home.app, home.works.chat, token=None, host="127.0.0.1"))
            async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as browser:
                await home.receive("Sale", from_=EVE)
                given = {"account": ADA, "text": "<b>Sales</b> are nothing to me."}
                told = " ".join((await browser.post("/memory/try", data=given, headers=ORIGIN)).text.split())
                assert "Of 1 mails only the model can tell, by a call for each: about " in told
                assert "€" in told
                assert "<b>" not in told
                model.on_triage("ignore")
                asked = await browser.post("/memory/try", data={**given, "ask": "true"}, headers=ORIGIN)
                assert "notify → ignore" in asked.text
                empty = await browser.post("/memory/try", data={"account": ADA, "text": " "}, headers=ORIGIN)
                assert empty.status_code == 422


def test_the_command_line_asks_first(start: Start, google: Google, model: Model) -> None:
    model.on_triage("ignore")
    daemon = start()
    daemon.until_done(google.deliver(EVE, "Sale", "Half the price."))
    model.on_triage("notify")
    unanswered = daemon.run("memory", "try", "Sales are dear to me.")
    assert (unanswered.returncode, "by a call for each" in unanswered.stderr) == (1, True)
    assert len(model.calls("triage")) == 1
    assert "1 of 1 mails" in daemon.cli("memory", "try", "Sales are dear to me.", "--yes")
    assert daemon.rules("triage_preferences") == []
