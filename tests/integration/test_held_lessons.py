"""What would be learned but undoes a decision of the person on other mail is put before them first."""

import random
import re
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
import pytest_asyncio

from email_assistant.memory.lessons import HeldLesson
from email_assistant.memory.senders import deciding
from email_assistant.memory.trial import decisions
from email_assistant.web.app import create_api
from tests.doubles.google import Google
from tests.doubles.model import Model
from tests.integration.conftest import Start
from tests.integration.home import Home, in_one_loop
from tests.integration.scene import ADA, BOB, DONE, reply

IGNORED = "Mail from bob@example.org needs neither an answer nor a notice (ignore)."
ANSWERED = "Mail from bob@example.org is to be answered (respond)."
ORIGIN = {"Origin": "http://127.0.0.1"}


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


async def correct(home: Home, mail_id: str, classification: Any) -> None:
    await home.app.corrections.correct(home.app.user_id, mail_id, classification, "test")
    await home.carry_on()
    await home.works.learn(home.account_id)


async def rules(home: Home) -> list[str]:
    return [rule.text for rule in await home.app.memory.rules(home.account_id, "triage_preferences")]


async def held(home: Home) -> list[HeldLesson]:
    return await home.app.memory.held.page(home.app.user_id)


async def contradicted(home: Home) -> tuple[str, str]:
    """Two mails of Bob's of which the person says different things."""
    first, second = await home.receive("Newsletter"), await home.receive("Lunch?")
    await correct(home, first, "ignore")
    await correct(home, second, "respond")
    return first, second


@in_one_loop
class TestACorrectionThatUndoesAnother:
    async def test_waits_and_shows_which_mail_it_is_about(
        self, home: Home, model: Model, http: httpx.AsyncClient
    ) -> None:
        first, _ = await contradicted(home)
        assert await rules(home) == []  # they have contradicted what was learned: the model is asked
        [waits] = (await http.get("/api/memory/lessons")).json()["held"]
        assert waits["said"] == ANSWERED
        [broken] = waits["broken"]
        assert (broken["mail"], broken["subject"]) == (first, "Newsletter")
        assert (broken["was"], broken["becomes"]) == ("ignore", "respond")
        shown = (await http.get("/memory")).text
        assert "Is this to be learned?" in shown
        assert ANSWERED in shown
        for _ in range(2):  # it waits until it is answered
            assert f"Is this to be learned? <bdi>{ANSWERED}</bdi>" in (await http.get("/")).text

    async def test_is_learned_if_they_say_so(self, home: Home, model: Model, http: httpx.AsyncClient) -> None:
        await contradicted(home)
        [waits] = await held(home)
        kept = await http.post(f"/memory/held/{waits.id}", data={"do": "keep"}, headers=ORIGIN)
        assert kept.status_code == 303, kept.text
        assert await rules(home) == [ANSWERED]
        assert await held(home) == []
        assert (await http.post(f"/api/memory/held/{waits.id}/keep")).status_code == 404
        [answered, ended, _] = await home.app.memory.lessons.page(home.app.user_id)
        assert ended.said == f"no longer: {IGNORED}"
        for lesson in (answered, ended):
            await home.app.memory.unlearn(lesson, "test")
        assert await rules(home) == [IGNORED]

    async def test_is_not_asked_about_again(self, home: Home, model: Model, http: httpx.AsyncClient) -> None:
        await contradicted(home)
        [waits] = await held(home)
        await home.sql("update corrections set learned_at = null")  # it died before it could store that
        await home.works.learn(home.account_id)
        assert [each.id for each in await held(home)] == [waits.id]
        assert (await http.post(f"/api/memory/held/{waits.id}/drop")).status_code == 204
        await home.sql("update corrections set learned_at = null")
        await home.works.learn(home.account_id)
        assert (await rules(home), await held(home)) == ([], [])

    async def test_of_one_rule_the_last_word_waits_alone(self, home: Home, model: Model) -> None:
        await contradicted(home)
        await correct(home, await home.receive("Party"), "ignore")
        await correct(home, await home.receive("Dinner?"), "respond")
        [waits] = await held(home)
        assert (waits.said, waits.origin["subject"]) == (ANSWERED, "Dinner?")
        assert await rules(home) == []

    async def test_taken_back_leaves_the_rule_as_it_was(self, home: Home, model: Model) -> None:
        _, second = await contradicted(home)
        await correct(home, second, "notify")
        assert (await rules(home), await held(home)) == ([IGNORED], [])

    async def test_does_not_outlive_what_they_say_of_the_mail_since(self, home: Home, model: Model) -> None:
        _, second = await contradicted(home)
        await correct(home, second, "ignore")
        assert (await rules(home), await held(home)) == ([IGNORED], [])

    async def test_does_not_undo_what_they_have_changed_since(
        self, home: Home, model: Model, http: httpx.AsyncClient
    ) -> None:
        await contradicted(home)
        [waits] = await held(home)
        memory = home.app.memory
        [rule] = await memory.history(home.account_id, "triage_preferences")
        await memory.revert(home.account_id, "triage_preferences", rule.key, 1, "test")
        await memory.edit(home.account_id, "triage_preferences", rule.key, "Bob is family.", "test")
        assert (await http.post(f"/api/memory/held/{waits.id}/keep")).status_code == 409
        assert await rules(home) == ["Bob is family."]
        assert len(await held(home)) == 1


@in_one_loop
async def test_what_the_model_would_take_away_waits_too(home: Home, model: Model) -> None:
    """It may change what the person typed."""
    await home.app.memory.add(home.account_id, "triage_preferences", "Notify me of mail from example.org.", "test")
    for subject in ("One", "Two"):
        await home.receive(subject)
    first, second = await home.pending()
    await home.answer(first, "accept")
    model.on_memory({"action": "revise", "rule": 1, "text": "Ignore mail from <sender>.", "reason": "Told."})
    await home.answer(second, "ignore")
    await home.works.learn(home.account_id)
    assert await rules(home) == ["Notify me of mail from example.org."]
    [waits] = await held(home)
    assert [(mail["was"], mail["becomes"]) for mail in waits.broken] == [("notify", "read")]
    await home.sql("update inbox_items set learned_at = null")
    await home.works.learn(home.account_id)
    assert len(model.calls("memory")) == 1


@in_one_loop
async def test_no_lesson_loses_a_decision_whoever_contradicts_themselves(home: Home, model: Model) -> None:
    """Corrections without sense, each of a mail of one of two senders. What they contradict, the model is asked about;
    no rule decides otherwise than they did where one decided as they did."""
    chance = random.Random(7)
    mails = [await home.receive(f"Mail {n}", from_=f"{chance.choice(['bob', 'eve'])}@example.org") for n in range(6)]
    right: set[str] = set()
    for mail_id in chance.sample(mails, len(mails)):
        await correct(home, mail_id, chance.choice(["ignore", "respond"]))
        in_force = await home.app.memory.rules(home.account_id, "triage_preferences")
        found = await decisions(home.app.pool, home.account_id)
        by_rules = {each.mail: [by.classification for by in deciding(in_force, each.sender)] for each in found}
        now = {
            each.mail
            for each in found
            if {*by_rules[each.mail], *([] if by_rules[each.mail] else [each.given])} <= each.right
        }
        assert not [mail for mail in right - now if by_rules[mail]]
        right = now
    assert await held(home)


def test_the_command_line_shows_and_answers(start: Start, google: Google, model: Model) -> None:
    daemon = start()
    first = google.deliver(BOB, "Newsletter", "All that is new.")
    daemon.until_mail(first, "waiting")
    daemon.cli("mails", "correct", first, "ignore")
    daemon.wait_for(lambda: daemon.rules("triage_preferences"), "a rule is learned")
    second = google.deliver(BOB, "Lunch?", "Does Friday suit you?")
    daemon.until_done(second)
    daemon.cli("mails", "correct", second, "respond")
    daemon.wait_for(lambda: "memory keep" in daemon.cli("memory", "lessons"), "a lesson waits")
    said = daemon.cli("memory", "lessons")
    assert f"waits for you: {ANSWERED}" in said
    assert "ignore → respond: bob@example.org: Newsletter" in said
    [held_id] = re.findall(r"memory keep (\w+)", said)
    assert "to be learned? " in daemon.run("inbox", "list").stderr
    assert f"Learned: {ANSWERED}" in daemon.cli("memory", "keep", held_id)
    assert daemon.rules("triage_preferences") == [ANSWERED]
    assert daemon.run("memory", "drop", held_id).returncode == 1
