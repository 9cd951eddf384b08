"""What an item is marked for: told once, in words with its source, and of an edited letter what still stands there."""

import re
from collections.abc import AsyncIterator, Mapping
from datetime import datetime, timedelta
from html import unescape
from typing import Any

import httpx
import pytest
import pytest_asyncio

from email_assistant.inbox.items import Item
from email_assistant.web.app import create_api
from tests.doubles.google import Google
from tests.doubles.model import Model, ToolCall, tool
from tests.integration.home import Home, OpenHome, in_one_loop
from tests.integration.scene import BERLIN, DONE, NEXT_WEEK, meeting, reply

EVE = "eve@evil.example.net"
SAID = "The PIN is 4711. It costs 1,250 EUR, in Rotterdam Zuid."
WRITTEN = datetime.now(BERLIN).replace(hour=12) - timedelta(days=1)  # never near a midnight that comes meanwhile
DAY = f"{WRITTEN:%-d %B %Y}"
NEW = f"New recipient, never written to before: {EVE}"
LEAK = f"From Bob Berg's mail of {DAY}, which {EVE} has not seen, as far as is known: “4711”"
OWN = "Said by nobody before, so it is the assistant's own: “1,250 EUR”, “Rotterdam Zuid”"
REFUSAL: dict[str, Any] = {"match": "drafts.send", "status": 400, "reason": "failedPrecondition"}


@pytest_asyncio.fixture(loop_scope="module")
async def http(home: Home) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(app=create_api(home.app, home.works.chat, token=None, host="127.0.0.1"))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        yield client


async def proposed(home: Home, model: Model, *more: Any, text: str = SAID) -> Item:
    """Bob's PIN, a price and a town, in a letter to Bob and Eve."""
    model.script(lambda _: [reply(text, additional_recipients=[EVE]), *more, DONE])
    age = datetime.now(BERLIN) - WRITTEN
    await home.receive(text="Does Friday suit you? My PIN is 4711.", age=age)
    [draft] = [item for item in await home.pending() if item.kind == "draft"]
    return draft


async def served(http: httpx.AsyncClient, item: Item) -> Mapping[str, Any]:
    found: Mapping[str, Any] = (await http.get(f"/api/inbox/{item.id}")).json()
    return found


async def kinds(http: httpx.AsyncClient, item: Item) -> list[str]:
    return [mark["kind"] for mark in (await served(http, item))["marks"]]


def shown(page: httpx.Response) -> str:
    """The card or the list, without what is said only to a pointer that rests on it."""
    text = page.text.rpartition('<div class="beside">')[2].replace("<strong><bdi>", "")
    return unescape(re.sub(r' title="[^"]*"', "", text))


@in_one_loop
class TestTold:
    async def test_once_in_words_with_the_source(self, home: Home, model: Model, http: httpx.AsyncClient) -> None:
        item = await proposed(home, model)
        list_, page = shown(await http.get("/")), shown(await http.get(f"/items/{item.id}"))
        description = (await served(http, item))["description"]
        assert f"! {NEW}; {LEAK}; {OWN}<" in list_
        assert description.splitlines()[1] == f"{NEW}; {LEAK}; {OWN}"
        for line in (NEW, LEAK, OWN):
            assert f"! {line}<" in page
            assert [text.count(line) for text in (list_, page, description)] == [1, 1, 1]
        assert "You are asked because" not in page

    async def test_one_by_one_in_the_api(self, home: Home, model: Model, http: httpx.AsyncClient) -> None:
        item = await proposed(home, model)
        marks = (await served(http, item))["marks"]
        assert [(mark["kind"], mark["value"]) for mark in marks] == [
            ("new_recipient", ""),
            ("leak", "4711"),
            ("unfounded", "1,250 EUR"),
            ("unfounded", "Rotterdam Zuid"),
        ]
        assert [mark["source"] for mark in marks] == ["", f"Bob Berg's mail of {DAY}", "", ""]
        assert marks[2]["text"] == "Said by nobody before, so it is the assistant's own: “1,250 EUR”"

    async def test_of_very_many_a_row_names_the_first(self, home: Home, model: Model, http: httpx.AsyncClient) -> None:
        model.script([[reply("It costs 11 EUR, 12 EUR, 13 EUR, 14 EUR, or 15 EUR."), DONE]])
        await home.receive()
        [item] = await home.pending()
        first = "Said by nobody before, so it is the assistant's own: “11 EUR”, “12 EUR”, “13 EUR”"
        assert f"! {first} and 2 more<" in shown(await http.get("/"))
        assert f"! {first}, “14 EUR”, “15 EUR”<" in shown(await http.get(f"/items/{item.id}"))

    @pytest.mark.parametrize("first", [reply("It costs 11 EUR."), meeting(title="Project WALK33, 11 EUR")])
    async def test_what_the_person_has_sent_them_is_said(self, home: Home, model: Model, first: ToolCall) -> None:
        model.script([[first], [reply("As I said, 11 EUR."), DONE]])
        await home.receive()
        await home.answer((await home.pending())[0], "accept")
        [item] = await home.pending()
        assert not [mark for mark in item.marks if "11 EUR" in (mark.value or "")]

    async def test_what_stands_in_the_calendar_is_told_as_that(
        self, home: Home, google: Google, model: Model, http: httpx.AsyncClient
    ) -> None:
        start = NEXT_WEEK.replace(hour=13)
        google.add_event("Surgery at Doctor Hannelore Zwick", start, start + timedelta(hours=1))
        look = tool("check_calendar_tool", dates=[NEXT_WEEK.strftime("%d-%m-%Y")])
        says = reply("I am at Doctor Hannelore Zwick then.")
        model.script(lambda request: [look] if request.step == 0 else [says, DONE])
        await home.receive()
        [item] = await home.pending()
        [mark] = (await served(http, item))["marks"]
        assert (mark["kind"], mark["source"]) == ("leak", "your calendar")
        assert mark["text"].startswith("From your calendar, which bob@example.org has not seen, as far as is known: “")

    async def test_what_is_left_to_be_filled_in(self, home: Home, model: Model, http: httpx.AsyncClient) -> None:
        link = "[the plan](https://a.example)"
        text = f"Dear [Recipient's Name], see {link} [1] by ____.\n\n{{your_name}}, <phone number>, XXX"
        model.script([[reply(text), DONE]])
        await home.receive(text="Does Friday suit you?")
        [item] = await home.pending()
        marks = (await served(http, item))["marks"]
        assert [mark["value"] for mark in marks if mark["kind"] == "blank"] == [
            "[Recipient's Name]",
            "____",
            "{your_name}",
            "<phone number>",
            "XXX",
        ]
        said = "Left to be filled in: “[Recipient's Name]”, “____”, “{your_name}”, “<phone number>”, “XXX”"
        assert said in shown(await http.get(f"/items/{item.id}"))
        await home.decide(item, "edit", {**item.args, "response_text": "Dear Bob, by ____."})
        assert [mark.value for mark in (await home.item(item)).marks if mark.kind == "blank"] == ["____"]

    async def test_an_honest_letter_bears_none(self, home: Home, model: Model, http: httpx.AsyncClient) -> None:
        model.script([[reply("Friday suits me. Your PIN is 4711."), DONE]])
        await home.receive(text="Does Friday suit you? My PIN is 4711.")
        [item] = await home.pending()
        assert await kinds(http, item) == []
        assert 'class="notice bad' not in (await http.get(f"/items/{item.id}")).text
        assert not (await served(http, item))["description"].startswith("!")

    async def test_what_bears_one_is_not_accepted_among_others(
        self, home: Home, model: Model, http: httpx.AsyncClient
    ) -> None:
        model.script([[reply("It costs 11 EUR."), DONE]])
        await home.receive()
        [item] = await home.pending()
        body = {"items": [{"id": str(item.id), "hash": item.hash}], "decision": {"type": "accept"}}
        [result] = (await http.post("/api/inbox/decisions", json=body)).json()["items"]
        assert result["status"] == 422
        assert "look at it by itself: Said by nobody before, so it is the assistant's own: “11 EUR”" in result["detail"]


@in_one_loop
class TestTheirOwn:
    SENT = "See you there.\n\n-- \nAda Lovelace\nStation Road 14\nTel. 0171 5556667"

    @pytest.mark.parametrize(
        ("text", "marked"),
        [
            ("Call me at 0171 5556667.", []),
            ("Call me at 0171 5556668.", ["gate_reason", "unfounded"]),
            ("Is 16 June at 14:20 fine?", ["unfounded", "unfounded"]),
        ],
    )
    async def test_what_they_wrote_to_others_is_so_but_for_days(
        self, home: Home, google: Google, model: Model, text: str, marked: list[str]
    ) -> None:
        said = f"It is on 16 June at 14:20. {self.SENT}\n\nOn Monday Carol wrote:\n> Call 0171 5556668"
        google.deliver("Ada <ada@example.com>", "Hi", said, labels=("SENT",), headers={"To": "carol@example.net"})
        model.script([[reply(text), DONE]])
        await home.receive()
        [item] = await home.pending()
        assert [mark.kind for mark in item.marks] == marked


CUT = {"response_text": "Friday suits me.", "additional_recipients": list[str]()}
EDITS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "without all that": (CUT, []),
    "without Eve": ({"additional_recipients": list[str]()}, ["unfounded", "unfounded"]),
    "without the PIN": ({"response_text": "It costs 1,250 EUR."}, ["new_recipient", "unfounded"]),
    "another price": ({"response_text": "The PIN is 4711. It costs 11,250 EUR."}, ["new_recipient", "leak"]),
    "more": ({"response_text": f"{SAID} Call 0171 5556667."}, ["new_recipient", "leak", "unfounded", "unfounded"]),
    "the same": ({}, ["new_recipient", "leak", "unfounded", "unfounded"]),
}
"""What the person changes, and what is left to be marked."""


@in_one_loop
class TestAfterAnEdit:
    @pytest.mark.parametrize("change", EDITS)
    async def test_what_is_marked_is_what_goes_out(self, open_home: OpenHome, model: Model, change: str) -> None:
        changed, left = EDITS[change]
        async with open_home(undo_seconds=60) as home:
            item = await proposed(home, model)
            await home.decide(item, "edit", {**item.args, **changed})
            edited = await home.item(item)
            assert [mark.kind for mark in edited.marks] == left
            assert edited.new_recipients == ([EVE] if "new_recipient" in left else [])
            again = await home.app.inbox.undo(home.app.user_id, item.id)
            assert [mark.kind for mark in again.marks] == ["new_recipient", "leak", "unfounded", "unfounded"]

    async def test_that_is_refused_it_is_asked_about_without_what_is_gone(
        self, home: Home, google: Google, model: Model, http: httpx.AsyncClient
    ) -> None:
        item = await proposed(home, model)
        google.fault(**REFUSAL)
        await home.answer(item, "edit", {**item.args, **CUT})
        [again] = await home.pending()
        assert (again.asked, await kinds(http, again)) == (2, [])

    async def test_that_is_refused_it_is_asked_about_with_what_is_not(
        self, home: Home, google: Google, model: Model, http: httpx.AsyncClient
    ) -> None:
        item = await proposed(home, model)
        google.fault(**REFUSAL)
        await home.answer(item, "accept")
        [again] = await home.pending()
        assert (again.asked, await kinds(http, again)) == (2, await kinds(http, item))

    async def test_a_part_that_is_asked_about_again_is_marked_as_it_was_left(
        self, home: Home, model: Model, http: httpx.AsyncClient
    ) -> None:
        item = await proposed(home, model, meeting())
        [other] = [each for each in await home.pending() if each.kind == "meeting"]
        await home.decide(item, "edit", {**item.args, "response_text": "The PIN is 4711."})
        await home.decide(other, "ignore")
        assert (await served(http, item))["status"] == "pending"
        assert await kinds(http, item) == ["new_recipient", "leak"]

    async def test_in_shadow_mode_all_of_it_is_shown(self, home: Home, model: Model, http: httpx.AsyncClient) -> None:
        await home.app.inbox.set_mode(home.app.accounts, await home.account(), "shadow")
        item = await proposed(home, model)
        assert await kinds(http, item) == ["new_recipient", "leak", "unfounded", "unfounded"]
        assert f"! {LEAK}<" in shown(await http.get(f"/items/{item.id}"))
