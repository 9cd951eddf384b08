"""The letter is its own field; it is written anew by one key or a few words; nothing that was typed is lost."""

import asyncio
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest
from playwright.async_api import Page, Route

from email_assistant.inbox.answers import BESIDE, REFINEMENTS, Refined
from email_assistant.inbox.items import Item
from tests.browser.conftest import Open, Size, Theme, Visit
from tests.browser.test_actions import shows, status, waiting
from tests.browser.test_card import proposed
from tests.browser.test_pages import axe
from tests.integration.test_api import DRAFT, MEETING, Home

pytestmark = pytest.mark.asyncio(loop_scope="session")

LETTER = ".written"
TYPED = "Monday is fine.\n\nAda"


async def written_anew(home: Home, item: Item, text: str) -> Item:
    """What the assistant proposes after the person's answer."""
    await home.execute(
        "update inbox_items set status = 'applied', applied_at = clock_timestamp() where id = %s", item.id
    )
    return await home.ask(item.run_id, args=DRAFT | {"response_text": text}, subject=item.subject or "")


async def letter(page: Page) -> str:
    return await page.locator(LETTER).input_value()


async def kept(page: Page) -> int:
    return int(await page.evaluate("Object.keys(localStorage).filter(key => key.startsWith('typed:')).length"))


class TestTheLetter:
    async def test_what_stands_on_the_screen_is_sent(self, home: Home, visit: Open) -> None:
        first, second = await waiting(home)
        async with visit() as v:
            await v.stands_still(f"/items/{first.id}")
            await v.press("r")
            await v.page.keyboard.press("ControlOrMeta+a")
            await v.page.keyboard.insert_text(TYPED)
            main = v.page.locator(".bar > .main:visible")
            assert await main.all_inner_texts() == ["Send as changed"]
            assert await v.page.locator(".changes").get_attribute("open") is None
            await v.page.keyboard.press("ControlOrMeta+Enter")
            await v.page.keyboard.press("ControlOrMeta+Enter")  # by a slip
            await shows(v, "Lunch 1?")
            await v.page.keyboard.press("ControlOrMeta+Enter")  # the same slip, when the next letter is there
            assert await kept(v.page) == 0
            assert v.complaints == []
        assert (await home.item(first.id)).decision == {"type": "edit", "args": DRAFT | {"response_text": TYPED}}
        assert await status(home, second) == ("pending", None)

    async def test_what_was_not_seen_whole_is_not_sent(self, home: Home, visit: Open) -> None:
        account = await home.account()
        item = await home.draft(account, args=DRAFT | {"response_text": "So it is.\n" * 60})
        async with visit(path=f"/items/{item.id}") as v:
            whole = "field => field.scrollHeight <= field.clientHeight"
            assert await v.page.locator(LETTER).evaluate(whole)
            await v.press("ControlOrMeta+Enter")
            assert await v.page.evaluate("scrollY") > 0
            assert await status(home, item) == ("pending", None)
            await v.page.evaluate("scrollTo(0, document.body.scrollHeight)")
            await v.page.locator(".bar .main:enabled").wait_for()
            await v.page.locator(LETTER).focus()
            await v.page.keyboard.press("Enter")
            assert (await letter(v.page)).count("\n") == 61
        assert await status(home, item) == ("pending", None)

    @pytest.mark.parametrize("scripts", [True, False], ids=["scripts", "no scripts"])
    async def test_its_head_opens_to_fields(self, home: Home, visit: Open, scripts: bool) -> None:
        account = await home.account()
        args = DRAFT | {"additional_recipients": ["eve@example.net"]}
        item = await home.draft(account, args=args, new=["eve@example.net"])
        async with visit(scripts=scripts, path=f"/items/{item.id}") as v:
            head = v.page.locator(".heads summary")
            assert "To bob@example.org Cc eve@example.net new Re: Lunch?" in " ".join((await head.inner_text()).split())
            assert not await v.page.get_by_label("To", exact=True).is_visible()
            await head.press("Enter")
            await v.page.get_by_label("Cc").fill("eve@example.net, dan@example.net")
            if scripts:
                assert await head.locator("mark").count() == 1
                assert "dan@example.net" in await head.inner_text()
            await v.page.get_by_role("button", name="Send as changed").click()
            await shows(v, "Waiting for you")
        decision = (await home.item(item.id)).decision
        assert decision is not None
        assert decision["args"]["additional_recipients"] == ["eve@example.net", "dan@example.net"]


class TestABlankLetter:
    """Where nothing was proposed."""

    BLANK = DRAFT | {"response_text": ""}
    NOTHING = "You are asked because nothing was proposed: the assistant ended without an answer"

    async def asked(self, home: Home) -> Item:
        _, _, run = await home.mail(await home.account())
        because = self.NOTHING.partition("because ")[2]
        return await home.ask(run, args=self.BLANK, allowed=["edit", "ignore", "response"], because=because)

    async def test_the_person_writes_it(self, home: Home, visit: Open) -> None:
        item = await self.asked(home)
        async with visit() as v:
            await v.go()
            assert "nothing was proposed" in await v.page.locator(f"#row-{item.id}").inner_text()
            await v.go(f"/items/{item.id}")
            assert await v.page.locator(".part").get_by_text(self.NOTHING).count() == 1
            await v.looks()
            send = v.page.get_by_role("button", name="Send", exact=True)
            assert await v.page.get_by_placeholder("Write your reply here").is_visible()
            assert await send.count() == 0  # there is nothing yet
            assert await v.page.get_by_role("button", name="Shorter").count() == 0
            await v.page.locator(LETTER).fill(TYPED)
            await send.click()
            await v.page.get_by_text("Sending").first.wait_for()
            assert v.complaints == []
        assert (await home.item(item.id)).decision == {"type": "edit", "args": DRAFT | {"response_text": TYPED}}

    async def test_or_has_the_assistant_try_again(self, home: Home, visit: Open) -> None:
        item = await self.asked(home)
        async with visit(path=f"/items/{item.id}") as v:
            await v.press("n")
            await v.page.get_by_text("Writing it anew…").wait_for()
            assert v.complaints == []
        said = (await home.item(item.id)).decision
        assert said == {"type": "response", "args": REFINEMENTS["try again"].words}


class TestWrittenAnew:
    @pytest.mark.parametrize(
        ("way", "name"),
        [("keys", "shorter"), ("mouse", "friendlier"), ("touch", "decline"), ("no scripts", "shorter")],
    )
    async def test_the_card_stays_and_the_new_letter_comes_in_its_place(
        self, home: Home, visit: Open, way: str, name: str
    ) -> None:
        first, _ = await waiting(home)
        size: Size = "phone" if way == "touch" else "desktop"
        async with visit(size, scripts=way != "no scripts", path=f"/items/{first.id}") as v:
            button = v.page.get_by_role("button", name=REFINEMENTS[name].name)
            if way == "keys":
                await v.press(REFINEMENTS[name].key)
            else:
                await (button.tap() if way == "touch" else button.click())
            await v.page.get_by_text("Writing it anew…").wait_for()
            await shows(v, "Lunch 0?")
            assert await v.page.locator(".said q").inner_text() == REFINEMENTS[name].name
            assert (await home.item(first.id)).decision == {"type": "response", "args": REFINEMENTS[name].words}
            new = await written_anew(home, first, "Monday it is.\n\nAda")
            if way == "no scripts":
                await v.page.get_by_role("link", name="See the new proposal").click()
            await v.page.locator(f'[data-item="{new.id}"]').first.wait_for()
            assert v.page.url.endswith(f"/items/{new.id}")
            assert await letter(v.page) == "Monday it is.\n\nAda"
            assert await v.page.locator(".part .said q").inner_text() == REFINEMENTS[name].name
            assert v.complaints == []

    async def test_words_go_by_the_same_key_and_never_send_the_letter(self, home: Home, visit: Open) -> None:
        first, _ = await waiting(home)
        async with visit(path=f"/items/{first.id}") as v:
            await v.press("t")
            await v.page.keyboard.press("ControlOrMeta+Enter")  # nothing was said yet
            await v.page.get_by_text("Not taken: say what should be different").wait_for()
            await v.page.locator("#response").fill("Say that I come by train.")
            await v.page.evaluate("sessionStorage.removeItem('pressed')")  # as if the slip's time had passed
            await v.page.keyboard.press("ControlOrMeta+Enter")
            await v.page.get_by_text("Writing it anew…").wait_for()
        assert (await home.item(first.id)).decision == {"type": "response", "args": "Say that I come by train."}

    async def test_what_was_changed_goes_with_it_and_comes_back(self, home: Home, visit: Open) -> None:
        first, _ = await waiting(home)
        async with visit(path=f"/items/{first.id}") as v:
            await v.page.locator(LETTER).fill(TYPED)
            await v.page.get_by_role("button", name="Shorter").click()
            await v.page.get_by_text("Your own version went with it").wait_for()
            said = (await home.item(first.id)).decision
            assert said is not None
            assert Refined.of(said["args"]) == Refined(REFINEMENTS["shorter"].words, TYPED)
            await v.press("z")
            await v.page.locator(LETTER).wait_for()
            assert await letter(v.page) == TYPED
            assert await v.page.locator("#response").input_value() == ""

    async def test_all_that_is_proposed_for_a_mail_comes_anew_together(self, home: Home, visit: Open) -> None:
        reply, meeting = await proposed(home)
        async with visit(path=f"/items/{meeting.id}") as v:
            await v.press("s")
            await v.page.get_by_text("Writing it anew…").wait_for()
            said = [(await home.item(each.id)).decision for each in (reply, meeting)]
            words = (REFINEMENTS["shorter"].words, BESIDE)
            assert said == [{"type": "response", "args": each} for each in words]
            await home.ask(reply.run_id, args=DRAFT | {"response_text": "Yes."}, subject="Budget talk")
            await home.ask(reply.run_id, "schedule_meeting_tool", MEETING, kind="meeting", subject="Budget talk")
            await v.page.locator(LETTER).wait_for()
            assert await v.page.locator(".said").all_inner_texts() == ["You said: Shorter"]

    async def test_what_comes_to_nothing_is_said(self, home: Home, visit: Open) -> None:
        first, _ = await waiting(home)
        async with visit(path=f"/items/{first.id}") as v:
            await v.press("s")
            await v.page.get_by_text("Writing it anew…").wait_for()
            await home.execute("update inbox_items set status = 'applied' where id = %s", first.id)
            await home.execute(
                "update mails set state = 'failed', reason = 'the budget is spent' where gmail_id = %s", first.mail_id
            )
            await v.page.get_by_text("Nothing came of it: the budget is spent.").wait_for()


class TestNothingTypedIsLost:
    async def test_over_a_reload_another_card_and_a_closed_window(self, home: Home, visit: Open) -> None:
        first, _ = await waiting(home)
        async with visit(path=f"/items/{first.id}") as v:
            await v.page.locator(LETTER).fill(TYPED)
            await v.page.locator("#response").fill("or by train")
            await v.page.reload()
            assert await letter(v.page) == TYPED
            await v.page.locator("#next").click()
            await shows(v, "Lunch 1?")
            assert await letter(v.page) == DRAFT["response_text"]
            await v.page.locator("#previous").click()
            await shows(v, "Lunch 0?")
            assert await letter(v.page) == TYPED
            other = await v.page.context.new_page()
            await v.page.close()
            await other.goto(f"{v.root}/items/{first.id}")
            assert await letter(other) == TYPED
            assert await other.locator("#response").input_value() == "or by train"
            await other.get_by_role("link", name="Take the changes back").click()
            await other.wait_for_load_state()
            assert (await letter(other), await kept(other)) == (DRAFT["response_text"], 0)

    @pytest.mark.parametrize("kind", ["reply", "question"])
    async def test_what_was_dismissed_comes_back_with_it(self, home: Home, visit: Open, kind: str) -> None:
        first, _ = await waiting(home)
        if kind == "question":
            run = (await home.mail(first.account_id, subject="Which day?"))[2]
            first = await home.ask(
                run,
                "Question",
                {"content": "Which?"},
                kind="question",
                allowed=["response", "ignore"],
                subject="Which day?",
            )
        async with visit() as v:
            await v.page.clock.install()
            await v.go(f"/items/{first.id}")
            field = v.page.locator(LETTER if kind == "reply" else "#response")
            await field.fill(TYPED)
            await v.looks()
            await v.page.get_by_role("button", name="Dismiss").click()
            await v.page.get_by_role("button", name="Undo").wait_for()
            await v.go("/memory")
            await v.press("z")
            await field.wait_for()
            await v.page.locator("#show-help:not([hidden])").wait_for(state="attached")
            assert await field.input_value() == TYPED

    async def test_for_thirty_days(self, home: Home, visit: Open) -> None:
        first, _ = await waiting(home)
        async with visit() as v:
            await v.page.clock.install()
            await v.go(f"/items/{first.id}")
            await v.page.locator(LETTER).fill(TYPED)
            await v.page.clock.set_system_time(datetime.now(UTC) + timedelta(days=29))
            await v.go(f"/items/{first.id}")
            assert (await letter(v.page), await kept(v.page)) == (TYPED, 1)
            await v.page.clock.set_system_time(datetime.now(UTC) + timedelta(days=31))
            await v.go(f"/items/{first.id}")
            assert (await letter(v.page), await kept(v.page)) == (DRAFT["response_text"], 0)

    async def test_what_is_typed_while_another_window_answers(self, home: Home, visit: Open) -> None:
        first, _ = await waiting(home)
        async with visit(path=f"/items/{first.id}") as v:
            other = await v.page.context.new_page()
            async with other.expect_response("**/api/events"):
                await other.goto(f"{v.root}/items/{first.id}")
            await other.locator(LETTER).fill("Monday")
            await v.page.wait_for_function("document.querySelector('.written').value === 'Monday'")
            on_its_way, arrives = asyncio.Event(), asyncio.Event()

            async def hold(route: Route) -> None:
                if route.request.method == "POST":
                    on_its_way.set()
                    await arrives.wait()
                await route.continue_()

            await v.page.route("**/items/**", hold)
            await v.press("a")
            await on_its_way.wait()
            await other.locator(LETTER).fill("Monday, and by train")
            arrives.set()
            await shows(v, "Lunch 1?")
            await other.get_by_text("You have answered").wait_for()
            await other.get_by_text("You had written:").wait_for()
            assert await letter(other) == "Monday, and by train"
            await other.reload()
            assert await other.locator(".written-before blockquote").all_inner_texts() == ["Monday, and by train"]
        decision = (await home.item(first.id)).decision
        assert decision is not None
        assert decision["args"]["response_text"] == "Monday"

    async def test_what_is_too_long_to_be_kept_is_said_at_once(self, home: Home, visit: Open) -> None:
        first, _ = await waiting(home)
        async with visit(path=f"/items/{first.id}") as v:
            await v.page.locator("#show-help:not([hidden])").wait_for(state="attached")
            await v.page.locator(LETTER).fill(TYPED)
            await v.page.locator(LETTER).fill("Monday. " * 10_000)
            await v.page.get_by_text("Too long to be kept here").wait_for()
            assert await kept(v.page) == 0
            await v.page.locator(LETTER).fill(TYPED)
            await v.page.get_by_text("Too long to be kept here").wait_for(state="detached")
            assert await kept(v.page) == 1

    async def test_in_two_windows_the_same_stands(self, home: Home, visit: Open) -> None:
        first, _ = await waiting(home)
        async with visit(path=f"/items/{first.id}") as v:
            other = await v.page.context.new_page()
            await other.goto(f"{v.root}/items/{first.id}")
            await other.locator("#show-help:not([hidden])").wait_for(state="attached")
            await v.page.locator(LETTER).fill(TYPED)
            await other.wait_for_function("text => document.querySelector('.written').value === text", arg=TYPED)
            assert await other.locator(".bar > .main:visible").inner_text() == "Send as changed"

    async def test_two_windows_do_not_answer_each_other(self, home: Home, visit: Open) -> None:
        first, _ = await waiting(home)
        async with visit(path=f"/items/{first.id}") as v:
            other = await v.page.context.new_page()
            await other.goto(f"{v.root}/items/{first.id}")
            await other.locator("#show-help:not([hidden])").wait_for(state="attached")
            await v.page.evaluate("echoes = 0; addEventListener('storage', () => (echoes += 1))")
            await v.page.locator(LETTER).fill("")
            await v.page.locator(LETTER).press_sequentially("Monday.")
            await other.wait_for_function("() => document.querySelector('.written').value === 'Monday.'")
            await other.locator("[data-kept]").first.wait_for(state="attached")
            assert await letter(v.page) == "Monday."
            assert await v.page.evaluate("echoes") == 0

    async def test_what_was_asked_again_is_never_filled_in_by_itself(self, home: Home, visit: Open) -> None:
        first, _ = await waiting(home)
        async with visit(path=f"/items/{first.id}") as v:
            await v.page.locator(LETTER).fill(TYPED)
            await home.execute("update inbox_items set asked = asked + 1 where id = %s", first.id)
            await v.page.reload()
            await v.page.get_by_text("You had written:").wait_for()
            assert await letter(v.page) == DRAFT["response_text"]
            await v.page.get_by_role("button", name="Use it").click()
            assert await letter(v.page) == TYPED
            await v.page.reload()
            assert await letter(v.page) == TYPED

    async def test_what_newer_mail_set_aside_is_offered_where_it_goes_on(self, home: Home, visit: Open) -> None:
        first, _ = await waiting(home)
        async with visit(path=f"/items/{first.id}") as v:
            await v.page.locator(LETTER).fill(TYPED)
            run = await home.run(first.account_id, first.thread_id, first.mail_id or "", uuid4(), attempt=2)
            await home.execute(
                "update inbox_items set status = 'superseded', superseded_by = %s where id = %s", run, first.id
            )
            new = await home.ask(run, args=DRAFT | {"response_text": "Tuesday?"})
            await v.page.get_by_role("link", name="See what took its place").click()
            await v.page.locator(f'[data-item="{new.id}"]').first.wait_for()
            assert await letter(v.page) == "Tuesday?"
            await v.page.get_by_role("button", name="Use it").click()
            assert await letter(v.page) == TYPED

    async def test_a_logout_leaves_nothing_behind(self, home: Home, visit: Open) -> None:
        first, _ = await waiting(home)
        async with visit(path=f"/items/{first.id}") as v:
            await v.page.locator(LETTER).fill(TYPED)
            assert await kept(v.page) == 1
            await v.page.get_by_role("button", name="Log out").click()
            await v.page.wait_for_load_state()
            assert await kept(v.page) == 0

    async def test_a_logout_elsewhere_leaves_what_is_being_written(self, home: Home, visit: Open) -> None:
        first, _ = await waiting(home)
        async with visit(path=f"/items/{first.id}") as v:
            await v.page.locator("#show-help:not([hidden])").wait_for(state="attached")
            await v.page.locator(LETTER).fill(TYPED)
            other = await v.page.context.new_page()
            await other.goto(f"{v.root}/memory")
            await other.get_by_role("button", name="Log out").click()
            await other.wait_for_load_state()
            await v.page.get_by_text("You are logged out").wait_for()
            assert (await letter(v.page), await kept(v.page)) == (TYPED, 0)


@pytest.mark.parametrize(("size", "theme"), [("desktop", "light"), ("phone", "dark")], ids=["desktop", "phone"])
async def test_is_readable(home: Home, visit: Open, size: Size, theme: Theme) -> None:
    first, _ = await waiting(home)
    async with visit(size, theme, f"/items/{first.id}") as v:
        await v.page.locator(LETTER).fill(TYPED)
        await v.page.get_by_text("What I changed", exact=True).click()
        await v.page.locator(".heads summary").click()
        assert await axe(v) == []
        await anew(v)
        assert await axe(v) == []
        await written_anew(home, first, "Monday it is.")
        await v.page.locator(".different").wait_for()
        assert await axe(v) == []
        assert await v.page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")


async def anew(v: Visit) -> None:
    await v.page.get_by_role("button", name="Shorter").click()
    await v.page.get_by_text("Writing it anew…").wait_for()
