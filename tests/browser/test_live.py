"""An open page follows what happens elsewhere, without a reload and without losing what is typed."""

import time
from uuid import uuid4

import pytest

from email_assistant.memory.profiles import Memory
from email_assistant.memory.rules import RuleChange
from tests.browser.conftest import Open
from tests.integration.test_api import Home

LATEST = 5.0
"""Seconds. On an idle machine it is well below one; a busy one must not fail the test."""

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_the_list_shows_a_new_item_within_a_second_and_keeps_ticks_and_focus(home: Home, visit: Open) -> None:
    account = await home.account()
    first = await home.draft(account)
    async with visit() as v:
        async with v.page.expect_response("**/api/events"):
            await v.go()
        await v.press("j")
        await v.press("x")
        _, _, run = await home.mail(account, subject="Something new")
        await home.ask(run, subject="Something new")
        since = time.monotonic()
        await v.page.get_by_text("Something new").wait_for()
        assert time.monotonic() - since < LATEST
        assert "2 waiting" in await v.page.locator("#counts").inner_text()
        assert await v.page.locator('#list input[name="item"]:checked').count() == 1
        assert await v.page.evaluate("document.activeElement.closest('li')?.id") == f"row-{first.id}"
        await home.app.inbox.decide(home.app.user_id, first.id, {"type": "ignore"}, by="elsewhere")
        await v.page.locator(f"#row-{first.id}").wait_for(state="detached")
        assert v.complaints == []


async def test_of_what_was_learned_the_newest_is_told(home: Home, visit: Open) -> None:
    account = await home.account()
    memory = Memory.kept_in(home.app.pool)

    async def learn(text: str) -> None:
        known, item = await memory.rules(account, "response_preferences"), str(uuid4())
        rule = RuleChange(action="add", text=text).made(known, item, {"item": item})
        assert rule
        await memory.change(account, "response_preferences", rule, known, [])

    async with visit() as v:
        for day in ("Monday", "Tuesday", "Wednesday"):
            await learn(f"Mention {day}.")
        async with v.page.expect_response("**/api/events"):
            await v.go()
        told = v.page.locator(".learned:visible")
        assert [" ".join(each.split()) for each in await told.all_inner_texts()] == [
            "Learned: Mention Wednesday. Undo and 2 more"
        ]
        await learn("Mention Thursday.")
        await home.draft(account)
        await v.page.get_by_text("Learned: Mention Thursday.").wait_for()
        assert await told.get_by_role("link").all_inner_texts() == ["and 3 more"]


async def test_what_is_typed_outlives_an_answer_from_elsewhere(home: Home, visit: Open) -> None:
    item = await home.draft(await home.account())
    async with visit() as v:
        async with v.page.expect_response("**/api/events"):
            await v.go(f"/items/{item.id}")
        await v.press("r")
        await v.page.keyboard.type(" And a fine poem")
        await home.app.inbox.decide(home.app.user_id, item.id, {"type": "ignore"}, by="elsewhere")
        await v.page.get_by_text("You have answered: dismissed, by elsewhere").wait_for()
        assert (await v.page.get_by_label("Text", exact=True).input_value()).endswith("And a fine poem")
        await v.page.get_by_role("button", name="Send as changed").click()
        await v.page.get_by_text("What you had typed").wait_for()
        await v.page.locator(".proposal").get_by_text("And a fine poem").wait_for()


async def test_all_mail_shows_what_becomes_of_it(home: Home, visit: Open) -> None:
    account = await home.account()
    mail_id, _, _ = await home.mail(account, subject="A newsletter", state="triaging", classification=None, reason=None)
    async with visit() as v:
        async with v.page.expect_response("**/api/events"):
            await v.go("/mails")
        row = v.page.locator(".rows li", has_text="A newsletter")
        assert await row.locator("b").inner_text() == "being read"
        done = "update mails set state = 'done', classification = 'ignore', reason = 'bulk mail' where gmail_id = %s"
        await home.execute(done, mail_id)
        await row.get_by_text("done · needs nothing · bulk mail").wait_for()


async def test_a_lost_connection_is_said_and_made_again(home: Home, visit: Open) -> None:
    account = await home.account()
    async with visit() as v:
        await v.page.route("**/api/events", lambda route: route.abort())
        await v.go()
        await v.page.get_by_text("Connection lost").wait_for()
        await home.draft(account)
        await v.page.unroute("**/api/events")
        await v.page.get_by_text("Lunch?").wait_for()
        await v.page.get_by_text("Connection lost").wait_for(state="detached")
