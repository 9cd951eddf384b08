"""One card for a mail: all that is proposed for it, answered at once, part by part, or not."""

import pytest
from psycopg.types.json import Json

from email_assistant.agents.mail.graph import NOTIFY_ACTION
from email_assistant.inbox.answers import BESIDE
from email_assistant.inbox.items import Item
from tests.browser.conftest import Open, Size, Theme, Visit
from tests.browser.test_pages import axe
from tests.integration.test_api import ALL, MEETING, Home

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def proposed(home: Home) -> tuple[Item, Item]:
    """A reply and a meeting for one mail, and a mail behind it."""
    account = await home.account()
    _, _, run = await home.mail(account, subject="Budget talk")
    reply = await home.ask(run, subject="Budget talk", body="Hello Ada,\n\ncould we meet on Monday at ten?\n\nBob")
    meeting = await home.ask(run, "schedule_meeting_tool", MEETING, kind="meeting", subject="Budget talk")
    await home.draft(account)
    return reply, meeting


async def answers(home: Home, *items: Item) -> list[tuple[str, str | None]]:
    now = [await home.item(item.id) for item in items]
    return [(item.status, (item.decision or {}).get("type")) for item in now]


async def title(v: Visit, name: str) -> None:
    await v.page.get_by_role("heading", name=name, level=1).wait_for()
    await v.page.locator("body:not([data-sending])").wait_for(state="attached")  # what was answered has arrived


@pytest.mark.parametrize("scripts", [True, False], ids=["scripts", "no scripts"])
async def test_one_button_does_all_and_one_takes_it_back(home: Home, visit: Open, scripts: bool) -> None:
    reply, meeting = await proposed(home)
    async with visit(scripts=scripts) as v:
        await v.page.clock.install()
        await v.go()
        assert await v.page.locator(".inbox li").count() == 2
        row = v.page.locator(f"#row-{reply.id}")
        assert "could we meet on Monday at ten? → “Friday is fine.”, book Mon 2 Jun, 10:00" in await row.inner_text()
        await row.locator("a.row").click()
        await title(v, "Budget talk")
        assert await v.page.locator(".part > h2").all_inner_texts() == ["The reply", "The meeting"]
        await v.looks()
        await v.page.get_by_role("button", name="Send and book", exact=True).click()
        await title(v, "Lunch?")
        assert await answers(home, reply, meeting) == [("decided", "accept"), ("decided", "accept")]
        said = await v.page.locator("#results li").all_inner_texts()
        assert [each.partition(":")[0] for each in said] == ["Sending", "Booking"]
        await v.page.get_by_role("button", name="Undo all").click()
        await v.page.get_by_text("it waits again").first.wait_for()
        assert await answers(home, reply, meeting) == [("pending", None), ("pending", None)]
        assert v.complaints == []


async def test_a_part_is_left_out_and_another_changed(home: Home, visit: Open) -> None:
    reply, meeting = await proposed(home)
    async with visit(path=f"/items/{reply.id}") as v:
        await v.press("2")
        await v.page.get_by_role("button", name="Send", exact=True).wait_for()
        await v.press("r")
        await v.page.get_by_label("Text", exact=True).fill("Friday it is.")
        await v.page.get_by_role("button", name="Send, as changed").click()
        await title(v, "Lunch?")
    assert await answers(home, reply, meeting) == [("decided", "edit"), ("decided", "ignore")]


async def test_a_letter_that_says_something_else_in_gmail_is_shown_twice_and_either_can_be_sent(
    home: Home, visit: Open
) -> None:
    reply, _ = await proposed(home)
    args = {**reply.args, "response_text": "Saturday is better."}
    found = {"did": "changed", "text": "Saturday is better.", "args": args, "message": None}
    async with home.app.pool.connection() as conn:
        await conn.execute(
            """insert into left_drafts (run_id, call_id, user_id, account_id, thread_id, args, state, found)
               select run_id, call_id, user_id, account_id, thread_id, args, 'left', %s
               from inbox_items where id = %s""",
            (Json(found), reply.id),
        )
    async with visit(path=f"/items/{reply.id}") as v:
        await v.page.get_by_text("In Gmail its draft says:").wait_for()
        assert await v.page.locator(".part blockquote").all_inner_texts() == ["Saturday is better."]
        assert await v.page.locator(".written").input_value() == reply.args["response_text"]
        await v.looks()
        await v.page.get_by_role("button", name="Send the one in Gmail").click()
        await v.page.get_by_role("heading", name="The meeting").wait_for()
        await v.page.locator("body:not([data-sending])").wait_for(state="attached")
        assert v.complaints == []
    now = await home.item(reply.id)
    assert now.decision == {"type": "edit", "args": args}


async def test_what_is_left_out_stays_so_over_a_reload(home: Home, visit: Open) -> None:
    reply, meeting = await proposed(home)
    async with visit(path=f"/items/{reply.id}") as v:
        await v.press("2")
        await v.page.locator(".written").fill("Friday it is.")
        await v.page.reload()
        assert await v.page.locator(".bar > .main:visible").all_inner_texts() == ["Send, as changed"]
        assert await v.page.locator("[data-strike]").nth(1).is_checked()
        await v.page.get_by_role("button", name="Send, as changed").click()
        await title(v, "Lunch?")
        assert await v.page.evaluate("Object.keys(localStorage).filter(key => key.startsWith('typed:'))") == []
    assert await answers(home, reply, meeting) == [("decided", "edit"), ("decided", "ignore")]


async def test_a_part_that_is_not_the_pages_own_is_asked_to_be_different(home: Home, visit: Open) -> None:
    reply, meeting = await proposed(home)
    async with visit(path=f"/items/{reply.id}") as v:
        part = v.page.locator(".part").nth(1)
        await part.locator("summary", has_text="Change…").click()
        await part.locator("textarea").last.fill("Half an hour is enough.")
        await part.get_by_role("button", name="Ask for another").click()
        await v.page.get_by_text("Writing it anew").wait_for()
        await title(v, "Budget talk")
    assert await answers(home, reply, meeting) == [("decided", "response"), ("decided", "response")]
    assert (await home.item(reply.id)).decision == {"type": "response", "args": BESIDE}


async def test_what_has_changed_since_it_was_shown_is_not_done(home: Home, visit: Open) -> None:
    reply, meeting = await proposed(home)
    async with visit(path=f"/items/{reply.id}") as v:
        other = Json({**MEETING, "title": "Other"})
        await home.execute("update inbox_items set args = %s where id = %s", other, meeting.id)
        await v.page.get_by_role("button", name="Send and book", exact=True).click()
        await v.page.get_by_text("this is not as it was shown").wait_for()
    assert await answers(home, reply, meeting) == [("pending", None), ("pending", None)]


async def test_dismissed_and_put_off_as_one(home: Home, visit: Open) -> None:
    reply, meeting = await proposed(home)
    async with visit(path=f"/items/{meeting.id}") as v:
        await v.press("h")
        await title(v, "Lunch?")
        assert [(await home.item(each.id)).state[:7] for each in (reply, meeting)] == ["put off", "put off"]
        await v.go(f"/items/{reply.id}")
        await v.page.get_by_role("button", name="Bring it back now").click()
        await v.page.locator("#put-off").wait_for()
        await v.press("e")
        await title(v, "Lunch?")
    assert await answers(home, reply, meeting) == [("decided", "ignore"), ("decided", "ignore")]


@pytest.mark.parametrize("scripts", [True, False], ids=["scripts", "no scripts"])
async def test_notices_are_folded_and_put_away_at_once_but_marked_ones(home: Home, visit: Open, scripts: bool) -> None:
    account = await home.account()
    await home.draft(account)
    notices = []
    for number in range(3):
        _, _, run = await home.mail(account, subject=f"News {number}")
        because = "you never named it" if number == 2 else None
        notices.append(await home.ask(run, NOTIFY_ACTION, {}, kind="notification", allowed=ALL, because=because))
    async with visit(scripts=scripts) as v:
        assert not await v.page.get_by_text("News 0").is_visible()
        await v.page.get_by_role("button", name="Done, all but 1 marked").click()
        await v.page.locator("#results").wait_for()
    assert await answers(home, *notices) == [("decided", "accept"), ("decided", "accept"), ("pending", None)]


@pytest.mark.parametrize(("size", "theme"), [("desktop", "dark"), ("phone", "light")], ids=["desktop", "phone"])
async def test_is_readable(home: Home, visit: Open, size: Size, theme: Theme) -> None:
    reply, _ = await proposed(home)
    async with visit(size, theme, f"/items/{reply.id}") as v:
        assert await axe(v) == []
        await v.page.locator("details").evaluate_all("all => all.forEach(each => (each.open = true))")
        assert await axe(v) == []
        assert await v.page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
