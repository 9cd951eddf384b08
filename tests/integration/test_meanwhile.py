"""What the person does in Gmail while something waits here; drafts that are left for them there; and shadow mode.

The program's parts are driven in this process, one step at a time. Google and the model are doubles that speak the real
protocols.
"""

import asyncio
import re
from email import message_from_bytes, policy
from html import unescape
from typing import Any

import pytest

from email_assistant.accounts.account import Identity
from email_assistant.inbox.items import Conflict, Invalid, Item
from tests.doubles.google import Google
from tests.doubles.model import Model
from tests.doubles.serving import Hold
from tests.integration.conftest import Start
from tests.integration.home import Home, OpenHome, in_one_loop, reached, until
from tests.integration.scene import ADA, BOB, DONE, meeting, reply

ARCHIVED = "you archived this in Gmail"


async def ask(home: Home, model: Model, text: str = "Friday is fine.") -> tuple[str, Item]:
    """A mail comes in, and a reply to it waits for the person."""
    model.script([[reply(text), DONE]])
    mail_id = await home.receive()
    [item] = await home.pending()
    return mail_id, item


async def look(home: Home) -> None:
    """The mailbox is polled, and what follows is done."""
    await home.sync()
    await home.carry_on()


@in_one_loop
class TestMailThatThePersonPutsAway:
    @pytest.mark.parametrize(
        ("to", "out_of", "reason"),
        [
            ((), ("INBOX",), ARCHIVED),
            (("TRASH",), ("INBOX",), "you moved this to Gmail's trash"),
            (("SPAM",), ("INBOX",), "you marked this as spam in Gmail"),
        ],
    )
    async def test_closes_what_waits_and_says_why(
        self, home: Home, google: Google, model: Model, to: tuple[str, ...], out_of: tuple[str, ...], reason: str
    ) -> None:
        mail_id, item = await ask(home, model)
        google.person_moves(mail_id, to=to, out_of=out_of)
        await look(home)
        closed = await home.item(item)
        assert (closed.status, closed.ended_because) == ("superseded", reason)
        mail = await home.mail(mail_id)
        assert (mail.state, mail.reason) == ("done", reason)
        assert google.sent == google.drafts == []

    async def test_for_good_closes_it_too(self, home: Home, google: Google, model: Model) -> None:
        mail_id, item = await ask(home, model)
        google.person_deletes(mail_id)
        await look(home)
        assert (await home.item(item)).ended_because == "you deleted this in Gmail"

    async def test_before_it_is_triaged_costs_no_model_call(self, home: Home, google: Google, model: Model) -> None:
        mail_id = google.deliver(BOB, "Lunch?", "Does Friday suit you?")
        await home.sync()
        google.person_moves(mail_id, out_of=("INBOX",))
        await look(home)
        assert (await home.mail(mail_id)).reason == ARCHIVED
        assert model.requests == []

    async def test_and_takes_out_again_before_the_next_look_changes_nothing(
        self, home: Home, google: Google, model: Model
    ) -> None:
        mail_id, item = await ask(home, model)
        google.person_moves(mail_id, out_of=("INBOX",))
        google.person_moves(mail_id, to=("INBOX",))
        await look(home)
        assert (await home.item(item)).status == "pending"

    async def test_does_not_undo_what_they_decided_here(
        self, open_home: OpenHome, google: Google, model: Model
    ) -> None:
        async with open_home(undo_seconds=3600) as home:
            mail_id, item = await ask(home, model)
            await home.decide(item, "accept")
            google.person_moves(mail_id, out_of=("INBOX",))
            model.on_triage("ignore")
            google.deliver(BOB, "Re: Lunch?", "Never mind this one.", thread=mail_id)
            await look(home)
            assert (await home.item(item)).status == "decided"
        async with open_home() as home:
            await home.sql("update inbox_items set undo_until = clock_timestamp()")
            await home.carry_on()
            assert [sent.text for sent in google.sent] == ["Friday is fine."]

    async def test_while_gmail_forgot_the_cursor_is_noticed(self, home: Home, google: Google, model: Model) -> None:
        mail_id, item = await ask(home, model)
        google.person_moves(mail_id, out_of=("INBOX",))
        google.expire_history()
        await look(home)
        assert (await home.item(item)).ended_because == "it is no longer in Gmail's inbox"

    async def test_into_the_inbox_is_triaged_if_it_never_was(self, home: Home, google: Google, model: Model) -> None:
        mail_id = google.deliver(BOB, "Lunch?", "Does Friday suit you?", labels=())
        await look(home)
        assert (await home.mail(mail_id)).reason == "not in the inbox"
        model.script([[reply("Yes."), DONE]])
        google.person_moves(mail_id, to=("INBOX",))
        await look(home)
        assert [item.mail_id for item in await home.pending()] == [mail_id]
        assert len([call for call in google.calls("messages.get") if mail_id in call.path]) == 1


@in_one_loop
class TestWhatThePersonDoes:
    @pytest.mark.parametrize("did", ["answer", "archive", "begin an answer"])
    async def test_closes_what_waits_even_when_the_days_budget_is_spent(
        self, home: Home, google: Google, model: Model, did: str
    ) -> None:
        mail_id, item = await ask(home, model)
        await home.sql("update accounts set spent_until = clock_timestamp() + interval '1 hour'")
        match did:
            case "answer":
                google.person_sends(mail_id, "By hand: Friday.")
            case "archive":
                google.person_moves(mail_id, out_of=("INBOX",))
            case _:
                google.person_drafts(mail_id, "Let me see")
        await look(home)
        assert (await home.item(item)).status == "superseded"

    async def test_with_failed_mail_does_not_stop_another_try(self, home: Home, google: Google, model: Model) -> None:
        model.fault("response", status=400)
        mail_id = await home.receive()
        assert (await home.mail(mail_id)).state == "failed"
        google.person_moves(mail_id, out_of=("INBOX",))
        await look(home)
        model.script([[reply("Friday is fine."), DONE]])
        await home.app.corrections.retry(home.app.user_id, mail_id)
        await home.carry_on()
        assert [item.mail_id for item in await home.pending()] == [mail_id]


@in_one_loop
class TestADraftOfThePersons:
    async def test_supersedes_the_one_that_waits(self, home: Home, google: Google, model: Model) -> None:
        mail_id, item = await ask(home, model)
        draft = google.person_drafts(mail_id, "Let me see")
        await look(home)
        closed = await home.item(item)
        assert (closed.status, closed.ended_because) == ("superseded", "you began an answer yourself")
        assert [held.text for held in google.drafts] == ["Let me see"]
        google.person_sends_draft(draft)
        await look(home)
        assert (await home.mail(mail_id)).state == "done"

    async def test_that_they_threw_away_again_changes_nothing(self, home: Home, google: Google, model: Model) -> None:
        mail_id, item = await ask(home, model)
        draft = google.person_drafts(mail_id, "Let me see")
        google.person_deletes(google.draft(draft).id)
        await look(home)
        assert (await home.item(item)).status == "pending"

    async def test_ours_is_not_taken_for_theirs(self, home: Home, google: Google, model: Model) -> None:
        """The draft of an answer that is being sent, read in the history while the next mail's answer waits."""
        model.script(lambda request: [reply(f"On: {request.mail.text.strip()}"), DONE])
        first = await home.receive(text="Friday?")
        [item] = await home.pending()
        await home.answer(item, "accept")
        google.deliver(BOB, "Re: Lunch?", "Or Monday?", thread=first)
        await look(home)
        [second] = await home.pending()
        await look(home)
        assert (await home.item(second)).status == "pending"

    async def test_is_looked_at_even_if_the_wake_up_for_it_is_lost(
        self, home: Home, google: Google, model: Model
    ) -> None:
        mail_id, item = await ask(home, model)
        google.person_drafts(mail_id, "Let me see")
        await home.sync()
        await home.sql("delete from procrastinate_jobs")
        await home.carry_on()
        assert (await home.item(item)).status == "superseded"


@in_one_loop
class TestDraftMode:
    async def test_the_reply_is_left_in_its_thread_and_closes_when_the_person_sends_it(
        self, home: Home, google: Google, model: Model
    ) -> None:
        await switch(home, "draft")
        mail_id, item = await ask(home, model)
        [draft] = google.drafts
        assert (draft.text, draft.thread_id, draft.recipients) == ("Friday is fine.", mail_id, ["bob@example.org"])
        await look(home)  # its own history changes nothing
        assert (await home.item(item)).status == "pending"

        google.person_sends_draft(draft_id(google))
        await look(home)

        closed = await home.item(item)
        assert (closed.status, closed.ended_because) == ("superseded", "you answered this yourself")
        assert (await home.mail(mail_id)).state == "done"
        assert google.sent == google.drafts == []

    async def test_changed_by_the_person_it_still_waits_and_their_text_is_kept(
        self, home: Home, google: Google, model: Model
    ) -> None:
        await switch(home, "draft")
        mail_id, item = await ask(home, model)
        google.person_drafts(mail_id, "Saturday is better.", draft_id(google))
        await look(home)
        assert (await home.item(item)).status == "pending"

        await home.answer(item, "ignore")

        assert [draft.text for draft in google.drafts] == ["Saturday is better."]

    async def test_discarded_by_the_person_it_closes(self, home: Home, google: Google, model: Model) -> None:
        await switch(home, "draft")
        mail_id, item = await ask(home, model)
        google.person_deletes(google.drafts[0].id)
        await look(home)
        closed = await home.item(item)
        assert (closed.status, closed.ended_because) == (
            "superseded",
            "you changed, sent or discarded its draft in Gmail",
        )
        assert (await home.mail(mail_id)).state == "done"

    async def test_accepted_here_it_is_sent_once(self, home: Home, google: Google, model: Model) -> None:
        await switch(home, "draft")
        mail_id, item = await ask(home, model)
        await home.answer(item, "accept")
        assert [sent.text for sent in google.sent] == ["Friday is fine."]
        assert google.drafts == []
        assert (await home.mail(mail_id)).state == "done"

    async def test_what_the_person_makes_of_it_is_part_of_what_they_are_asked(
        self, home: Home, google: Google, model: Model
    ) -> None:
        await switch(home, "draft")
        mail_id, item = await ask(home, model)
        google.person_drafts(mail_id, "Saturday is better.", draft_id(google))
        await look(home)
        now = await home.item(item)
        assert now.in_gmail is not None
        assert (now.in_gmail.did, "Saturday is better." in now.in_gmail.text) == ("changed", True)
        assert (now.status, now.asked, now.asked_because) == ("pending", 2, "you changed its draft in Gmail")
        assert now.hash != item.hash
        assert "Saturday is better." in now.description
        before = len(google.calls())
        with pytest.raises(Conflict) as refused:
            await home.app.inbox.decide(home.app.user_id, item.id, {"type": "accept"}, by="test", asked=item.asked)
        assert all(text in str(refused.value) for text in ("Saturday is better.", "Friday is fine."))
        [outcome] = await home.app.inbox.decide_many(
            home.app.user_id, [(item.id, item.hash)], {"type": "accept"}, "test"
        )
        assert "Saturday is better." in str(outcome.refused)
        assert len(google.calls()) == before

        await look(home)  # nothing new is heard
        assert (await home.item(item)).asked == 2
        google.person_drafts(mail_id, "Friday is fine.", draft_id(google))
        await look(home)
        restored = await home.item(item)
        assert (restored.in_gmail, restored.asked) == (None, 3)

    @pytest.mark.parametrize("chosen", ["here", "in Gmail", "neither"])
    async def test_one_of_two_texts_goes_out_and_none_is_lost(
        self, home: Home, google: Google, model: Model, chosen: str
    ) -> None:
        await switch(home, "draft")
        mail_id, item = await ask(home, model)
        google.person_drafts(mail_id, "Saturday is better.", draft_id(google))
        await look(home)
        now = await home.item(item)
        assert now.in_gmail
        match chosen:
            case "here":
                await home.answer(now, "accept")
            case "in Gmail":
                await home.answer(now, "edit", now.in_gmail.args)
            case _:
                await home.answer(now, "done")
        sent = {"here": ["Friday is fine."], "in Gmail": ["Saturday is better."], "neither": []}[chosen]
        assert [each.text for each in google.sent] == sent
        assert [each.text for each in google.drafts] == ([] if chosen == "in Gmail" else ["Saturday is better."])
        assert (await home.item(item)).status == "applied"

    @pytest.mark.parametrize("typed", [None, "Sunday is best."])
    @pytest.mark.parametrize("did", ["change", "send", "discard"])
    async def test_sent_here_after_the_person_did_something_with_it_there_they_are_asked_again(
        self, home: Home, google: Google, model: Model, did: str, typed: str | None
    ) -> None:
        await switch(home, "draft")
        mail_id, item = await ask(home, model)
        match did:
            case "change":
                google.person_drafts(mail_id, "Saturday is better.", draft_id(google))
            case "send":
                google.person_drafts(mail_id, "Saturday is better.", draft_id(google))
                google.person_sends_draft(draft_id(google))
            case _:
                google.person_deletes(google.drafts[0].id)
        left = [draft.text for draft in google.drafts]
        here = typed or "Friday is fine."
        await home.answer(item, "edit" if typed else "accept", typed and {**item.args, "response_text": typed})
        await look(home)

        assert google.sent == []
        assert [draft.text for draft in google.drafts] == left
        again = await home.item(item)
        assert (again.status, again.asked, again.args["response_text"]) == ("pending", 2, here)
        assert "you had approved it, and you" in (again.asked_because or "")
        assert again.in_gmail
        assert again.in_gmail.did == {"change": "changed", "send": "sent", "discard": "gone"}[did]
        assert ("Saturday is better." in again.in_gmail.text) == (did != "discard")

        await home.answer(again, "accept")
        assert [sent.text for sent in google.sent] == [here]
        assert (await home.item(item)).status == "applied"
        assert [draft.text for draft in google.drafts] == left

    @pytest.mark.parametrize("seen", ["in its window", "before it is applied"])
    async def test_sent_there_before_they_type_another_here_what_they_typed_comes_back(
        self, open_home: OpenHome, google: Google, model: Model, seen: str
    ) -> None:
        async with open_home(undo_seconds=3600) as home:
            await switch(home, "draft")
            mail_id, item = await ask(home, model)
            google.person_drafts(mail_id, "Saturday is better.", draft_id(google))
            google.person_sends_draft(draft_id(google))
            await home.decide(item, "edit", {**item.args, "response_text": "Sunday is best."})
            if seen == "before it is applied":
                await home.sql("update inbox_items set undo_until = clock_timestamp()")
            await look(home)
            await look(home)
            again = await home.item(item)
            assert (again.status, again.asked, again.args["response_text"]) == ("pending", 2, "Sunday is best.")
            assert again.asked_because == "you had approved it, and you sent its draft in Gmail yourself"
            assert again.in_gmail
            assert "Saturday is better." in again.in_gmail.text
            assert google.sent == []

            await home.answer(again, "ignore")
            assert (await home.item(item)).status == "decided"

    async def test_changed_while_it_is_taken_up_it_comes_back_once_more(
        self, home: Home, google: Google, model: Model
    ) -> None:
        await switch(home, "draft")
        mail_id, item = await ask(home, model)
        for number, text in enumerate(("Saturday.", "Sunday.", "Monday."), 2):
            google.person_drafts(mail_id, text, draft_id(google))
            await home.answer(await home.item(item), "accept")
            now = await home.item(item)
            assert now.in_gmail
            assert (now.status, now.asked, now.in_gmail.args and now.in_gmail.args["response_text"]) == (
                "pending",
                number,
                text,
            )
        await home.answer(now, "edit", now.in_gmail and now.in_gmail.args)
        assert [sent.text for sent in google.sent] == ["Monday."]
        assert google.drafts == []

    @pytest.mark.parametrize("chosen", ["here", "in Gmail"])
    async def test_refused_by_gmail_what_still_stands_there_is_shown_again(
        self, home: Home, google: Google, model: Model, chosen: str
    ) -> None:
        await switch(home, "draft")
        mail_id, item = await ask(home, model)
        google.person_drafts(mail_id, "Saturday is better.", draft_id(google))
        await look(home)
        now = await home.item(item)
        google.fault("drafts.send", status=400, reason="failedPrecondition")
        theirs = now.in_gmail and now.in_gmail.args
        await home.answer(now, "accept" if chosen == "here" else "edit", None if chosen == "here" else theirs)
        [again] = await home.pending()
        kept = ["Saturday is better."] if chosen == "here" else []
        assert [draft.text for draft in google.drafts] == kept
        assert (again.in_gmail is not None) == bool(kept)
        await home.answer(again, "accept")
        assert [each.text for each in google.sent] == ["Friday is fine." if kept else "Saturday is better."]

    async def test_its_signature_is_not_sent_twice(self, home: Home, google: Google, model: Model) -> None:
        await home.app.accounts.describe(
            home.account_id, timezone=None, senders=[Identity(ADA, "Ada", "Ada Lovelace\nLondon")]
        )
        await switch(home, "draft")
        mail_id, item = await ask(home, model)
        google.person_drafts(mail_id, "Saturday.\n\n-- \nAda Lovelace\nLondon", draft_id(google))
        await look(home)
        now = await home.item(item)
        assert now.in_gmail
        assert now.in_gmail.args
        await home.answer(now, "edit", now.in_gmail.args)
        assert [sent.text for sent in google.sent] == ["Saturday.\n\n-- \nAda Lovelace\nLondon"]

    @pytest.mark.parametrize("holds", ["plan.pdf", "9000"], ids=["a file", "parts that differ"])
    async def test_one_with_more_than_a_text_can_be_sent_from_gmail_only(
        self, home: Home, google: Google, model: Model, holds: str
    ) -> None:
        await switch(home, "draft")
        _, item = await ask(home, model)
        [draft] = google.drafts
        message = message_from_bytes(draft.raw, policy=policy.default)
        if holds == "plan.pdf":
            message.add_attachment(b"%PDF", maintype="application", subtype="pdf", filename=holds)
        else:
            message.add_alternative("<p>Friday is fine. It costs 9000.</p>", subtype="html")
        google.update_draft(draft_id(google), message.as_bytes(), draft.thread_id)
        await look(home)
        now = await home.item(item)
        assert now.in_gmail
        assert (now.in_gmail.args, holds in now.in_gmail.text) == (None, True)
        await home.answer(now, "accept")
        assert [sent.text for sent in google.sent] == ["Friday is fine."]
        assert len(google.drafts) == 1  # with all that it holds

    async def test_a_connection_lost_while_it_is_taken_away_costs_no_decision(
        self, home: Home, google: Google, model: Model
    ) -> None:
        await switch(home, "draft")
        _, item = await ask(home, model)
        google.fault("drafts.delete", drop="after")
        await home.answer(item, "accept")
        assert [sent.text for sent in google.sent] == ["Friday is fine."]
        assert (await home.item(item)).status == "applied"

    async def test_a_connection_lost_while_it_is_taken_away_hides_no_answer_by_hand(
        self, home: Home, google: Google, model: Model
    ) -> None:
        await switch(home, "draft")
        _, item = await ask(home, model)
        google.fault("drafts.delete", drop="before")
        await home.decide(item, "accept")
        await home.step()
        google.person_sends_draft(draft_id(google))
        await home.carry_on()
        await look(home)
        assert google.sent == []
        again = await home.item(item)
        assert (again.status, again.in_gmail and again.in_gmail.did) == ("pending", "sent")

    @pytest.mark.parametrize("decided", [True, False])
    async def test_that_gmail_refuses_to_show_it_for_a_while_costs_nothing(
        self, home: Home, google: Google, model: Model, decided: bool
    ) -> None:
        await switch(home, "draft")
        google.fault("drafts.get", status=403, reason="accessNotConfigured")
        model.script([[reply("Friday is fine."), DONE]])
        mail_id = await home.receive()
        if not decided:
            await home.sync()
        [item] = await home.pending()
        if decided:
            await home.decide(item, "accept")
        await home.carry_on()
        assert (await home.mail(mail_id)).state == ("done" if decided else "waiting")
        assert len(google.sent) == decided

    async def test_a_new_signature_is_not_taken_for_a_change_by_the_person(
        self, home: Home, google: Google, model: Model
    ) -> None:
        await switch(home, "draft")
        _, item = await ask(home, model)
        await home.app.accounts.describe(home.account_id, timezone=None, senders=[Identity(ADA, "Ada", "Ada Lovelace")])
        await home.answer(item, "accept")
        assert len(google.sent) == 1
        assert google.drafts == []

    async def test_a_newer_mail_takes_the_draft_away_and_leaves_its_own(
        self, home: Home, google: Google, model: Model
    ) -> None:
        await switch(home, "draft")
        model.script(lambda request: [reply(f"On: {request.mails[-1].text.strip()}"), DONE])
        first = await home.receive(text="Friday?")
        assert [draft.text for draft in google.drafts] == ["On: Friday?"]
        google.deliver(BOB, "Re: Lunch?", "Or Monday?", thread=first)
        await look(home)
        assert [draft.text for draft in google.drafts] == ["On: Or Monday?"]

    @pytest.mark.parametrize("moment", ["before", "after"])
    async def test_a_connection_lost_while_it_is_left_makes_one_draft(
        self, home: Home, google: Google, model: Model, moment: str
    ) -> None:
        await switch(home, "draft")
        google.fault("drafts.create", drop=moment)  # type: ignore[arg-type]
        _, item = await ask(home, model)
        assert [draft.text for draft in google.drafts] == ["Friday is fine."]
        assert (await home.item(item)).status == "pending"
        await home.answer(item, "ignore")
        assert google.drafts == []

    async def test_archiving_the_mail_takes_the_draft_away_in_the_end(
        self, home: Home, google: Google, model: Model
    ) -> None:
        await switch(home, "draft")
        mail_id, item = await ask(home, model)
        google.fault("drafts.delete", status=503)
        google.person_moves(mail_id, out_of=("INBOX",))
        await look(home)
        assert (await home.item(item)).ended_because == ARCHIVED
        assert google.drafts == []

    async def test_that_gmail_refuses_the_draft_leaves_the_item(self, home: Home, google: Google, model: Model) -> None:
        await switch(home, "draft")
        google.fault("drafts.create", status=400, reason="invalidArgument")
        _, item = await ask(home, model)
        await home.answer(item, "accept")
        assert [sent.text for sent in google.sent] == ["Friday is fine."]


class TestTwoTexts:
    """Wherever the person answers, they see both, and say which goes out."""

    @pytest.mark.parametrize(
        ("door", "sent"),
        [
            ("the page's other button", "Saturday is better."),
            ("the page", "Friday is fine."),
            ("the command", "Friday is fine."),
            ("the command's option", "Saturday is better."),
            ("a program", "Saturday is better."),
        ],
    )
    def test_either_can_be_sent(self, start: Start, google: Google, model: Model, door: str, sent: str) -> None:
        model.script([[reply("Friday is fine."), DONE]])
        daemon = start(undo_seconds=0)
        daemon.cli("account", "mode", ADA, "draft")
        mail_id = google.deliver(BOB, "Lunch?", "Does Friday suit you?")
        [before] = daemon.pending()
        daemon.wait_for(lambda: google.drafts, "it is left in Gmail")
        google.person_drafts(mail_id, "Saturday is better.", draft_id(google))
        path = f"/items/{before['id']}"

        def now() -> Any:
            return daemon.http.get(f"/api/inbox/{before['id']}").json()

        daemon.wait_for(lambda: now()["asked"] == 2, "the change is heard of")
        stale = daemon.http.post(f"/api/inbox/{before['id']}/decision", json={"type": "accept"})
        posted = daemon.http.post(path, data={"answer": "accept", "asked": "1"})
        for refused in (stale, posted):
            assert refused.status_code == 409
            assert all(text in unescape(refused.text) for text in ("Saturday is better.", "Friday is fine."))
        page, shown = daemon.http.get(path).text, daemon.cli("inbox", "show", before["id"])
        for seen in (page, shown):
            assert all(text in seen for text in ("In Gmail its draft says:", "Saturday is better.", "Friday is fine."))
        assert "nothing was done" in daemon.run("inbox", "accept", before["id"]).stderr
        assert google.sent == []

        match door:
            case "the page's other button":
                assert "Send the one in Gmail" in page
                daemon.http.post(path, data={"answer": "gmail", "asked": "2"})
            case "the page":
                daemon.http.post(path, data={"answer": "accept", "asked": "2"})
            case "the command":
                daemon.cli("inbox", "accept", f"{before['id']}@{now()['hash']}")
            case "the command's option":
                daemon.cli("inbox", "accept", "--from-gmail", f"{before['id']}@{now()['hash']}")
            case _:
                answer = {"type": "edit", "args": now()["in_gmail"]["args"], "asked": 2}
                daemon.http.post(f"/api/inbox/{before['id']}/decision", json=answer)
        daemon.wait_for(lambda: google.sent, "it is sent")
        assert [each.text for each in google.sent] == [sent]
        daemon.until_done(mail_id)
        left = [] if sent == "Saturday is better." else ["Saturday is better."]
        assert [each.text for each in google.drafts] == left


@in_one_loop
class TestADraftThatIsBeingSent:
    """It is ours: it goes out as it was approved, and what the person wrote into it is kept."""

    @pytest.mark.parametrize("moment", ["created", "about to be sent", "after a refused try"])
    async def test_changed_in_gmail_it_goes_out_as_it_was_approved(
        self, home: Home, google: Google, model: Model, moment: str
    ) -> None:
        mail_id, item = await ask(home, model)
        hold = Hold()
        match moment:
            case "created":
                google.fault("drafts.create", hold=hold, at="after")
            case "about to be sent":
                google.fault("drafts.send", hold=hold)
            case _:
                google.fault("drafts.send", status=503)
        await home.decide(item, "accept")
        working = asyncio.create_task(home.step())
        await (working if moment == "after a refused try" else reached(hold))
        google.person_drafts(mail_id, "Saturday is better.", draft_id(google))
        hold.release()
        await working
        await home.carry_on()

        [sent] = google.sent
        assert (sent.text, sent.thread_id, sent.recipients) == ("Friday is fine.", mail_id, ["bob@example.org"])
        assert google.drafts == []
        now = await home.item(item)
        assert (now.status, (await home.mail(mail_id)).state) == ("applied", "done")
        if moment != "about to be sent":  # then nobody could read it any more
            assert "Saturday is better." in (now.overwritten or "")
            assert "Saturday is better." in now.state

    @pytest.mark.parametrize("moment", ["read", "about to be sent"])
    async def test_changed_and_sent_in_gmail_their_letter_is_told_where_it_is_asked_about(
        self, home: Home, google: Google, model: Model, moment: str
    ) -> None:
        mail_id, item = await ask(home, model)
        hold = Hold()
        google.fault("drafts.get" if moment == "read" else "drafts.send", hold=hold)
        await home.decide(item, "accept")
        working = asyncio.create_task(home.step())
        await reached(hold)
        google.person_drafts(mail_id, "Saturday is better.", draft_id(google))
        google.person_sends_draft(draft_id(google))
        hold.release()
        await working
        await home.carry_on()

        assert google.sent == []
        [doubt] = await home.pending()
        assert (doubt.kind, doubt.asked_because) == ("in_doubt", "you sent its draft in Gmail yourself")
        assert doubt.in_gmail
        assert doubt.in_gmail.text.strip() == "Saturday is better."
        assert "You have sent this in Gmail:\nSaturday is better." in doubt.description
        model.script([[DONE]])
        await home.answer(doubt, "ignore")
        assert google.sent == []
        assert await home.is_done(mail_id)

    @pytest.mark.parametrize("is_sent", [True, False])
    async def test_answered_with_another_message_it_is_looked_for_and_goes_out_once(
        self, home: Home, google: Google, model: Model, is_sent: bool
    ) -> None:
        mail_id, item = await ask(home, model)
        other = {"id": mail_id, "threadId": mail_id, "labelIds": ["SENT"]}
        google.fault("drafts.send", says=other, at="after" if is_sent else "before")
        await home.answer(item, "accept")
        [sent] = google.sent
        assert sent.text == "Friday is fine."
        assert (await home.sql("select external_id, state from effects")) == [{"external_id": sent.id, "state": "done"}]
        assert google.drafts == []


@in_one_loop
class TestShadowMode:
    async def test_all_is_shown_and_nothing_is_done(self, home: Home, google: Google, model: Model) -> None:
        await switch(home, "shadow")
        model.script([[meeting(), reply("See you."), DONE]])
        await home.receive()
        for item in await home.pending():
            assert (item.shadow, item.allowed) == (True, ["ignore", "response"])
            for answer in ("accept", "edit"):
                with pytest.raises(Invalid, match="shadow mode"):
                    await home.decide(item, answer, dict(item.args))
        assert changed(google) == []

    async def test_feedback_makes_another_proposal(self, home: Home, google: Google, model: Model) -> None:
        await switch(home, "shadow")
        model.script([[reply("Yes."), DONE], [reply("Yes, gladly."), DONE], [DONE]])
        await home.receive()
        [item] = await home.pending()
        await home.answer(item, "response", "Warmer, please.")
        [better] = await home.pending()
        assert better.args["response_text"] == "Yes, gladly."
        assert changed(google) == []

    async def test_mail_that_needs_nothing_more_keeps_unread(self, home: Home, google: Google, model: Model) -> None:
        await switch(home, "shadow")
        model.script([[reply("Yes."), DONE], [DONE]])
        mail_id = await home.receive()
        [item] = await home.pending()
        await home.answer(item, "response", "I have told him on the phone.")
        assert (await home.mail(mail_id)).state == "done"
        assert google.message(mail_id).is_unread

    async def test_when_it_ends_what_waits_can_be_done(self, home: Home, google: Google, model: Model) -> None:
        await switch(home, "shadow")
        _, item = await ask(home, model)
        await switch(home, "send")
        await home.answer(item, "accept")
        assert len(google.sent) == 1

    async def test_an_answer_that_comes_as_it_begins_is_refused(self, home: Home, google: Google, model: Model) -> None:
        _, item = await ask(home, model)
        before = changed(google)
        async with home.app.pool.connection() as conn, conn.transaction():
            await home.app.accounts.set_mode(conn, home.account_id, "shadow")
            answering = asyncio.create_task(home.decide(item, "accept"))
            await until(lambda: home.sql("select pid from pg_locks where not granted"))
        with pytest.raises(Invalid, match="shadow mode"):
            await answering
        await home.carry_on()
        assert changed(google) == before

    async def test_a_draft_that_could_not_be_left_before_it_began_is_not_left(
        self, home: Home, google: Google, model: Model
    ) -> None:
        await switch(home, "draft")
        model.script([[reply("Friday is fine."), DONE]])
        google.fault("drafts.create", status=503)
        google.deliver(BOB, "Lunch?", "Does Friday suit you?")
        await home.sync()
        await home.step()
        before = changed(google)
        await switch(home, "shadow")
        await home.carry_on()
        assert changed(google) == before

    async def test_what_was_decided_and_not_done_when_it_began_is_asked_again(
        self, open_home: OpenHome, google: Google, model: Model
    ) -> None:
        async with open_home(undo_seconds=3600) as home:
            _, item = await ask(home, model)
            await home.decide(item, "edit", {**item.args, "response_text": "My own words."})
            before = changed(google)
            assert await switch(home, "shadow") == 1
            again = await home.item(item)
            assert (again.status, again.asked_because) == (
                "pending",
                "shadow mode began before what you decided was done",
            )
            assert again.taken_back
            assert again.taken_back["args"]["response_text"] == "My own words."
            assert await switch(home, "send") == 0
            assert await switch(home, "shadow") == 0
            await home.carry_on()
            assert changed(google) == before


@in_one_loop
class TestAnAnswerByHand:
    async def test_while_gmail_is_down_takes_the_place_of_the_approved_one(
        self, home: Home, google: Google, model: Model
    ) -> None:
        mail_id, item = await ask(home, model)
        await home.decide(item, "accept")
        google.fault("drafts.create", status=503)
        await home.step()
        assert (await home.item(item)).status == "applied"
        google.person_sends(mail_id, "By hand: Friday.")
        await home.carry_on()
        assert google.sent == google.drafts == []
        mail = await home.mail(mail_id)
        assert (mail.state, mail.reason) == ("done", "you answered this yourself")
        assert (await home.item(item)).state == "approved, but not done: you answered this yourself"

    async def test_by_sending_a_draft_of_ours_as_it_is_is_what_was_approved(
        self, home: Home, google: Google, model: Model
    ) -> None:
        """It was made just before the program ended, which so has not stored it."""
        mail_id, item = await ask(home, model)
        await home.decide(item, "accept")
        google.fault("drafts.create", drop="after")
        await home.step()
        sent = google.person_sends_draft(draft_id(google))
        await home.carry_on()
        assert (google.sent, google.drafts) == ([], [])
        assert (await home.item(item)).state == "approved"
        assert await home.sql("select external_id, state from effects") == [{"external_id": sent, "state": "done"}]
        assert await home.is_done(mail_id)

    async def test_is_not_what_a_program_of_theirs_replies(self, home: Home, google: Google, model: Model) -> None:
        mail_id, item = await ask(home, model)
        headers = {"Auto-Submitted": "auto-replied"}
        google.deliver(ADA, "Re: Lunch?", "I am away.", thread=mail_id, headers=headers, labels=("SENT",))
        await look(home)
        assert (await home.item(item)).status == "pending"
        await home.decide(item, "accept")
        google.deliver(ADA, "Re: Lunch?", "I am still away.", thread=mail_id, headers=headers, labels=("SENT",))
        await home.carry_on()
        assert "Friday is fine." in [sent.text for sent in google.sent]

    async def test_from_before_the_decision_does_not_stop_it(self, home: Home, google: Google, model: Model) -> None:
        mail_id, _ = await ask(home, model)
        google.person_sends(mail_id, "By hand: Friday.")
        await look(home)
        await home.app.corrections.correct(home.app.user_id, mail_id, "notify", "test")
        await home.carry_on()
        [item] = await home.pending()
        await home.decide(item, "response", "Have him bring cake.")
        model.script([[reply("Bring cake."), DONE]])
        model.fault(status=503)
        await home.step()  # the model is down
        await home.carry_on()
        assert [item.args["response_text"] for item in await home.pending()] == ["Bring cake."]

    @pytest.mark.parametrize("went_out", [False, True])
    async def test_while_it_is_unclear_whether_ours_went_out_is_looked_into_first(
        self, home: Home, google: Google, model: Model, went_out: bool
    ) -> None:
        mail_id, item = await ask(home, model)
        await home.decide(item, "accept")
        if went_out:
            google.fault("drafts.send", drop="after")
            google.fault("threads.get", status=503)  # nor can it be looked for now
        else:
            google.fault("drafts.send", status=503)
            google.fault("threads.get", status=503)
        await home.step()
        google.person_sends(mail_id, "By hand: Friday.")
        await home.carry_on()
        assert [sent.text for sent in google.sent] == (["Friday is fine."] if went_out else [])
        assert google.drafts == []
        assert (await home.mail(mail_id)).state == "done"


class TestTheModeOfAnAccount:
    def test_is_shown_and_changed_by_command_and_page(self, start: Start, google: Google, model: Model) -> None:
        model.script([[reply("Friday is fine."), DONE]])
        daemon = start()
        assert "in send mode" in daemon.cli("account", "mode", ADA)
        daemon.cli("account", "mode", ADA, "shadow")
        google.deliver(BOB, "Lunch?", "Does Friday suit you?")
        [item] = daemon.wait_for(lambda: daemon.items(status="pending"), "it waits")
        assert (item["shadow"], item["allowed"]) == (True, ["ignore", "response"])
        page = daemon.http.get(f"/items/{item['id']}").text
        assert "what I would have done" in page
        assert not re.search(r'value="accept"', page)
        assert daemon.http.get("/api/accounts").json()["items"][0]["mode"] == "shadow"
        refused = daemon.http.post(f"/api/inbox/{item['id']}/decision", json={"type": "accept"})
        assert refused.status_code == 422
        assert "shadow mode" in refused.text

        answer = daemon.http.post("/accounts/mode", data={"account": ADA, "mode": "send"}, follow_redirects=False)

        assert answer.status_code == 303
        assert daemon.http.post(f"/api/inbox/{item['id']}/decision", json={"type": "accept"}).status_code == 200
        daemon.wait_for(lambda: google.sent, "the reply is sent")

    def test_says_what_it_takes_back_and_keeps_what_was_typed(self, start: Start, google: Google, model: Model) -> None:
        model.script([[reply("Friday is fine."), DONE]])
        daemon = start(undo_seconds=600)
        google.deliver(BOB, "Lunch?", "Does Friday suit you?")
        [item] = daemon.pending()
        edited = {**item["args"], "response_text": "My very own words."}
        daemon.answer(item, "edit", edited)

        assert "1 answer that was not carried out yet is taken back" in daemon.cli("account", "mode", ADA, "shadow")

        shown = daemon.cli("inbox", "show", item["id"])
        assert "You are asked again: shadow mode began before what you decided was done" in shown
        assert "My very own words." in shown
        daemon.http.post("/accounts/mode", data={"account": ADA, "mode": "send"})
        daemon.answer(item, "edit", edited)
        page = daemon.http.post("/accounts/mode", data={"account": ADA, "mode": "shadow"}, follow_redirects=True)
        assert "1 answer that was not carried out yet is taken back" in page.text


async def switch(home: Home, mode: str) -> int:
    return await home.app.inbox.set_mode(home.app.accounts, await home.account(), mode)  # type: ignore[arg-type]


def draft_id(google: Google) -> str:
    [only] = google.draft_ids
    return only


def changed(google: Google) -> list[str]:
    """Every request that changed something at Google."""
    return [call.name for call in google.calls() if call.method != "GET" and call.name != "token"]
