"""A person's own word on what was learned, over the API and on the command line."""

import asyncio
import re
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
import pytest_asyncio

from email_assistant.memory.given import give
from email_assistant.web.app import create_api
from tests.doubles.model import Model
from tests.integration.conftest import Start
from tests.integration.home import Home, in_one_loop
from tests.integration.scene import ADA, DONE, reply

OF_ADA = {"account": ADA}
RULES = "/api/memory/rules"
REPLIES = "response_preferences"


@pytest_asyncio.fixture(loop_scope="module")
async def http(home: Home) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(app=create_api(home.app, home.works.chat, token=None, host="127.0.0.1"))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", params=OF_ADA) as client:
        yield client


async def listed(http: httpx.AsyncClient, **query: str) -> list[dict[str, Any]]:
    answer = await http.get("/api/memory", params=query)
    assert answer.status_code == 200, answer.text
    rules: list[dict[str, Any]] = answer.json()["profiles"][REPLIES]
    return rules


async def added(http: httpx.AsyncClient, text: str = "Be brief.") -> str:
    answer = await http.post(RULES, json={"profile": REPLIES, "text": text})
    assert answer.status_code == 201, answer.text
    return f"{RULES}/{REPLIES}/{answer.json()['id']}"


@in_one_loop
class TestRules:
    async def test_one_that_was_learned_shows_its_origin_and_takes_the_persons_words(
        self, home: Home, model: Model, http: httpx.AsyncClient
    ) -> None:
        model.script(lambda _: [reply("Friday is fine."), DONE])
        model.on_memory({"action": "add", "text": "Sign with Ada.", "reason": "the edit adds it"})
        await home.receive()
        [item] = await home.pending()
        await home.answer(item, "edit", {**item.args, "response_text": "Friday is fine. Ada"})
        await home.works.learn(home.account_id)
        [learned] = await listed(http)
        assert (learned["text"], learned["version"]) == ("Sign with Ada.", 1)
        assert learned["origin"]["item"] == str(item.id)
        page = " ".join((await http.get("/memory")).text.split())
        assert (
            "You edited the proposal before accepting it. From <bdi>bob@example.org</bdi>: <bdi>Lunch?</bdi></p>"
            in page
        )
        path = f"{RULES}/{REPLIES}/{learned['id']}"

        answer = await http.put(path, json={"text": "Sign  with\nyour Ada.", "version": 1})

        assert answer.status_code == 200, answer.text
        assert (answer.json()["text"], answer.json()["version"]) == ("Sign with your Ada.", 2)
        await home.receive("Dinner?")
        assert "Sign with your Ada." in model.calls("response")[-1].text
        versions = (await http.get(path)).json()["versions"]
        assert [version["text"] for version in versions] == ["Sign with Ada.", "Sign with your Ada."]
        assert versions[1]["origin"] == {"did": "You changed this rule.", "by": "api"}
        assert versions[0]["origin"]["item"] == str(item.id)

    async def test_it_is_removed_and_reverted_to(self, http: httpx.AsyncClient) -> None:
        path = await added(http)
        assert (await http.put(path, json={"text": "Be long."})).status_code == 200
        assert (await http.delete(path)).json()["removed"] is True
        assert await listed(http) == []
        [gone] = await listed(http, removed="true")
        assert (gone["text"], gone["version"]) == ("Be long.", 3)
        assert (await http.put(path, json={"text": "Again."})).status_code == 409
        assert (await http.post(f"{path}/revert", json={"to": 3})).status_code == 409
        assert (await http.post(f"{path}/revert", json={"to": 9})).status_code == 404

        assert (await http.post(f"{path}/revert", json={"to": 1})).status_code == 200

        [rule] = await listed(http)
        assert (rule["text"], rule["version"], rule["removed"]) == ("Be brief.", 4, False)

    async def test_what_was_changed_meanwhile_is_not_overwritten(self, http: httpx.AsyncClient) -> None:
        path = await added(http)
        assert (await http.put(path, json={"text": "Be brief and kind."})).status_code == 200
        refused = await http.put(path, json={"text": "Be rude.", "version": 1})
        assert refused.status_code == 409
        assert "Be brief and kind." in refused.json()["detail"]
        assert (await http.delete(path, params={"version": "1"})).status_code == 409
        assert [rule["text"] for rule in await listed(http)] == ["Be brief and kind."]

    async def test_of_many_changes_at_once_one_is_made(self, http: httpx.AsyncClient) -> None:
        path = await added(http)
        answers = await asyncio.gather(
            *(http.put(path, json={"text": f"Be number {number}.", "version": 1}) for number in range(40))
        )
        assert Counter(answer.status_code for answer in answers) == {200: 1, 409: 39}
        [made] = [answer.json()["text"] for answer in answers if answer.is_success]
        assert [rule["text"] for rule in await listed(http)] == [made]
        versions = (await http.get(path)).json()["versions"]
        assert [version["text"] for version in versions] == ["Be brief.", made]

    @pytest.mark.parametrize("text", ["", "  \n", "x" * 301, "\x00"])
    async def test_a_rule_is_one_line_of_text(self, http: httpx.AsyncClient, text: str) -> None:
        path = await added(http)
        assert (await http.post(RULES, json={"profile": REPLIES, "text": text})).status_code == 422
        assert (await http.put(path, json={"text": text})).status_code == 422
        assert [rule["text"] for rule in await listed(http)] == ["Be brief."]

    async def test_the_learner_and_the_person_share_one_limit(self, http: httpx.AsyncClient) -> None:
        for number in range(200):
            await added(http, f"Rule {number}.")
        refused = await http.post(RULES, json={"profile": REPLIES, "text": "One more."})
        assert refused.status_code == 422
        assert "200" in refused.json()["detail"]

    async def test_what_is_not_there(self, http: httpx.AsyncClient) -> None:
        assert (await http.get(f"{RULES}/{REPLIES}/nothing")).status_code == 404
        assert (await http.put(f"{RULES}/{REPLIES}/nothing", json={"text": "x"})).status_code == 404
        assert (await http.get(f"{RULES}/other/nothing")).status_code == 422
        assert (await http.get("/api/memory", params={"account": "nobody@example.com"})).status_code == 404

    async def test_the_background_stands_in_the_prompts(
        self, home: Home, model: Model, http: httpx.AsyncClient
    ) -> None:
        model.script(lambda _: [reply("Fine."), DONE])
        assert (await http.put("/api/memory/background", json={"text": "I run a bakery."})).status_code == 200
        assert (await http.get("/api/memory")).json()["background"] == "I run a bakery."
        await home.receive()
        assert "I run a bakery." in model.calls("response")[-1].text


@in_one_loop
class TestAFile:
    async def test_goes_out_and_comes_back_once_its_changes_were_seen(self, http: httpx.AsyncClient) -> None:
        await added(http)
        gone = await added(http, "Be slow.")
        file = (await http.get("/api/memory/markdown")).json()["text"]
        assert "- Be brief.\n  > You wrote this rule. (" in file
        edited = file.replace("Be brief.", "Be very brief.").replace("- Be slow.", "- Be kind.\n- Be fast.")
        shown = (await http.post("/api/memory/markdown", json={"text": edited})).json()
        assert [(change["does"], change["text"]) for change in shown["changes"]] == [
            *(("change", "Be very brief."), ("change", "Be fast."), ("add", "Be kind."))
        ]
        assert [rule["text"] for rule in await listed(http)] == ["Be brief.", "Be slow."]

        given = {"text": edited, "seen": shown["seen"]}
        assert (await http.put(gone, json={"text": "Be calm."})).status_code == 200
        assert (await http.post("/api/memory/markdown", json=given)).status_code == 409
        assert (await http.post(f"{gone}/revert", json={"to": 1})).status_code == 200
        shown = (await http.post("/api/memory/markdown", json={"text": edited})).json()
        done = await http.post("/api/memory/markdown", json={"text": edited, "seen": shown["seen"]})

        assert (done.status_code, done.json()["done"]) == (200, True)
        rules = await listed(http)
        assert [rule["text"] for rule in rules] == ["Be very brief.", "Be fast.", "Be kind."]
        assert all(rule["origin"].keys() == {"did", "by"} for rule in rules)
        assert [each["text"] for each in (await http.get(gone)).json()["versions"]] == [
            *("Be slow.", "Be calm.", "Be slow.", "Be fast.")
        ]

    async def test_is_taken_by_the_page(self, http: httpx.AsyncClient) -> None:
        await added(http)
        answer = await http.get("/memory/rules.md")
        assert "attachment" in answer.headers["content-disposition"]
        file = answer.text.replace("Be brief.", "Be <b>long</b>.")
        origin = {"Origin": "http://127.0.0.1"}

        async def give(content: bytes) -> httpx.Response:
            return await http.post("/memory/import", data=OF_ADA, files={"file": content}, headers=origin)

        shown = await give(file.encode())
        assert "Be &lt;b&gt;long&lt;/b&gt;." in shown.text
        [seen] = re.findall(r'name="seen" value="(\w+)"', shown.text)
        assert [rule["text"] for rule in await listed(http)] == ["Be brief."]
        agreed = await http.post("/memory/import", data={**OF_ADA, "text": file, "seen": seen}, headers=origin)
        assert agreed.status_code == 303
        assert [rule["text"] for rule in await listed(http)] == ["Be <b>long</b>."]
        for damaged in (b"\xff", b"- Nothing.", b""):
            refused = await give(damaged)
            assert (refused.status_code, "nothing was changed" in refused.text) == (422, True)


def test_the_command_line_does_all_of_it(connect: Start) -> None:
    daemon = connect()
    rule = daemon.cli("memory", "add", REPLIES, "Be brief.").split()[-1].rstrip(".")
    daemon.cli("memory", "edit", rule, "Be kind.")
    assert daemon.rules(REPLIES) == ["Be kind."]
    daemon.cli("memory", "remove", rule)
    assert daemon.rules(REPLIES) == []
    daemon.cli("memory", "revert", rule, "1")
    assert daemon.rules(REPLIES) == ["Be brief."]
    versions = daemon.cli("memory", "history", rule, "--json")["versions"]
    assert [(version["text"], version["removed"]) for version in versions] == [
        *(("Be brief.", False), ("Be kind.", False), ("Be kind.", True), ("Be brief.", False))
    ]
    assert daemon.run("memory", "edit", "nothing", "x").returncode == 1
    file = daemon.home / "rules.md"
    daemon.cli("memory", "export", str(file))
    assert "already" in daemon.cli("memory", "import", str(file))
    assert daemon.run("memory", "export", str(file)).returncode == 1
    file.write_text(file.read_text().replace("Be brief.", "Be bold."))
    assert daemon.run("memory", "import", str(file)).returncode == 1  # nobody says yes
    assert daemon.rules(REPLIES) == ["Be brief."]
    said = daemon.cli("memory", "import", str(file), "--yes")
    assert "change in response_preferences: Be bold.\n  before: Be brief." in said
    assert daemon.rules(REPLIES) == ["Be bold."]
    file.write_text("## cal_preferences\nBe bold.")
    refused = daemon.run("memory", "import", str(file), "--yes")
    assert (refused.returncode, "line 2: " in refused.stderr) == (1, True)
    assert daemon.run("memory", "add", "other", "x").returncode == 1


def test_a_new_mailbox_begins_with_a_few_preferences_once(connect: Start) -> None:
    """They are shown as given, sort no mail, and stay away once they are removed."""
    daemon = connect()
    daemon.account_add(ADA)
    shown = daemon.cli("memory", "show", "--json")
    given = {profile: [rule["origin"]["did"] for rule in rules] for profile, rules in shown.items()}
    assert given == {REPLIES: ["Given to begin with."] * 2, "cal_preferences": ["Given to begin with."] * 2} | {
        "triage_preferences": []
    }
    for rule in shown[REPLIES]:
        daemon.cli("memory", "remove", rule["id"])
    daemon.account_add(ADA)
    assert daemon.rules(REPLIES) == []
    assert len(daemon.rules("cal_preferences")) == 2


@in_one_loop
async def test_a_chat_that_knows_no_more_than_these_knows_nothing_private(home: Home, model: Model) -> None:
    model.on_policy()
    model.on_chat({"hello": ["Hello."], "again": ["Hello."]})

    async def told_of_them() -> list[dict[str, Any]]:
        return await home.sql("select tool from gate_calls")

    await give(home.app.memory, home.account_id)
    await home.works.chat.ask(await home.account(), "one", "hello")
    assert await told_of_them() == []
    await home.app.memory.add(home.account_id, "response_preferences", "Be brief.", "test")
    await home.works.chat.ask(await home.account(), "two", "again")
    assert await told_of_them() == [{"tool": "background and rules"}]
