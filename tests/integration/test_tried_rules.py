"""A rule that only a model can read is tried on past decisions before it is learned."""

import random
import re
from typing import Any

import pytest

from email_assistant.memory import trial
from email_assistant.memory.lessons import HeldLesson
from email_assistant.memory.trial import decisions
from tests.doubles.model import Model, ModelRequest
from tests.integration.home import Home, OpenHome, in_one_loop

RULE = re.compile(r"(Ignore|Show) mail about (\w+)\.")
EVE = "Eve <eve@shop.example>"


def sorted_by(rules: str, subject: str) -> str:
    """What a model says that heeds every rule, the last one most."""
    said = "notify"
    for does, word in RULE.findall(rules):
        if word in subject:
            said = "ignore" if does == "Ignore" else "notify"
    return said


def heeds(request: ModelRequest) -> str:
    return sorted_by(str(request.messages[0]["content"]), request.mail.subject)


def says(text: str, **more: Any) -> dict[str, Any]:
    return {"action": "add", "rule": None, "text": text, "reason": "Told.", **more}


@pytest.fixture
def model(model: Model) -> Model:
    model.on_triage(heeds)
    return model


async def decided(home: Home, subject: str, answer: str, from_: str = EVE) -> str:
    """The mail of a notice that the person answers so, without what is learned of it."""
    mail_id = await home.receive(subject, from_=from_)
    [item] = await home.pending()
    await home.answer(item, answer)
    return mail_id


async def decided_alike(home: Home, mail_id: str, count: int) -> None:
    """The person has said of so many mails like this one that they want a notice of it."""
    await home.sql(
        """insert into mails select (jsonb_populate_record(m, jsonb_build_object('gmail_id', 'alike ' || n))).*
           from mails m cross join generate_series(1, %s) as n where gmail_id = %s""",
        count,
        mail_id,
    )
    await home.sql(
        """insert into corrections (user_id, account_id, mail_id, by, classification, was, learned_at)
           select user_id, account_id, gmail_id, 'test', 'notify', 'ignore', clock_timestamp()
           from mails where gmail_id like 'alike %%'"""
    )


async def rules(home: Home) -> list[str]:
    await home.works.learn(home.account_id)
    return [rule.text for rule in await home.app.memory.rules(home.account_id, "triage_preferences")]


async def held(home: Home) -> list[HeldLesson]:
    return await home.app.memory.held.page(home.app.user_id)


@in_one_loop
class TestALearnedRule:
    async def test_is_learned_where_it_mends_what_it_came_of_and_undoes_nothing(self, home: Home, model: Model) -> None:
        model.on_memory(says("Ignore mail about sales."))
        await decided(home, "Hotels and trains", "accept")
        await decided(home, "Summer sales", "ignore")
        assert await rules(home) == ["Ignore mail about sales."]
        assert await held(home) == []

    async def test_that_undoes_a_decision_waits_and_names_it(self, home: Home, model: Model) -> None:
        model.on_memory(says("Ignore mail about sales."))
        kept = await decided(home, "The sales figures", "accept")
        await decided(home, "Summer sales", "ignore")
        assert await rules(home) == []
        [waits] = await held(home)
        [broken] = waits.broken
        assert (broken["mail"], broken["was"], broken["becomes"]) == (kept, "notify", "ignore")
        await home.app.memory.keep(waits)
        assert await rules(home) == ["Ignore mail about sales."]

    async def test_is_tried_on_mail_with_text_where_nearer_mail_has_none(
        self, home: Home, model: Model, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(trial, "MOST_ASKED", 2)
        model.on_memory(says("Ignore mail about sales."))
        kept = await decided(home, "The sales figures", "accept")
        gone = await decided(home, "Other sales figures", "accept")
        await home.sql(f"update mails set has_text = false where gmail_id = '{gone}'")
        await decided(home, "Summer sales", "ignore")
        assert await rules(home) == []
        [waits] = await held(home)
        assert [broken["mail"] for broken in waits.broken] == [kept]

    async def test_that_does_not_mend_what_it_came_of_waits(self, home: Home, model: Model) -> None:
        model.on_memory(says("Ignore mail about pumpkins."))
        mail_id = await decided(home, "Summer sales", "ignore")
        assert await rules(home) == []
        [waits] = await held(home)
        [broken] = waits.broken
        assert (broken["mail"], broken["was"], broken["becomes"]) == (mail_id, "ignore", "notify")

    async def test_waits_once_for_a_word_on_equal_words(self, home: Home, model: Model) -> None:
        model.on_memory(says("Ignore mail about pumpkins."))
        await decided(home, "Summer sales", "ignore")
        await decided(home, "Winter sales", "ignore")
        assert await rules(home) == []
        [waits] = await held(home)
        assert [mail["subject"] for mail in waits.broken] == ["Winter sales"]

    async def test_is_not_lost_to_a_server_that_fails_for_long(self, home: Home, model: Model) -> None:
        model.on_memory(says("Ignore mail about sales."))
        await decided(home, "Summer sales", "ignore")
        model.fault("triage", status=500, times=1000)
        for _ in range(home.app.settings.max_tries + 1):
            assert await rules(home) == []
            await home.sql("update inbox_items set learn_after = clock_timestamp()")
        model.clear_faults()
        assert await rules(home) == ["Ignore mail about sales."]

    async def test_asks_about_no_mail_that_it_is_not_about(self, home: Home, model: Model) -> None:
        model.on_memory(says("Ignore mail about sales."))
        await decided(home, "Lunch?", "ignore", "Bob <bob@example.org>")
        await home.sql("update inbox_items set learned_at = clock_timestamp()")
        await decided(home, "Summer sales", "ignore")
        asked = len(model.calls("triage"))
        assert await rules(home) == ["Ignore mail about sales."]
        assert [call.mail.subject for call in model.calls("triage")[asked:]] == ["Summer sales"]

    async def test_asks_nothing_twice_but_what_speaks_against_it(self, home: Home, model: Model) -> None:
        model.on_memory(says("Ignore mail about sales."))
        await decided(home, "The sales figures", "accept")
        await decided(home, "Summer sales", "ignore")
        await rules(home)
        await decided(home, "Winter sales", "ignore")
        asked = len(model.calls("triage"))
        assert await rules(home) == []
        assert [call.mail.subject for call in model.calls("triage")[asked:]] == ["Winter sales", "The sales figures"]

    async def test_asks_sixty_times_at_most(self, home: Home, model: Model) -> None:
        model.on_memory(says("Ignore mail about sales."))
        await decided_alike(home, await decided(home, "The sales figures", "accept"), 24)
        await decided(home, "Summer sales", "ignore")
        asked = len(model.calls("triage"))
        assert await rules(home) == []
        assert 50 < len(model.calls("triage")) - asked <= 60

    async def test_keeps_what_was_answered_for_thirty_days(self, home: Home, model: Model) -> None:
        async def answers_after(days: int, subject: str) -> int:
            """How many are kept of those before, once so many days have passed and another rule was tried."""
            await home.sql("update sorted_again set at = at - make_interval(days => %s)", days)
            model.on_memory(says(f"Ignore mail about {subject.lower()}."))
            await decided(home, subject, "ignore")
            await rules(home)
            return len(await home.sql("select mail_id from sorted_again where at < now() - interval '1 day'"))

        assert await answers_after(0, "Sales") == 0
        assert await answers_after(29, "Pumpkins") == 1
        await home.sql("delete from sorted_again where at > now() - interval '1 day'")
        assert await answers_after(2, "Trains") == 0

    async def test_waits_while_no_model_answers(self, home: Home, model: Model) -> None:
        model.on_memory(says("Ignore mail about sales."))
        await decided(home, "Summer sales", "ignore")
        await home.sql("update inbox_items set learned_at = null, learn_after = clock_timestamp()")
        await home.sql("delete from store")
        await home.sql("delete from sorted_again")
        model.fault("triage", status=503, times=99)
        assert await rules(home) == []
        assert await held(home) == []
        model.clear_faults()
        await home.sql("update model_refusals set next_at = clock_timestamp()")
        await home.sql("update inbox_items set learn_after = clock_timestamp()")
        assert await rules(home) == ["Ignore mail about sales."]


@in_one_loop
async def test_what_it_is_asked_counts_and_is_not_asked_beyond_the_budget(open_home: OpenHome, model: Model) -> None:
    model.on_memory(says("Ignore mail about sales."))
    async with open_home() as home:
        await decided(home, "Summer sales", "ignore")
        [before] = await home.sql("select count(*) as calls from model_usage where role = 'triage'")
        assert await rules(home) == ["Ignore mail about sales."]
        [after] = await home.sql("select count(*) as calls from model_usage where role = 'triage'")
        assert after["calls"] - before["calls"] == 1


@in_one_loop
@pytest.mark.parametrize("seed", [9, 0, 13])
async def test_no_lesson_lowers_what_is_sorted_as_decided_whatever_a_model_makes_of_it(
    home: Home, model: Model, seed: int
) -> None:
    """Answers without sense, and a model that writes, changes and removes whatever rule comes to its mind."""
    chance = random.Random(seed)
    words = ("sales", "hotels", "trains", "pumpkins")
    subject = ""

    def memory(_: ModelRequest) -> dict[str, Any]:
        word = subject.split()[0] if chance.random() < 0.7 else chance.choice(words)
        text = f"{chance.choice(('Ignore', 'Ignore', 'Show'))} mail about {word}."
        return says(text, action=chance.choice(("add", "add", "add", "revise", "remove")), rule=1)

    model.on_memory(memory)
    learned = 0
    for number in range(9):
        subject = f"{' and '.join(chance.sample(words, 2))} {number}"
        await home.receive(subject, from_=EVE)
        for item in await home.pending():
            await home.answer(item, chance.choice(("accept", "ignore", "ignore")))
        found = await decisions(home.app.pool, home.account_id)
        texts = " ".join(rule.text for rule in await home.app.memory.rules(home.account_id, "triage_preferences"))
        right = {each.mail for each in found if sorted_by(texts, each.subject) in each.right}
        now = " ".join(await rules(home))
        learned += now != texts
        assert right <= {each.mail for each in found if sorted_by(now, each.subject) in each.right}
    assert learned
