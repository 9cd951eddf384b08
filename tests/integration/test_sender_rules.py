"""A person's rules in triage: those that decide by themselves, and how often each was used."""

from typing import Any

import httpx
import pytest
import pytest_asyncio

from email_assistant.db import mails
from email_assistant.web.app import create_api
from tests.doubles.model import Model
from tests.integration.home import Home, in_one_loop
from tests.integration.scene import ADA, DONE, reply

pytestmark = in_one_loop

FORGED = {"Authentication-Results": "mx.google.com; spf=fail; dmarc=fail (p=NONE) header.from=example.org"}
UNSUBSCRIBE = {"List-Unsubscribe": "<https://example.org/u>"}


@pytest_asyncio.fixture(loop_scope="module")
async def http(home: Home) -> Any:
    transport = httpx.ASGITransport(app=create_api(home.app, home.works.chat, token=None, host="127.0.0.1"))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", params={"account": ADA}) as client:
        yield client


@pytest.fixture
def model(model: Model) -> Model:
    model.on_triage("notify")
    model.script(lambda _: [reply("Fine."), DONE])
    return model


async def rule(home: Home, text: str) -> str:
    return (await home.app.memory.add(home.account_id, "triage_preferences", text, "test")).key


async def used(home: Home) -> dict[str, int]:
    return {key: fired.times for (_, key), fired in (await home.app.memory.fired(home.account_id)).items()}


class TestARuleThatDecides:
    async def test_costs_no_call_says_so_and_is_counted(self, home: Home, model: Model) -> None:
        key = await rule(home, "Ignore mail from example.org.")
        mail_id = await home.receive()
        assert model.calls() == []
        mail = await home.mail(mail_id)
        assert (mail.classification, mail.reason) == ("ignore", "by your rule: Ignore mail from example.org.")
        assert await used(home) == {key: 1}

    async def test_is_what_a_correction_made(self, home: Home, model: Model) -> None:
        mail_id = await home.receive()
        await home.app.corrections.correct(home.app.user_id, mail_id, "ignore", "test")
        await home.works.learn(home.account_id)
        asked = len(model.calls())
        assert (await home.mail(await home.receive("Dinner?"))).classification == "ignore"
        assert len(model.calls()) == asked

    async def test_does_nothing_by_itself(self, home: Home, model: Model) -> None:
        await rule(home, "Answer mail from bob@example.org.")
        await home.receive()
        [item] = await home.pending()
        assert (item.kind, item.status) == ("draft", "pending")
        assert home.google.calls("drafts.send") == []
        assert (await home.mail(await home.receive("Sale", headers=UNSUBSCRIBE))).classification != "respond"

    async def test_does_not_decide_for_who_forged_its_sender(self, home: Home, model: Model) -> None:
        await rule(home, "Ignore mail from bob@example.org.")
        await rule(home, "Invoices are to be answered.")
        assert (await home.mail(await home.receive(headers=FORGED))).classification == "notify"
        [asked] = model.calls("triage")
        assert "1. Invoices are to be answered." in asked.text
        assert "Ignore mail from" not in asked.text, "the model would follow it"

    async def test_does_not_decide_for_one_of_several_senders(self, home: Home, model: Model) -> None:
        await rule(home, "Ignore mail from bob@example.org.")
        mail = await home.receive(headers={"From": "Bob <bob@example.org>, Eve <eve@example.net>"})
        assert (await home.mail(mail)).classification == "notify"

    async def test_works_when_the_budget_is_spent(self, home: Home, model: Model) -> None:
        await rule(home, "Ignore mail from bob@example.org.")
        model.fault("triage", status=500, times=99)
        assert (await home.mail(await home.receive())).classification == "ignore"


class TestContradictions:
    async def test_are_put_to_the_model_and_shown(self, home: Home, model: Model, http: httpx.AsyncClient) -> None:
        keys = [await rule(home, f"{what} mail from bob@example.org.") for what in ("Ignore", "Answer")]
        assert (await home.mail(await home.receive())).classification == "notify"
        [asked] = model.calls("triage")
        assert "1. Ignore mail from bob@example.org.\n2. Answer mail from bob@example.org." in asked.text
        assert (await http.get("/api/memory")).json()["contradictions"] == [keys]
        assert "Rules that contradict each other" in (await http.get("/memory")).text
        await home.app.memory.remove(home.account_id, "triage_preferences", keys[0], "test")
        assert "Rules that contradict each other" not in (await http.get("/memory")).text


class TestCounting:
    async def test_the_model_names_the_rules_by_their_numbers(self, home: Home, model: Model) -> None:
        first, second = await rule(home, "Mail about money is dear to me."), await rule(home, "Bob is family.")
        for named in ([2], [1, 2, 2], [0, -1, 3, 10**20], None, ["1", 1.0, True], "1"):
            model.on_rules(named)
            await home.receive()
        assert len(model.calls("triage")) == 6
        assert await used(home) == {first: 1, second: 2}

    async def test_a_model_that_names_none_is_as_good(self, home: Home, model: Model) -> None:
        await rule(home, "Bob is family.")
        assert (await home.mail(await home.receive())).classification == "notify"
        assert await used(home) == {}

    async def test_once_a_mail_whatever_is_repeated(
        self, home: Home, model: Model, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """It dies after the class is stored; then the mail is sorted once more."""
        key = await rule(home, "Bob is family.")
        model.on_rules([1])
        triaged, deaths = mails.triaged, iter([True])

        async def dying(*given: Any, **more: Any) -> None:
            await triaged(*given, **more)
            if next(deaths, False):
                raise ConnectionError

        monkeypatch.setattr(mails, "triaged", dying)
        mail_id = await home.receive()
        assert (await home.mail(mail_id)).classification == "notify"
        assert len(model.calls("triage")) == 1
        assert await used(home) == {key: 1}
        await home.sql("update mails set state = 'new', classification = null, run_id = null")
        await home.carry_on()
        assert len(model.calls("triage")) == 2
        assert await used(home) == {key: 1}

    async def test_they_are_listed_with_their_use(self, home: Home, model: Model, http: httpx.AsyncClient) -> None:
        await rule(home, "Ignore mail from bob@example.org.")
        await rule(home, "Money is dear to me.")
        await home.receive()
        first, second = (await http.get("/api/memory")).json()["profiles"]["triage_preferences"]
        assert (first["used"], first["alone"], bool(first["last_used_at"])) == (1, True, True)
        assert (second["used"], second["alone"], second["last_used_at"]) == (0, False, None)
        page = " ".join((await http.get("/memory")).text.split())
        assert "Used for 1 mail, last on" in page
        assert "Not used yet.</p>" in page

    async def test_they_go_with_the_account(self, home: Home, model: Model) -> None:
        await rule(home, "Ignore mail from bob@example.org.")
        await home.receive()
        assert await home.sql("select rule from rule_fires")
        await home.sql("delete from accounts")
        assert not await home.sql("select rule from rule_fires")
