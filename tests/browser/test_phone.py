"""The inbox on a phone: installed, with a bar at its foot, notices that open a card, and a finger that sends."""

import json
from typing import Any

import pytest
from playwright.async_api import Worker

from email_assistant.features.notices.notices import cards
from email_assistant.inbox.items import Item
from tests.browser.conftest import Open, Visit
from tests.integration.home import until
from tests.integration.test_api import BOB, DRAFT, Home

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_it_can_be_installed(home: Home, visit: Open) -> None:
    async with visit("phone") as v:
        session = await v.page.context.new_cdp_session(v.page)
        manifest = await session.send("Page.getAppManifest")
        assert manifest["errors"] == []
        said = json.loads(manifest["data"])
        assert (said["start_url"], said["display"]) == ("/", "standalone")
        assert {icon["purpose"] for icon in said["icons"] if "purpose" in icon} == {"any", "maskable"}
        for icon in said["icons"]:
            answer = await v.page.request.get(v.root + icon["src"])
            assert answer.headers["content-type"].startswith(icon["type"])
        errors = (await session.send("Page.getInstallabilityErrors"))["installabilityErrors"]
        assert [error for error in errors if error["errorId"] != "in-incognito"] == []
        assert v.complaints == []


async def test_the_bar_at_the_foot_leads_everywhere_and_hides_nothing(home: Home, visit: Open) -> None:
    account = await home.account()
    item = await home.draft(account)
    async with visit("phone", scripts=False) as v:
        bar = v.page.get_by_role("navigation", name="Main")
        for name, heading in (("Chat", "Chat"), ("Activity", "Activity"), ("Inbox", "Waiting for you")):
            await bar.get_by_role("link", name=name).click()
            assert heading in await v.page.locator("h1").inner_text()
        await bar.get_by_text("More").click()
        await bar.get_by_role("link", name="Memory").click()
        await v.page.get_by_role("heading", name="Memory").wait_for()
        await v.go(f"/items/{item.id}")
        await v.page.evaluate("scrollTo({ top: document.body.scrollHeight, behavior: 'instant' })")
        answers, foot = await v.page.locator(".bar").bounding_box(), await bar.bounding_box()
        assert answers
        assert foot
        assert answers["y"] + answers["height"] <= foot["y"] + 1


@pytest.mark.parametrize("scripts", [True, False], ids=["scripts", "no scripts"])
async def test_everything_is_stopped_and_goes_on_from_the_bar(home: Home, visit: Open, scripts: bool) -> None:
    account = await home.account()
    async with visit("phone", path="/activity", scripts=scripts) as v:
        await v.page.get_by_text("More", exact=True).click()
        await v.page.get_by_role("button", name="Stop everything").click()
        await v.page.get_by_text("Everything is stopped since").wait_for()
        assert v.page.url == f"{v.root}/activity"
        assert (await home.app.accounts.get(account)).state == "stopped"
        await v.page.get_by_role("button", name="Go on").click()
        await v.page.get_by_text("Everything is stopped since").wait_for(state="detached")
    assert (await home.app.accounts.get(account)).state == "active"


async def test_an_open_page_says_that_it_was_stopped_elsewhere(home: Home, visit: Open) -> None:
    await home.account()
    async with visit() as v:
        await home.app.accounts.stop(home.app.user_id)
        await v.page.get_by_text("Everything is stopped since").wait_for()
        await home.app.accounts.go_on(home.app.user_id)
        await v.page.get_by_text("Everything is stopped since").wait_for(state="detached")


BADGE = """
navigator.setAppBadge = async (count) => (window.badge = count);
navigator.clearAppBadge = async () => (window.badge = 0);
"""


async def test_the_icon_shows_how_many_wait(home: Home, visit: Open) -> None:
    account = await home.account()
    await home.draft(account)
    async with visit("phone") as v:
        await v.page.add_init_script(BADGE)
        await v.go("/mails")
        await until(lambda: v.page.evaluate("window.badge === 1"))
        await home.draft(account)
        await until(lambda: v.page.evaluate("window.badge === 2"))


async def worker_of(v: Visit) -> Worker:
    """The service worker, once it is at work; its notices are kept where the test reads them."""
    context = v.page.context
    await context.grant_permissions(["notifications"], origin=v.root)
    await v.page.evaluate("navigator.serviceWorker.register('/service-worker.js')")
    await v.page.evaluate("navigator.serviceWorker.ready.then(() => true)")
    [worker] = context.service_workers or [await context.wait_for_event("serviceworker")]
    return worker


async def push(worker: Worker, items: list[Item]) -> None:
    message = {"waiting": len(items), "notices": cards(items, len(items))}
    await worker.evaluate("(told) => tell(told)", message)


async def shown(worker: Worker) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = await worker.evaluate(
        """async () => (await self.registration.getNotifications()).map(({ title, body, tag, actions, data }) =>
            ({ title, body, tag, data, actions: actions.map((each) => each.action) }))"""
    )
    return found


CLICK = """async (action) => {
    const [notification] = await self.registration.getNotifications();
    const done = [];
    const event = new NotificationEvent("notificationclick", { notification, action });
    event.waitUntil = (work) => done.push(work);
    self.dispatchEvent(event);
    await Promise.all(done);
}"""


async def test_a_notice_sends_a_short_letter_and_takes_it_back(home: Home, notifying_visit: Open) -> None:
    item = await home.draft(await home.account())
    async with notifying_visit("phone") as v:
        worker = await worker_of(v)
        await push(worker, [await home.app.inbox.get(home.app.user_id, item.id)])
        [notice] = await shown(worker)
        assert notice["title"].startswith(BOB)
        assert DRAFT["response_text"] in notice["body"]
        assert notice["actions"] == ["send", "open"]
        await worker.evaluate(CLICK, "send")
        assert (await home.app.inbox.get(home.app.user_id, item.id)).status == "decided"
        [notice] = await shown(worker)
        assert notice["title"].startswith("Sending. ")
        assert notice["actions"] == ["undo", "open"]
        await worker.evaluate(CLICK, "undo")
        assert (await home.app.inbox.get(home.app.user_id, item.id)).status == "pending"


async def test_an_old_notice_accepts_nothing_else_and_says_so(home: Home, notifying_visit: Open) -> None:
    item = await home.draft(await home.account())
    async with notifying_visit("phone") as v:
        worker = await worker_of(v)
        await push(worker, [await home.app.inbox.get(home.app.user_id, item.id)])
        await home.execute("update inbox_items set asked = asked + 1 where id = %s", item.id)
        await worker.evaluate(CLICK, "send")
        assert (await home.app.inbox.get(home.app.user_id, item.id)).status == "pending"
        [notice] = await shown(worker)
        assert notice["title"].startswith("Not sent. ")
        assert notice["actions"] == ["open"]


async def test_the_notice_of_what_was_answered_elsewhere_goes_away(home: Home, notifying_visit: Open) -> None:
    account = await home.account()
    first, second = await home.draft(account), await home.draft(account)
    async with notifying_visit("phone") as v:
        worker = await worker_of(v)
        await push(worker, [first, second])
        assert {each["tag"] for each in await shown(worker)} == {str(first.id), str(second.id)}
        await home.app.inbox.decide(home.app.user_id, first.id, {"type": "ignore"}, by="test")

        async def is_one() -> bool:
            return len(await shown(worker)) == 1

        await until(is_one)
        assert [each["tag"] for each in await shown(worker)] == [str(second.id)]


async def swipe(v: Visit, selector: str, *, right: int = 260, down: int = 0) -> None:
    """A finger that is drawn over the middle of what is there."""
    box = await v.page.locator(selector).first.bounding_box()
    assert box
    session = await v.page.context.new_cdp_session(v.page)
    x, y = box["x"] + 40, box["y"] + 12
    for type_, part in (("touchStart", 0.0), ("touchMove", 0.3), ("touchMove", 0.7), ("touchMove", 1.0)):
        points = [{"x": x + part * right, "y": y + part * down}]
        await session.send("Input.dispatchTouchEvent", {"type": type_, "touchPoints": points})
    await session.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})


async def test_a_finger_sends_from_an_open_card_and_it_can_be_undone(home: Home, visit: Open) -> None:
    item = await home.draft(await home.account())
    async with visit("phone", path=f"/items/{item.id}") as v:
        await v.page.locator("#show-help:not([hidden])").wait_for(state="attached")
        for too_little in ({"right": 90}, {"right": -200}, {"right": 150, "down": 200}):
            await swipe(v, ".proposal h2", **too_little)
        assert (await home.app.inbox.get(home.app.user_id, item.id)).status == "pending"
        await v.go(f"/items/{item.id}")
        await swipe(v, ".proposal h2")
        await v.page.locator("#results").get_by_role("button", name="Undo").click()
        await v.page.locator("#proposal").wait_for()
    assert (await home.app.inbox.get(home.app.user_id, item.id)).status == "pending"


async def test_a_finger_over_a_row_only_opens_it(home: Home, visit: Open) -> None:
    item = await home.draft(await home.account())
    async with visit("phone") as v:
        await swipe(v, ".rows a.row")
        await v.page.wait_for_url(f"**/items/{item.id}*")
    assert (await home.app.inbox.get(home.app.user_id, item.id)).status == "pending"


async def test_a_finger_sends_nothing_that_is_marked(home: Home, visit: Open) -> None:
    account = await home.account()
    _, _, run = await home.mail(account)
    item = await home.ask(run, args=DRAFT, new=[BOB])
    async with visit("phone", path=f"/items/{item.id}") as v:
        await v.page.locator("#show-help:not([hidden])").wait_for(state="attached")
        await swipe(v, ".proposal h2")
        await v.page.locator('.bar [value="accept"]').wait_for()
        assert v.page.url == f"{v.root}/items/{item.id}"
    assert (await home.app.inbox.get(home.app.user_id, item.id)).status == "pending"
