"""Mail that comes back into the inbox, taken out of the archive or out of Gmail's snooze, and what reopens with it."""

from datetime import timedelta

import pytest

from email_assistant.inbox.items import Item
from tests.doubles.google import Google
from tests.doubles.model import Model
from tests.integration.home import Home, OpenHome, in_one_loop
from tests.integration.scene import BOB, DONE, reply

ARCHIVED = "you archived this in Gmail"


async def look(home: Home) -> None:
    """The mailbox is polled, and what follows is done."""
    await home.sync()
    await home.carry_on()


async def archived(home: Home, google: Google, model: Model) -> tuple[str, Item]:
    """A mail came in, a reply to it waited, and the person archived the mail."""
    model.script([[reply("Friday is fine."), DONE]])
    mail_id = await home.receive()
    [item] = await home.pending()
    google.person_moves(mail_id, out_of=["INBOX"])
    await look(home)
    closed = await home.item(item)
    assert (closed.status, closed.ended_because) == ("superseded", ARCHIVED)
    return mail_id, item


async def stays_closed(home: Home, item: Item) -> None:
    await look(home)
    assert (await home.item(item)).status == "superseded"
    assert await home.works.due.due() == []


@in_one_loop
class TestBackInTheInbox:
    async def test_what_waited_waits_again(self, home: Home, google: Google, model: Model) -> None:
        mail_id, item = await archived(home, google, model)
        asked = len(model.calls())
        google.person_moves(mail_id, to=["INBOX"])
        await look(home)
        [again] = await home.pending()
        assert (again.id, again.args, again.ended_because) == (item.id, item.args, None)
        assert ((await home.mail(mail_id)).state, len(model.calls())) == ("waiting", asked)
        await home.answer(again, "accept")
        assert [sent.text for sent in google.sent] == ["Friday is fine."]
        assert (await home.mail(mail_id)).state == "done"
        assert len(model.calls("triage")) == 1

    @pytest.mark.parametrize("of_both", [False, True], ids=["of one", "of both, one after the other"])
    async def test_and_what_somebody_else_had_added_waits_with_it_again(
        self, home: Home, google: Google, model: Model, of_both: bool
    ) -> None:
        model.on_triage({"Lunch?": "respond", "FYI": "notify"})
        model.script(lambda _: [reply("Friday is fine."), DONE])
        asked = await home.receive()
        told = await home.receive("FYI", "The hall is booked.", thread=asked, from_="Carol <carol@example.net>")
        [item] = await home.pending()
        for mail_id in (asked, told) if of_both else (asked,):
            google.person_moves(mail_id, out_of=["INBOX"])
            await look(home)
        assert (await home.item(item)).status == "superseded"
        assert [each.kind for each in await home.pending()] == ([] if of_both else ["notification"])

        for mail_id in (asked, told) if of_both else (asked,):
            google.person_moves(mail_id, to=["INBOX"])
        await look(home)

        [again] = await home.pending()
        assert (again.id, [each["id"] for each in again.newer]) == (item.id, [told])
        assert [(await home.mail(mail)).state for mail in (asked, told)] == ["waiting", "waiting"]
        await home.answer(again, "ignore")
        [notice] = await home.pending()
        assert (notice.kind, notice.mail_id) == ("notification", told)

    async def test_what_was_then_said_to_need_nothing_stays_closed(
        self, home: Home, google: Google, model: Model
    ) -> None:
        mail_id, item = await archived(home, google, model)
        await home.app.corrections.correct(home.app.user_id, mail_id, "ignore", by="test")
        await stays_closed(home, item)
        google.person_moves(mail_id, to=["INBOX"])
        await stays_closed(home, item)

    @pytest.mark.parametrize("label", ["TRASH", "SPAM"])
    async def test_from_the_trash_and_from_spam_too(self, home: Home, google: Google, model: Model, label: str) -> None:
        model.script([[reply("Friday is fine."), DONE]])
        mail_id = await home.receive()
        [item] = await home.pending()
        google.person_moves(mail_id, to=[label], out_of=["INBOX"])
        await look(home)
        assert await home.pending() == []
        google.person_moves(mail_id, to=["INBOX"], out_of=[label])
        await look(home)
        assert [each.id for each in await home.pending()] == [item.id]

    async def test_as_often_as_the_person_likes(self, home: Home, google: Google, model: Model) -> None:
        mail_id, item = await archived(home, google, model)
        for _ in range(2):
            google.person_moves(mail_id, to=["INBOX"])
            await look(home)
            assert (await home.item(item)).status == "pending"
            google.person_moves(mail_id, out_of=["INBOX"])
            await look(home)
            assert (await home.item(item)).status == "superseded"

    async def test_while_nobody_looked_for_so_long_that_gmail_forgot(
        self, home: Home, google: Google, model: Model
    ) -> None:
        mail_id, item = await archived(home, google, model)
        google.person_moves(mail_id, to=["INBOX"])
        google.expire_history()
        await look(home)
        assert (await home.item(item)).status == "pending"

    async def test_an_item_that_slept_long_does_not_expire_at_once(
        self, open_home: OpenHome, google: Google, model: Model
    ) -> None:
        async with open_home(expire_days=14) as home:
            mail_id, item = await archived(home, google, model)
            await home.sql("update inbox_items set created_at = created_at - interval '30 days'")
            google.person_moves(mail_id, to=["INBOX"])
            await look(home)
            await home.app.inbox.expire(home.app.settings.provider)
            assert (await home.item(item)).status == "pending"

    async def test_a_mail_that_nothing_had_worked_on_is_read(self, home: Home, google: Google, model: Model) -> None:
        model.script([[reply("Friday is fine."), DONE]])
        mail_id = google.deliver(BOB, "Lunch?", "Does Friday suit you?")
        await home.sync()
        google.person_moves(mail_id, out_of=["INBOX"])
        await look(home)
        assert await home.reason(mail_id) == ARCHIVED
        assert model.calls() == []
        google.person_moves(mail_id, to=["INBOX"])
        await look(home)
        assert len(await home.pending()) == 1

    async def test_a_draft_that_was_left_at_gmail_is_left_again(self, home: Home, google: Google, model: Model) -> None:
        await home.sql("update accounts set mode = 'draft'")
        mail_id, item = await archived(home, google, model)
        assert google.drafts == []
        google.person_moves(mail_id, to=["INBOX"])
        await look(home)
        assert (await home.item(item)).status == "pending"
        [draft] = google.drafts
        assert draft.text == "Friday is fine."
        google.person_moves(mail_id, out_of=["INBOX"])
        await look(home)
        assert google.drafts == []

    async def test_a_letter_that_the_person_is_to_write_waits_again_and_is_no_draft(
        self, home: Home, google: Google, model: Model
    ) -> None:
        await home.sql("update accounts set mode = 'draft'")
        model.script([[DONE]])
        mail_id = await home.receive()
        for to, out_of in (((), ["INBOX"]), (["INBOX"], ())):
            google.person_moves(mail_id, to=to, out_of=out_of)
            await look(home)
        [item] = await home.pending()
        assert (item.is_blank, google.drafts) == (True, [])

    async def test_a_question_whose_graph_was_cleared_away_is_asked_anew(
        self, home: Home, google: Google, model: Model
    ) -> None:
        mail_id, item = await archived(home, google, model)
        model.script([[reply("Saturday, then."), DONE]])
        for table in ("checkpoints", "checkpoint_writes", "checkpoint_blobs"):
            await home.sql(f"delete from {table}")
        google.person_moves(mail_id, to=["INBOX"])
        await look(home)
        [new] = await home.pending()
        assert (new.id == item.id, new.args["response_text"]) == (False, "Saturday, then.")
        assert len(model.calls("triage")) == 1


@in_one_loop
class TestWhatHasHappenedSinceStands:
    async def test_an_answer_by_hand(self, home: Home, google: Google, model: Model) -> None:
        mail_id, item = await archived(home, google, model)
        google.person_sends(google.message(mail_id).thread_id, "Done already.")
        await look(home)
        google.person_moves(mail_id, to=["INBOX"])
        await stays_closed(home, item)
        google.person_moves(mail_id, out_of=["INBOX"])
        await look(home)
        google.person_moves(mail_id, to=["INBOX"])
        await stays_closed(home, item)
        assert (await home.mail(mail_id)).state == "done"

    async def test_an_answer_that_the_person_began(self, home: Home, google: Google, model: Model) -> None:
        mail_id, item = await archived(home, google, model)
        google.person_drafts(google.message(mail_id).thread_id, "Well,")
        google.person_moves(mail_id, to=["INBOX"])
        await stays_closed(home, item)

    async def test_newer_mail_that_needs_something(self, home: Home, google: Google, model: Model) -> None:
        mail_id, item = await archived(home, google, model)
        model.script([[reply("Sunday."), DONE]])
        await home.receive(thread=google.message(mail_id).thread_id, text="Or Sunday?")
        google.person_moves(mail_id, to=["INBOX"])
        await look(home)
        assert (await home.item(item)).status == "superseded"
        [newer] = await home.pending()
        assert newer.args["response_text"] == "Sunday."

    async def test_but_not_newer_mail_that_needs_nothing(self, home: Home, google: Google, model: Model) -> None:
        mail_id, item = await archived(home, google, model)
        model.on_triage("ignore")
        await home.receive(thread=google.message(mail_id).thread_id, text="I am away.")
        google.person_moves(mail_id, to=["INBOX"])
        await look(home)
        assert (await home.item(item)).status == "pending"

    async def test_a_decision_counts_for_more_than_archiving(self, home: Home, google: Google, model: Model) -> None:
        """It is not closed, so there is nothing to reopen, and undo leaves the text as it was."""
        home.app.inbox._undo_window = timedelta(minutes=5)
        model.script([[reply("Friday is fine."), DONE]])
        mail_id = await home.receive()
        [item] = await home.pending()
        await home.decide(item, "accept")
        google.person_moves(mail_id, out_of=["INBOX"])
        await look(home)
        assert (await home.item(item)).status == "decided"


@in_one_loop
class TestHistory:
    async def test_records_count_in_the_order_of_their_ids(self, home: Home, google: Google, model: Model) -> None:
        mail_id, item = await archived(home, google, model)
        google.person_moves(mail_id, to=["INBOX"])
        google.person_moves(mail_id, out_of=["INBOX"])
        google.person_moves(mail_id, to=["INBOX"])
        google.history_is_shuffled = True
        google.person_moves(mail_id, out_of=["INBOX"])
        await stays_closed(home, item)
        google.person_moves(mail_id, to=["INBOX"])
        google.person_moves(mail_id, out_of=["INBOX"])
        google.person_moves(mail_id, to=["INBOX"])
        await look(home)
        assert (await home.item(item)).status == "pending"

    async def test_ids_are_unsigned_numbers_of_64_bits(self, home: Home, google: Google) -> None:
        google.history_ahead = 2**64 - 100 - google.history_id
        await home.sync()
        google.deliver(BOB, "Lunch?", "Does Friday suit you?", labels=[])
        await home.sync()
        assert (await home.account()).history_id == 2**64 - 99


class TestKills:
    async def test_a_draft_that_could_not_be_left_again_yet_is_left_later(
        self, open_home: OpenHome, google: Google, model: Model
    ) -> None:
        async with open_home() as home:
            await home.sql("update accounts set mode = 'draft'")
            mail_id, item = await archived(home, google, model)
            google.person_moves(mail_id, to=["INBOX"])
            google.fault("drafts.create", status=503, times=1)
            await home.sync()
            await home.step()
            assert (await home.item(item)).status == "pending"
        async with open_home() as home:
            await home.carry_on()
            assert [draft.text for draft in google.drafts] == ["Friday is fine."]
            assert [each.id for each in await home.pending()] == [item.id]
