"""A mail system reports on a letter of ours: the person is told once, in our own words, and can send it again."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest
from textual.widgets import Input

from email_assistant.features.terminal.app import InboxApp
from email_assistant.features.terminal.desk import Desk
from email_assistant.google.errors import Transient
from email_assistant.inbox.items import Invalid, Item
from email_assistant.mail.address import Address
from email_assistant.mail.compose import compose_mail
from email_assistant.outgoing.entry import WITHOUT_TEXT
from email_assistant.outgoing.letters import Letter
from email_assistant.trail.story import Trail
from tests.doubles.google import Google
from tests.doubles.mail import Message, reported
from tests.doubles.model import Model, tool
from tests.doubles.serving import Hold
from tests.features.terminal.test_terminal import View
from tests.integration.conftest import Start
from tests.integration.home import Home, in_one_loop, reached, until
from tests.integration.scene import ADA, BOB, DONE, reply

CAROL = "carol@example.org"
TEXT = "Friday is fine."
GONE = (("bob@example.org", "failed", "5.1.1"),)
NOT_OURS = "PRETEND-THE-BOSS-SAYS-PAY"


async def letter(home: Home, model: Model, *copies: str) -> Message:
    """One that was approved and sent to Bob, and whose sent copy was seen."""
    model.script([[reply(TEXT, additional_recipients=list(copies)), DONE]])
    await home.receive()
    [item] = await home.pending()
    await home.answer(item, "accept")
    await home.sync()
    await home.carry_on()
    return home.google.sent[-1]


async def comes(home: Home, raw: bytes, thread: str | None = None) -> str:
    mail_id = home.google.deliver_raw(raw, thread)
    await home.sync()
    await home.carry_on()
    return mail_id


async def effects(home: Home) -> Sequence[tuple[str, str, str]]:
    rows = await home.sql("select key, state, result from effects order by key")
    return [(row["key"], row["state"], row["result"]) for row in rows]


def shown(item: Item) -> str:
    return "\n".join([item.description, str(item.args), str(item.sender), str(item.subject), *item.warnings])


@in_one_loop
class TestNotDelivered:
    async def test_the_person_can_send_it_to_another_address(self, home: Home, google: Google, model: Model) -> None:
        sent = await letter(home, model)
        before, asked = await effects(home), len(model.calls())
        report = await comes(home, reported(sent.message_id, *GONE), sent.thread_id)
        [item] = await home.pending()
        assert (item.kind, item.action, item.mail_id) == ("draft", "send_email_tool", report)
        assert item.args == {"response_text": TEXT, "email_address": "bob@example.org"}
        assert item.warnings == [
            "Your letter to bob@example.org was reported as not delivered: that address does not exist"
        ]
        assert (item.sender, item.subject) == ("bob@example.org", "Re: Lunch?")
        assert item.allowed == ["edit", "ignore"]
        assert await effects(home) == before
        same = {"response_text": f"{TEXT}\n".replace(" ", "\u00a0"), "email_address": "BOB@example.org"}
        for type_, args in (("accept", None), ("edit", item.args), ("edit", same), ("response", "Send it anyway.")):
            with pytest.raises(Invalid):
                await home.decide(item, type_, args)
        await home.answer(item, "edit", {**item.args, "email_address": "bob.berg@example.org"})
        again = google.sent[-1]
        assert (again.text, again.recipients, again.subject) == (TEXT, ["bob.berg@example.org"], sent.subject)
        assert (again.thread_id, again.parsed["In-Reply-To"]) == (sent.thread_id, sent.parsed["In-Reply-To"])
        assert [state for _, state, _ in await effects(home)] == ["done", "done"]
        assert before[0] in await effects(home)
        await home.sync()
        await home.carry_on()
        assert (await home.pending(), await home.is_done(report), len(model.calls())) == ([], True, asked)

    @pytest.mark.parametrize("beside", [True, False], ids=["in a conversation of its own", "in the letter's"])
    async def test_one_that_comes_while_the_letter_is_being_sent_counts(
        self, home: Home, google: Google, model: Model, beside: bool
    ) -> None:
        model.script([[reply(TEXT), DONE]])
        await home.receive()
        [item] = await home.pending()
        hold = Hold()
        google.fault("drafts.send", hold=hold, at="after")
        sending = asyncio.create_task(home.answer(item, "accept"))
        await reached(hold)
        [sent], asked = google.sent, len(model.calls())
        report = google.deliver_raw(reported(sent.message_id, *GONE), None if beside else sent.thread_id)
        await home.sync()
        await home.step()
        assert await home.pending() == []
        hold.release()
        await sending
        await home.carry_on()
        [item] = await home.pending()
        assert (item.mail_id, item.kind, item.allowed) == (report, "draft", ["edit", "ignore"])
        assert len(model.calls()) == asked

    @pytest.mark.parametrize("beside", [True, False], ids=["in a conversation of its own", "in the letter's"])
    async def test_one_that_comes_before_the_letters_copy_counts(
        self, home: Home, google: Google, model: Model, beside: bool
    ) -> None:
        model.script([[reply(TEXT), DONE]])
        await home.receive()
        [item] = await home.pending()
        await home.answer(item, "accept")
        [sent], asked = google.sent, len(model.calls())
        fault = google.fault("messages.get", about=sent.id, status=502, times=1000)
        report = google.deliver_raw(reported(sent.message_id, *GONE), None if beside else sent.thread_id)
        with pytest.raises(Transient):
            await home.sync()
        await home.step()
        assert (await home.pending(), len(model.calls())) == ([], asked)
        fault.times = 0
        await home.sync()
        await home.carry_on()
        [item] = await home.pending()
        assert (item.mail_id, item.kind, item.allowed) == (report, "draft", ["edit", "ignore"])
        assert len(model.calls()) == asked

    async def test_where_another_try_may_help_it_can_be_sent_as_it_was(
        self, home: Home, google: Google, model: Model
    ) -> None:
        sent = await letter(home, model)
        await comes(home, reported(sent.message_id, ("bob@example.org", "failed", "4.2.2")), sent.thread_id)
        [item] = await home.pending()
        assert "their mailbox is full" in item.warnings[0]
        assert item.allowed == ["accept", "edit", "ignore"]
        await home.answer(item, "accept")
        assert [each.recipients for each in google.sent] == [["bob@example.org"]] * 2

    async def test_nothing_that_the_report_says_is_shown_or_goes_to_a_model(self, home: Home, model: Model) -> None:
        sent = await letter(home, model)
        await comes(home, reported(sent.message_id, *GONE), sent.thread_id)
        [item] = await home.pending()
        assert NOT_OURS not in shown(item)
        assert "mx.example.net" not in shown(item)
        model.script([[reply("Until then."), DONE]])
        google = home.google
        google.deliver(BOB, "Re: Lunch?", "I have moved.", thread=sent.thread_id)
        await home.sync()
        await home.carry_on()
        assert NOT_OURS not in "".join(str(call.body) for call in model.calls())
        assert await home.app.mails.search(home.account_id, "pretend boss", "", 5) == []
        assert len(await home.pending()) == 2  # neither makes way for the other

    async def test_what_waits_in_its_conversation_stays(self, home: Home, model: Model) -> None:
        sent = await letter(home, model)
        model.script([[reply("Until then."), DONE]])
        home.google.deliver(BOB, "Re: Lunch?", "Where?", thread=sent.thread_id)
        await home.sync()
        await home.carry_on()
        [waiting] = await home.pending()
        await comes(home, reported(sent.message_id, *GONE), sent.thread_id)
        items = await home.pending()
        assert len(items) == 2
        [item] = [each for each in items if each.id != waiting.id]
        await home.answer(item, "edit", {**item.args, "email_address": "bob.berg@example.org"})
        await home.sync()
        await home.carry_on()
        assert [each.id for each in await home.pending()] == [waiting.id]

    async def test_any_change_may_help_as_the_report_may_be_false(
        self, home: Home, google: Google, model: Model
    ) -> None:
        sent = await letter(home, model)
        await comes(home, reported(sent.message_id, *GONE), sent.thread_id)
        [item] = await home.pending()
        await home.answer(item, "edit", {**item.args, "response_text": "Did Friday reach you?"})
        assert (google.sent[-1].text, google.sent[-1].recipients) == ("Did Friday reach you?", ["bob@example.org"])

    @pytest.mark.parametrize("mode", ["send", "draft"])
    async def test_it_goes_with_the_report_out_of_the_inbox_and_comes_back(
        self, home: Home, google: Google, model: Model, mode: str
    ) -> None:
        sent = await letter(home, model)
        await home.sql("update accounts set mode = %s", mode)
        report = await comes(home, reported(sent.message_id, *GONE), sent.thread_id)
        waiting = [each.args for each in await home.pending()]
        for to, out_of, left in (((), ("INBOX",), []), (("INBOX",), (), waiting)):
            google.person_moves(report, to=to, out_of=out_of)
            await home.sync()
            await home.carry_on()
            assert [each.args for each in await home.pending()] == left
            assert google.drafts == []

    async def test_where_its_text_is_kept_no_more_it_is_to_be_written(self, home: Home, model: Model) -> None:
        sent = await letter(home, model)
        await home.sql("update effects set args = without_text(args, %s)", WITHOUT_TEXT)
        await comes(home, reported(sent.message_id, *GONE), sent.thread_id)
        [item] = await home.pending()
        assert (item.is_blank, item.args["email_address"], item.allowed) == (
            True,
            "bob@example.org",
            ["edit", "ignore"],
        )
        await home.answer(item, "edit", {**item.args, "response_text": TEXT, "email_address": CAROL})
        assert home.google.sent[-1].recipients == [CAROL]

    async def test_dismissing_it_teaches_nothing(self, home: Home, model: Model) -> None:
        sent = await letter(home, model)
        await comes(home, reported(sent.message_id, *GONE), sent.thread_id)
        [item] = await home.pending()
        assert not item.is_about_mail
        await home.answer(item, "ignore")
        assert model.calls("memory") == []
        assert await home.sql("select 1 from judgements where mail_id = %s", item.mail_id) == []

    async def test_the_sent_letter_bears_the_note(self, home: Home, model: Model) -> None:
        sent = await letter(home, model)
        [answered] = [each for each in await home.items() if each.status == "applied"]
        await comes(home, reported(sent.message_id, *GONE), sent.thread_id)
        note = "reported as not delivered to bob@example.org: that address does not exist"
        assert (await home.item(answered)).state == f"approved; {note}"
        story = await Trail(home.app.pool, home.app.memory).of_mail(home.app.user_id, str(answered.mail_id))
        assert f"The reply was sent, and {note}." in [each.text for each in story]
        [item] = await home.pending()
        story = await Trail(home.app.pool, home.app.memory).of_mail(home.app.user_id, str(item.mail_id))
        assert any(each.text.startswith("You were given your letter, to send it again.") for each in story)
        assert not any("mx.example.net" in each.text for each in story)


@in_one_loop
class TestSeveralRecipients:
    async def test_who_got_it_and_who_did_not_are_both_named(self, home: Home, model: Model) -> None:
        sent = await letter(home, model, CAROL)
        told = (("bob@example.org", "delivered", "2.0.0"), (CAROL, "failed", "5.1.1"))
        await comes(home, reported(sent.message_id, *told), sent.thread_id)
        [item] = await home.pending()
        assert item.args == {"response_text": TEXT, "email_address": CAROL}
        assert item.warnings == [
            f"Your letter to {CAROL} was reported as not delivered: that address does not exist; "
            "to bob@example.org it was reported as delivered"
        ]

    async def test_two_of_whom_neither_got_it_are_asked_about_together(self, home: Home, model: Model) -> None:
        sent = await letter(home, model, CAROL)
        await comes(home, reported(sent.message_id, *GONE, (CAROL, "failed", "5.1.2")), sent.thread_id)
        [item] = await home.pending()
        assert (item.args["email_address"], item.args["additional_recipients"]) == ("bob@example.org", [CAROL])


@in_one_loop
class TestDelayed:
    async def test_it_is_a_notice_and_the_end_is_an_item(self, home: Home, google: Google, model: Model) -> None:
        sent = await letter(home, model)
        late = ("bob@example.org", "delayed", "4.4.1")
        for _ in range(2):
            await comes(home, reported(sent.message_id, late), sent.thread_id)
        [notice] = await home.pending()
        assert (notice.kind, notice.allowed) == ("notification", ["accept", "ignore"])
        assert notice.warnings == [
            "Your letter to bob@example.org was reported as delayed, and is still tried: their mail server does not "
            "answer"
        ]
        await comes(home, reported(sent.message_id, *GONE), sent.thread_id)
        await comes(home, reported(sent.message_id, late), sent.thread_id)
        assert sorted(item.kind for item in await home.pending()) == ["draft", "notification"]
        await home.answer(notice, "done")
        assert len(google.sent) == 1


@in_one_loop
class TestForged:
    @pytest.mark.parametrize(
        ("letter_of", "told"),
        [
            ("<another@example.com>", GONE),
            (None, (("mallory@example.net", "failed", "5.1.1"),)),
            (None, (("bob@example.org", "delivered", "2.0.0"),)),
        ],
        ids=["another letter", "another recipient", "no failure"],
    )
    async def test_what_names_no_letter_and_recipient_of_ours_is_mail_as_any_other(
        self, home: Home, model: Model, letter_of: str | None, told: Sequence[tuple[str, str, str]]
    ) -> None:
        sent = await letter(home, model)
        model.on_triage("notify")
        mail_id = await comes(home, reported(letter_of or sent.message_id, *told), sent.thread_id)
        assert (await home.mail(mail_id)).stage == "model"
        [item] = await home.pending()
        assert (item.kind, item.undelivered) == ("notification", None)

    @pytest.mark.parametrize("from_", [BOB, f"Ada <{ADA}>"], ids=["a known person", "oneself"])
    async def test_from_somebody_known_it_says_no_more(self, home: Home, model: Model, from_: str) -> None:
        sent = await letter(home, model)
        await comes(home, reported(sent.message_id, *GONE, from_=from_), sent.thread_id)
        [item] = await home.pending()
        assert item.sender == "bob@example.org"
        assert item.sender_name is None
        assert NOT_OURS not in shown(item)
        await home.answer(item, "ignore")
        rules = await home.sql("select 1 from store")
        assert rules == []

    async def test_the_id_that_we_gave_it_names_nothing(self, home: Home, google: Google, model: Model) -> None:
        """Gmail gives a letter an id of its own; that alone is known to its recipients."""
        sent = await letter(home, model)
        [row] = await home.sql("select message_id from effects")
        assert row["message_id"] == sent.message_id

    async def test_a_second_one_makes_no_other_item(self, home: Home, model: Model) -> None:
        sent = await letter(home, model)
        first = await comes(home, reported(sent.message_id, *GONE), sent.thread_id)
        second = await comes(home, reported(sent.message_id, ("bob@example.org", "failed", "4.4.7")))
        [item] = await home.pending()
        assert item.mail_id == first
        assert await home.is_done(second)
        assert "nothing new" in await home.reason(second)

    async def test_no_more_than_twenty_a_day_are_shown(self, home: Home, model: Model) -> None:
        people = [f"p{n}@example.org" for n in range(21)]
        sent = await letter(home, model, *people)
        for each in people:
            home.google.deliver_raw(reported(sent.message_id, (each, "failed", "5.1.1")), sent.thread_id)
        await home.sync()
        await home.carry_on()
        assert len(await home.pending()) == 20
        assert len(await home.sql("select 1 from undelivered")) == 21
        await home.sql("update undelivered set at = at - %s", timedelta(days=1))
        await comes(home, reported(sent.message_id, *GONE), sent.thread_id)
        assert len(await home.pending()) == 21


@in_one_loop
class TestFormsOfReports:
    async def test_one_that_only_names_whom_it_failed_for(self, home: Home, model: Model) -> None:
        sent = await letter(home, model)
        headers = {"X-Failed-Recipients": "bob@example.org", "In-Reply-To": sent.message_id}
        home.google.deliver("mailer-daemon@example.net", "Failure", NOT_OURS, thread=sent.thread_id, headers=headers)
        await home.sync()
        await home.carry_on()
        [item] = await home.pending()
        assert item.warnings == ["Your letter to bob@example.org was reported as not delivered"]
        assert item.allowed == ["accept", "edit", "ignore"]

    async def test_one_that_comes_with_the_sent_copy(self, home: Home, google: Google, model: Model) -> None:
        """Nobody looked into the mailbox between the two."""
        model.script([[reply(TEXT), DONE]])
        await home.receive()
        [item] = await home.pending()
        await home.answer(item, "accept")
        await comes(home, reported(google.sent[-1].message_id, *GONE), google.sent[-1].thread_id)
        [item] = await home.pending()
        assert item.undelivered

    async def test_one_sent_again_that_is_seen_before_gmail_has_answered_ends_nothing(
        self, home: Home, google: Google, model: Model
    ) -> None:
        """Its sent copy stands in the conversation, where newer mail waits for the person."""
        sent = await letter(home, model)
        await comes(home, reported(sent.message_id, *GONE), sent.thread_id)
        [item] = await home.pending()
        model.script(lambda _: [reply("Tuesday, then."), DONE])
        newer = await home.receive("Re: Lunch?", "Or Tuesday?", from_=CAROL, thread=sent.thread_id)
        sending = Hold()
        google.fault("drafts.send", hold=sending, at="after")
        await home.decide(item, "edit", {**item.args, "email_address": "bob.berg@example.org"})
        going_out = asyncio.create_task(home.carry_on())
        await reached(sending)
        await home.sync()
        await home.step()
        sending.release()
        await going_out
        await home.carry_on()
        assert [waiting.mail_id for waiting in await home.pending()] == [newer]

    async def test_one_on_a_letter_that_was_sent_again(self, home: Home, google: Google, model: Model) -> None:
        sent = await letter(home, model)
        await comes(home, reported(sent.message_id, *GONE), sent.thread_id)
        [item] = await home.pending()
        await home.answer(item, "edit", {**item.args, "email_address": CAROL})
        await home.sync()
        await comes(home, reported(google.sent[-1].message_id, (CAROL, "failed", "5.2.1")), sent.thread_id)
        [item] = await home.pending()
        assert (item.args["email_address"], item.subject) == (CAROL, "Re: Lunch?")


@in_one_loop
class TestOtherLetters:
    """They begin a conversation, so that what is sent again bears their subject as it was."""

    async def _is_sent_again(self, home: Home, text: str) -> None:
        google, sent = home.google, home.google.sent[-1]
        await comes(home, reported(sent.message_id, ("carol@example.org", "failed", "5.1.1")), sent.thread_id)
        [item] = await home.pending()
        assert (item.subject, item.args) == ("Offer", {"response_text": text, "email_address": CAROL})
        await home.answer(item, "edit", {**item.args, "email_address": "carol@example.net"})
        again = google.sent[-1]
        assert (again.subject, again.text, again.recipients) == ("Offer", text, ["carol@example.net"])
        assert again.parsed["In-Reply-To"] is None

    async def test_one_of_a_chat(self, home: Home, model: Model) -> None:
        model.on_policy("mail")
        given = {"email_id": None, "email_address": CAROL, "subject": "Offer", "response_text": "Ten each."}
        model.on_chat({"Send Carol the offer": [[tool("send_email_tool", **given)], "Done."]})
        await home.sync()
        account = await home.account()
        await home.works.chat.ask(account, "a", "Send Carol the offer")
        [item] = await home.pending()
        await home.works.chat.answer(
            (await home.works.chat.look(home.app.user_id, "a")).chat, home.app.user_id, [(item.id, {"type": "accept"})]
        )
        await self._is_sent_again(home, "Ten each.")

    async def test_one_of_a_program(self, home: Home, google: Google) -> None:
        await home.sync()
        account = await home.account()

        async def write() -> Letter:
            date, sender = datetime.now(UTC), Address("Ada", ADA)
            written = compose_mail(
                to=[CAROL], sender=sender, subject="Offer", text="Ten each.", signature="Ada", date=date
            )
            return Letter(written, None)

        gmail = (await home.app.clients.of(account)).gmail
        await home.app.outbox.send(gmail, account, "program", "key", {}, write)
        await self._is_sent_again(home, "Ten each.")


@in_one_loop
class TestInTheTerminal:
    async def test_it_is_sent_again_by_an_edit_alone(self, home: Home, google: Google, model: Model) -> None:
        sent = await letter(home, model)
        await comes(home, reported(sent.message_id, *GONE), sent.thread_id)
        inbox = InboxApp(Desk(home.app))
        async with inbox.run_test(size=(120, 50)) as pilot:
            view = View(inbox, pilot)
            await view.sees("Send again to bob@example.org: Friday is fine.")
            await view.opens("o")
            await view.sees("reported as not delivered: that address does not exist", "Your letter")
            assert NOT_OURS not in view.text
            await view.press("a")
            await view.sees("This does not take that; it takes: Send again as changed, Dismiss.")
            await view.press("r")
            await until(lambda: view.app.screen.query("#arg-email_address") and view.app.focused)
            view.app.screen.query_one("#arg-email_address", Input).value = CAROL
            await view.press("ctrl+s")
            await view.sees(CAROL)
            await view.press("a")
            await view.sees("Nothing waits for you.")
        await home.carry_on()
        assert google.sent[-1].recipients == [CAROL]


class TestEverywhere:
    def test_a_letter_to_nobody_comes_back_and_goes_to_somebody(
        self, connect: Start, google: Google, model: Model
    ) -> None:
        daemon = connect()
        daemon.up()
        model.script([[reply(TEXT, email_address="nobody@bounce.example"), DONE]])
        mail_id = google.deliver(BOB, "Lunch?", "Does Friday suit you?")
        [item] = daemon.pending()
        daemon.cli("inbox", "accept", item["id"])
        daemon.until_done(mail_id)
        [item] = daemon.pending()
        note = "our letter to nobody@bounce.example was reported as not delivered: that address does not exist"
        assert (item["subject"], [mark["kind"] for mark in item["marks"]]) == ("Re: Lunch?", ["undelivered"])
        assert f"Y{note}" in daemon.cli("inbox", "show", item["id"])
        page = daemon.http.get(f"/items/{item['id']}").text
        assert f"Y{note}" in page
        assert 'value="accept"' not in page
        assert not any(each in page for each in ("there is no such address", "mailer-daemon", "Mail Delivery"))
        assert "Not such mail" not in page
        assert "any mail from" not in page
        assert daemon.http.post(f"/api/inbox/{item['id']}/decision", json={"type": "accept"}).status_code == 422
        daemon.cli("inbox", "edit", item["id"], "email_address=bob@example.org")
        daemon.wait_for(lambda: len(google.sent) == 2, "it is sent again")
        assert (google.sent[-1].text, google.sent[-1].recipients) == (TEXT, ["bob@example.org"])
        assert len(model.calls("triage")) == 1
