"""Talking to the assistant on its page: by mouse and keys, with scripts and without, and from two sides at once."""

import asyncio
import json
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from playwright.async_api import Locator, Route

from email_assistant.inbox.items import Item
from tests.browser.conftest import Open, Size, Theme, Visit
from tests.browser.test_pages import axe
from tests.browser.test_safety import HOSTILE
from tests.doubles.calendar_server import CalendarServer
from tests.doubles.model import Model, ToolCall, Turns, broken_tool, tool
from tests.doubles.serving import Hold
from tests.integration.home import until
from tests.integration.test_api import Home

pytestmark = pytest.mark.asyncio(loop_scope="session")

MACHINES: list[tuple[Size, Theme]] = [("desktop", "light"), ("phone", "dark")]
on_each_machine = pytest.mark.parametrize(("size", "theme"), MACHINES, ids=["desktop", "phone"])
with_and_without_scripts = pytest.mark.parametrize("scripts", [True, False], ids=["scripts", "no scripts"])

MEETING = {"calendar_id": "primary", "start": "2031-06-02T10:00:00", "name": "Plan", "duration_minutes": 30}
BOOK = ToolCall("create_event", MEETING)
LOOK = tool("list_events", start="2031-06-02", end="2031-06-03")
ASK = tool("request_clarification", question="When?", context="A meeting.")


@pytest_asyncio.fixture(autouse=True, loop_scope="session")
async def quiet(home: Home, model: Model, calendar: CalendarServer) -> AsyncIterator[None]:
    """One mailbox; nothing goes wrong, and the calendar is empty."""
    await home.account()
    model.clear_faults()
    calendar.forget()
    calendar.calls.clear()
    calendar.events.clear()
    yield


def field(visit: Visit) -> Locator:
    return visit.page.locator("#request")


async def say(visit: Visit, text: str) -> None:
    await field(visit).fill(text)
    await visit.page.get_by_role("button", name="Send", exact=True).click()


async def sees(visit: Visit, text: str, *, seconds: float = 15) -> None:
    await visit.page.locator("#talk, #waits").get_by_text(text).first.wait_for(timeout=seconds * 1000)


async def waiting(home: Home) -> list[Item]:
    return (await home.app.inbox.page(home.app.user_id, status="pending"))[0]


async def a_chat(visit: Visit, model: Model, turns: Turns) -> None:
    """A chat in which the first of these was asked."""
    model.on_chat(turns)
    await visit.go("/chat")
    await say(visit, next(iter(turns)))


@on_each_machine
@with_and_without_scripts
async def test_a_request_is_answered_and_what_changes_anything_is_confirmed_in_place(
    home: Home, visit: Open, model: Model, calendar: CalendarServer, size: Size, theme: Theme, scripts: bool
) -> None:
    async with visit(size, theme, scripts=scripts) as v:
        await a_chat(v, model, {"plan it": [[LOOK], [ASK], [BOOK], "It is planned."], "thanks": ["Not at all."]})
        await sees(v, "When?")
        await sees(v, "Looked into the calendar")
        await v.page.get_by_label("Your answer").fill("at ten")
        await v.page.get_by_role("button", name="Answer", exact=True).click()
        await v.page.locator("#waits", has_text="Put into the calendar.").wait_for()
        shown = await v.page.locator("#waits").inner_text()
        assert all(str(value) in shown for value in MEETING.values())
        assert [call.name for call in calendar.calls] == ["list_events"]
        feedback = v.page.get_by_label("Or say what should be different")
        await feedback.fill("later")
        await v.page.get_by_role("button", name="Do it", exact=True).click()
        await v.page.get_by_role("alert").get_by_text("you wrote what should be different").wait_for()
        assert await feedback.input_value() == "later"
        await feedback.fill("")
        await v.page.get_by_role("button", name="Do it", exact=True).click()
        await sees(v, "It is planned.")
        assert calendar.calls[-1].args == MEETING
        await say(v, "thanks")
        await sees(v, "Not at all.")
        assert await field(v).input_value() == ""
        assert await v.page.locator(".mine:visible").all_inner_texts() == ["plan it", "thanks"]
        await v.go("/chat")
        await v.page.get_by_role("link", name="plan it").wait_for()
        assert [text for text in v.complaints if "422" not in text] == []  # which is how an answer is refused


@with_and_without_scripts
async def test_what_was_done_before_an_outage_is_told_as_done_and_not_to_be_sent_again(
    home: Home, visit: Open, model: Model, calendar: CalendarServer, scripts: bool
) -> None:
    async with visit(scripts=scripts) as v:
        await a_chat(v, model, {"plan it": [[BOOK], "It is planned."]})
        await sees(v, "Put into the calendar.")
        model.fault("chat", times=1000, status=503)
        await v.page.get_by_role("button", name="Do it", exact=True).click()
        await sees(v, "Done: the event was put into the calendar")
        await sees(v, "goes on by itself")
        assert "end it again" not in await v.page.locator("main").inner_text()
        assert await field(v).input_value() == ""
        assert await v.page.locator("#refused").is_hidden()
        await v.go("/chat")
        await v.page.locator("#chats").get_by_text("at work").wait_for()
        await v.page.get_by_role("link", name="plan it").click()
        model.clear_faults()
        model.fault("chat", times=1000, status=400)
        await say(v, "and now?")
        await sees(v, "It could not be finished: the model")
        assert [call.name for call in calendar.calls] == ["create_event"]


async def test_all_is_done_with_the_keyboard_alone(
    home: Home, visit: Open, model: Model, calendar: CalendarServer
) -> None:
    model.on_chat({"one\ntwo": [[BOOK], [BOOK], "Done."]})
    async with visit(path="/chat") as v:
        await v.page.get_by_text("Enter sends").wait_for()
        await field(v).focus()
        for key in ("o", "n", "e", "Shift+Enter", "t", "w", "o", "Enter"):
            await v.page.keyboard.press(key)
        await sees(v, "Put into the calendar.")
        await v.page.get_by_text("Enter sends").wait_for()
        response = v.page.get_by_label("Or say what should be different")
        await response.focus()
        await v.page.keyboard.type("a quieter hour")
        await v.page.keyboard.press("Control+Enter")
        await v.page.locator(".quiet").get_by_text("a quieter hour").wait_for()
        heading = v.page.locator("#waits h2")
        await until(lambda: heading.evaluate("it => it === document.activeElement"))
        for _ in range(3):
            await v.page.keyboard.press("Tab")
            if await v.page.evaluate("document.activeElement.value") == "accept":
                break
        await v.page.keyboard.press("a")  # a key that accepts elsewhere
        assert calendar.calls == []
        await v.page.keyboard.press("Enter")
        await sees(v, "Done.")
        await until(lambda: field(v).evaluate("it => it === document.activeElement"))
        assert calendar.names == ["Plan"]


async def test_the_keyboard_goes_to_what_is_asked_next_though_the_page_is_just_being_fetched(
    home: Home, visit: Open, model: Model, calendar: CalendarServer
) -> None:
    held: list[Route] = []
    answered = asyncio.Event()
    async with visit() as v:
        await a_chat(v, model, {"plan": [[BOOK], [BOOK], "Done."]})
        await sees(v, "Put into the calendar.")

        async def stale(route: Route) -> None:
            """The page as it was when it was asked for, handed over only after the answer was taken."""
            before = await route.fetch()
            held.append(route)
            await answered.wait()
            await route.fulfill(response=before)

        await v.page.route(v.page.url, stale, times=1)
        await home.execute("update accounts set last_error = 'something that the page is told of'")
        await until(lambda: held)
        await v.page.get_by_label("Or say what should be different").fill("a quieter hour")
        await v.page.keyboard.press("Control+Enter")
        await v.page.locator("#waits section").wait_for(state="detached")
        answered.set()
        heading = v.page.locator("#waits h2")
        await until(lambda: heading.evaluate("it => it === document.activeElement"))


@with_and_without_scripts
async def test_an_edit_keeps_what_arguments_are_and_says_what_it_can_not_read(
    home: Home, visit: Open, model: Model, calendar: CalendarServer, scripts: bool
) -> None:
    details = {"minutes": [10, 30], "by": None, "online": False}
    nested = {**MEETING, "details": details}
    async with visit(scripts=scripts) as v:
        await a_chat(v, model, {"plan": [[broken_tool("create_event", json.dumps(nested))], "Done."]})
        await sees(v, "Put into the calendar.")
        await v.page.locator("#waits summary").click()
        await v.page.get_by_label("Duration minutes").fill("45")
        shown = v.page.get_by_label("Details JSON")
        assert json.loads(await shown.input_value()) == details
        await shown.fill('{"minutes": [15], ')
        await v.page.get_by_role("button", name="Do it as changed").click()
        await v.page.get_by_role("alert").get_by_text("Details: this is not JSON").wait_for()
        assert await shown.input_value() == '{"minutes": [15], '
        await shown.fill('{"minutes": [15], "by": "mail"}')
        await v.page.get_by_role("button", name="Do it as changed").click()
        await sees(v, "Done.")
    assert calendar.calls[-1].args == {**MEETING, "duration_minutes": 45, "details": {"minutes": [15], "by": "mail"}}


async def test_what_it_is_at_shows_before_the_answer(home: Home, visit: Open, model: Model) -> None:
    hold = Hold()
    model.on_chat({"look": [[LOOK], "I have seen it."]})
    model.fault("chat", delay=0)  # the first step goes on, the second is held
    model.fault("chat", hold=hold)
    async with visit(path="/chat") as v:
        await v.page.get_by_text("Enter sends").wait_for()
        await say(v, "look")
        await v.page.locator("#now-calls").get_by_text("list_events").wait_for()
        assert await field(v).input_value() == "look"
        assert await v.page.get_by_role("button", name="Send", exact=True).is_disabled()
        hold.release()
        await sees(v, "I have seen it.")


async def test_a_request_stands_there_once_though_the_page_is_fetched_while_it_is_worked_on(
    home: Home, visit: Open, model: Model
) -> None:
    hold = Hold()
    async with visit() as v:
        await a_chat(v, model, {"hello": ["Hello."], "look": [[LOOK], "I have seen it."]})
        await sees(v, "Hello.")
        await v.page.get_by_text("Enter sends").wait_for()
        model.fault("chat", delay=0)
        model.fault("chat", hold=hold)
        await say(v, "look")
        await v.page.locator("#now-calls").get_by_text("list_events").wait_for()
        await home.execute("update accounts set last_error = 'something that the page is told of'")
        await v.page.locator("#talk").get_by_text("look", exact=True).wait_for()
        assert await v.page.locator(".mine:visible").all_inner_texts() == ["hello", "look"]
        hold.release()
        await sees(v, "I have seen it.")


@pytest.mark.parametrize("size", ["desktop", "phone"])
async def test_what_is_only_spoken_does_not_show(visit: Open, home: Home, size: Size) -> None:
    async with visit(size, path="/chat") as v:
        box, overflow = await v.page.evaluate("""() => {
            const spoken = document.getElementById("spoken");
            spoken.textContent = "The roof is mended on Tuesday. ".repeat(60);
            const { width, height } = spoken.getBoundingClientRect();
            return [[width, height], getComputedStyle(spoken).overflow];
        }""")
        assert (max(box) <= 1, overflow) == (True, "hidden")
        assert await v.page.evaluate("document.documentElement.scrollWidth <= innerWidth")


async def test_what_is_asked_elsewhere_shows_by_itself(home: Home, visit: Open, model: Model) -> None:
    hold = Hold()
    async with visit() as v:
        await a_chat(v, model, {"hello": ["Hello."], "and now?": ["Now too."]})
        await sees(v, "Hello.")
        # The page fetches itself once when it begins to listen; what it shows after that, it was told of.
        async with v.page.expect_response(lambda answer: answer.request.resource_type == "fetch"):
            await v.page.reload()
        model.fault("policy", hold=hold)
        body = {"thread_id": v.page.url.rpartition("/")[2], "user_request": "and now?"}
        asking = asyncio.ensure_future(v.page.context.request.post(f"{v.root}/run", data=body))
        await v.page.locator("#talk").get_by_text("and now?").wait_for()
        await sees(v, "At work…")
        hold.release()
        await sees(v, "Now too.")
        assert (await asking).ok


@with_and_without_scripts
async def test_nothing_that_was_typed_is_lost(home: Home, visit: Open, model: Model, scripts: bool) -> None:
    async with visit(path="/chat", scripts=scripts) as v:
        long = "x" * 20_001
        await say(v, long)
        await v.page.get_by_role("alert").get_by_text("20,001 characters long").wait_for()
        assert await field(v).input_value() == long
        await v.page.evaluate("document.querySelector('#request').required = false") if scripts else None
        model.on_chat({"hello": [""]})
        await say(v, "hello")
        await sees(v, "This went wrong", seconds=60)  # it is tried several times
        assert await field(v).input_value() == "hello"
        model.on_chat({"hello": ["Hello."]})
        await v.page.get_by_role("button", name="Send", exact=True).click()
        await sees(v, "Hello.")


async def test_what_is_typed_outlasts_its_page_until_it_is_taken(home: Home, visit: Open, model: Model) -> None:
    model.on_chat({"plan it": [[ASK], "Planned."]})
    async with visit(path="/chat") as v:
        await v.page.get_by_text("Enter sends").wait_for()
        await field(v).fill("plan")
        await v.page.reload()
        assert await field(v).input_value() == "plan"
        await v.page.get_by_text("Enter sends").wait_for()
        await say(v, "plan it")
        await sees(v, "When?")
        await v.page.get_by_text("Enter sends").wait_for()
        answer = v.page.get_by_label("Your answer")
        await answer.fill("at ten")
        await v.page.reload()
        assert (await field(v).input_value(), await answer.input_value()) == ("", "at ten")
        await v.page.get_by_text("Enter sends").wait_for()
        await v.page.get_by_role("button", name="Answer", exact=True).click()
        await sees(v, "Planned.")
        await v.go("/memory")
        about = v.page.locator("#background")
        await about.fill("I teach.")
        await v.go("/chat")
        assert await field(v).input_value() == ""
        await v.go("/memory")
        assert await about.input_value() == "I teach."
        async with v.page.expect_navigation():
            await about.locator("xpath=ancestor::form").get_by_role("button").click()
        assert await about.evaluate("it => [it.value, it.defaultValue]") == ["I teach."] * 2
        assert await v.page.evaluate("Object.keys(localStorage).length") == 0


async def test_what_is_sent_twice_is_asked_once(home: Home, visit: Open, model: Model) -> None:
    model.on_chat({"hello": ["Hello."]})
    async with visit(path="/chat", scripts=False) as v:
        form = v.page.locator("#ask")
        path = await form.get_attribute("action")
        both = [v.page.context.request.post(v.root + str(path), form={"request": "hello", "after": "0"}) for _ in "12"]
        for answer in [await each for each in both]:
            assert answer.status == 200
        await v.go(str(path))
        assert await v.page.locator(".mine:visible").all_inner_texts() == ["hello"]
        late = await v.page.context.request.post(v.root + str(path), form={"request": "and this?", "after": "0"})
        assert late.status == 409
        assert "and this?" in await late.text()


async def test_an_answer_from_elsewhere_shows_by_itself_and_a_second_one_is_told_so(
    home: Home, visit: Open, model: Model, calendar: CalendarServer
) -> None:
    async with visit() as v:
        await a_chat(v, model, {"plan": [[BOOK], "It is planned."]})
        await sees(v, "Put into the calendar.")
        await v.page.get_by_label("Or say what should be different").fill("rather not")
        [item] = await waiting(home)
        await home.app.inbox.decide(home.app.user_id, item.id, {"type": "ignore"}, by="terminal")
        await v.page.locator(".quiet").get_by_text("Dismissed, in the terminal").wait_for()
        await v.page.get_by_role("button", name="Not like this").click()
        await v.page.get_by_role("alert").get_by_text("already answered (dismissed) in the terminal").wait_for()
        assert await v.page.get_by_label("Or say what should be different").input_value() == "rather not"
        assert calendar.calls == []


async def test_a_page_to_be_opened_elsewhere_is_shown_and_never_opened(
    home: Home, visit: Open, model: Model, calendar: CalendarServer
) -> None:
    calendar.fault("list_events", url="https://login.example.net/oauth?state=1")
    async with visit() as v:
        await a_chat(v, model, {"look": [[LOOK], "Seen."]})
        link = v.page.get_by_role("link", name="Open login.example.net in a new tab")
        await link.wait_for()
        assert await link.get_attribute("rel") == "noopener noreferrer"
        assert await link.get_attribute("target") == "_blank"
        assert v.elsewhere == []
        [item] = await waiting(home)
        await v.go(f"/items/{item.id}")
        await v.page.get_by_text("login.example.net").first.wait_for()
        await v.page.locator(".beside").get_by_text("You, in a chat").wait_for()
        await v.page.get_by_role("link", name="Go to the chat").click()
        await v.page.get_by_role("button", name="I opened it: go on").click()
        await sees(v, "Seen.")
        assert v.elsewhere == []


@pytest.mark.parametrize("scripts", [True, False], ids=["scripts", "no scripts"])
async def test_nothing_that_a_model_or_a_server_writes_is_alive(
    home: Home, visit: Open, model: Model, calendar: CalendarServer, scripts: bool
) -> None:
    hostile = {**MEETING, "name": HOSTILE, "details": {HOSTILE: [HOSTILE]}}
    calendar.fault("list_events", error=HOSTILE)
    turns: Turns = {
        HOSTILE: [
            [LOOK],
            [tool("request_clarification", question=HOSTILE, context=HOSTILE)],
            [broken_tool("create_event", json.dumps(hostile))],
            HOSTILE,
        ],
    }
    model.on_chat({words.replace("\u200b", ""): answers for words, answers in turns.items()} | dict(turns))
    async with visit(path="/chat", scripts=scripts) as v:
        await say(v, HOSTILE)
        await v.page.get_by_label("Your answer").fill(HOSTILE)
        await v.page.get_by_role("button", name="Answer", exact=True).click()
        await sees(v, "Put into the calendar.")
        await inert(v)
        await v.page.get_by_role("button", name="Do it", exact=True).click()
        await v.page.locator(".talk > .turn > p.text").nth(1).wait_for()
        await inert(v)
        for path in ("/chat", "/", "/?status=all"):
            await v.go(path)
            await inert(v)


async def inert(visit: Visit) -> None:
    assert (await visit.page.title()).endswith("– Email assistant")
    assert await visit.page.locator("main :is(script, style, iframe, img, svg, base, video, meta)").count() == 0
    if visit.page.context:
        assert visit.elsewhere == []
        assert visit.complaints == []
    hrefs = await visit.page.locator("main a").all()
    assert [h for link in hrefs if not (h := str(await link.get_attribute("href"))).startswith(("/", "#"))] == []


@on_each_machine
async def test_axe_finds_no_serious_fault_and_nothing_scrolls_sideways(
    home: Home, visit: Open, model: Model, calendar: CalendarServer, size: Size, theme: Theme
) -> None:
    long = "Donaudampfschifffahrtsgesellschaft" * 5
    faults: list[str] = []
    asked = [tool("request_clarification", question=long, context=long)]
    booked = [broken_tool("create_event", json.dumps({**MEETING, "name": long, "details": {long: long}}))]
    async with visit(size, theme) as v:
        for turns in ({f"{long} ask": [asked]}, {f"{long} book": [booked]}, {f"{long} fail": [f"{long} no"]}):
            await a_chat(v, model, turns)
            await v.page.locator("#waits section, .talk > .turn > p.text:nth-of-type(2)").first.wait_for()
            await v.page.locator("details").evaluate_all("all => all.forEach(each => (each.open = true))")
            faults += [f"{next(iter(turns))[-4:]}: {fault}" for fault in await axe(v)]
            width = await v.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
            faults += [f"{next(iter(turns))[-4:]}: {width} px too wide"] if width > 0 else []
        for item in await waiting(home):
            await v.go(f"/items/{item.id}")
            faults += [f"item: {fault}" for fault in await axe(v)]
    assert faults == []
