"""What the other side refuses after the person has decided it comes back to them: with their words, and the reason.

Google and the model are doubles that speak the real protocols; the program's parts are driven in this process.
"""

import asyncio
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Literal

import pytest

from email_assistant.inbox.items import Conflict, Invalid, Item
from tests.doubles.google import Google
from tests.doubles.model import Model, tool
from tests.doubles.serving import Hold
from tests.integration.home import Home, OpenHome, in_one_loop, reached, until
from tests.integration.scene import ADA, DONE, NEXT_WEEK, meeting, reply

WORDS = "Friday at noon it is."
"""What the person made of the proposal."""
REFUSALS: Mapping[str, dict[str, Any]] = {
    "drafts.send 400": {"match": "drafts.send", "status": 400, "reason": "failedPrecondition"},
    "drafts.send 403": {"match": "drafts.send", "status": 403, "reason": "forbidden"},
    "drafts.create 400": {"match": "drafts.create", "status": 400, "reason": "invalidArgument"},
    "drafts.create 400, though it was done": {
        "match": "drafts.create",
        "status": 400,
        "reason": "invalidArgument",
        "at": "after",
    },
    "the thread is gone": {"match": "drafts.create", "status": 404, "reason": "notFound"},
}
REFUSAL = REFUSALS["drafts.send 400"]
LIMIT: dict[str, Any] = {"match": "drafts.send", "status": 403, "reason": "dailyLimitExceeded"}


async def propose(home: Home, model: Model, *calls: Any) -> tuple[str, list[Item]]:
    """A mail comes in; what is proposed for it waits."""
    model.script([[*(calls or [reply("Friday is fine.")]), DONE]])
    mail_id = await home.receive()
    return mail_id, await home.pending()


async def refused(home: Home, model: Model, google: Google, refusal: Mapping[str, Any] = REFUSAL) -> tuple[str, Item]:
    """A reply, edited by the person and refused: its mail, and the item by which they are asked once more."""
    mail_id, [first] = await propose(home, model)
    google.fault(**refusal)
    await home.answer(first, "edit", {**first.args, "response_text": WORDS})
    [again] = await home.pending()
    return mail_id, again


def drafted(model: Model) -> int:
    """Calls of the model that writes."""
    return len(model.calls("response"))


@in_one_loop
class TestARefusedReply:
    @pytest.mark.parametrize("refusal", REFUSALS)
    async def test_is_shown_again_as_the_person_left_it_and_goes_out_on_their_word(
        self, home: Home, google: Google, model: Model, refusal: str
    ) -> None:
        mail_id, again = await refused(home, model, google, REFUSALS[refusal])
        assert (again.kind, again.action, again.asked) == ("draft", "send_email_tool", 2)
        assert (again.args["response_text"], again.allowed) == (WORDS, ["accept", "edit", "ignore"])
        assert again.asked_because
        assert again.asked_because in again.description
        mail = await home.mail(mail_id)
        assert (mail.state, mail.reason) == ("waiting", again.asked_because)
        assert google.sent == google.drafts == []

        await home.answer(again, "accept")
        assert [message.text for message in google.sent] == [WORDS]
        assert google.drafts == []
        assert await home.pending() == []
        assert await home.is_done(mail_id)
        assert drafted(model) == 1

    async def test_can_be_changed_and_the_model_is_told_what_went_out(
        self, home: Home, google: Google, model: Model
    ) -> None:
        model.script([[reply("Friday is fine.")], [DONE]])
        await home.receive()
        [first] = await home.pending()
        google.fault(**REFUSAL)
        await home.answer(first, "accept")
        [again] = await home.pending()
        with pytest.raises(Invalid, match="not an e-mail address"):
            await home.decide(again, "edit", {**again.args, "email_address": "nobody"})
        await home.answer(again, "edit", {**again.args, "response_text": WORDS})

        assert [message.text for message in google.sent] == [WORDS]
        [told] = [arguments for name, arguments in model.requests[-1].tool_calls if name == "send_email_tool"]
        assert told["response_text"] == WORDS
        assert model.requests[-1].tool_results == ["Sent to bob@example.org."]
        assert model.violations == []

    async def test_is_asked_about_as_often_as_it_is_refused_at_no_model_call(
        self, home: Home, google: Google, model: Model
    ) -> None:
        mail_id, again = await refused(home, model, google)
        for asked in (3, 4):
            google.fault(**REFUSAL)
            await home.answer(again, "accept")
            with pytest.raises(Conflict, match="already answered"):
                await home.decide(again, "ignore")
            await home.decide(again, "accept")  # the repeat of what was taken, which says nothing of what is asked now
            [again] = await home.pending()
            assert (again.asked, again.args["response_text"]) == (asked, WORDS)
        await home.answer(again, "accept")
        assert [message.text for message in google.sent] == [WORDS]
        assert google.drafts == []
        assert drafted(model) == 1
        assert await home.is_done(mail_id)

    async def test_that_the_person_drops_ends_the_mail_as_an_ignored_proposal_does(
        self, home: Home, google: Google, model: Model
    ) -> None:
        mail_id, again = await refused(home, model, google)
        await home.answer(again, "ignore")
        assert google.sent == google.drafts == []
        assert await home.pending() == []
        assert await home.is_done(mail_id)
        assert drafted(model) == 1
        assert google.message(mail_id).is_unread

    async def test_can_not_be_sent_in_shadow_mode(self, home: Home, google: Google, model: Model) -> None:
        _, again = await refused(home, model, google)
        await home.app.inbox.set_mode(home.app.accounts, await home.account(), "shadow")
        assert (await home.item(again)).allowed == ["ignore"]

    async def test_that_the_person_answered_by_hand_meanwhile_is_not_sent_on_a_late_word(
        self, home: Home, google: Google, model: Model
    ) -> None:
        mail_id, again = await refused(home, model, google)
        google.person_sends(google.message(mail_id).thread_id, "By hand.")
        await home.answer(again, "accept")
        assert google.sent == google.drafts == []
        assert await home.reason(mail_id) == "you answered this yourself"

    async def test_newer_mail_waits_for_the_persons_word(self, home: Home, google: Google, model: Model) -> None:
        mail_id, again = await refused(home, model, google)
        newer = await home.receive("Re: Lunch?", "Or Thursday?", thread=google.message(mail_id).thread_id)
        assert [item.id for item in await home.pending()] == [again.id]
        model.script([[reply("Thursday then."), DONE]])
        await home.answer(again, "accept")
        assert [message.text for message in google.sent] == [WORDS]
        [following] = await home.pending()
        assert following.mail_id == newer

    async def test_survives_a_restart_between_the_refusal_and_the_question(
        self, home: Home, google: Google, model: Model
    ) -> None:
        mail_id, again = await refused(home, model, google)
        await home.sql("delete from inbox_items where id = %s", again.id)
        await home.sql("update effects set state = 'failed' where state = 'refused'")
        await home.carry_on()
        [once_more] = await home.pending()
        assert (once_more.asked_because, once_more.args) == (again.asked_because, again.args)
        assert google.sent == []
        assert (await home.mail(mail_id)).state == "waiting"


@in_one_loop
class TestWhileItIsCarriedOut:
    async def test_the_item_says_what_holds_it_up(self, home: Home, google: Google, model: Model) -> None:
        _, [item] = await propose(home, model)
        google.fault(**LIMIT)
        await home.decide(item, "accept")
        await home.step()
        state = (await home.item(item)).state
        assert state.startswith("approved; waiting: ")
        assert "dailyLimitExceeded" in state
        await home.carry_on()
        assert (await home.item(item)).state == "approved"

    async def test_and_that_it_was_refused(self, home: Home, google: Google, model: Model) -> None:
        _, [item] = await propose(home, model)
        google.fault(**REFUSAL)
        await home.answer(item, "accept")
        assert "Gmail refused to send it" in (await home.item(item)).state


@in_one_loop
class TestAfterItWasAskedAgain:
    async def test_refused_it_is_a_third_question(self, home: Home, google: Google, model: Model) -> None:
        _, parts = await propose(home, model, reply("See you."), meeting())
        items = {item.kind: item for item in parts}
        await home.decide(items["draft"], "accept")
        await home.decide(items["meeting"], "ignore")
        reopened = await home.item(items["draft"])
        google.fault(**REFUSAL)
        await home.answer(reopened, "accept")
        [again] = await home.pending()
        assert (reopened.asked, again.asked) == (2, 3)

    async def test_what_was_edited_is_the_next_drafts_beginning(self, home: Home, google: Google, model: Model) -> None:
        mail_id, parts = await propose(home, model, reply("See you."), meeting())
        items = {item.kind: item for item in parts}
        await home.decide(items["draft"], "edit", {**items["draft"].args, "response_text": WORDS})
        await home.decide(items["meeting"], "ignore")
        model.script([[reply("As you say."), DONE]])
        await home.receive("Re: Lunch?", "Or Thursday?", thread=google.message(mail_id).thread_id)
        assert WORDS in model.calls("response")[-1].text

    async def test_what_was_accepted_before_shadow_mode_stays_taken_back(
        self, home: Home, google: Google, model: Model
    ) -> None:
        _, parts = await propose(home, model, reply("See you."), meeting())
        items = {item.kind: item for item in parts}
        await home.decide(items["draft"], "accept")
        await home.decide(items["meeting"], "ignore")
        await home.app.inbox.set_mode(home.app.accounts, await home.account(), "shadow")
        await home.app.inbox.undo(home.app.user_id, items["meeting"].id)
        assert {item.status for item in await home.items()} == {"pending"}

    @pytest.mark.parametrize("days", [0, 1])
    async def test_a_meeting_that_was_moved_is_not_shown_with_what_stands_at_another_time(
        self, home: Home, google: Google, model: Model, days: int
    ) -> None:
        google.add_event("Dentist", NEXT_WEEK, NEXT_WEEK + timedelta(minutes=30))
        _, parts = await propose(home, model, reply("See you."), meeting())
        items = {item.kind: item for item in parts}
        moved = meeting(NEXT_WEEK + timedelta(days=days), title="Plans").args
        await home.decide(items["meeting"], "edit", {**items["meeting"].args, **moved})
        await home.decide(items["draft"], "ignore")
        again = await home.item(items["meeting"])
        assert again.args["title"] == "Plans"
        assert (again.conflicts, again.calendars) == ((["09:00-09:30 Dentist"], [ADA]) if days == 0 else ([], []))


@in_one_loop
class TestALimit:
    async def test_is_waited_out_and_said(self, home: Home, google: Google, model: Model) -> None:
        mail_id, [item] = await propose(home, model)
        google.fault(**LIMIT)
        await home.decide(item, "accept")
        await home.step()
        assert "dailyLimitExceeded" in await home.reason(mail_id)
        assert (await home.mail(mail_id)).state == "acting"
        assert await home.pending() == []
        await home.carry_on()
        assert [message.text for message in google.sent] == ["Friday is fine."]
        assert google.drafts == []
        assert await home.is_done(mail_id)

    async def test_is_asked_about_after_an_hour(self, home: Home, google: Google, model: Model) -> None:
        mail_id, [item] = await propose(home, model)
        google.fault(**LIMIT)
        await home.decide(item, "accept")
        await home.step()
        google.fault(**LIMIT)
        await home.sql("update effects set limited_since = limited_since - interval '1 hour'")
        await home.carry_on()
        [again] = await home.pending()
        assert "dailyLimitExceeded" in (again.asked_because or "")
        assert google.sent == google.drafts == []
        await home.answer(again, "accept")
        assert [message.text for message in google.sent] == ["Friday is fine."]
        assert await home.is_done(mail_id)
        assert drafted(model) == 1

    async def test_that_names_a_later_time_is_asked_about_after_the_hour_all_the_same(
        self, home: Home, google: Google, model: Model
    ) -> None:
        _, [item] = await propose(home, model)
        google.fault(**LIMIT, retry_after=8 * 3600)
        await home.decide(item, "accept")
        await home.step()
        [waits] = await home.sql(
            "select extract(epoch from max(not_before) - clock_timestamp())::int as s from threads"
        )
        assert 3500 < waits["s"] <= 3600


async def refused_meeting(home: Home, google: Google, model: Model) -> tuple[str, dict[str, Item], Item]:
    """A mail, its approved meeting and letter, and the meeting as it is asked again: Google has refused it."""
    model.script([[meeting(), reply("14:00 works for me."), DONE]])
    mail_id = await home.receive()
    items: dict[str, Item] = {item.kind: item for item in await home.pending()}
    google.fault("events.insert", status=403, reason="forbidden")
    await home.decide(items["draft"], "accept")
    await home.answer(items["meeting"], "accept")
    [again] = await home.pending()
    return mail_id, items, again


@in_one_loop
class TestARefusedPart:
    async def test_holds_up_what_comes_after_it_and_repeats_nothing_before_it(
        self, home: Home, google: Google, model: Model
    ) -> None:
        model.script([[reply("An invitation follows."), meeting(), DONE]])
        mail_id = await home.receive()
        items = {item.kind: item for item in await home.pending()}
        google.fault("events.insert", status=403, reason="forbidden")
        await home.decide(items["draft"], "accept")
        await home.answer(items["meeting"], "accept")
        [again] = await home.pending()
        assert (again.kind, again.asked) == ("meeting", 2)
        assert "The reply was sent already" in again.notes
        assert again.asked_because == "Google Calendar refused it: Google answered 403 (forbidden)"
        assert len(google.sent) == 1
        assert google.events == {}

        await home.answer(again, "edit", {**again.args, "title": "Plans"})
        assert [event["summary"] for event in google.events.values()] == ["Plans"]
        assert len(google.sent) == 1
        assert await home.is_done(mail_id)
        assert drafted(model) == 1

    async def test_that_is_dropped_has_what_was_accepted_with_it_asked_about_once_more(
        self, home: Home, google: Google, model: Model
    ) -> None:
        model.script([[reply("See you."), meeting(), DONE]])
        mail_id = await home.receive()
        items = {item.kind: item for item in await home.pending()}
        google.fault(**REFUSAL)
        await home.decide(items["draft"], "accept")
        await home.answer(items["meeting"], "accept")
        assert google.events == {}
        [again] = await home.pending()
        await home.answer(again, "ignore")
        assert (google.sent, google.events) == ([], {})
        [meets] = await home.pending()
        assert (meets.kind, meets.args, meets.asked) == ("meeting", items["meeting"].args, 2)
        assert meets.asked_because == "you had approved it, and then you dismissed the reply"
        await home.answer(meets, "accept")
        assert google.sent == []
        assert len(google.events) == 1
        assert await home.is_done(mail_id)
        assert drafted(model) == 1

    @pytest.mark.parametrize("then", ["accept", "ignore"])
    async def test_that_is_changed_has_a_letter_about_it_asked_about_once_more(
        self, home: Home, google: Google, model: Model, then: Literal["accept", "ignore"]
    ) -> None:
        mail_id, _, again = await refused_meeting(home, google, model)
        await home.answer(again, "edit", {**again.args, "title": "Plans"})
        assert (google.sent, google.events) == ([], {})
        [letter] = await home.pending()
        assert (letter.kind, letter.asked) == ("draft", 2)
        assert letter.asked_because == "you had approved it, and then you changed the meeting"
        await home.answer(letter, then)
        assert [event["summary"] for event in google.events.values()] == ["Plans"]
        assert [message.text for message in google.sent] == ["14:00 works for me."][: then == "accept"]
        assert await home.is_done(mail_id)
        assert await home.pending() == []

    async def test_that_is_dropped_is_told_as_not_done(self, home: Home, google: Google, model: Model) -> None:
        _, items, again = await refused_meeting(home, google, model)
        await home.answer(again, "ignore")
        [letter] = await home.pending()
        await home.answer(letter, "accept")
        states = [(await home.item(item)).state for item in (items["meeting"], again, items["draft"], letter)]
        assert states == ["approved, but not done", "dismissed", "approved", "approved"]
        assert len(google.sent) == 1

    async def test_that_is_done_as_it_was_lets_a_letter_about_it_go(
        self, home: Home, google: Google, model: Model
    ) -> None:
        mail_id, _, again = await refused_meeting(home, google, model)
        await home.answer(again, "accept")
        assert (len(google.sent), len(google.events)) == (1, 1)
        assert await home.is_done(mail_id)


@in_one_loop
class TestADraftWhoseCreationWasNotAnswered:
    async def test_leaves_no_copy_of_what_was_sent(self, open_home: OpenHome, google: Google, model: Model) -> None:
        """It takes effect when another draft has been sent already, and the answer to that is on its way."""
        async with open_home(google_timeout_seconds=2) as home:
            _, [item] = await propose(home, model)
            first, sending = Hold(), Hold()
            google.fault("drafts.create", hold=first)
            await home.decide(item, "accept")
            await home.step()
            assert google.drafts == google.sent == []

            google.fault("drafts.send", hold=sending, at="after")
            goes_on = asyncio.create_task(home.carry_on())
            await reached(sending)
            first.release()
            await until(lambda: google.drafts)
            sending.release()
            await goes_on
        assert [message.text for message in google.sent] == ["Friday is fine."]
        assert google.drafts == []

    async def test_nor_one_that_takes_effect_long_after(
        self, open_home: OpenHome, google: Google, model: Model
    ) -> None:
        async with open_home(google_timeout_seconds=1) as home:
            _, [item] = await propose(home, model)
            first = Hold()
            google.fault("drafts.create", hold=first)
            await home.decide(item, "accept")
            await home.step()
            await home.carry_on()
            assert len(google.sent) == 1
            first.release()
            await until(lambda: google.drafts)
            google.person_drafts(google.sent[0].thread_id, "One of their own.")
            await home.works.tidy()
        assert [draft.text for draft in google.drafts] == ["One of their own."]

    async def test_of_a_new_mail_no_other_with_the_same_text_is_taken_for_it(
        self, open_home: OpenHome, google: Google, model: Model
    ) -> None:
        model.on_policy("mail")
        letter = tool(
            "send_email_tool", email_id=None, email_address="bob@example.org", subject="Hi", response_text="Hello."
        )
        model.on_chat({"Write to Bob.": [[letter], "Done."]})
        async with open_home(google_timeout_seconds=1) as home:
            await home.works.chat.ask(await home.account(), "a-chat", "Write to Bob.")
            [item] = await home.pending()
            first = Hold()
            google.fault("drafts.create", hold=first)
            await home.decide(item, "accept")
            await home.step()
            await home.carry_on()
            [sent] = google.sent
            first.release()
            await until(lambda: google.drafts)
            google.create_draft(sent.raw.replace(b"Subject: Hi", b"Subject: Ho"), None)
            await home.works.tidy()
        assert [draft.subject for draft in google.drafts] == ["Ho"]


@in_one_loop
class TestTheDraftOfALetterThatIsNotSent:
    """It is taken away again, whatever comes in between."""

    async def test_goes_when_gmail_did_not_delete_it_at_once(self, home: Home, google: Google, model: Model) -> None:
        fault = google.fault("drafts.delete", status=503, times=99)
        _, again = await refused(home, model, google)
        await home.answer(again, "ignore")
        [left] = google.drafts
        fault.times = 0
        google.person_drafts(left.thread_id, "One of their own.")
        await home.works.tidy()
        assert [draft.text for draft in google.drafts] == ["One of their own."]

    async def test_goes_when_the_person_answers_by_hand_before_it_is_known(
        self, home: Home, google: Google, model: Model
    ) -> None:
        mail_id, [item] = await propose(home, model)
        google.fault("drafts.create", drop="after")
        await home.decide(item, "accept")
        await home.step()
        assert google.drafts
        google.person_sends(google.message(mail_id).thread_id, "By hand.")
        await home.sync()
        await home.carry_on()
        assert google.sent == google.drafts == []
