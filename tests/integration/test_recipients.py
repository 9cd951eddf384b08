"""Whom an item would reach: who counts as known, what is marked, and what may be accepted among others."""

from collections.abc import AsyncIterator, Sequence
from datetime import timedelta
from html import unescape
from typing import Any

import httpx
import pytest
import pytest_asyncio

from email_assistant.inbox.items import Item
from email_assistant.web.app import create_api
from tests.doubles.daemon import Daemon
from tests.doubles.google import Google
from tests.doubles.model import Model
from tests.integration.home import Home, OpenHome, in_one_loop
from tests.integration.scene import ADA, BOB, DONE, meeting, reply

EVE = "eve@evil.example.net"
DAN = "dan@example.net"
LONG_AGO = timedelta(days=400)


@pytest_asyncio.fixture(loop_scope="module")
async def http(home: Home) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(app=create_api(home.app, home.works.chat, token=None, host="127.0.0.1"))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        yield client


def wrote(google: Google, *, age: timedelta = LONG_AGO, **headers: str) -> None:
    """Ada has sent a mail in Gmail; long ago means that it is not stored here."""
    google.deliver(f"Ada <{ADA}>", "Hello", "Hello.", labels=("SENT",), age=age, headers=headers)


def asks(model: Model, *copied: str, to: str = "bob@example.org") -> None:
    """The assistant answers every mail so."""
    more: dict[str, Any] = {"additional_recipients": list(copied)} if copied else {}
    model.script(lambda _: [reply("Fine.", email_address=to, **more), DONE])


async def asked(home: Home) -> Item:
    [item] = await home.pending()
    return item


def kinds(item: Item) -> dict[str, set[str]]:
    """What each address is marked for."""
    found: dict[str, set[str]] = {}
    for mark in item.marks:
        if mark.address:
            found.setdefault(mark.address, set()).add(mark.kind)
    return found


def searches(google: Google) -> Sequence[str]:
    """What Gmail was asked about recipients."""
    return [q for call in google.calls("messages.list") if (q := call.get("q") or "").startswith("in:sent to:")]


@in_one_loop
class TestKnown:
    async def test_whoever_only_wrote_or_was_named_by_others_is_new_in_the_thread_too(
        self, home: Home, google: Google, model: Model
    ) -> None:
        model.on_triage({"Hello": "ignore", "Lunch?": "respond"})
        copied = ["dan@example.net", "carol@example.com", EVE]
        asks(model, *copied)
        await home.receive("Hello", from_="Dan <dan@example.net>")
        await home.receive(headers={"Cc": f"Carol <carol@example.com>, {EVE}"})
        item = await asked(home)
        assert kinds(item) == {address: {"new_recipient"} for address in copied}
        assert item.new_recipients == copied
        assert item.first_answer == "bob@example.org"

    async def test_is_whoever_was_answered_meanwhile(self, home: Home, google: Google, model: Model) -> None:
        asks(model)
        await home.receive("One")
        await home.receive("Two")
        one, two = await home.pending()
        assert {one.first_answer, two.first_answer} == {"bob@example.org"}
        await home.answer(one, "accept")
        assert (await home.item(two)).first_answer is None

    async def test_is_put_back_by_no_edit_that_empties_to_or_leaves_it_out(
        self, home: Home, google: Google, model: Model, http: httpx.AsyncClient
    ) -> None:
        asks(model, to="carol@example.com")
        await home.receive(headers={"Reply-To": EVE})
        item = await asked(home)
        without = {name: value for name, value in item.args.items() if name != "email_address"}
        for given, says in (
            *(({**without, "email_address": empty}, "To is empty: say to whom") for empty in ("", None, "  ")),
            (without, "email_address is left out: an edit is all of the arguments"),
            ({"action": item.action, "args": without}, "email_address is left out"),
        ):
            refused = await http.post(f"/api/inbox/{item.id}/decision", json={"type": "edit", "args": given})
            assert (refused.status_code, says in refused.json()["detail"]) == (422, True), given
        await home.answer(item, "edit", {**without, "email_address": "carol@example.com"})
        assert [sent.recipients for sent in google.sent] == [["carol@example.com"]]

    async def test_in_copy_is_put_back_by_no_edit_either(self, home: Home, google: Google, model: Model) -> None:
        asks(model)
        await home.receive(headers={"Reply-To": f"bob@example.org, {DAN}"})
        item = await asked(home)
        assert item.args["additional_recipients"] == [DAN]
        await home.answer(item, "edit", {"email_address": "bob@example.org", "response_text": "Yes."})
        assert [sent.recipients for sent in google.sent] == [["bob@example.org"]]

    async def test_one_with_a_name_is_judged_and_known_by_the_address(
        self, home: Home, google: Google, model: Model
    ) -> None:
        asks(model, f"Bob Berg <{EVE}>", f'"bob@example.org" <{DAN}>', to="Bob Berg <bob@example.org>")
        await home.receive("Lunch?", headers={"Cc": "carol@example.com"})
        item = await asked(home)
        assert item.args["email_address"] == "Bob Berg <bob@example.org>"
        assert set(kinds(item)) == {EVE, DAN}
        assert "lookalike" in kinds(item)[DAN]
        assert item.first_answer == "bob@example.org"
        named = "Carl Cole <carl@example.com>"
        await home.answer(item, "edit", {**item.args, "additional_recipients": [named]})
        [sent] = google.sent
        assert (sent.parsed["To"], sent.parsed["Cc"]) == ("Bob Berg <bob@example.org>", named)
        asks(model, "carl@example.com")
        await home.receive("Once more", headers={"Cc": "carl@example.com"})
        assert (await asked(home)).marks == []

    async def test_whom_a_notice_comes_from_may_not_be_who_they_seem(
        self, home: Home, google: Google, model: Model, http: httpx.AsyncClient
    ) -> None:
        wrote(google, age=timedelta(days=1), To="Bob Berg <bob@example.org>")
        model.on_triage("notify")
        await home.receive("The account has changed", from_="Bob Berg <bob@exarnple.org>")
        await home.receive("Hello", from_="Dan <dan@example.net>")
        false, honest = await home.pending()
        assert kinds(false) == {"bob@exarnple.org": {"lookalike"}}
        assert (honest.marks, honest.first_answer) == ([], None)
        assert false.description.startswith("! ")

    async def test_a_reply_to_of_somebody_elses_is_new_and_no_first_answer(self, home: Home, model: Model) -> None:
        asks(model, to=EVE)
        await home.receive(headers={"Reply-To": EVE})
        item = await asked(home)
        assert kinds(item) == {EVE: {"new_recipient"}}
        assert item.first_answer is None

    async def test_whom_the_account_has_written_to_is_known_by_every_header(
        self, home: Home, google: Google, model: Model
    ) -> None:
        wrote(google, age=timedelta(days=1), To="Bob Berg <Bob@Example.org>", Cc="carol@example.com", Bcc=EVE)
        asks(model, "carol@example.com", EVE)
        await home.receive(headers={"Cc": f"carol@example.com, {EVE}"})
        item = await asked(home)
        assert (item.marks, item.first_answer) == ([], None)
        assert searches(google) == []

    async def test_a_mail_that_only_claims_to_be_ones_own_makes_nobody_known(self, home: Home, model: Model) -> None:
        asks(model, EVE)
        await home.receive("Note to self", from_=f"Ada <{ADA}>", headers={"To": EVE})
        await home.receive()
        assert kinds(await asked(home)) == {EVE: {"new_recipient"}}

    async def test_who_got_an_approved_mail_is_known_at_once(self, home: Home, model: Model) -> None:
        asks(model, EVE)
        await home.receive()
        await home.answer(await asked(home), "accept")
        await home.sql("delete from mails where own")  # before the sent mail is seen
        await home.receive("Dinner?", headers={"Cc": EVE})
        item = await asked(home)
        assert (item.marks, item.first_answer) == ([], None)

    async def test_who_was_to_get_one_that_gmail_refused_stays_new(
        self, home: Home, google: Google, model: Model
    ) -> None:
        asks(model, EVE)
        await home.receive(headers={"Cc": EVE})
        google.fault("drafts.send", status=400, times=1)
        await home.answer(await asked(home), "accept")
        assert google.sent == []
        await home.receive("Dinner?", headers={"Cc": EVE})
        assert [kinds(item) for item in await home.pending()] == [{EVE: {"new_recipient"}}] * 2

    async def test_a_meeting_is_judged_by_its_guests(self, home: Home, model: Model) -> None:
        model.script([[meeting(attendees=["bob@example.org", ADA, EVE]), DONE]])
        await home.receive()
        item = await asked(home)
        assert (kinds(item), item.first_answer) == ({EVE: {"new_recipient"}}, "bob@example.org")


CAROL = "carol@example.com"


@in_one_loop
class TestOutside:
    """Whom the person knows is none to whom they meant to tell what somebody else wrote."""

    @pytest.mark.parametrize("age", [timedelta(days=1), LONG_AGO], ids=["stored", "at Gmail"])
    async def test_is_told_of_a_known_one_whom_the_mail_alone_names(
        self, home: Home, google: Google, model: Model, http: httpx.AsyncClient, age: timedelta
    ) -> None:
        wrote(google, age=age, To=CAROL)
        asks(model, CAROL)
        await home.receive("Invoice", f"Please forward this to your accountant, {CAROL}.")
        item = await asked(home)
        assert kinds(item) == {CAROL: {"outside"}}
        assert item.new_recipients == []
        says = f"Goes to somebody who is not in this conversation: {CAROL}"
        assert item.warnings == [says]
        assert says in (await http.get("/")).text
        assert item.alone == f"look at it by itself: {says}"

    async def test_is_told_of_a_guest(self, home: Home, google: Google, model: Model) -> None:
        wrote(google, age=timedelta(days=1), To=CAROL)
        model.script([[meeting(attendees=["bob@example.org", CAROL]), DONE]])
        await home.receive()
        assert kinds(await asked(home)) == {CAROL: {"outside"}}

    @pytest.mark.parametrize("named", [CAROL, "Carol"])
    async def test_is_nobody_whom_the_person_names(self, home: Home, google: Google, model: Model, named: str) -> None:
        wrote(google, age=timedelta(days=1), To=CAROL)
        asks(model)
        await home.receive()
        first = await asked(home)
        asks(model, CAROL)
        await home.answer(first, "response", f"Please copy {named} too.")
        assert (await asked(home)).marks == []

    async def test_is_nobody_of_an_earlier_mail_of_it(self, home: Home, google: Google, model: Model) -> None:
        wrote(google, age=timedelta(days=1), To=CAROL)
        asks(model)
        mail = await home.receive(headers={"Cc": CAROL})
        asks(model, CAROL)
        google.deliver(BOB, "Re: Lunch?", "And now?", thread=google.message(mail).thread_id)
        await home.sync()
        await home.carry_on()
        assert (await asked(home)).marks == []


@in_one_loop
class TestTyped:
    async def edited(self, home: Home, model: Model, http: httpx.AsyncClient, *copied: str) -> Item:
        """An edit that copies the mail to these is refused by Gmail; then the same is proposed again."""
        asks(model, EVE)
        await home.receive()
        first = await asked(home)
        home.google.fault("drafts.create", status=400, reason="invalidArgument")
        await home.answer(first, "edit", {**first.args, "additional_recipients": list(copied)})
        asks(model, EVE, "carol@example.com")
        await home.receive("Dinner?", headers={"Cc": f"{EVE}, carol@example.com"})
        [item] = [each for each in await home.pending() if each.subject == "Dinner?"]
        return item

    async def test_what_the_person_typed_is_known(self, home: Home, model: Model, http: httpx.AsyncClient) -> None:
        item = await self.edited(home, model, http, "carol@example.com")
        assert kinds(item) == {EVE: {"new_recipient"}}

    async def test_an_edit_that_repeats_what_was_proposed_types_nothing(
        self, home: Home, model: Model, http: httpx.AsyncClient
    ) -> None:
        item = await self.edited(home, model, http, EVE)
        assert kinds(item) == {EVE: {"new_recipient"}, "carol@example.com": {"new_recipient"}}


@in_one_loop
class TestAtGmail:
    async def test_an_old_friend_is_found_once_and_kept(self, home: Home, google: Google, model: Model) -> None:
        wrote(google, To=f"Eve <{EVE}>")
        wrote(google, To="x@example.com, carol@example.com")
        asks(model, EVE, "carol@example.com", "dan@example.net")
        await home.receive(headers={"Cc": f"{EVE}, carol@example.com"})
        assert kinds(await asked(home)) == {"dan@example.net": {"new_recipient"}}
        said = [f"in:sent to:{address}" for address in (EVE, "carol@example.com", "dan@example.net")]
        assert searches(google) == said
        await home.receive("Dinner?", headers={"Cc": EVE})
        assert searches(google) == said

    async def test_a_hit_that_is_another_address_is_none(self, home: Home, google: Google, model: Model) -> None:
        wrote(google, To=f"not-{EVE}")
        asks(model, EVE)
        await home.receive()
        assert len(searches(google)) == 1
        assert kinds(await asked(home)) == {EVE: {"new_recipient"}}

    async def test_where_gmail_cannot_be_asked_the_item_says_so(
        self, home: Home, google: Google, model: Model, http: httpx.AsyncClient
    ) -> None:
        wrote(google, To=EVE)
        asks(model, EVE)
        await home.sync()
        google.fault("messages.list", status=403, reason="forbidden")
        await home.receive()
        item = await asked(home)
        assert kinds(item) == {EVE: {"unknown_recipient"}}
        assert item.new_recipients == [EVE]
        assert f"Not known whether you have written to them: {EVE}" in (await http.get(f"/items/{item.id}")).text
        await home.receive("Dinner?", headers={"Cc": EVE})  # the failure was not taken for an answer
        assert [kinds(each) for each in await home.pending() if each.subject == "Dinner?"] == [{}]

    async def test_no_more_than_five_are_asked_about(self, home: Home, google: Google, model: Model) -> None:
        many = [f"guest{n}@example.net" for n in range(7)]
        asks(model, *many)
        await home.receive()
        marks = kinds(await asked(home))
        assert [marks[each] for each in many] == [{"new_recipient"}] * 5 + [{"unknown_recipient"}] * 2
        assert len(searches(google)) == 5

    async def test_the_usual_answer_costs_nothing(self, home: Home, google: Google, model: Model) -> None:
        asks(model)
        await home.receive()
        item = await asked(home)
        assert (item.marks, item.first_answer) == ([], "bob@example.org")
        assert searches(google) == []

    async def test_no_address_can_widen_the_search(self, home: Home, google: Google, model: Model) -> None:
        model.on_triage("respond")
        asks(model, "a{b}|c@example.net")
        await home.receive()
        assert searches(google) == ['in:sent to:"a{b}|c@example.net"']


@in_one_loop
class TestLookalikes:
    @pytest.mark.parametrize(
        ("sender", "says"),
        [
            pytest.param("Bob <bob@exarnple.org>", "looks like bob@example.org, and is another", id="address"),
            pytest.param("Tom <tom@exarnple.org>", "domain looks like example.org", id="domain"),
            pytest.param("Tom <tom@mail.exarnple.org>", "domain looks like example.org", id="subdomain"),
            pytest.param("Tom <tom@example.org.evil.net>", "domain looks like example.org", id="beginning"),
            pytest.param("Tom <tom@xn--exmple-4nf.org>", "domain looks like example.org", id="punycode"),
            pytest.param("Bob Berg <bob@evil.net>", "bears the name of bob@example.org", id="name"),
            pytest.param("Bоb Bеrg <bob@evil.net>", "bears the name of bob@example.org", id="homoglyphs"),
            pytest.param("Berg, Bob <bob@evil.net>", "bears the name of bob@example.org", id="turned round"),
            pytest.param('"bob@example.org" <x@evil.net>', "holds another address, bob@example.org", id="inside"),
        ],
    )
    async def test_who_passes_for_somebody_known_is_marked_though_he_is_only_answered(
        self, home: Home, google: Google, model: Model, http: httpx.AsyncClient, sender: str, says: str
    ) -> None:
        wrote(google, age=timedelta(days=1), To="Bob Berg <bob@example.org>")
        address = sender.rpartition("<")[2].rstrip(">")
        asks(model, to=address)
        await home.receive(from_=sender)
        item = await asked(home)
        assert kinds(item) == {address: {"lookalike"}}
        assert says in item.marks[0].text
        assert item.first_answer == address
        assert says in (await http.get("/")).text

    @pytest.mark.parametrize(
        ("sender", "says"),
        [
            pytest.param(f"Bob Berg <{EVE}>", "bears the name of bob@example.org", id="name"),
            pytest.param(f'"bob@example.org" <{EVE}>', "holds another address, bob@example.org", id="inside"),
        ],
    )
    @pytest.mark.parametrize("called", [f"Eve Adams <{EVE}>", EVE], ids=["named", "bare"])
    async def test_who_was_written_to_can_pass_for_nobody_else(
        self, home: Home, google: Google, model: Model, sender: str, says: str, called: str
    ) -> None:
        wrote(google, age=timedelta(days=2), To="Bob Berg <bob@example.org>")
        wrote(google, age=timedelta(days=1), To=called)
        asks(model, to=EVE)
        await home.receive(from_=sender)
        item = await asked(home)
        assert kinds(item) == {EVE: {"lookalike"}}
        assert says in item.marks[0].text
        assert item.first_answer is None

    async def test_what_another_mail_calls_somebody_is_no_word_about_this_one(self, home: Home, model: Model) -> None:
        asks(model, to=EVE)
        await home.receive("Another", from_=f'"bob@example.org" <{EVE}>')
        await home.answer((await home.pending())[0], "ignore")
        await home.receive(from_=f"Eve Adams <{EVE}>")
        assert kinds(await asked(home)) == {}

    async def test_a_name_stays_with_whom_it_was_first_though_an_impostor_is_answered(
        self, home: Home, google: Google, model: Model
    ) -> None:
        wrote(google, age=timedelta(days=2), To="Bob Berg <bob@example.org>")
        wrote(google, age=timedelta(days=1), To=f"Eve Adams <{EVE}>")
        for sender, marked in (
            (f"Bob Berg <{EVE}>", {EVE}),
            (f"Bob Berg <{EVE}>", {EVE}),  # who has called themselves otherwise is marked again, though answered
            ("Bob Berg <third@example.com>", {"third@example.com"}),
            ("Bob Berg <bob@example.org>", set()),
        ):
            asks(model, to=sender.rpartition("<")[2].rstrip(">"))
            await home.receive("One more", from_=f"Eve Adams <{EVE}>")
            await home.answer((await home.pending())[0], "ignore")
            await home.receive(from_=sender)
            [item] = await home.pending()
            assert set(kinds(item)) == marked, sender
            assert all("bears the name of bob@example.org" in mark.text for mark in item.marks)
            await home.answer(item, "accept")

    async def test_a_friends_second_address_is_marked_until_it_is_answered(
        self, home: Home, google: Google, model: Model
    ) -> None:
        wrote(google, age=timedelta(days=1), To="Bob Berg <bob@example.org>")
        asks(model, to="bob@home.example.net")
        for marked in ({"bob@home.example.net"}, set()):
            await home.receive(from_="Bob Berg <bob@home.example.net>")
            item = await asked(home)
            assert set(kinds(item)) == marked
            await home.answer(item, "accept")

    @pytest.mark.parametrize(
        ("address", "says"),
        [
            pytest.param("tom@freidnly.test", None, id="two slips"),
            pytest.param("tom@freindly.test", "domain looks like friendly.test", id="swapped"),
            pytest.param("tom@friendlys.test", "domain looks like friendly.test", id="added"),
            pytest.param("tom@frendly.test", "domain looks like friendly.test", id="left out"),
            pytest.param("tom@mail.friently.test", "domain looks like friendly.test", id="changed"),
            pytest.param("bob@friendly.example", "looks like bob@friendly.test", id="elsewhere"),
            pytest.param("bob@friendly-test.example", "looks like bob@friendly.test", id="hyphen"),
            pytest.param("tom@friendly.example", None, id="another at a firm's other domain"),
            pytest.param("tom@office2.example", None, id="a number"),
            pytest.param("tom@ymail.example", None, id="short"),
            pytest.param("sue@friends.friendly.test", None, id="known domain"),
        ],
    )
    async def test_a_slip_of_a_known_domain(
        self, home: Home, google: Google, model: Model, address: str, says: str | None
    ) -> None:
        known = "Bob Berg <bob@friendly.test>, ann@office1.example, ann@gmail.example"
        wrote(google, age=timedelta(days=1), To=known)
        asks(model, to=address)
        await home.receive(from_=f"X <{address}>")
        marks = (await asked(home)).marks
        assert [mark.kind for mark in marks] == (["lookalike"] if says else [])
        assert says is None or says in marks[0].text

    async def test_ones_own_name_from_a_foreign_domain(self, home: Home, google: Google, model: Model) -> None:
        await home.sync()
        await home.sql("update accounts set name = 'Ada Lovelace'")
        asks(model, to="ada@evil.net")
        await home.receive(from_="Ada Lovelace <ada@evil.net>")
        [mark] = (await asked(home)).marks
        assert (mark.kind, mark.text) == (
            "lookalike",
            "Not who it seems? ada@evil.net: bears your own name, from another domain",
        )

    async def test_a_likeness_that_was_written_to_long_ago_is_no_mark(
        self, home: Home, google: Google, model: Model
    ) -> None:
        """A friend's private address."""
        wrote(google, age=timedelta(days=1), To="Bob Berg <bob@example.org>")
        wrote(google, To="bob@home.example.net")
        asks(model, to="bob@home.example.net")
        await home.receive(from_="Bob Berg <bob@home.example.net>")
        item = await asked(home)
        assert (item.marks, item.first_answer) == ([], None)
        assert len(searches(google)) == 1


NOBODY = "No letter of yours is here yet: nobody counts as known."


@in_one_loop
class TestShown:
    async def test_in_the_list_and_on_the_item_and_in_the_api(
        self, home: Home, google: Google, model: Model, http: httpx.AsyncClient
    ) -> None:
        wrote(google, age=timedelta(days=1), To="carol@example.org")
        asks(model, EVE)
        await home.receive()
        item = await asked(home)
        text = f"New recipient, never written to before: {EVE}"
        for path in ("/", f"/items/{item.id}"):
            assert f"! {text}" in (await http.get(path)).text.replace("<strong><bdi>", "")
        page = (await http.get(f"/items/{item.id}")).text
        assert "First answer to them" in page
        assert NOBODY not in (await http.get("/")).text
        [row] = (await http.get("/api/inbox")).json()["items"]
        assert row["marks"] == [{"kind": "new_recipient", "address": EVE, "text": text, "value": "", "source": ""}]
        assert (row["new_recipients"], row["first_answer"]) == ([EVE], "bob@example.org")
        assert row["description"].splitlines()[:2] == ["! Bob Berg: Lunch?", text]

    async def test_that_nobody_can_be_known_is_said_once(
        self, home: Home, model: Model, http: httpx.AsyncClient
    ) -> None:
        asks(model)
        await home.receive()
        item = await asked(home)
        assert "First answer to them" not in (await http.get(f"/items/{item.id}")).text
        assert (await http.get("/")).text.count(NOBODY) == 1
        [row] = (await http.get("/api/inbox")).json()["items"]
        assert row["first_answer"] == "bob@example.org"

    async def test_what_could_not_be_worked_on_is_said_above_the_list(
        self, home: Home, model: Model, http: httpx.AsyncClient
    ) -> None:
        model.fault("triage", status=413, times=100)
        await home.receive()
        page = unescape((await http.get("/")).text)
        assert "A mail of the last seven days could not be worked on." in page
        assert 'href="/mails?state=failed"' in page
        assert "Nothing else waits for you." in page
        assert (await http.get("/api/status")).json()["failed"] == 1


@in_one_loop
class TestManyAtOnce:
    async def accept(self, http: httpx.AsyncClient, *items: object) -> list[tuple[int, str]]:
        body = {"items": list(items), "decision": {"type": "accept"}}
        answer = await http.post("/api/inbox/decisions", json=body)
        assert answer.status_code == 200, answer.text
        return [(result["status"], result["detail"] or "") for result in answer.json()["items"]]

    async def test_a_program_accepts_only_what_it_was_served(
        self, home: Home, model: Model, http: httpx.AsyncClient
    ) -> None:
        model.on_triage(lambda request: "notify" if request.mail.subject == "Notice" else "respond")
        model.script(
            lambda request: [
                reply("Fine.", **({"additional_recipients": [EVE]} if request.mail.subject == "Marked" else {})),
                DONE,
            ]
        )
        for subject in ("Unseen", "Other", "Marked", "Notice", "Seen"):
            await home.receive(subject)
        items = {item["subject"]: item for item in (await http.get("/api/inbox")).json()["items"]}
        served = {subject: {"id": item["id"], "hash": item["hash"]} for subject, item in items.items()}
        results = await self.accept(
            http,
            items["Unseen"]["id"],
            {**served["Other"], "hash": served["Seen"]["hash"]},
            served["Marked"],
            served["Notice"],
            served["Seen"],
        )
        assert [status for status, _ in results] == [422, 409, 422, 200, 200]
        assert "{id, hash}" in results[0][1]
        assert "not as it was shown" in results[1][1]
        assert EVE in results[2][1]
        done = [item.subject for item in await home.items() if item.status != "pending"]
        assert sorted(map(str, done)) == ["Notice", "Seen"]  # to be done with a notice has nothing done

    async def test_nor_does_it_accept_a_marked_one_by_an_answer_of_its_own_beside_others(
        self, home: Home, model: Model, http: httpx.AsyncClient
    ) -> None:
        asks(model, EVE)
        await home.receive("Marked")
        asks(model)
        await home.receive("Seen")
        items = (await http.get("/api/inbox")).json()["items"]
        answers = [{"id": item["id"], "hash": item["hash"], "type": "accept"} for item in items]
        results = (await http.post("/api/inbox/decisions", json={"answers": answers})).json()["items"]
        statuses = {item["subject"]: result["status"] for item, result in zip(items, results, strict=True)}
        assert statuses == {"Marked": 422, "Seen": 200}

    async def test_the_page_shows_every_letter_whole_and_says_what_it_leaves_out(
        self, home: Home, model: Model, http: httpx.AsyncClient
    ) -> None:
        long = "\n".join(f"Line {n}." for n in range(300))
        model.on_triage(lambda request: "notify" if request.mail.subject == "Notice" else "respond")
        model.script(
            lambda request: [
                reply(long, **({"additional_recipients": [EVE]} if request.mail.subject == "Marked" else {})),
                DONE,
            ]
        )
        for subject in ("One", "Two", "Marked", "Notice"):
            await home.receive(subject)
        ids = [str(item.id) for item in await home.items()]
        answer = await http.post("/answers", data={"item": ids, "answer": "accept"})
        assert {item.status for item in await home.items()} == {"pending"}
        page = answer.text
        assert page.count("Line 299.") == 2
        left_out = page.partition('id="left-out"')[2].partition("</section>")[0]
        assert "Marked" in left_out
        assert EVE in left_out
        assert "Notice" in left_out
        assert page.partition("<main")[2].partition("</main>")[0].count("<button") == 1
        assert page.index("Send all 2") > page.rindex("Line 299.")
        seen = [part.partition('"')[0] for part in page.split('name="seen" value="')[1:]]
        taken = await http.post("/answers/accept", data={"seen": seen})
        assert taken.text.count("Sending") == 2
        assert sorted(item.subject or "" for item in await home.pending()) == ["Marked", "Notice"]

    async def test_what_has_changed_since_it_was_shown_is_not_accepted(
        self, home: Home, model: Model, http: httpx.AsyncClient
    ) -> None:
        asks(model)
        await home.receive()
        item = await asked(home)
        await home.sql(
            """update inbox_items set args = '{"email_address": "bob@example.org", "response_text": "No."}'"""
        )
        answer = await http.post("/answers/accept", data={"seen": f"{item.id}@{item.hash}"})
        assert "not as it was shown" in answer.text
        assert (await home.item(item)).status == "pending"

    async def test_a_marked_item_is_accepted_by_itself(self, home: Home, model: Model, http: httpx.AsyncClient) -> None:
        asks(model, EVE)
        await home.receive()
        item = await asked(home)
        answer = await http.post(f"/api/inbox/{item.id}/decision", json={"type": "accept"})
        assert answer.json()["status"] == "decided"


class TestCommands:
    def test_a_script_accepts_what_it_was_shown_and_nothing_else(
        self, daemon: Daemon, google: Google, model: Model
    ) -> None:
        asks(model)
        for subject in ("One", "Two"):
            google.deliver(BOB, subject, "Does Friday suit you?")
        one, two = daemon.pending(2)
        listed = daemon.cli("inbox", "list", "--json")["items"]
        shown = {item["id"]: f"{item['id']}@{item['hash']}" for item in listed}
        unseen = daemon.run("inbox", "accept", one["id"], two["id"])
        assert unseen.returncode == 1
        assert unseen.stdout.count("\nTo: bob@example.org\n") == unseen.stdout.count("\n\nFine.\n") == 2
        assert "nothing was done" in unseen.stderr
        done = daemon.run("inbox", "accept", shown[one["id"]], f"{two['id']}@{'0' * 64}")
        assert done.returncode == 1
        assert done.stdout.startswith(f"{one['id'][:8]}: ")
        assert "not as it was shown" in done.stderr
        assert [daemon.item(each["id"])["status"] == "pending" for each in (one, two)] == [False, True]

    def test_the_list_shows_marks_and_all_leaves_them_out(self, daemon: Daemon, google: Google, model: Model) -> None:
        asks(model, EVE)
        google.deliver(BOB, "Lunch?", "Does Friday suit you?")
        [item] = daemon.pending()
        assert "! New recipient" in daemon.cli("inbox", "list")
        assert daemon.cli("inbox", "show", item["id"]).startswith("! Bob Berg: Lunch?")
        refused = daemon.run("inbox", "accept", "--all")
        assert f"Left out: {item['id'][:8]}: look at it by itself" in refused.stdout
        assert refused.returncode == 1


@pytest.mark.long
@in_one_loop
@pytest.mark.parametrize(
    ("days", "expected"), [(14, ["Mail 35"]), (400, ["Mail 35", "Mail 47"])], ids=["two weeks stored", "all stored"]
)
async def test_a_mailbox_that_is_a_year_old_marks_few_honest_items(
    open_home: OpenHome, google: Google, model: Model, days: int, expected: list[str]
) -> None:
    """What people do: answer those they know, answer new ones, and colleagues whom they copied; some write by a form,
    and some from a second address. A year of sent mail is at Gmail; a name is only known from mail that is stored
    here."""
    friends = [f"friend{n}@{'example.org' if n % 3 else f'firm{n}.example'}" for n in range(60)]
    for n, friend in enumerate(friends):
        wrote(google, age=timedelta(days=30 + 5 * n), To=f"Friend Number{n} <{friend}>")
    copied: dict[str, list[str]] = {}
    to: dict[str, str] = {}
    for n in range(100):
        subject = f"Mail {n}"
        sender = friends[n % 60] if n % 5 else f"stranger{n}@shop{n}.example"
        name = f"Friend Number{n % 60}" if n % 5 else f"Some Body{n}"
        more = {"Reply-To": f"form{n}@desk.example"} if n in (35,) else {}
        if n in (47,):
            sender = "friend47@home.example"
        to[subject] = more.get("Reply-To", sender)
        copied[subject] = [friends[(n * 7) % 60]] if n % 4 == 0 else []
        more |= {"Cc": ", ".join(copied[subject])} if copied[subject] else {}
        google.deliver(f"{name} <{sender}>", subject, "Does Friday suit you?", headers=more, age=timedelta(minutes=n))
    model.script(
        lambda request: [
            reply("Fine.", email_address=to[request.mail.subject], additional_recipients=copied[request.mail.subject]),
            DONE,
        ]
    )
    async with open_home(backfill_days=days) as home:
        await home.sync()
        await home.carry_on()
        items = await home.pending()
    assert len(items) == 100
    marked = [item.subject for item in items if item.marks]
    assert sorted(filter(None, marked)) == expected
    assert len(expected) <= 0.04 * len(items)
