"""Two people in one conversation: whoever asks is answered, and what the other one says meanwhile takes nothing away.

The program's parts are driven in this process, one step at a time. Google and the model are doubles that speak the real
protocols.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import httpx
import pytest
import pytest_asyncio

from email_assistant.features.agent_inbox.wire import HumanInterrupt
from email_assistant.inbox.items import Item
from email_assistant.web.app import create_api
from tests.doubles.google import Google
from tests.doubles.model import Answer, Model, ModelRequest
from tests.doubles.serving import Hold
from tests.integration.home import Home, OpenHome, in_one_loop, reached
from tests.integration.scene import ADA, BOB, DONE, reply

CAROL = "Carol Cole <carol@example.net>"
CLASSES = {"Lunch?": "respond", "FYI": "notify", "Re: Lunch?": "respond", "Out of office": "ignore"}
SHOWN = "Also in this conversation"


@asynccontextmanager
async def pages(home: Home) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(create_api(home.app, home.works.chat, token=None, host="127.0.0.1"))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        yield client


@pytest_asyncio.fixture(loop_scope="module")
async def api(home: Home) -> AsyncIterator[httpx.AsyncClient]:
    async with pages(home) as client:
        yield client


@pytest.fixture(autouse=True)
def classes(model: Model) -> None:
    model.on_triage(CLASSES)
    model.script(on_the_last)


def on_the_last(request: ModelRequest) -> Answer:
    return [reply(f"On: {request.mails[-1].text.strip()}"), DONE]


async def bob_asks(home: Home) -> tuple[str, Item]:
    asked = await home.receive()
    [item] = await home.pending()
    return asked, item


async def carol_tells(home: Home, asked: str, subject: str = "FYI", text: str = "The hall is booked.") -> str:
    return await home.receive(subject, text, thread=asked, from_=CAROL)


async def states(home: Home, *mails: str) -> list[str]:
    return [(await home.mail(mail)).state for mail in mails]


@in_one_loop
class TestALowerMailFromSomebodyElse:
    async def test_leaves_the_answer_and_is_shown_on_it(
        self, home: Home, google: Google, model: Model, api: httpx.AsyncClient
    ) -> None:
        asked, item = await bob_asks(home)

        told = await carol_tells(home, asked)

        [waiting] = await home.pending()
        assert (waiting.id, waiting.mail_id, waiting.args) == (item.id, asked, item.args)
        assert await states(home, asked, told) == ["waiting", "waiting"]
        assert len(model.calls("response")) == 1
        [newer] = (await api.get(f"/api/inbox/{item.id}")).json()["newer"]
        assert [newer[name] for name in ("id", "sender", "subject", "classification")] == [
            told,
            "carol@example.net",
            "FYI",
            "notify",
        ]
        for text in (
            (await api.get(f"/api/inbox/{item.id}")).json()["description"],
            (await api.get(f"/items/{item.id}")).text,
            HumanInterrupt.of(waiting).description or "",
        ):
            assert SHOWN in text
            assert "carol" in text
        assert "also mail from carol@example.net" in (await api.get("/")).text

    async def test_that_came_before_is_shown_on_it_too(
        self, home: Home, google: Google, model: Model, api: httpx.AsyncClient
    ) -> None:
        told = await home.receive("FYI", "The hall is booked.", from_=CAROL)
        [notice] = await home.pending()
        asked = await home.receive(thread=told)
        [item] = await home.pending()
        assert (item.mail_id, (await home.item(notice)).status) == (asked, "superseded")
        [also] = (await api.get(f"/api/inbox/{item.id}")).json()["newer"]
        assert (also["id"], also["classification"]) == (told, "notify")
        assert SHOWN in item.description

    async def test_is_answered_with_it_when_it_is_sent(self, home: Home, google: Google, model: Model) -> None:
        asked, item = await bob_asks(home)
        told = await carol_tells(home, asked)

        await home.answer(item, "accept")

        [sent] = google.sent
        assert (sent.parsed["To"], sent.parsed["In-Reply-To"]) == ("bob@example.org", google.message(asked).message_id)
        assert await states(home, asked, told) == ["done", "done"]
        assert not google.message(told).is_unread
        assert await home.pending() == []

    @pytest.mark.parametrize("how", ["ignored", "not sent", "failed", "begun by hand", "archived", "corrected"])
    async def test_gets_a_notice_of_its_own_if_nothing_is_sent(
        self, home: Home, google: Google, model: Model, how: str
    ) -> None:
        asked, item = await bob_asks(home)
        told = await carol_tells(home, asked)

        match how:
            case "ignored":
                await home.answer(item, "ignore")
            case "not sent":
                model.script([[DONE]])
                await home.answer(item, "response", "I have told him on the phone.")
            case "failed":
                model.fault("response", status=400)
                await home.answer(item, "response", "Shorter.")
            case "begun by hand":
                google.person_drafts(asked, "Saturday is better.")
                await home.sync()
                await home.carry_on()
            case "archived":
                google.person_moves(asked, out_of=("INBOX",))
                await home.sync()
                await home.carry_on()
            case _:
                await home.app.corrections.correct(home.app.user_id, asked, "ignore", "test")
                await home.carry_on()

        [notice] = await home.pending()
        assert (notice.kind, notice.mail_id) == ("notification", told)
        assert (await home.mail(asked)).state == ("failed" if how == "failed" else "done")
        assert google.message(told).is_unread
        assert google.sent == []
        assert len(model.calls("triage")) == 2
        await home.answer(notice, "ignore")
        assert (await home.mail(told)).state == "done"
        assert await home.pending() == []

    async def test_that_was_answered_by_hand_with_the_rest_gets_none(
        self, home: Home, google: Google, model: Model
    ) -> None:
        asked, item = await bob_asks(home)
        told = await carol_tells(home, asked)
        google.person_sends(asked, "Friday is fine, and thank you, Carol.")
        await home.sync()
        await home.carry_on()
        assert (await home.item(item)).status == "superseded"
        assert await states(home, asked, told) == ["done", "done"]
        assert await home.pending() == []

    async def test_that_came_after_the_persons_answer_by_hand_gets_one(
        self, home: Home, google: Google, model: Model
    ) -> None:
        asked, _ = await bob_asks(home)
        google.person_sends(asked, "Friday is fine.")
        later = -timedelta(minutes=1)
        told = google.deliver(CAROL, "FYI", "The hall is booked.", thread=asked, age=later)
        await home.sync()
        await home.carry_on()
        [notice] = await home.pending()
        assert (notice.kind, notice.mail_id) == ("notification", told)

    async def test_that_was_archived_with_the_rest_gets_none(self, home: Home, google: Google, model: Model) -> None:
        asked, _ = await bob_asks(home)
        told = await carol_tells(home, asked)
        for mail in (asked, told):
            google.person_moves(mail, out_of=("INBOX",))
        await home.sync()
        await home.carry_on()
        assert await home.pending() == []
        assert await home.reason(told) == "you archived this in Gmail"

    async def test_that_came_after_the_decision_was_not_on_what_was_decided(
        self, open_home: OpenHome, google: Google, model: Model
    ) -> None:
        async with open_home(undo_seconds=3600) as home:
            asked, item = await bob_asks(home)
            await home.decide(item, "accept")
            told = await carol_tells(home, asked)
            assert (await home.item(item)).status == "decided"
            await home.sql("update inbox_items set undo_until = clock_timestamp()")
            await home.carry_on()
            assert [sent.text for sent in google.sent] == ["On: Does Friday suit you?"]
            [notice] = await home.pending()
            assert (notice.kind, notice.mail_id) == ("notification", told)
            assert google.message(told).is_unread

    async def test_that_comes_with_the_question_leaves_the_question_its_answer(
        self, home: Home, google: Google, model: Model
    ) -> None:
        asked = google.deliver(BOB, "Lunch?", "Does Friday suit you?")
        told = google.deliver(CAROL, "FYI", "The hall is booked.", thread=asked)
        await home.sync()
        await home.carry_on()
        [item] = await home.pending()
        assert (item.kind, item.mail_id, item.args["email_address"]) == ("draft", asked, "bob@example.org")
        assert [mail.id for mail in model.calls("response")[-1].mails] == [told, asked]
        assert f"Newer than it, and to be heeded: {told}" in model.calls("response")[-1].text
        await home.answer(item, "ignore")
        [notice] = await home.pending()
        assert (notice.kind, notice.mail_id) == ("notification", told)

    async def test_leaves_what_the_person_had_answered_though_it_was_a_notice(
        self, home: Home, google: Google, model: Model
    ) -> None:
        model.on_triage("notify")
        asked, notice = await bob_asks(home)
        await home.answer(notice, "response", "Tell him yes.")
        [item] = await home.pending()
        await carol_tells(home, asked)
        assert [waiting.id for waiting in await home.pending()] == [item.id]

    async def test_is_no_notice_any_more_when_it_is_corrected_to_be_ignored(
        self, home: Home, google: Google, model: Model
    ) -> None:
        asked, item = await bob_asks(home)
        told = await carol_tells(home, asked)
        await home.app.corrections.correct(home.app.user_id, told, "ignore", "test")
        await home.carry_on()
        assert (await home.item(item)).status == "pending"
        assert await states(home, asked, told) == ["waiting", "done"]
        await home.answer(item, "response", "Shorter.")
        assert await states(home, asked, told) == ["waiting", "done"]

    async def test_gets_its_notice_though_the_process_dies_in_between(
        self, home: Home, google: Google, model: Model
    ) -> None:
        asked, item = await bob_asks(home)
        told = google.deliver(CAROL, "FYI", "The hall is booked.", thread=asked)
        await home.sync()
        # It died once the mail was left to the waiting run, and before the graph of the mail's own had ended.
        hold = Hold()
        model.fault("triage", hold=hold)
        working = asyncio.create_task(home.step())
        await reached(hold)
        [run] = await home.sql("select id from runs where state = 'running'")
        hold.release()
        await working
        await home.carry_on()
        await home.sql("update runs set state = 'running' where id = %s", run["id"])
        await home.carry_on()
        assert [waiting.id for waiting in await home.pending()] == [item.id]
        assert await states(home, asked, told) == ["waiting", "waiting"]
        await home.answer(item, "ignore")
        assert [notice.mail_id for notice in await home.pending()] == [told]


@in_one_loop
class TestMailThatTakesThePlace:
    async def test_of_the_same_person_is_heeded_in_an_answer_to_the_question(
        self, home: Home, google: Google, model: Model
    ) -> None:
        asked, item = await bob_asks(home)

        more = await home.receive("FYI", "By the way, I bring cake.", thread=asked)

        assert (await home.item(item)).status == "superseded"
        [newer] = await home.pending()
        assert (newer.mail_id, newer.args["response_text"]) == (asked, "On: Does Friday suit you?")
        assert [mail.id for mail in model.calls("response")[-1].mails] == [more, asked]
        await home.answer(newer, "accept")
        [sent] = google.sent
        assert sent.parsed["In-Reply-To"] == google.message(asked).message_id
        assert await states(home, asked, more) == ["done", "done"]
        assert not google.message(more).is_unread
        assert len(model.calls("triage")) == 2

    async def test_of_the_same_class_from_somebody_else_is_answered(
        self, home: Home, google: Google, model: Model
    ) -> None:
        asked, item = await bob_asks(home)
        second = await carol_tells(home, asked, "Re: Lunch?", "May I come, too?")
        assert (await home.item(item)).status == "superseded"
        [newer] = await home.pending()
        assert newer.mail_id == second

    async def test_takes_the_note_that_waited_along(self, home: Home, google: Google, model: Model) -> None:
        asked, _ = await bob_asks(home)
        told = await carol_tells(home, asked)
        again = await home.receive("Re: Lunch?", "Or Thursday?", thread=asked)
        [item] = await home.pending()
        assert item.mail_id == again
        assert await states(home, asked, told, again) == ["waiting"] * 3
        await home.answer(item, "ignore")
        [notice] = await home.pending()
        assert (notice.kind, notice.mail_id) == ("notification", told)

    async def test_has_the_persons_words_and_the_approved_text(
        self, open_home: OpenHome, google: Google, model: Model
    ) -> None:
        async with open_home(undo_seconds=3600) as home:
            asked, item = await bob_asks(home)
            await home.decide(item, "accept")
            await home.receive("FYI", "By the way, I bring cake.", thread=asked)
            assert (await home.item(item)).status == "superseded"
            assert "had approved this text" in model.calls("response")[-1].text
            [newer] = await home.pending()
            await home.decide(newer, "response", "In French, please.")
            await home.receive("FYI", "And wine.", thread=asked)
            assert "Instruction from the person: In French, please." in model.calls("response")[-1].text

    @pytest.mark.parametrize("subject", ["Re: Lunch?", "FYI"])
    async def test_tells_that_the_answer_was_not_sent_and_gives_the_persons_words_back(
        self, open_home: OpenHome, google: Google, model: Model, subject: str
    ) -> None:
        async with open_home(undo_seconds=3600) as home, pages(home) as http:
            asked, item = await bob_asks(home)
            await home.decide(item, "edit", {**item.args, "response_text": "Not <b>Friday</b>,\nbut Monday."})
            await home.receive(subject, "I bring cake.", thread=asked)
            [newer] = await home.pending()
            told = "your answer to bob@example.org was not sent, as newer mail came; you had written: "
            assert newer.asked_because == f"{told}Not <b>Friday</b>, but Monday."
            assert newer.taken_back
            assert newer.taken_back["args"]["response_text"] == "Not <b>Friday</b>,\nbut Monday."
            assert "Not <b>Friday</b>,\nbut Monday." in model.calls("response")[-1].text
            assert told in (HumanInterrupt.of(newer).description or "")
            page = (await http.get(f"/items/{newer.id}")).text
            assert told in page
            assert ">\nNot &lt;b&gt;Friday&lt;/b&gt;,\nbut Monday.</textarea>" in page
            assert "asked again: " in (await http.get("/")).text
            assert "You had written" in (await http.get(f"/items/{item.id}")).text
            story = (await http.get(f"/api/mails/{asked}/trail")).text
            assert "What you had decided was not done: the conversation went on before." in story

            await home.decide(newer, "accept")
            await home.receive("Re: Lunch?", "And wine.", thread=asked)
            [newest] = await home.pending()
            assert newest.asked_because
            assert "was not sent, as newer mail came; you had approved: On: " in newest.asked_because
            assert newest.taken_back is None
            await home.decide(newest, "response", "Shorter.")
            await home.sql("update inbox_items set undo_until = clock_timestamp()")
            await home.carry_on()
            [shorter] = await home.pending()
            assert (shorter.asked_because, shorter.taken_back) == (None, None)

    async def test_of_somebody_else_is_no_draft_of_what_was_written_to_the_first(
        self, open_home: OpenHome, google: Google, model: Model
    ) -> None:
        async with open_home(undo_seconds=3600) as home:
            asked = await home.receive(headers={"Cc": CAROL})
            [item] = await home.pending()
            await home.decide(item, "edit", {**item.args, "response_text": "Only for Bob."})
            model.script([[reply("You, too.", email_address="carol@example.net"), DONE]])
            await carol_tells(home, asked, "Re: Lunch?", "May I come, too?")
            [newer] = await home.pending()
            assert newer.asked_because
            assert newer.asked_because.startswith("your answer to bob@example.org was not sent")
            assert newer.asked_because.endswith("you had written: Only for Bob.")
            assert newer.args["email_address"] == "carol@example.net"
            assert newer.taken_back is None

    async def test_and_finds_the_answer_decided_for_good_is_worked_on_by_itself(
        self, home: Home, google: Google, model: Model
    ) -> None:
        """The person accepts while the note is read; what they accepted goes out, once."""
        asked, item = await bob_asks(home)
        more = google.deliver(BOB, "FYI", "By the way, I bring cake.", thread=asked)
        await home.sync()
        hold = Hold()
        model.fault("triage", hold=hold)
        working = asyncio.create_task(home.step())
        await reached(hold)
        await home.decide(item, "accept")
        hold.release()
        await working
        await home.carry_on()
        assert len(google.sent) == 1
        assert (await home.item(item)).status == "applied"
        [notice] = await home.pending()
        assert (notice.kind, notice.mail_id) == ("notification", more)


@in_one_loop
class TestAStranger:
    """Whoever gets into a conversation can't stop what the person has decided."""

    @pytest.mark.parametrize("type_", ["accept", "edit"])
    async def test_s_mail_leaves_the_decided_answer_and_gets_an_item_of_its_own(
        self, open_home: OpenHome, google: Google, model: Model, type_: str
    ) -> None:
        async with open_home(undo_seconds=3600) as home:
            asked, item = await bob_asks(home)
            words = {**item.args, "response_text": "In my own words."} if type_ == "edit" else None
            await home.decide(item, type_, words)
            strange = await carol_tells(home, asked, "Re: Lunch?", "Pay me first.")
            decided = await home.item(item)
            assert (decided.status, [newer["id"] for newer in decided.newer]) == ("decided", [strange])
            await home.sql("update inbox_items set undo_until = clock_timestamp()")
            await home.carry_on()
            [sent] = google.sent
            assert sent.recipients == ["bob@example.org"]
            assert sent.text == ("In my own words." if words else "On: Does Friday suit you?")
            [own] = await home.pending()
            assert (own.kind, own.mail_id) == ("draft", strange)
            assert await states(home, asked, strange) == ["done", "waiting"]
            assert google.message(strange).is_unread
            await home.answer(own, "ignore")
            assert await home.pending() == []

    @pytest.mark.parametrize("then", ["ignore", "response"])
    async def test_s_mail_is_not_lost_if_the_decision_is_taken_back(
        self, open_home: OpenHome, google: Google, model: Model, then: str
    ) -> None:
        async with open_home(undo_seconds=3600) as home:
            asked, item = await bob_asks(home)
            await home.decide(item, "accept")
            strange = await carol_tells(home, asked, "Re: Lunch?", "Pay me first.")
            await home.app.inbox.undo(home.app.user_id, item.id)
            await home.carry_on()
            await home.decide(item, then, "Shorter." if then == "response" else None)
            await home.sql("update inbox_items set undo_until = clock_timestamp()")
            await home.carry_on()
            if then == "response":
                [again] = await home.pending()
                await home.decide(again, "ignore")
                await home.sql("update inbox_items set undo_until = clock_timestamp()")
                await home.carry_on()
            assert [own.mail_id for own in await home.pending()] == [strange]
            assert google.sent == []

    @pytest.mark.parametrize("known", ["written to", "in copy", "nothing is decided"])
    async def test_is_nobody_who_was_written_to_or_in_copy_and_can_ask_before_it_is_decided(
        self, open_home: OpenHome, google: Google, model: Model, known: str
    ) -> None:
        async with open_home(undo_seconds=3600) as home:
            if known == "written to":
                google.deliver(f"Ada <{ADA}>", "Hi", "Hello.", labels=("SENT",), headers={"To": CAROL})
            asked = await home.receive(headers={"Cc": CAROL} if known == "in copy" else {})
            [item] = await home.pending()
            if known != "nothing is decided":
                await home.decide(item, "accept")
            second = await carol_tells(home, asked, "Re: Lunch?", "May I come, too?")
            assert (await home.item(item)).status == "superseded"
            assert [newer.mail_id for newer in await home.pending()] == [second]


@in_one_loop
class TestIgnoredMail:
    async def test_leaves_the_answer_and_is_shown_on_it(
        self, home: Home, google: Google, model: Model, api: httpx.AsyncClient
    ) -> None:
        asked, item = await bob_asks(home)
        away = await home.receive(
            "Out of office", "I am away.", thread=asked, headers={"Auto-Submitted": "auto-replied"}
        )
        found = (await api.get(f"/api/inbox/{item.id}")).json()
        assert [(newer["id"], newer["classification"]) for newer in found["newer"]] == [(away, "ignore")]
        assert (await home.mail(away)).state == "done"
        await home.answer(item, "ignore")
        assert await home.pending() == []
        assert (await home.item(item)).newer == []
