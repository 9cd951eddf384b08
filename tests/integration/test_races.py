"""Two things at once, or one thing at a bad moment: mail, a person, a fault or a restart comes while work is under way.

The program's parts are driven in this process, one step at a time, so that what comes in between comes at an exact
place; where the queue, the sweep or the end of the process matters, they run by themselves. Google and the model are
doubles that speak the real protocols.
"""

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row

from email_assistant.db.pool import session_settings
from email_assistant.google.errors import Refused, Transient
from email_assistant.inbox.items import Conflict, Item
from tests.doubles.google import Google
from tests.doubles.model import Model, ModelRequest
from tests.doubles.serving import Hold
from tests.integration.conftest import Start
from tests.integration.home import Home, OpenHome, in_one_loop, log_in, reached, until
from tests.integration.scene import ADA, BOB, DONE, meeting, reply

APPROVED_TEXT = "The person had approved this text"
"""How the prompt offers a text to start from."""

OPEN_LEASES = "select count(*) as n from threads where lease_until > clock_timestamp()"
TRIES = "select tries from mails where not own"


def mail_texts(request: ModelRequest) -> list[str]:
    return [mail.text.strip() for mail in request.mails]


LIST = {"List-Id": "<tea.example.net>", "Precedence": "list"}


@in_one_loop
class TestMailThatComesMeanwhile:
    """Nothing that arrives at a bad moment is swallowed."""

    @pytest.fixture
    def old_thread(self, google: Google) -> str:
        """A conversation from before the account was watched, and further back than the first listing goes."""
        return google.deliver(BOB, "Plan", "What we said long ago.", age=timedelta(days=20))

    async def test_while_earlier_mails_are_fetched_it_is_triaged_and_answered(
        self, home: Home, google: Google, model: Model, old_thread: str
    ) -> None:
        model.script(lambda request: [reply(f"On: {mail_texts(request)[-1]}"), DONE])
        first = google.deliver(BOB, "Re: Plan", "Still on?", thread=old_thread)
        await home.sync()
        hold = Hold()
        google.fault("threads.get", hold=hold)
        working = asyncio.create_task(home.step())
        await reached(hold)
        second = google.deliver(BOB, "Re: Plan", "No: where to?", thread=old_thread)
        hold.release()
        await working
        [superseded] = await home.pending()

        await home.sync()
        await home.carry_on()

        assert (await home.item(superseded)).status == "superseded"
        [item] = await home.pending()
        assert (item.mail_id, item.args["response_text"]) == (second, "On: No: where to?")
        assert [request.mail.id for request in model.calls("triage")] == [first, second]
        assert mail_texts(model.calls("response")[-1]) == ["What we said long ago.", "Still on?", "No: where to?"]
        await home.answer(item, "accept")
        assert [(await home.mail(mail_id)).state for mail_id in (first, second)] == ["done", "done"]
        assert len(google.sent) == 1

    async def test_the_persons_own_answer_in_that_moment_supersedes_the_draft(
        self, home: Home, google: Google, model: Model, old_thread: str
    ) -> None:
        model.script([[reply("Yes."), DONE]])
        first = google.deliver(BOB, "Re: Plan", "Still on?", thread=old_thread)
        await home.sync()
        hold = Hold()
        google.fault("threads.get", hold=hold)
        working = asyncio.create_task(home.step())
        await reached(hold)
        google.person_sends(old_thread, "I answered this by hand.")
        hold.release()
        await working
        [item] = await home.pending()

        await home.sync()
        await home.carry_on()

        assert (await home.item(item)).status == "superseded"
        mail = await home.mail(first)
        assert (mail.state, mail.reason) == ("done", "you answered this yourself")
        assert google.sent == google.drafts == []

    @pytest.mark.parametrize("polled_before", [False, True])
    async def test_what_the_person_answered_before_it_was_seen_gets_no_draft(
        self, home: Home, google: Google, model: Model, polled_before: bool
    ) -> None:
        if polled_before:
            await home.sync()
        mail_id = google.deliver(BOB, "Lunch?", "Does Friday suit you?")
        google.person_sends(mail_id, "Friday it is.")
        await home.sync()
        await home.carry_on()
        mail = await home.mail(mail_id)
        assert (mail.state, mail.reason) == ("done", "you answered this yourself")
        assert await home.items() == []
        assert model.requests == []

    @pytest.mark.parametrize("classification", ["notify", "respond"])
    async def test_automatic_mail_beside_a_question_leaves_it_its_draft(
        self, home: Home, google: Google, model: Model, classification: str
    ) -> None:
        model.on_triage({"Lunch?": "respond", "Re: Lunch?": classification})
        model.script([[reply("Friday is fine."), DONE]])
        asked = google.deliver(BOB, "Lunch?", "Does Friday suit you?")

        await home.receive("Re: Lunch?", "I am away.", thread=asked, headers={"Auto-Submitted": "auto-replied"})

        [item] = await home.pending()
        assert (item.kind, item.mail_id) == ("draft", asked)

    @pytest.mark.parametrize("classification", ["notify", "respond"])
    async def test_automatic_mail_leaves_a_draft_that_waits_alone(
        self, home: Home, google: Google, model: Model, classification: str
    ) -> None:
        model.script([[reply("Friday is fine."), DONE]])
        asked = await home.receive()
        [item] = await home.pending()
        model.on_triage(classification)

        automatic = await home.receive(
            "Re: Lunch?", "I am away.", thread=asked, headers={"Auto-Submitted": "auto-replied"}
        )

        [waits] = await home.pending()
        assert (waits.id, waits.args) == (item.id, item.args)
        assert [(each["id"], each["classification"]) for each in waits.newer] == [(automatic, "notify")]
        assert (await home.mail(automatic)).state == "waiting"
        await home.answer(item, "accept")
        assert [sent.text for sent in google.sent] == ["Friday is fine."]
        assert await home.is_done(automatic)

    @pytest.mark.parametrize("headers", [LIST, {"Auto-Submitted": "auto-generated"}], ids=["list", "automatic"])
    @pytest.mark.parametrize("answer", ["ignore", "accept"])
    async def test_a_question_by_a_list_is_seen_whatever_waits(
        self, home: Home, google: Google, model: Model, headers: dict[str, str], answer: str
    ) -> None:
        model.script([[reply("Friday is fine."), DONE]])
        asked = await home.receive()
        by_list = await home.receive(
            "Re: Lunch?", "Which room?", thread=asked, headers=headers, from_="Ben <ben@example.net>"
        )
        [item] = await home.pending()
        assert [(each["id"], each["classification"]) for each in item.newer] == [(by_list, "notify")]
        await home.answer(item, answer)
        notices = [each.mail_id for each in await home.pending()]
        assert notices == ([by_list] if answer == "ignore" else [])

    @pytest.mark.parametrize("answer", ["accept", "ignore"])
    async def test_who_asked_before_somebody_else_did_is_answered_too(
        self, home: Home, google: Google, model: Model, answer: str
    ) -> None:
        model.script(
            [
                [reply("Yes.")],
                [reply("The keys are here.", email_address="ted@example.net"), DONE],
                [reply("Yes."), DONE],
            ]
        )
        asked = await home.receive("Fair", "Do you come to the fair?")
        await home.receive("Re: Fair", "And the keys?", thread=asked, from_="Ted <ted@example.net>")
        [item] = await home.pending()
        assert item.args["email_address"] == "ted@example.net"
        await home.answer(item, answer)
        [again] = await home.pending()
        assert (again.mail_id, again.args["email_address"]) == (asked, "bob@example.org")
        await home.answer(again, "accept")
        assert await home.pending() == []

    async def test_whom_the_answer_to_another_reached_is_answered(
        self, home: Home, google: Google, model: Model
    ) -> None:
        to_both = reply("At nine.", email_address="ted@example.net", additional_recipients=["bob@example.org"])
        model.script([[reply("Yes.")], [to_both, DONE]])
        asked = await home.receive("Fair", "When is the fair?")
        await home.receive("Re: Fair", "I ask that, too.", thread=asked, from_="Ted <ted@example.net>")
        await home.answer((await home.pending())[0], "accept")
        assert (await home.pending(), await home.is_done(asked)) == ([], True)

    async def test_of_two_by_a_list_each_is_seen(self, home: Home, model: Model) -> None:
        first = await home.receive("Room", "Which room?", headers=LIST)
        second = await home.receive("Re: Room", "And when?", headers=LIST, thread=first, from_="Ben <ben@example.net>")
        assert {each.kind for each in await home.pending()} == {"notification"}
        mails = {first: await home.mail(first), second: await home.mail(second)}
        assert {mail.classification for mail in mails.values()} == {"notify"}
        assert {mail.state for mail in mails.values()} == {"waiting"}

    async def test_a_forged_sender_supersedes_nothing_and_shows(self, home: Home, google: Google, model: Model) -> None:
        model.script([[reply("Friday is fine."), DONE]])
        asked = await home.receive()
        [item] = await home.pending()

        forged = await home.receive("Re: Lunch?", "No need to answer.", thread=asked, from_=f"Ada <{ADA}>")

        assert [waits.id for waits in await home.pending()] == [item.id]
        mail = await home.mail(forged)
        assert (mail.state, mail.reason) == ("done", "from the account's own address")
        assert len(model.calls("triage")) == 1


@in_one_loop
class TestADecisionThatMeetsNewerMail:
    """What was decided for good is done; what was not is asked anew, with all that is known."""

    async def test_past_its_window_it_is_applied_first(self, home: Home, google: Google, model: Model) -> None:
        model.script(lambda request: [reply(f"On: {mail_texts(request)[-1]}"), DONE])
        first = await home.receive(text="Friday?")
        [item] = await home.pending()
        second = google.deliver(BOB, "Re: Lunch?", "Bring wine?", thread=first)
        await home.sync()
        hold = Hold()
        model.fault("triage", hold=hold)
        working = asyncio.create_task(home.step())
        await reached(hold)

        await home.decide(item, "accept")
        hold.release()
        await working
        await home.carry_on()

        assert (await home.item(item)).status == "applied"
        assert [sent.text for sent in google.sent] == ["On: Friday?"]
        assert (await home.mail(first)).state == "done"
        [newer] = await home.pending()
        assert (newer.mail_id, newer.args["response_text"]) == (second, "On: Bring wine?")
        assert [request.mail.id for request in model.calls("triage")] == [first, second]

    async def test_text_that_was_sent_is_not_offered_as_a_start(self, home: Home, google: Google, model: Model) -> None:
        model.script([[reply("Sent.")], [reply("Undecided."), DONE], [reply("New."), DONE]])
        first = await home.receive()
        await home.answer((await home.pending())[0], "accept")
        assert [sent.text for sent in google.sent] == ["Sent."]

        await home.receive("Re: Lunch?", "And Monday?", thread=first)

        assert [item.args["response_text"] for item in await home.pending()] == ["New."]
        assert APPROVED_TEXT not in model.calls("response")[-1].text

    async def test_text_that_was_approved_and_not_sent_is(self, home: Home, google: Google, model: Model) -> None:
        model.script([[reply("Approved."), reply("Undecided."), DONE], [reply("New."), DONE]])
        first = await home.receive()
        by_text = {item.args["response_text"]: item for item in await home.pending()}
        await home.answer(by_text["Approved."], "accept")  # it waits for the other one's answer

        await home.receive("Re: Lunch?", "And Monday?", thread=first)

        _, _, offered = model.calls("response")[-1].text.partition(APPROVED_TEXT)
        assert "Approved." in offered
        assert "Undecided." not in offered
        assert google.sent == []

    async def test_an_older_mail_that_is_retried_joins_the_newest(
        self, home: Home, google: Google, model: Model
    ) -> None:
        model.fault("*", status=400, times=3)  # once for each form in which a class may be asked for
        model.script(lambda request: [reply(" ".join(mail_texts(request))), DONE])
        first = await home.receive(text="First?")
        assert (await home.mail(first)).state == "failed"
        second = await home.receive("Re: Lunch?", "Second?", thread=first)
        [item] = await home.pending()
        assert item.mail_id == second

        await home.app.corrections.retry(home.app.user_id, first)
        await home.carry_on()

        assert (await home.item(item)).status == "superseded"
        [newer] = await home.pending()
        assert (newer.mail_id, newer.args["response_text"]) == (second, "First? Second?")
        await home.answer(newer, "accept")
        assert [(await home.mail(mail_id)).state for mail_id in (first, second)] == ["done", "done"]
        assert len(google.sent) == 1

    async def test_feedback_on_one_draft_counts_though_the_other_was_ignored(
        self, home: Home, google: Google, model: Model
    ) -> None:
        model.script([[reply("One."), reply("Two.")], [reply("Mieux."), DONE]])
        await home.receive()
        by_text = {item.args["response_text"]: item for item in await home.pending()}

        await home.answer(by_text["One."], "response", "Say it in French.")
        await home.answer(by_text["Two."], "ignore")

        assert "Say it in French." in model.calls("response")[1].tool_results[0]
        assert [item.args["response_text"] for item in await home.pending()] == ["Mieux."]
        assert google.sent == []


@in_one_loop
class TestAnEffectInDoubt:
    """A person's word comes first, and Google is asked once more before it is acted on."""

    @pytest.mark.parametrize("shows_up", [True, False])
    async def test_when_accepted_it_is_looked_for_once_more_and_happens_once(
        self, home: Home, google: Google, model: Model, shows_up: bool
    ) -> None:
        model.script([[reply("Friday is fine."), DONE]])
        mail_id = await home.receive()
        doubt, raw = await lose_the_draft(home, google)
        if shows_up:
            google.send(raw, mail_id)  # it went out after all
            await home.sync()
        looked = len(google.calls("threads.get"))

        await home.answer(doubt, "accept")

        assert len(google.calls("threads.get")) > looked
        assert [sent.text for sent in google.sent] == ["Friday is fine."]
        assert len(google.calls("drafts.create")) == (1 if shows_up else 2)
        assert (await home.mail(mail_id)).state == "done"
        assert await home.pending() == []
        assert google.drafts == []

    async def test_a_mail_that_was_sent_before_with_the_same_text_is_not_taken_for_it(
        self, home: Home, google: Google, model: Model
    ) -> None:
        model.script(lambda _: [reply("That is fine."), DONE])
        first = await home.receive(text="Friday?")
        [item] = await home.pending()
        await home.answer(item, "accept")
        await home.receive("Re: Lunch?", "At noon?", thread=first)

        await lose_the_draft(home, google)  # and it is in doubt

        assert [sent.text for sent in google.sent] == ["That is fine."]

    async def test_new_mail_beside_it_waits_quietly_and_is_handled_afterwards(
        self, home: Home, google: Google, model: Model
    ) -> None:
        model.script(lambda request: [reply(f"On: {mail_texts(request)[-1]}"), DONE])
        first = await home.receive(text="Friday?")
        doubt, _ = await lose_the_draft(home, google)
        second = google.deliver(BOB, "Re: Lunch?", "Bring wine?", thread=first)
        await home.sync()
        [before] = await home.sql("select epoch from threads")  # each lease that is taken raises it

        async with home.at_work():
            polls = len(google.calls("history.list"))
            await until(lambda: len(google.calls("history.list")) >= polls + 8)

        assert await home.sql("select epoch from threads") == [before]
        assert (await home.mail(second)).state == "new"
        await home.answer(doubt, "ignore")
        assert google.sent == []
        [item] = await home.pending()
        assert (item.mail_id, item.args["response_text"]) == (second, "On: Bring wine?")


async def lose_the_draft(home: Home, google: Google) -> tuple[Item, bytes]:
    """Accept the reply that waits, and let its draft vanish as it is about to be sent.

    Returns:
        What the person is asked then, and the draft as it was.
    """
    [item] = await home.pending()
    hold = Hold()
    google.fault("drafts.send", hold=hold)
    accepted = asyncio.create_task(home.answer(item, "accept"))
    await reached(hold)
    [draft] = google.drafts
    google.person_deletes(draft.id)
    hold.release()
    await accepted
    [doubt] = await home.pending()
    assert doubt.kind == "in_doubt"
    return doubt, draft.raw


@in_one_loop
class TestAFaultOfGoogle:
    """It costs nothing that was approved and nothing that came in; it shows where a person looks."""

    @pytest.mark.parametrize(("status", "reason"), [(403, "forbidden"), (400, "failedPrecondition")])
    async def test_a_mailbox_that_cannot_be_read_delays_what_was_approved(
        self, home: Home, google: Google, model: Model, status: int, reason: str
    ) -> None:
        model.script([[reply("Friday is fine."), DONE]])
        mail_id = await home.receive()
        [item] = await home.pending()
        await home.decide(item, "accept")
        google.fault("history.list", status=status, reason=reason)

        await home.step()

        assert (await home.item(item)).status == "decided"
        assert (await home.mail(mail_id)).state == "waiting"
        assert google.calls("drafts.create") == []
        await home.carry_on()
        assert (await home.item(item)).status == "applied"
        assert [sent.text for sent in google.sent] == ["Friday is fine."]
        assert (await home.mail(mail_id)).state == "done"

    async def test_one_mail_that_gmail_does_not_give_shows_and_holds_nothing_up(
        self, home: Home, google: Google, model: Model
    ) -> None:
        model.script(lambda request: [reply(f"On: {mail_texts(request)[-1]}"), DONE])
        approved = await home.receive(text="Friday?")
        [item] = await home.pending()
        bad = google.deliver(BOB, "Bad", "Gmail can't read this.")
        google.fault("messages.get", status=400, reason="failedPrecondition")
        await home.sync()
        await home.answer(item, "accept")
        good = await home.receive("Good", "Monday?")

        assert (await home.item(item)).status == "applied"
        assert [sent.text for sent in google.sent] == ["On: Friday?"]
        assert {mail.id: mail.state for mail in await home.mails()} == {
            approved: "done",
            bad: "failed",
            good: "waiting",
        }
        assert "Gmail does not give this mail" in await home.reason(bad)
        assert [item.mail_id for item in await home.pending()] == [good]

    async def test_one_mail_that_gmail_fails_to_give_holds_up_no_other_and_is_asked_for_again(
        self, open_home: OpenHome, google: Google, model: Model
    ) -> None:
        model.script(lambda request: [reply(f"On: {mail_texts(request)[-1]}"), DONE])
        async with open_home(max_tries=2) as home:
            bad = google.deliver(BOB, "Bad", "Gmail stumbles over this.")
            good = google.deliver(BOB, "Good", "Monday?")
            fault = google.fault("messages.get", about=bad, status=500, times=10**6)

            with pytest.raises(Transient, match="does not give 1 of the new mails"):
                await home.sync()
            assert [mail.id for mail in await home.mails()] == [good]
            await home.sync()
            await home.carry_on()

            assert [(mail.id, mail.state) for mail in await home.mails()] == [(bad, "failed"), (good, "waiting")]
            assert "Gmail does not give this mail (Google answered 500)" in await home.reason(bad)
            tries = len(google.calls("messages.get"))
            await home.sync()
            assert len(google.calls("messages.get")) == tries
            await self._later(home)
            await home.sync()
            assert (await home.mail(bad)).state == "failed"

            fault.times = 0
            await home.sync()
            assert (await home.mail(bad)).state == "failed"  # each time it is left alone for longer
            await self._later(home)
            await home.sync()
            await home.carry_on()

            mail = await home.mail(bad)
            assert (mail.subject, mail.state) == ("Bad", "waiting")
            assert {item.mail_id: item.args["response_text"] for item in await home.pending()} == {
                good: "On: Monday?",
                bad: "On: Gmail stumbles over this.",
            }

    async def test_a_mail_alone_that_gmail_fails_to_give_keeps_no_news_back(
        self, open_home: OpenHome, google: Google, model: Model
    ) -> None:
        model.script([[reply("Yes."), DONE]])
        async with open_home(max_tries=1) as home:
            old = await home.receive()
            bad = google.deliver(BOB, "Bad", "Gmail stumbles over this.")
            google.fault("messages.get", about=bad, status=500, times=10**6)
            google.person_relabels(old, remove=["INBOX"])

            await home.sync()
            await home.carry_on()

            assert {mail.id: mail.state for mail in await home.mails()} == {bad: "failed", old: "done"}

    async def test_a_mail_that_is_deleted_before_gmail_gives_it_is_told_as_such(
        self, open_home: OpenHome, google: Google, model: Model
    ) -> None:
        model.on_triage("ignore")
        async with open_home(max_tries=1) as home:
            await home.receive()
            bad = google.deliver(BOB, "Bad", "Gmail stumbles over this.")
            google.fault("messages.get", about=bad, status=500)
            await home.sync()
            assert (await home.mail(bad)).state == "failed"
            google.person_deletes(bad)
            await self._later(home)

            await home.sync()

            assert (await home.mail(bad)).state == "done"
            assert "deleted in Gmail" in await home.reason(bad)

    @staticmethod
    async def _later(home: Home) -> None:
        await home.sql("update mails set received_at = received_at - interval '80 seconds' where not readable")

    async def test_while_gmail_gives_no_mail_at_all_none_is_set_aside(
        self, open_home: OpenHome, google: Google, model: Model
    ) -> None:
        model.on_triage("ignore")
        async with open_home(max_tries=1) as home:
            known = await home.receive()
            fault = google.fault("messages.get", status=500, times=10**6)
            new = google.deliver(BOB, "Good", "Monday?")
            before = (await home.account()).history_id
            for _ in range(3):
                with pytest.raises(Transient, match="gives no mail at the moment"):
                    await home.sync()
            assert [mail.id for mail in await home.mails()] == [known]
            assert (await home.account()).history_id == before

            fault.times = 0
            await home.sync()

            assert [mail.id for mail in await home.mails()] == [new, known]

    async def test_a_refusal_that_is_not_about_one_mail_passes_none_by(
        self, home: Home, google: Google, model: Model
    ) -> None:
        model.script(lambda request: [reply("Yes."), DONE])
        fault = google.fault("messages.get", status=403, reason="insufficientPermissions", times=99)
        delivered = [google.deliver(BOB, f"Question {n}", "Well?") for n in range(2)]
        with pytest.raises(Refused):  # by the first of two requests: the other may not have been sent yet
            await home.sync()
        assert await home.mails() == []
        fault.times = 0

        await home.sync()
        await home.carry_on()

        assert {mail.id: mail.state for mail in await home.mails()} == dict.fromkeys(delivered, "waiting")

    async def test_a_mail_that_gmail_does_not_give_is_never_answered_blind(
        self, home: Home, google: Google, model: Model
    ) -> None:
        google.fault("messages.get", status=400, reason="failedPrecondition")
        mail_id = await home.receive(text="Friday?")

        with pytest.raises(Conflict, match="open it in Gmail"):
            await home.app.corrections.retry(home.app.user_id, mail_id)

        assert (await home.mail(mail_id)).state == "failed"
        assert model.calls() == []

    async def test_after_the_conversation_was_taken_over_nothing_is_triaged_again_or_lost(
        self, home: Home, google: Google, model: Model
    ) -> None:
        verdicts = ["respond", "respond"]
        model.on_triage(lambda _: verdicts.pop(0) if verdicts else "ignore")
        model.script(lambda request: [reply(" ".join(mail_texts(request))), DONE])
        old = google.deliver(BOB, "Plan", "Long ago.", age=timedelta(days=20))
        first = google.deliver(BOB, "Re: Plan", "First?", thread=old)
        second = google.deliver(BOB, "Re: Plan", "Second?", thread=old)
        google.fault("threads.get", status=503)
        await home.sync()

        await home.step()
        assert "waiting: " in await home.reason(second)
        await home.carry_on()

        [item] = await home.pending()
        assert (item.mail_id, item.args["response_text"]) == (second, "Long ago. First? Second?")
        assert [(await home.mail(mail_id)).state for mail_id in (first, second)] == ["waiting", "waiting"]
        assert [request.mail.id for request in model.calls("triage")] == [first, second]
        await home.answer(item, "accept")
        assert [(await home.mail(mail_id)).state for mail_id in (first, second)] == ["done", "done"]

    async def test_while_the_calendar_is_down_mail_comes_in(self, home: Home, google: Google, model: Model) -> None:
        for name in ("settings.get", "calendar*", "events.*", "freebusy.query"):
            google.fault(name, status=503, times=1000)
        model.script([[reply("Friday is fine."), DONE]])
        mail_id = await home.receive()
        assert google.calls("settings.get")  # the fault was met
        assert [item.mail_id for item in await home.pending()] == [mail_id]

    async def test_a_conversation_deleted_before_its_answer_is_accepted_ends_plainly(
        self, home: Home, google: Google, model: Model
    ) -> None:
        model.script([[reply("Friday is fine.")], [DONE]])
        mail_id = await home.receive()
        google.person_deletes(mail_id)

        await home.answer((await home.pending())[0], "accept")

        [again] = await home.pending()
        assert "no longer in the mailbox" in (again.asked_because or "")
        assert len(model.calls("response")) == 1
        await home.answer(again, "ignore")
        assert google.sent == google.drafts == []
        assert (await home.mail(mail_id)).state == "done"

    async def test_a_login_that_was_revoked_works_again_with_the_same_token_file(
        self, home: Home, google: Google, model: Model, tmp_path: Path
    ) -> None:
        model.on_triage("ignore")
        await home.works.sync_account(home.account_id)
        google.revoke()
        google.expire_access_tokens()
        await home.works.sync_account(home.account_id)
        assert (await home.account()).state == "login"

        google.grant("refresh-1")
        await log_in(home.app, google, tmp_path)
        mail_id = google.deliver(BOB, "Lunch?", "Does Friday suit you?")
        await home.works.sync_account(home.account_id)

        account = await home.account()
        assert (account.state, account.last_error) == ("active", None)
        assert [mail.id for mail in await home.mails()] == [mail_id]

    async def test_its_reason_is_gone_when_the_work_is_done(self, home: Home, google: Google, model: Model) -> None:
        model.script([[reply("Friday is fine."), DONE]])
        model.fault("response", status=503)
        google.fault("drafts.create", status=503)
        mail_id = google.deliver(BOB, "Lunch?", "Does Friday suit you?")
        await home.sync()
        await home.step()
        assert "waiting: the model" in await home.reason(mail_id)
        await home.carry_on()
        assert await home.reason(mail_id) == "Scripted."
        await home.decide((await home.pending())[0], "accept")
        await home.step()
        assert "drafts.create" in await home.reason(mail_id)

        await home.carry_on()

        mail = await home.mail(mail_id)
        assert (mail.state, mail.reason) == ("done", "Scripted.")
        assert len(google.sent) == 1


# A sequence is not rolled back: the first time, and no other.
LOSES_THE_FIRST_QUESTION = """
create sequence questions;
create function lose_the_first() returns trigger language plpgsql as $$
begin
    if nextval('questions') = 1 then
        raise exception 'the server goes away' using errcode = 'admin_shutdown';
    end if;
    return new;
end $$;
create trigger lose_the_first before insert on checkpoint_writes for each row
when (new.channel = '__interrupt__' and new.checkpoint_ns <> '') execute function lose_the_first();
"""


@in_one_loop
class TestADatabaseThatFails:
    async def test_when_a_question_is_stored_nobody_is_asked_before_it_is(
        self, home: Home, google: Google, model: Model
    ) -> None:
        model.script([[reply("Friday is fine."), DONE]])
        await home.sql(LOSES_THE_FIRST_QUESTION)
        google.deliver(BOB, "Lunch?", "Does Friday suit you?")
        await home.sync()
        await home.step()
        assert await home.items() == []

        await home.carry_on()

        [item] = await home.pending()
        await home.answer(item, "accept")
        assert [sent.text for sent in google.sent] == ["Friday is fine."]
        assert len(model.calls("response")) == 1


@in_one_loop
class TestAModelThatHangs:
    """It blocks no decision and no mail for ever."""

    async def test_a_call_that_never_ends_fails_the_mail_which_can_be_retried(
        self, open_home: OpenHome, model: Model
    ) -> None:
        model.script([[reply("Friday is fine."), DONE]])
        hold = Hold()
        model.fault("triage", times=100, hold=hold)
        async with open_home(model_timeout_seconds=1, max_tries=2) as home:
            mail_id = await home.receive()
            assert (await home.mail(mail_id)).state == "failed"
            reason = await home.reason(mail_id)
            assert "given up after 2 tries" in reason
            assert "longer than 1 s" in reason or "did not answer in time" in reason
            assert len(model.calls("triage")) == 2

            model.clear_faults()
            hold.release()
            await home.app.corrections.retry(home.app.user_id, mail_id)
            await home.carry_on()
            assert [item.mail_id for item in await home.pending()] == [mail_id]

    async def test_a_decision_with_a_window_is_carried_out_while_all_slots_hang(
        self, open_home: OpenHome, google: Google, model: Model
    ) -> None:
        model.script([[reply("Friday is fine."), DONE]])
        async with open_home(concurrency=2, undo_seconds=0.5) as home:
            mail_id = await home.receive()
            [item] = await home.pending()
            hold = Hold()
            model.fault("triage", times=100, hold=hold)
            for number in range(4):
                google.deliver(BOB, f"Stuck {number}", "The model never answers to this.")
            async with home.at_work():
                await until(lambda: len(model.calls("triage")) == 3)  # one before, and one in each slot
                await home.decide(item, "accept")
                await until(lambda: home.is_done(mail_id))
                assert [sent.text for sent in google.sent] == ["Friday is fine."]
                assert len(model.calls("triage")) == 3
                model.clear_faults()
                model.on_triage("ignore")
                hold.release()

    async def test_eight_answers_at_once_teach_eight_lessons_one_at_a_time(
        self, home: Home, google: Google, model: Model
    ) -> None:
        model.on_triage(lambda request: "ignore" if "1. Rule" in request.text else "notify")
        model.on_memory(lambda _: {"action": "add", "rule": None, "text": f"Rule {len(lessons())}.", "reason": "Told."})

        def lessons() -> list[ModelRequest]:
            return model.calls("memory")

        for number in range(8):
            google.deliver(f"p{number}@example.org", f"Notice {number}", "The office is closed.")
        await home.sync()
        await home.carry_on()
        for item in await home.pending():
            await home.answer(item, "ignore")
        hold = Hold()
        model.fault("memory", hold=hold)

        learners = [asyncio.create_task(home.works.learn(home.account_id)) for _ in range(8)]
        await reached(hold)
        await until(lambda: sum(learner.done() for learner in learners) == 7)
        assert len(lessons()) == 1
        hold.release()
        await asyncio.gather(*learners)

        assert len(lessons()) == 8
        rules = await home.app.memory.rules(home.account_id, "triage_preferences")
        assert [rule.text for rule in rules] == [f"Rule {number}." for number in range(1, 9)]
        assert all(f"Rule {number}." in lesson.text for number, lesson in enumerate(lessons()[1:], 1))


class TestStopping:
    """The end of the process is nobody's fault: what ran is handed back."""

    @pytest.mark.long
    def test_a_signal_in_triage_ends_it_cleanly(
        self, connect: Start, database_url: str, google: Google, model: Model
    ) -> None:
        def sql(query: str) -> list[dict[str, Any]]:
            options = session_settings(database_url)["options"]
            with psycopg.connect(database_url, options=options, row_factory=dict_row) as conn:
                return conn.execute(query.encode()).fetchall()

        model.script([[reply("Friday is fine."), DONE]])
        hold = Hold()
        model.fault("triage", hold=hold)
        daemon = connect(lease_seconds=60)
        process = daemon.up()
        mail_id = google.deliver(BOB, "Lunch?", "Does Friday suit you?")
        hold.reached()
        assert sql(OPEN_LEASES) == [{"n": 1}]
        assert sql(TRIES) == [{"tries": 1}]

        daemon.stop()

        assert process.exit_code == 0
        assert "Traceback" not in process.log
        assert sql(OPEN_LEASES) == [{"n": 0}]
        assert sql(TRIES) == [{"tries": 0}]
        hold.abandon()
        daemon.up()
        daemon.until_mail(mail_id, "waiting")

    @in_one_loop
    async def test_restarts_do_not_fail_a_mail(self, open_home: OpenHome, google: Google, model: Model) -> None:
        model.script([[reply("Friday is fine."), DONE]])
        mail_id = google.deliver(BOB, "Lunch?", "Does Friday suit you?")
        for _ in range(3):
            hold = Hold()
            model.fault("triage", hold=hold)
            async with open_home(max_tries=2, stop_seconds=0.2) as home:
                async with home.at_work():
                    await reached(hold)
                assert await home.sql(OPEN_LEASES) == [{"n": 0}]
                assert await home.sql(TRIES) == [{"tries": 0}]
            hold.abandon()

        async with open_home(max_tries=2) as home, home.at_work():
            await until(home.pending)
            assert [item.mail_id for item in await home.pending()] == [mail_id]


@in_one_loop
class TestADatabaseThatGoesAway:
    async def test_while_a_conversation_is_woken_it_is_known_as_that(self, home: Home, model: Model) -> None:
        model.script(lambda _: [reply("Friday is fine."), DONE])
        await home.receive("Lunch?", "Does Friday suit you?")
        [item] = await home.pending()

        async def wake() -> None:
            async with home.app.pool.connection() as conn, conn.transaction():
                await home.sql(f"select pg_terminate_backend({conn.info.backend_pid}, 5000)")
                await home.app.queue.decided(conn, item.thread_id, None)

        with pytest.raises(psycopg.OperationalError):
            await wake()


@in_one_loop
class TestTwoMeetingsAtOneTime:
    """Of two conversations, approved in one moment, before either stands in the calendar."""

    @pytest.mark.parametrize("moment", ["it is being booked", "the other has looked already"])
    async def test_the_one_that_is_booked_last_is_asked_again(
        self, home: Home, open_home: OpenHome, google: Google, model: Model, moment: str
    ) -> None:
        first, second = await approved_meetings(home, model)
        hold, is_booking = Hold(), moment == "it is being booked"
        held, goes_on = (first, second) if is_booking else (second, first)
        google.fault(
            "events.insert" if is_booking else "events.list", hold=hold, at="before" if is_booking else "after"
        )
        async with open_home() as other:
            working = asyncio.create_task(home.works.advance(held.thread_id))
            await reached(hold)
            await other.works.advance(goes_on.thread_id)
            hold.release()
            await working
        assert booked(google) == ["Plan"]
        [again] = await home.pending()
        assert (again.args["title"], again.asked) == ("Budget", 2)
        assert again.asked_because == "at that time there is now: 09:00-09:45 Plan"

        await home.answer(again, "accept")  # they know
        assert booked(google) == ["Plan", "Budget"]

    @pytest.mark.parametrize("why", ["refused", "given up, and the program ended before it was looked for"])
    async def test_one_that_was_not_booked_stands_in_nobodys_way(
        self, home: Home, google: Google, model: Model, why: str
    ) -> None:
        first, second = await approved_meetings(home, model)
        google.fault("events.insert", status=403 if why == "refused" else 503, reason="forbidden")
        await home.works.advance(first.thread_id)
        if why != "refused":
            await home.sql("update runs set state = 'failed' where id = %s", first.run_id)
            await home.sql("update mails set state = 'failed' where gmail_id = %s", first.mail_id)
        [effect] = await home.app.ledger.of_run(first.run_id)
        assert effect.state == ("refused" if why == "refused" else "started")
        await home.works.advance(second.thread_id)
        assert booked(google) == ["Budget"]


async def approved_meetings(home: Home, model: Model) -> tuple[Item, Item]:
    """Both are at the same time, and nothing stands there when they are approved."""
    model.script(lambda request: [meeting(title=request.mail.headers["subject"]), DONE])
    for subject in ("Plan", "Budget"):
        await home.receive(subject)
    items = {item.args["title"]: item for item in await home.pending()}
    for item in items.values():
        assert item.conflicts == []
        await home.decide(item, "accept")
    return items["Plan"], items["Budget"]


def booked(google: Google) -> list[str]:
    return [event["summary"] for event in google.events.values()]
