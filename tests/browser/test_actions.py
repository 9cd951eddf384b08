"""Every action, by mouse and by keyboard, on a desk and on a phone; and all of it once more without scripts."""

import json
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from email_assistant.inbox.items import Item
from tests.browser.conftest import Open, Size, Theme, Visit
from tests.browser.test_pages import axe
from tests.doubles.google import Google
from tests.integration.test_api import ADA, BOB, DRAFT, MEETING, Home

pytestmark = pytest.mark.asyncio(loop_scope="session")

MACHINES: list[tuple[Size, Theme]] = [("desktop", "light"), ("phone", "dark")]
on_each_machine = pytest.mark.parametrize(("size", "theme"), MACHINES, ids=["desktop", "phone"])


async def waiting(home: Home, count: int = 2) -> list[Item]:
    account = await home.account()
    items = []
    for number in range(count):
        _, _, run = await home.mail(account, subject=f"Lunch {number}?")
        items.append(await home.ask(run, subject=f"Lunch {number}?"))
    return items


async def status(home: Home, item: Item) -> tuple[str, str | None]:
    found = await home.item(item.id)
    return found.status, (found.decision or {}).get("type")


async def shows(visit: Visit, heading: str) -> None:
    await visit.page.get_by_role("heading", name=heading, level=1).wait_for()
    await visit.page.locator("body:not([data-sending])").wait_for(state="attached")  # what was answered has arrived


async def by_mouse(visit: Visit, button: str) -> None:
    await visit.page.locator(".bar").get_by_text(button, exact=True).click()


async def by_key(visit: Visit, key: str) -> None:
    await visit.press(key)


async def as_if_pressed_just_now(visit: Visit, key: str, *, milliseconds: int = -60_000) -> None:
    """Move the last press near, however long the next page took to come and this one takes to be pressed a key on."""
    assert await visit.page.evaluate("JSON.parse(sessionStorage.getItem('pressed'))?.key") == key
    at = "performance.timeOrigin + performance.now()"
    keep = f"sessionStorage.setItem('pressed', JSON.stringify({{ key: '{key}', at: {at} - {milliseconds} }}))"
    await visit.page.evaluate(keep)


Press = Callable[[Visit], Awaitable[None]]

ACCEPT: list[Press] = [lambda v: by_mouse(v, "Send"), lambda v: by_key(v, "a")]
IGNORE: list[Press] = [lambda v: by_mouse(v, "Dismiss"), lambda v: by_key(v, "e")]
EDIT: list[Press] = [lambda v: v.page.locator(".written").click(), lambda v: by_key(v, "r")]
RESPOND: list[Press] = [lambda v: v.page.locator("#response").click(), lambda v: by_key(v, "t")]
ways = pytest.mark.parametrize("way", [0, 1], ids=["mouse", "keys"])


@on_each_machine
@ways
class TestAnItem:
    async def test_is_accepted_and_the_next_one_comes_with_a_way_back(
        self, home: Home, visit: Open, size: Size, theme: Theme, way: int
    ) -> None:
        first, _ = await waiting(home)
        async with visit(size, theme, f"/items/{first.id}") as v:
            await ACCEPT[way](v)
            await shows(v, "Lunch 1?")
            assert await status(home, first) == ("decided", "accept")
            await v.page.get_by_role("button", name="Undo").click() if way == 0 else await by_key(v, "z")
            await shows(v, "Lunch 0?")
            assert await status(home, first) == ("pending", None)
            assert v.complaints == []

    async def test_is_ignored(self, home: Home, visit: Open, size: Size, theme: Theme, way: int) -> None:
        first, _ = await waiting(home)
        async with visit(size, theme, f"/items/{first.id}") as v:
            await IGNORE[way](v)
            await shows(v, "Lunch 1?")
        assert await status(home, first) == ("decided", "ignore")

    async def test_is_edited_with_the_difference_in_sight(
        self, home: Home, visit: Open, size: Size, theme: Theme, way: int
    ) -> None:
        first, _ = await waiting(home)
        async with visit(size, theme, f"/items/{first.id}") as v:
            await EDIT[way](v)
            field = v.page.get_by_label("Text", exact=True)
            assert await field.evaluate("field => field === document.activeElement")
            await field.fill("Monday is fine.\n\nAda")
            await v.page.get_by_text("What I changed", exact=True).click()
            difference = v.page.locator('[data-diff="arg.response_text"]')
            assert await difference.locator("del").all_inner_texts() == ["Friday"]
            assert await difference.locator("ins").all_inner_texts() == ["Monday"]
            assert await v.page.locator(".bar").get_by_text("Send", exact=True).is_disabled()
            await v.page.get_by_role("button", name="Send as changed").click()
            await shows(v, "Lunch 1?")
        edited = (await home.item(first.id)).decision
        assert edited == {"type": "edit", "args": DRAFT | {"response_text": "Monday is fine.\n\nAda"}}

    async def test_is_responded_to(self, home: Home, visit: Open, size: Size, theme: Theme, way: int) -> None:
        first, _ = await waiting(home)
        async with visit(size, theme, f"/items/{first.id}") as v:
            await RESPOND[way](v)
            # Letters that are keys elsewhere are text here.
            await v.page.keyboard.type("a quieter jazz bar, if you can")
            await v.page.locator("#change").get_by_role("button", name="Ask for another").click()
            await v.page.get_by_text("Writing it anew").wait_for()
            await shows(v, "Lunch 0?")
        assert (await home.item(first.id)).decision == {"type": "response", "args": "a quieter jazz bar, if you can"}


@on_each_machine
class TestTheList:
    async def test_is_gone_through_by_keys(self, home: Home, visit: Open, size: Size, theme: Theme) -> None:
        items = await waiting(home, 3)
        async with visit(size, theme) as v:

            async def selected() -> str:
                return str(await v.page.evaluate("document.activeElement.closest('li')?.id ?? ''"))

            for key, at in (("j", 0), ("j", 1), ("j", 2), ("j", 2), ("k", 1)):
                await by_key(v, key)
                assert await selected() == f"row-{items[at].id}"
            outline = await v.page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
            assert outline == "solid"
            await by_key(v, "o")
            await shows(v, "Lunch 1?")
            await by_key(v, "j")
            await shows(v, "Lunch 2?")
            await by_key(v, "k")
            await shows(v, "Lunch 1?")
            await by_key(v, "k")
            await shows(v, "Lunch 0?")
            await by_key(v, "k")  # round the end, as the other way
            await shows(v, "Lunch 2?")
            await by_key(v, "u")
            await shows(v, "Waiting for you")
            await by_key(v, "/")
            assert await v.page.evaluate("document.activeElement.id") == "search"
            await v.page.keyboard.type("?")
            assert await v.page.locator("dialog[open]").count() == 0
            await by_key(v, "Escape")
            await by_key(v, "?")
            await v.page.get_by_role("dialog", name="Keys").wait_for()
            await by_key(v, "Escape")
            await by_key(v, "j")
            await by_key(v, "Enter")
            await shows(v, "Lunch 0?")
            assert v.complaints == []

    async def test_a_row_alone_accepts_nothing(self, home: Home, visit: Open, size: Size, theme: Theme) -> None:
        first, _ = await waiting(home)
        async with visit(size, theme) as v:
            await by_key(v, "j")
            await by_key(v, "a")
            await shows(v, "Lunch 0?")
        assert await status(home, first) == ("pending", None)

    async def test_a_row_is_ignored_edited_or_responded_to_by_keys(
        self, home: Home, visit: Open, size: Size, theme: Theme
    ) -> None:
        first, second, _ = await waiting(home, 3)
        async with visit(size, theme) as v:
            await by_key(v, "j")
            await by_key(v, "i")
            await v.page.get_by_role("button", name="Undo").wait_for()
            assert await status(home, first) == ("decided", "ignore")
            for key, field in (("r", "arg.response_text"),):
                await v.go()
                await by_key(v, "j")
                await by_key(v, key)
                await shows(v, "Lunch 1?")
                await v.page.locator(f'[id="{field}"]:focus').wait_for()
        assert await status(home, second) == ("pending", None)

    async def test_many_are_accepted_once_they_were_shown_whole(
        self, home: Home, visit: Open, size: Size, theme: Theme
    ) -> None:
        first, second = await waiting(home)
        account = first.account_id
        question = await home.ask(
            (await home.mail(account))[2], "Question", {"content": "Which?"}, kind="question", allowed=["response"]
        )
        marked = await home.ask(
            (await home.mail(account))[2],
            args=DRAFT | {"additional_recipients": ["eve@example.net"]},
            new=["eve@example.net"],
        )
        async with visit(size, theme) as v:
            row = v.page.locator(f"#row-{marked.id}")
            assert "! New recipient, never written to before: eve@example.net" in await row.inner_text()
            await v.page.get_by_text("Tick all").click()
            await v.page.get_by_text("4 ticked").wait_for()
            await v.page.locator(".bulk").get_by_role("button", name="Read, then send…").click()
            await shows(v, "Read, then approve")
            left_out = await v.page.locator("#left-out li").all_inner_texts()
            assert len(left_out) == 2
            assert "decide it by itself" in left_out[0]
            assert "eve@example.net" in left_out[1]
            assert await axe(v) == []
            letters = v.page.locator("section.whole")
            assert await letters.count() == 2
            for letter in await letters.all():
                assert "Friday is fine." in await letter.inner_text()
            button = v.page.get_by_role("button", name="Send all 2")
            last, under = await letters.last.bounding_box(), await button.bounding_box()
            assert last
            assert under
            assert under["y"] >= last["y"] + last["height"]
            await v.page.keyboard.press("a")  # no key accepts what a screen may not hold
            assert [(await status(home, item))[0] for item in (first, second)] == ["pending", "pending"]
            await button.click()
            results = v.page.locator("#results li")
            await results.first.wait_for()
            assert [text.partition(":")[0] for text in await results.all_inner_texts()] == ["Sending", "Sending"]
            assert [(await status(home, item))[0] for item in (first, second, question, marked)] == [
                *("decided", "decided", "pending", "pending")
            ]
            await v.page.get_by_role("button", name="Undo all").click()
            await v.page.get_by_text("it waits again").first.wait_for()
            assert [(await status(home, item))[0] for item in (first, second)] == ["pending", "pending"]
            assert v.complaints == []

    async def test_the_key_for_accept_only_leads_to_what_is_ticked(
        self, home: Home, visit: Open, size: Size, theme: Theme
    ) -> None:
        items = await waiting(home)
        async with visit(size, theme) as v:
            for key in "jxjx":
                await by_key(v, key)
            await by_key(v, "a")
            await shows(v, "Read, then approve")
            await by_key(v, "a")
            await by_key(v, "a")
            await v.page.get_by_role("button", name="Send all 2").wait_for()
        assert [(await status(home, item))[0] for item in items] == ["pending", "pending"]

    async def test_many_are_ticked_and_ignored_by_keys(self, home: Home, visit: Open, size: Size, theme: Theme) -> None:
        items = await waiting(home, 3)
        async with visit(size, theme) as v:
            for key in "jxjxi":
                await by_key(v, key)
            await v.page.locator("#results").wait_for()
        assert [(await status(home, item))[0] for item in items] == ["decided", "decided", "pending"]


class TestKeys:
    async def test_one_key_pressed_twice_by_a_slip_decides_one_item(self, home: Home, visit: Open) -> None:
        first, second, third = await waiting(home, 3)
        async with visit(path=f"/items/{first.id}") as v:
            await by_key(v, "a")
            await shows(v, "Lunch 1?")
            await as_if_pressed_just_now(v, "a")
            await by_key(v, "a")
            await v.page.locator(".bar").wait_for()
            assert await status(home, second) == ("pending", None)
            await as_if_pressed_just_now(v, "a")
            await by_key(v, "i")  # another key is meant
            await shows(v, "Lunch 2?")
            assert await status(home, second) == ("decided", "ignore")
            await as_if_pressed_just_now(v, "i", milliseconds=600)
            await by_key(v, "i")  # so is the same one, later
            await shows(v, "Waiting for you")
        assert [(await status(home, item))[0] for item in (first, third)] == ["decided", "decided"]

    async def test_a_slip_on_a_row_does_not_accept_what_it_opened(self, home: Home, visit: Open) -> None:
        first, _ = await waiting(home)
        async with visit() as v:
            await by_key(v, "j")
            await by_key(v, "a")
            await shows(v, "Lunch 0?")
            await as_if_pressed_just_now(v, "a")
            await by_key(v, "a")
            await v.page.locator(".bar").wait_for()
            assert await status(home, first) == ("pending", None)

    async def test_the_mouse_between_two_presses_makes_the_second_a_new_one(self, home: Home, visit: Open) -> None:
        first, second, _ = await waiting(home, 3)
        async with visit(path=f"/items/{first.id}") as v:
            await by_key(v, "i")
            await shows(v, "Lunch 1?")
            await as_if_pressed_just_now(v, "i")
            await v.page.locator("#show-help:not([hidden])").wait_for(state="attached")
            await v.page.locator("h1").click()
            await by_key(v, "i")
            await shows(v, "Lunch 2?")
        assert await status(home, second) == ("decided", "ignore")

    @pytest.mark.parametrize("first_key", ["a", "e", "h"])
    @pytest.mark.parametrize("then", ["ControlOrMeta+Enter", "a", "click"])
    async def test_a_card_that_just_came_is_not_approved(
        self, home: Home, visit: Open, first_key: str, then: str
    ) -> None:
        first, second, _ = await waiting(home, 3)
        async with visit() as v:
            await v.stands_still(f"/items/{first.id}")
            await by_key(v, first_key)
            await shows(v, "Lunch 1?")
            await v.page.evaluate("sessionStorage.removeItem('pressed')")  # another key, or the mouse
            send = v.page.locator('.bar [value="accept"]')
            await (send.click() if then == "click" else v.page.keyboard.press(then))
            await v.page.locator("body:not([data-sending])").wait_for(state="attached")
            assert await status(home, second) == ("pending", None)
            await v.looks()
            await v.page.evaluate("sessionStorage.removeItem('pressed')")
            await (send.click() if then == "click" else v.page.keyboard.press(then))
            await shows(v, "Lunch 2?")
        assert await status(home, second) == ("decided", "accept")

    async def test_undo_reaches_the_last_answer_from_any_page(self, home: Home, visit: Open) -> None:
        first, _, _ = await waiting(home, 3)
        async with visit(path=f"/items/{first.id}") as v:
            await by_key(v, "a")
            await shows(v, "Lunch 1?")
            await by_key(v, "j")
            await shows(v, "Lunch 2?")
            await by_key(v, "z")
            await shows(v, "Lunch 0?")
            assert await status(home, first) == ("pending", None)
            await v.go("/memory")
            await by_key(v, "z")  # nothing is left to be undone
            await by_key(v, "u")
            await shows(v, "Waiting for you")
            assert v.complaints == []

    async def test_undo_takes_back_all_that_was_answered_at_once(self, home: Home, visit: Open) -> None:
        items = await waiting(home)
        async with visit() as v:
            for key in "jxjxi":
                await by_key(v, key)
            await v.page.locator("#results").wait_for()
            await by_key(v, "z")
            await v.page.get_by_text("it waits again").first.wait_for()
        assert [(await status(home, item))[0] for item in items] == ["pending", "pending"]

    async def test_back_leads_from_what_was_found_to_the_whole_list(self, home: Home, visit: Open) -> None:
        await waiting(home)
        async with visit(path="/?q=nothing") as v:
            await v.page.get_by_text("Nothing here.").wait_for()
            await by_key(v, "u")
            await v.page.locator(".rows li").nth(1).wait_for()


class TestWithoutScripts:
    async def test_each_answer_is_given_and_taken_back(self, home: Home, visit: Open) -> None:
        accepted, ignored, told, edited = await waiting(home, 4)
        async with visit("phone", scripts=False, path=f"/items/{accepted.id}") as v:
            await by_mouse(v, "Send")
            await v.page.get_by_role("button", name="Undo").click()
            await shows(v, "Lunch 0?")
            assert await status(home, accepted) == ("pending", None)
            await by_mouse(v, "Send")
            await shows(v, "Lunch 1?")
            await by_mouse(v, "Dismiss")
            await shows(v, "Lunch 2?")
            await v.page.locator("#response").fill("Shorter.")
            await v.page.locator("#change").get_by_role("button", name="Ask for another").click()
            await v.page.get_by_text("Writing it anew").wait_for()
            await v.go(f"/items/{edited.id}")
            await v.page.get_by_label("Text", exact=True).fill("Monday is fine.\n\nAda")
            async with v.page.expect_navigation():
                await v.page.get_by_role("button", name="Show what I changed").click()
            assert await v.page.locator("ins").all_inner_texts() == ["Monday"]
            await v.page.get_by_role("button", name="Send as changed").click()
            await shows(v, "Waiting for you")
        kinds = [(await status(home, item))[1] for item in (accepted, ignored, told, edited)]
        assert kinds == ["accept", "ignore", "response", "edit"]

    async def test_many_are_answered_at_once(self, home: Home, visit: Open) -> None:
        items = await waiting(home, 2)
        async with visit(scripts=False) as v:
            await v.page.get_by_text("Tick all").click()
            async with v.page.expect_navigation():
                await v.page.locator(".bulk").get_by_role("button", name="Dismiss").click()
            assert await v.page.locator("#results li").count() == 2
            async with v.page.expect_navigation():
                await v.page.get_by_role("button", name="Undo all").click()
        assert [(await status(home, item))[0] for item in items] == ["pending", "pending"]

    async def test_scripts_that_do_not_come_take_nothing_away(self, home: Home, visit: Open) -> None:
        """A browser that has scripts, and gets none of ours."""
        edited, ignored = await waiting(home)
        async with visit() as v:
            await v.page.route("**/static/*.js", lambda route: route.abort())
            await v.go(f"/items/{edited.id}")
            await v.page.get_by_label("Text", exact=True).fill("Monday is fine.\n\nAda")
            await v.page.get_by_role("button", name="Send as changed").click()
            await shows(v, "Lunch 1?")
            await by_mouse(v, "Dismiss")
            await shows(v, "Waiting for you")
        kinds = [(await status(home, item))[1] for item in (edited, ignored)]
        assert kinds == ["edit", "ignore"]

    async def test_the_difference_of_a_refused_edit_is_shown(self, home: Home, visit: Open) -> None:
        first, _ = await waiting(home)
        async with visit(scripts=False, path=f"/items/{first.id}") as v:
            await v.page.locator(".heads summary").click()
            await v.page.get_by_label("To", exact=True).fill("bob")
            await v.page.get_by_role("button", name="Send as changed").click()
            await v.page.get_by_text("not an e-mail address: bob").wait_for()
            assert await v.page.locator('[data-diff="arg.email_address"] del').count() == 1


@pytest.mark.parametrize("scripts", [True, False])
async def test_an_address_that_took_another_s_place_is_whole(home: Home, visit: Open, scripts: bool) -> None:
    first, _ = await waiting(home)
    async with visit(scripts=scripts, path=f"/items/{first.id}") as v:
        await v.page.locator(".heads summary").click()
        await v.page.get_by_label("To", exact=True).fill("ann@elsewhere.example")
        if not scripts:
            await v.page.get_by_role("button", name="Show what I changed").click()
        for part, address in (("del", first.args["email_address"]), ("ins", "ann@elsewhere.example")):
            assert await v.page.locator(f'[data-diff="arg.email_address"] {part}').inner_text() == address


class TestAMeeting:
    async def test_is_edited_with_its_own_fields(self, home: Home, visit: Open) -> None:
        _, _, run = await home.mail(await home.account())
        item = await home.ask(run, "schedule_meeting_tool", MEETING, kind="meeting")
        async with visit(path=f"/items/{item.id}") as v:
            await v.page.get_by_text("45 min").wait_for()
            await by_key(v, "r")
            await v.page.get_by_label("Ends").fill("2031-06-02T11:30")
            await v.page.get_by_role("button", name="Book as changed").click()
            await shows(v, "Waiting for you")
        decision = (await home.item(item.id)).decision
        assert decision is not None
        assert decision["args"]["end_time"] == "2031-06-02T11:30:00+02:00"
        assert decision["args"]["attendees"] == [BOB, "dan@example.net"]

    @pytest.mark.parametrize("scripts", [True, False], ids=["scripts", "no scripts"])
    async def test_has_the_persons_day_beside_it(
        self, home: Home, visit: Open, google: Google, tmp_path: Path, scripts: bool
    ) -> None:
        begin = datetime.fromisoformat(str(MEETING["start_time"]))
        for event_id in google.events:
            google.person_deletes_event(event_id)
        google.add_event("Dentist", begin + timedelta(minutes=30), begin + timedelta(hours=2))
        item = await meeting(home, google, tmp_path)
        async with visit(path=f"/items/{item.id}", scripts=scripts) as v:
            if not scripts:
                await v.page.get_by_text("See that day in your calendar").click()
            await v.page.get_by_text("At that time: Dentist.").wait_for()
            assert [" ".join(text.split()) for text in await v.page.locator(".hours li").all_inner_texts()] == [
                "10:00–10:45 Plan (proposed)",
                "10:30–12:00 Dentist",
            ]

    async def test_a_calendar_that_does_not_answer_blocks_nothing(
        self, home: Home, visit: Open, google: Google, tmp_path: Path
    ) -> None:
        item = await meeting(home, google, tmp_path)
        google.fault("events.list", times=9, status=503)
        async with visit(path=f"/items/{item.id}") as v:
            await by_key(v, "a")
            await shows(v, "Waiting for you")
        assert await status(home, item) == ("decided", "accept")


async def meeting(home: Home, google: Google, folder: Path) -> Item:
    """A proposal in an account whose calendar can be read."""
    account = await home.account()
    token = json.loads(google.write_token_file(folder / "token.json").read_text())
    await home.app.accounts.add(home.app.user_id, ADA, token, datetime.now(UTC))
    _, _, run = await home.mail(account)
    return await home.ask(run, "schedule_meeting_tool", MEETING, kind="meeting")
