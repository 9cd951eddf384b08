"""Which of the person's addresses a mail goes from, whom an answer to all reaches, and who the person is."""

from collections.abc import Mapping
from typing import Any

import pytest

from email_assistant.google.errors import Transient
from email_assistant.inbox.items import Invalid, Item
from email_assistant.tools.own.mail import DraftReply, MailTools, SendMail
from email_assistant.tools.own.mailbox import Mailbox
from email_assistant.tools.spec import ToolError
from tests.doubles.google import Google
from tests.doubles.model import Model
from tests.integration.conftest import Start
from tests.integration.home import Home, OpenHome, in_one_loop
from tests.integration.scene import ADA, BOB, DONE, reply

INFO = "info@example.com"
WORK = "ada.lovelace@example.net"


def give_aliases(google: Google) -> None:
    google.signature = "<p>Ada</p>"
    google.add_alias(INFO, "Example Ltd", "<p>Example Ltd<br>Main Street 1</p>")
    google.add_alias(WORK, "", "<p>A. Lovelace</p>")


async def ask(
    home: Home, model: Model, headers: Mapping[str, str] | None = None, answer: Mapping[str, object] | None = None
) -> Item:
    """A mail comes in, and a reply to it waits for the person."""
    model.script([[reply("Friday is fine.", **(answer or {})), DONE]])
    await home.receive(headers=headers)
    [item] = await home.pending()
    return item


@in_one_loop
class TestFrom:
    @pytest.mark.parametrize(
        ("headers", "sender", "signature"),
        [
            ({"To": ADA}, f"{ADA}", "-- \nAda"),
            ({"To": INFO}, f"Example Ltd <{INFO}>", "-- \nExample Ltd\nMain Street 1"),
            ({"To": "bob@example.org", "Cc": f"Ada <{WORK.upper()}>"}, WORK, "-- \nA. Lovelace"),
            ({"To": f"list@example.org, {INFO}", "Cc": ADA}, f"Example Ltd <{INFO}>", "Main Street 1"),
            ({"To": "list@example.org", "Delivered-To": WORK}, WORK, "-- \nA. Lovelace"),
            ({"To": "info+shop@example.com", "Delivered-To": ADA}, f"Example Ltd <{INFO}>", "Main Street 1"),
            ({"To": "list@example.org"}, ADA, "-- \nAda"),
        ],
    )
    async def test_a_reply_goes_from_the_address_that_the_mail_came_to(
        self, home: Home, google: Google, model: Model, headers: dict[str, str], sender: str, signature: str
    ) -> None:
        give_aliases(google)
        item = await ask(home, model, headers=headers)
        assert item.sent_from == google_address(sender)
        assert f"- From: {google_address(sender)}" in item.description
        await home.answer(item, "accept")
        [sent] = google.sent
        assert str(sent.parsed["From"]) == sender
        assert sent.text.endswith(signature)
        assert sent.recipients == ["bob@example.org"]

    async def test_new_mail_of_no_address_of_theirs_goes_from_their_default(
        self, home: Home, google: Google, model: Model
    ) -> None:
        google.add_alias(INFO, "Example Ltd", default=True)
        item = await ask(home, model, headers={"To": "list@example.org"})
        assert item.sent_from == INFO

    async def test_an_alias_that_gmail_has_not_verified_sends_nothing(
        self, home: Home, google: Google, model: Model
    ) -> None:
        google.add_alias(INFO, "Example Ltd", verified=False)
        item = await ask(home, model, headers={"To": INFO, "Delivered-To": ADA})
        assert item.sent_from == ADA
        assert (await home.account()).own_addresses == {ADA}

    async def test_the_list_is_read_again_every_day(self, home: Home, google: Google) -> None:
        await home.sync()
        google.add_alias(INFO)
        await home.sync()
        assert (await home.account()).own_addresses == {ADA}
        await home.sql("update accounts set described_at = described_at - interval '25 hours'")
        await home.sync()
        assert (await home.account()).own_addresses == {ADA, INFO}

    async def test_where_it_was_never_read_it_is_read_at_once(self, home: Home, google: Google) -> None:
        """As where the account was connected to another server."""
        google.add_alias(INFO)
        await home.sql("update accounts set described_at = clock_timestamp()")
        await home.sync()
        assert (await home.account()).own_addresses == {ADA, INFO}

    @pytest.mark.parametrize(
        "fault",
        [
            {"status": 502},
            {"status": 403, "reason": "insufficientPermissions"},
            {"says": {"kind": "no list"}},
            {"says": {"sendAs": []}},
            {"says": {"sendAs": [{"sendAsEmail": "info@example.com", "verificationStatus": "accepted"}]}},
        ],
        ids=["502", "403", "no list", "an empty one", "one without their own address"],
    )
    async def test_no_mail_is_read_before_it_is_known(
        self, home: Home, google: Google, model: Model, fault: dict[str, Any]
    ) -> None:
        give_aliases(google)
        google.fault("sendAs.list", **fault)
        model.script([[reply("Friday is fine."), DONE]])
        google.deliver(BOB, "Lunch?", "Does Friday suit you?", headers={"To": INFO})
        with pytest.raises(Transient, match="which addresses you send from"):
            await home.sync()
        assert await home.mails() == []
        await home.sync()
        await home.carry_on()
        [item] = await home.pending()
        assert item.sent_from == google_address(f"Example Ltd <{INFO}>")

    @pytest.mark.parametrize("status", [503, 403])
    async def test_a_timezone_that_google_does_not_say_holds_nothing_up(
        self, home: Home, google: Google, model: Model, status: int
    ) -> None:
        give_aliases(google)
        google.fault("settings.get", status=status, times=99)
        item = await ask(home, model, headers={"To": INFO})
        assert item.sent_from == google_address(f"Example Ltd <{INFO}>")

    @pytest.mark.parametrize("status", [403, 503])
    async def test_one_that_google_does_not_say_again_stays_known(
        self, home: Home, google: Google, status: int
    ) -> None:
        give_aliases(google)
        await home.sync()
        await home.sql("update accounts set described_at = described_at - interval '25 hours'")
        google.fault("sendAs.list", status=status, times=99)
        await home.sync()
        account = await home.account()
        assert account.own_addresses == {ADA, INFO, WORK}
        assert account.signature == "Ada"

    async def test_nobody_else_chooses_it(self, home: Home, google: Google, model: Model) -> None:
        give_aliases(google)
        item = await ask(home, model, headers={"To": INFO}, answer={"from_address": INFO})
        with pytest.raises(Invalid, match=f"this goes from {INFO}"):
            await home.decide(item, "edit", {**item.args, "from_address": WORK})
        assert (await home.item(item)).status == "pending"
        without = {name: value for name, value in item.args.items() if name != "from_address"}
        await home.answer(item, "edit", {**without, "response_text": "No."})
        assert [str(sent.parsed["From"]) for sent in google.sent] == [f"Example Ltd <{INFO}>"]

    async def test_an_alias_that_is_gone_is_never_replaced_in_silence(
        self, home: Home, google: Google, model: Model
    ) -> None:
        give_aliases(google)
        item = await ask(home, model, headers={"To": INFO, "Delivered-To": ADA})
        google.remove_alias(INFO)
        await home.answer(item, "accept")
        assert google.sent == google.drafts == []
        [again] = await home.pending()
        assert again.asked_because == f"not sent: {INFO} is no longer an address that Gmail lets you send from"
        assert (item.sent_from, again.sent_from) == (INFO, ADA)
        await home.answer(again, "accept")
        assert [sent.addresses("From") for sent in google.sent] == [[ADA]]

    @pytest.mark.parametrize("answer", ["accept", "ignore"])
    async def test_an_alias_that_is_gone_while_it_is_in_doubt_holds_nothing_up(
        self, home: Home, google: Google, model: Model, answer: str
    ) -> None:
        give_aliases(google)
        item = await ask(home, model, headers={"To": INFO, "Delivered-To": ADA})
        google.fault("drafts.send", status=503)
        await home.decide(item, "accept")
        await home.step()
        google.remove_alias(INFO)
        await home.carry_on()
        [doubt] = await home.pending()
        assert doubt.kind == "in_doubt"
        model.script(lambda request: [DONE])
        await home.answer(doubt, answer)
        for again in await home.pending():
            assert again.sent_from == ADA
            await home.answer(again, "accept")
        assert len(google.sent) == (answer == "accept")
        assert await home.works.due.due() == []

    async def test_a_draft_left_at_gmail_is_from_there_too(self, home: Home, google: Google, model: Model) -> None:
        give_aliases(google)
        await home.sql("update accounts set mode = 'draft'")
        await ask(home, model, headers={"To": INFO})
        [draft] = google.drafts
        assert str(draft.parsed["From"]) == f"Example Ltd <{INFO}>"


def google_address(mailbox: str) -> str:
    return mailbox.rpartition("<")[2].rstrip(">").lower()


@in_one_loop
class TestOneself:
    async def test_an_alias_is_neither_new_nor_answered(self, home: Home, google: Google, model: Model) -> None:
        give_aliases(google)
        item = await ask(
            home,
            model,
            headers={"To": f"{ADA}, {INFO}", "Cc": f"carol@example.org, {WORK}"},
            answer={"additional_recipients": [INFO, "carol@example.org", WORK.upper()]},
        )
        assert item.args["additional_recipients"] == ["carol@example.org"]
        assert item.new_recipients == ["carol@example.org"]
        assert item.left_out == []
        await home.answer(item, "accept")
        assert google.sent[0].addresses("Cc") == ["carol@example.org"]

    async def test_who_puts_another_of_their_own_into_copy_gets_it(
        self, home: Home, google: Google, model: Model
    ) -> None:
        give_aliases(google)
        item = await ask(home, model)
        await home.answer(item, "edit", {**item.args, "additional_recipients": [WORK]})
        assert google.sent[0].addresses("Cc") == [WORK]

    @pytest.mark.parametrize("sender", [ADA, INFO, "Ada+x@example.com"])
    async def test_mail_from_oneself_is_left_alone(self, home: Home, google: Google, model: Model, sender: str) -> None:
        give_aliases(google)
        mail_id = await home.receive(from_=sender)
        assert await home.reason(mail_id) == "from the account's own address"

    async def test_what_names_another_as_its_writer_too_is_not_from_oneself(self, home: Home, model: Model) -> None:
        model.on_triage("notify")
        mail_id = await home.receive(from_=f"{ADA}, Mallory <mallory@example.org>")
        assert [item.mail_id for item in await home.pending()] == [mail_id]

    @pytest.mark.parametrize("sender", [ADA, INFO])
    async def test_a_contact_forms_mail_is_answered_where_it_asks_for_it(
        self, home: Home, google: Google, model: Model, sender: str
    ) -> None:
        give_aliases(google)
        model.script([[reply("Of course.", email_address=""), DONE]])
        await home.receive(from_=sender, headers={"Reply-To": f"{sender}, Mallory <mallory@example.org>"})
        [item] = await home.pending()
        assert item.args["email_address"] == "mallory@example.org"
        await home.answer(item, "accept")
        assert google.sent[0].recipients == ["mallory@example.org"]


@in_one_loop
class TestEverybody:
    PEOPLE = tuple(f"p{n}@example.org" for n in range(1, 13))

    async def test_an_answer_to_all_of_twelve_people(self, home: Home, google: Google, model: Model) -> None:
        give_aliases(google)
        item = await ask(
            home,
            model,
            headers={"To": ", ".join((INFO, *self.PEOPLE[:6])), "Cc": ", ".join((*self.PEOPLE[6:], ADA))},
            answer={"additional_recipients": list(self.PEOPLE)},
        )
        prompt = model.calls("response")[-1].text
        assert all(person in prompt for person in self.PEOPLE)
        assert item.left_out == []
        await home.answer(item, "accept")
        assert google.sent[0].addresses("Cc") == list(self.PEOPLE)

    async def test_who_is_left_out_is_named(self, home: Home, google: Google, model: Model) -> None:
        item = await ask(
            home,
            model,
            headers={"To": ", ".join((ADA, *self.PEOPLE))},
            answer={"additional_recipients": [self.PEOPLE[0].upper()]},
        )
        assert item.left_out == list(self.PEOPLE[1:])
        assert f"- Not in copy: {', '.join(self.PEOPLE[1:])}" in item.description

    async def test_of_very_many_it_is_said_how_many(self, home: Home, google: Google, model: Model) -> None:
        many = [f"p{n}@example.org" for n in range(700)]
        item = await ask(home, model, headers={"To": ", ".join((ADA, *many))})
        assert item.left_out[-1] == "and 201 more"  # Bob is one of the 500
        assert len(item.left_out) == 500
        assert "p19@example.org and 480 more" in item.description
        assert " and 651 more" in model.calls("response")[-1].text

    async def test_all_that_a_mail_asks_to_answer_get_the_answer(
        self, home: Home, google: Google, model: Model
    ) -> None:
        headers = {"Reply-To": "bob@example.org, Team <team@example.org>", "Cc": "dave@example.org"}
        item = await ask(home, model, headers=headers)
        assert item.args["additional_recipients"] == ["team@example.org"]
        assert item.left_out == ["dave@example.org"]
        await home.answer(item, "edit", {**item.args, "additional_recipients": ""})
        assert google.sent[0].recipients == ["bob@example.org"]


def test_every_face_of_an_item_says_them(start: Start, google: Google, model: Model) -> None:
    google.add_alias(INFO, "Example Ltd")
    daemon = start(undo_seconds=30)
    model.script([[reply("Friday is fine."), DONE]])
    google.deliver(BOB, "Lunch?", "Does Friday suit you?", headers={"To": INFO, "Cc": "carol@example.org"})
    [item] = daemon.pending()
    assert (item["sent_from"], item["left_out"]) == (INFO, ["carol@example.org"])
    as_json = daemon.cli("inbox", "show", item["id"], "--json")
    assert (as_json["sent_from"], as_json["left_out"]) == (INFO, ["carol@example.org"])
    shown = daemon.cli("inbox", "show", item["id"])
    thread = str(daemon.http.get(f"/threads/{item['run']}").json())
    for text, sign in ((shown, ""), (thread, "- "), (item["description"], "- ")):
        assert f"{sign}From: {INFO}" in text
        assert f"{sign}Not in copy: carol@example.org" in text
    assert f"From: {INFO}\nTo: bob@example.org\n" in shown
    assert "\nSubject: Re: Lunch?\n\nFriday is fine." in shown
    assert "email_" not in shown
    page = daemon.http.get(f"/items/{item['id']}").text
    assert f"From: <strong><bdi>{INFO}</bdi></strong>" in page
    assert "Not in copy: <bdi>carol@example.org</bdi>" in page
    posted = daemon.http.post(
        f"/items/{item['id']}", data={"answer": "edit", "arg.response_text": "No."}, follow_redirects=False
    )
    assert posted.status_code == 303
    assert daemon.item(item["id"])["decision"]["args"]["from_address"] == INFO


async def test_what_a_page_empties_stays_empty(open_home: OpenHome, google: Google, model: Model) -> None:
    from email_assistant.tools.sending import SendEmail
    from email_assistant.web.forms import ProposalForm

    async with open_home() as home:
        item = await ask(home, model, headers={"Reply-To": "bob@example.org, team@example.org"})
        form = ProposalForm(item.args, SendEmail, (await home.account()).zone)
        await home.answer(item, "edit", form.read({"additional_recipients": ""}))
        assert google.sent[0].recipients == ["bob@example.org"]


async def test_programs_send_from_there_too(open_home: OpenHome, google: Google) -> None:
    give_aliases(google)
    google.add_alias("me@example.org", "Ada", default=True)
    async with open_home() as home:
        await home.sync()
        tools = MailTools(Mailbox(home.app.accounts, home.app.clients, home.account_id), home.app.outbox)
        headers = {"To": f"{INFO}, dave@example.org", "Reply-To": "bob@example.org, team@example.org", "Cc": WORK}
        thread = google.deliver(BOB, "Lunch?", "Does Friday suit you?", headers=headers)
        draft = await tools.draft_reply(DraftReply(thread_id=thread, text="Yes.", reply_all=True))
        assert (draft.to, draft.cc) == (["bob@example.org", "team@example.org"], ["dave@example.org"])
        [written] = google.drafts
        assert str(written.parsed["From"]) == f"Example Ltd <{INFO}>"
        letter = {"to": ["bob@example.org"], "text": "Hello.", "subject": "New", "idempotency_key": "key-of-the-test"}
        await tools.send_email(SendMail.model_validate(letter))
        assert str(google.sent[0].parsed["From"]) == "Ada <me@example.org>"
        google.remove_alias(INFO)
        with pytest.raises(ToolError, match=f"not sent: {INFO} is no longer"):
            await tools.draft_reply(DraftReply(thread_id=thread, text="No."))
