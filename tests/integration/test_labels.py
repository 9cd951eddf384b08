"""The class of each mail as a label in Gmail, and the person who moves it there."""

import asyncio
from typing import Any

import pytest

from email_assistant.accounts.account import Mode
from tests.doubles.google import Google
from tests.doubles.model import Model
from tests.doubles.serving import Hold
from tests.integration.home import Home, OpenHome, in_one_loop, reached
from tests.integration.scene import BOB, DONE, reply

pytestmark = in_one_loop

RESPOND, NOTIFY, IGNORED = "Assistant/Respond", "Assistant/Notify", "Assistant/Ignored"
CLASSES = {"Ignored": "ignore", "Shown": "notify", "Answered": "respond"}


@pytest.fixture
def model(model: Model) -> Model:
    model.on_triage(lambda request: CLASSES.get(request.mail.subject.removeprefix("Re: "), "respond"))
    model.script(lambda _: [reply("Fine."), DONE])
    return model


async def corrections(home: Home) -> list[tuple[str, str, str]]:
    rows = await home.sql("select by, was, classification from corrections order by at")
    return [(row["by"], row["was"], row["classification"]) for row in rows]


async def rules(home: Home) -> list[str]:
    await home.works.learn(home.account_id)
    return [rule.text for rule in await home.app.memory.rules(home.account_id, "triage_preferences")]


async def correct(home: Home, mail_id: str, classification: Any) -> None:
    await home.app.corrections.correct(home.app.user_id, mail_id, classification, "test")
    await home.carry_on()


async def look(home: Home) -> None:
    """The mailbox is looked at, and all that follows is done."""
    await home.sync()
    await home.carry_on()


async def switch(home: Home, mode: Mode) -> None:
    app = home.app
    await app.inbox.set_mode(app.accounts, await home.account(), mode)


async def no_back_off(home: Home) -> None:
    await home.sql("update threads set label_after = '-infinity'")


class TestShown:
    async def test_each_mail_gets_the_label_of_its_class_at_its_price(
        self, home: Home, google: Google, model: Model
    ) -> None:
        await home.receive("Ignored")  # finds and makes the labels
        for subject, label in (("Ignored", IGNORED), ("Shown", NOTIFY)):
            before = len(google.calls())
            mail_id = await home.receive(subject)
            assert google.labels_of(mail_id) == {label}
            assert google.units(google.calls()[before:]) == 27
        before = len(google.calls())
        mail_id = await home.receive("Answered")
        assert google.labels_of(mail_id) == {RESPOND}
        assert google.units(google.calls()[before:]) == 27
        [item] = [item for item in await home.pending() if item.kind == "draft"]
        before = len(google.calls())
        await home.answer(item, "accept")
        effects = {
            "history.list",
            "threads.get",
            "messages.get",
            *(f"drafts.{did}" for did in ("list", "create", "get", "send")),
        }
        spent = [call for call in google.calls()[before:] if call.name not in effects]
        assert google.units(spent) == 32 - 27
        await look(home)  # our own changes come back
        before = len(google.calls())
        await look(home)
        assert [call.name for call in google.calls()[before:]] == ["history.list"]
        assert len(google.calls("labels.list")) == 1
        assert await corrections(home) == []

    async def test_every_mail_of_a_conversation_gets_its_own(self, home: Home, google: Google, model: Model) -> None:
        CLASSES["Thanks"] = "ignore"
        first = await home.receive("Answered")
        second = google.deliver(BOB, "Thanks", "Bye.", thread=first)
        await look(home)
        assert (google.labels_of(first), google.labels_of(second)) == ({RESPOND}, {IGNORED})

    async def test_an_answer_comes_before_the_rest_of_them(self, home: Home, google: Google, model: Model) -> None:
        first = google.deliver(BOB, "Ignored", "Hello.")
        for subject in ("Re: Ignored", "Re: Answered"):
            google.deliver(BOB, subject, "Hello.", thread=first)
        hold = Hold()
        google.fault("messages.modify", hold=hold)
        await home.sync()
        [due] = await home.works.due.due()
        slow = asyncio.create_task(home.works.driver.advance(due.id))
        await reached(hold)
        [draft] = [item for item in await home.pending() if item.kind == "draft"]
        await home.decide(draft, "accept")
        hold.release()
        await slow
        kinds = [call.name for call in google.calls() if call.name in ("messages.modify", "drafts.send")]
        assert kinds[:2] == ["messages.modify", "drafts.send"]
        assert google.labels_of(first) == {IGNORED}

    async def test_while_none_can_be_set_who_writes_again_does_not_wait(
        self, home: Home, google: Google, model: Model
    ) -> None:
        first = await home.receive("Answered")
        [draft] = await home.pending()
        google.fault("messages.modify", status=503, times=99)
        await home.decide(draft, "accept")
        await home.step()
        assert len(google.sent) == 1
        assert (await home.item(draft)).state == "approved"
        second = google.deliver(BOB, "Re: Answered", "And Monday?", thread=first)
        await home.sync()
        for _ in range(3):
            await home.sql("update threads set not_before = '-infinity'")
            await home.step()
        assert (await home.mail(second)).classification == "respond"
        assert [item.mail_id for item in await home.pending()] == [second]

    async def test_labels_that_are_there_are_used(self, home: Home, google: Google, model: Model) -> None:
        google.label("assistant/respond")
        mail_id = await home.receive("Answered")
        assert google.labels_of(mail_id) == {"assistant/respond"}

    async def test_conversations_that_make_them_at_once_do_not_hinder_each_other(
        self, home: Home, google: Google, model: Model
    ) -> None:
        mails = [google.deliver(BOB, "Ignored", f"Number {n}.") for n in range(2)]
        await home.sync()
        first, second = await home.works.due.due()
        hold = Hold()
        google.fault("labels.create", hold=hold)
        slow = asyncio.create_task(home.works.driver.advance(first.id))
        await reached(hold)
        await home.works.driver.advance(second.id)
        hold.release()
        await slow
        assert [google.labels_of(mail_id) for mail_id in mails] == [{IGNORED}] * 2

    async def test_a_label_that_the_person_deleted_is_made_again(
        self, home: Home, google: Google, model: Model
    ) -> None:
        await home.receive("Ignored")
        google.person_deletes_label(IGNORED)
        mail_id = await home.receive("Ignored")
        assert google.labels_of(mail_id) == {IGNORED}

    async def test_mail_from_before_and_what_is_turned_off_get_none(
        self, open_home: OpenHome, google: Google, model: Model
    ) -> None:
        async with open_home(labels=False) as home:
            mail_id = await home.receive("Ignored")
            assert await home.works.is_idle()
            assert google.calls("messages.modify", "labels.list") == []
        async with open_home(label_ignored="Quiet") as home:
            await home.carry_on()
            assert google.labels_of(mail_id) == {"Quiet"}
            await home.sql("update mails set labelled = null, triaged_at = triaged_at - interval '8 days'")
            before = len(google.calls("messages.modify"))
            await home.carry_on()
            assert len(google.calls("messages.modify")) == before

    async def test_in_shadow_mode_none_is_set(self, home: Home, google: Google, model: Model) -> None:
        await switch(home, "shadow")
        mail_id = await home.receive("Ignored")
        assert await home.works.is_idle()
        assert google.calls("messages.modify", "labels.list") == []
        await switch(home, "send")
        await home.carry_on()
        assert google.labels_of(mail_id) == {IGNORED}


class TestFaults:
    async def test_an_answer_that_was_lost_and_a_crash_only_delay_it(
        self, home: Home, google: Google, model: Model
    ) -> None:
        google.fault("messages.modify", drop="after")
        mail_id = await home.receive("Ignored")
        assert google.labels_of(mail_id) == {IGNORED}
        assert not await home.works.is_idle()
        await look(home)  # history shows a label that we don't know to be there
        await no_back_off(home)
        await look(home)
        assert await home.works.is_idle()
        assert await corrections(home) == []

    async def test_an_outage_holds_up_neither_mail_nor_a_decision(
        self, home: Home, google: Google, model: Model
    ) -> None:
        google.fault("labels.list", status=503, times=99)
        mail_id = await home.receive("Answered")
        [item] = await home.pending()
        await home.answer(item, "accept")
        assert [sent.text for sent in google.sent] == ["Fine."]
        assert await home.is_done(mail_id)
        assert len(google.calls("labels.list")) == 1  # it backs off
        assert google.labels_of(mail_id) == set()

    async def test_a_model_that_is_down_holds_up_no_label(self, home: Home, google: Google, model: Model) -> None:
        first = google.deliver(BOB, "Answered", "Does Friday suit you?")
        model.fault("response", status=503, times=99)
        await home.sync()
        await home.step()
        assert google.labels_of(first) == {RESPOND}
        model.clear_faults()

    async def test_a_mail_that_is_gone_is_given_up(self, home: Home, google: Google, model: Model) -> None:
        google.fault("messages.modify", status=404, reason="notFound")
        mail_id = await home.receive("Ignored")
        [row] = await home.sql("select labelled, state from mails where gmail_id = %s", mail_id)
        assert (row["labelled"], row["state"]) == ("none", "done")
        assert await home.works.is_idle()


class TestMoved:
    async def test_a_mail_moved_to_another_label_is_worked_on_anew_and_that_teaches_once(
        self, home: Home, google: Google, model: Model
    ) -> None:
        mail_id = await home.receive("Ignored")
        await look(home)
        google.person_relabels(mail_id, add=(RESPOND,), remove=(IGNORED,))
        before = len(google.calls())

        await look(home)

        assert (await home.mail(mail_id)).classification == "respond"
        [item] = await home.pending()
        assert (item.kind, item.mail_id) == ("draft", mail_id)
        assert [call.name for call in google.calls()[before:]] == ["history.list", "messages.get"]
        assert await corrections(home) == [("gmail", "ignore", "respond")]
        for _ in range(2):
            await look(home)
            assert await rules(home) == ["Mail from bob@example.org is to be answered (respond)."]
        [rule] = await home.app.memory.history(home.account_id, "triage_preferences")
        assert (rule.version, rule.origin["by"], rule.origin["mail"]) == (1, "gmail", mail_id)

    async def test_a_label_that_is_only_added_takes_the_others_place(
        self, home: Home, google: Google, model: Model
    ) -> None:
        mail_id = await home.receive("Answered")
        google.person_relabels(mail_id, add=(IGNORED,))
        await look(home)
        assert google.labels_of(mail_id) == {IGNORED}
        assert await home.pending() == []
        assert (await home.mail(mail_id)).state == "done"
        assert await corrections(home) == [("gmail", "respond", "ignore")]

    async def test_a_mail_that_the_move_took_out_of_the_inbox_is_worked_on_all_the_same(
        self, home: Home, google: Google, model: Model
    ) -> None:
        mail_id = await home.receive("Shown")
        google.person_moves(mail_id, out_of=("INBOX",))
        google.person_relabels(mail_id, add=(RESPOND,), remove=(NOTIFY,))
        await look(home)
        [item] = await home.pending()
        assert (item.kind, item.mail_id) == ("draft", mail_id)

    async def test_taking_a_label_off_says_nothing(self, home: Home, google: Google, model: Model) -> None:
        mail_id = await home.receive("Ignored")
        google.person_relabels(mail_id, remove=(IGNORED,))
        await look(home)
        google.person_relabels(mail_id, add=(IGNORED,))
        before = len(google.calls())
        await look(home)
        assert [call.name for call in google.calls()[before:]] == ["history.list"]
        assert await corrections(home) == []

    async def test_what_the_person_took_back_before_it_was_read_says_nothing(
        self, home: Home, google: Google, model: Model
    ) -> None:
        mail_id = await home.receive("Ignored")
        google.person_relabels(mail_id, add=(RESPOND,))
        google.person_relabels(mail_id, remove=(RESPOND,))
        await look(home)
        assert await corrections(home) == []
        assert await home.works.is_idle()

    async def test_our_own_labels_never_teach_however_late_they_are_read(
        self, home: Home, google: Google, model: Model
    ) -> None:
        mail_id = await home.receive("Ignored")
        [cursor] = await home.sql("select history_id from accounts")
        google.fault("messages.modify", drop="after")
        await correct(home, mail_id, "notify")  # Gmail did it, and we don't know
        await correct(home, mail_id, "ignore")
        await look(home)
        await no_back_off(home)
        await home.carry_on()
        assert google.labels_of(mail_id) == {IGNORED}
        for _ in range(2):
            await home.sql("update accounts set history_id = %s", cursor["history_id"])
            await look(home)
        assert google.labels_of(mail_id) == {IGNORED}
        assert [by for by, _, _ in await corrections(home)] == ["test", "test"]

    async def test_a_decision_comes_first_and_the_correction_after_it(
        self, open_home: OpenHome, google: Google, model: Model
    ) -> None:
        async with open_home(undo_seconds=60) as home:
            mail_id = await home.receive("Answered")
            [item] = await home.pending()
            await home.decide(item, "accept")
            google.person_relabels(mail_id, add=(IGNORED,), remove=(RESPOND,))
            await look(home)
            assert (await home.item(item)).status == "decided"
            assert await corrections(home) == []
            await home.sql("update inbox_items set undo_until = clock_timestamp()")
            await home.carry_on()
            assert [sent.text for sent in google.sent] == ["Fine."]
            assert (await home.item(item)).status == "applied"
            assert await corrections(home) == [("gmail", "respond", "ignore")]

    async def test_a_conversation_that_is_moved_as_a_whole_is_answered_once(
        self, home: Home, google: Google, model: Model
    ) -> None:
        first = await home.receive("Ignored")
        second = await home.receive("Ignored", thread=first)
        for mail_id in (first, second):
            google.person_relabels(mail_id, add=(RESPOND,), remove=(IGNORED,))
        await look(home)
        assert len(await corrections(home)) == 2
        assert len(await home.pending()) == len(model.calls("response")) == 1

    async def test_an_outage_keeps_the_correction(self, home: Home, google: Google, model: Model) -> None:
        mail_id = await home.receive("Ignored")
        google.person_relabels(mail_id, add=(NOTIFY,))
        google.fault("messages.get", status=503)
        await look(home)
        assert await corrections(home) == []
        assert not await home.works.is_idle()
        await no_back_off(home)
        await home.carry_on()
        assert await corrections(home) == [("gmail", "ignore", "notify")]


class TestLearned:
    async def test_a_correction_that_is_taken_back_teaches_nothing(
        self, home: Home, google: Google, model: Model
    ) -> None:
        other = await home.receive("Ignored")
        await correct(home, other, "notify")
        learned = await rules(home)
        mail_id = await home.receive("Ignored")
        await correct(home, mail_id, "respond")
        assert await rules(home) == []  # it contradicts the other
        assert len(await home.app.memory.held.page(home.app.user_id)) == 1
        await correct(home, mail_id, "notify")  # as the rule had it
        assert await rules(home) == learned == ["Mail from bob@example.org is to be shown, not answered (notify)."]
        assert await home.app.memory.held.page(home.app.user_id) == []
        await correct(home, other, "ignore")
        assert await rules(home) == []

    async def test_it_is_learned_when_a_process_died_before(self, home: Home, google: Google, model: Model) -> None:
        mail_id = await home.receive("Ignored")
        await correct(home, mail_id, "respond")
        assert not await home.works.is_idle()
        await rules(home)
        await home.sql("update corrections set learned_at = null")  # it died before it could store that
        await rules(home)
        [rule] = await home.app.memory.history(home.account_id, "triage_preferences")
        assert rule.version == 1
        assert await home.works.is_idle()
