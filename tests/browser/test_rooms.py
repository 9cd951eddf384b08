"""Search, snooze, the story of a mail, the rules, the days, and where one is told: each with scripts and without."""

import json

import pytest

from email_assistant.features.notices.telling import Telling
from email_assistant.memory.learn import teach_triage
from email_assistant.memory.profiles import Memory
from tests.browser.conftest import Open
from tests.doubles.receiver import Browser, Receiver
from tests.integration.test_api import ADA, Home

pytestmark = pytest.mark.asyncio(loop_scope="session")

both = pytest.mark.parametrize("scripts", [True, False], ids=["scripts", "no scripts"])


@both
async def test_items_are_found_by_what_they_say_and_kept_to_while_answering(
    home: Home, visit: Open, scripts: bool
) -> None:
    account = await home.account()
    for subject in ("Invoice one", "Lunch", "Invoice two"):
        _, _, run = await home.mail(account, subject=subject)
        await home.ask(run, subject=subject, body=f"This is about {subject}.")
    async with visit(scripts=scripts) as v:
        await v.page.get_by_role("searchbox").fill("invoice")
        await v.page.get_by_role("searchbox").press("Enter")
        await v.page.get_by_text("Invoice two", exact=True).wait_for()
        assert await v.page.locator(".rows li").count() == 2
        await v.page.get_by_text("Invoice one", exact=True).click()
        await v.page.locator(".bar").get_by_text("Dismiss").click()
        await v.page.get_by_role("heading", name="Invoice two").wait_for()
        await v.page.get_by_text("← Inbox").click()
        assert await v.page.get_by_role("searchbox").input_value() == "invoice"
        await v.page.get_by_role("searchbox").fill("")
        await v.page.get_by_role("searchbox").press("Enter")
        await v.page.get_by_text("Lunch").first.wait_for()


@both
async def test_the_list_is_narrowed_and_ordered_by_its_own_choices(home: Home, visit: Open, scripts: bool) -> None:
    account, other = await home.account(), await home.account("bea@example.com")
    for owner, subject, kind, hours in (
        (account, "Old reply", "draft", 30),
        (account, "New question", "question", 0),
        (other, "Reply to Bea", "draft", 2),
    ):
        _, _, run = await home.mail(owner, subject=subject)
        item = await home.ask(run, subject=subject, kind=kind)
        await home.execute(
            "update inbox_items set created_at = created_at - make_interval(hours => %s) where id = %s", hours, item.id
        )
    async with visit(scripts=scripts) as v:

        async def listed(**choices: str) -> list[str]:
            await v.go("/")
            await v.page.locator("summary", has_text="Filter").click()
            for name, choice in choices.items():
                await v.page.locator(f".choices select[name={name}]").select_option(choice)
            await v.page.get_by_role("button", name="Apply").click()
            await v.page.locator(".filter details[open]").wait_for()
            return await v.page.locator(".rows .what").all_inner_texts()

        assert await listed(account=ADA) == ["Old reply", "New question"]
        assert await listed(kind="draft") == ["Old reply", "Reply to Bea"]
        assert await listed(older_than="1d") == ["Old reply"]
        assert await listed(sort="newest") == ["New question", "Reply to Bea", "Old reply"]
        assert (await listed(sort="urgency"))[0] == "New question"
        assert await listed(account="bea@example.com", kind="question") == []


@both
async def test_many_sleep_at_once(home: Home, visit: Open, scripts: bool) -> None:
    account = await home.account()
    items = [await home.draft(account) for _ in range(2)]
    async with visit(scripts=scripts) as v:
        await v.page.get_by_text("Tick all").click()
        await v.page.locator(".bulk select").select_option("monday")
        await v.page.locator(".bulk").get_by_role("button", name="Later").click()
        await v.page.locator("#results li").nth(1).wait_for()
        assert [text.partition(":")[0] for text in await v.page.locator("#results li").all_inner_texts()] == [
            "Put off",
            "Put off",
        ]
    assert None not in [(await home.item(item.id)).snoozed_until for item in items]


@both
async def test_an_item_sleeps_and_is_brought_back(home: Home, visit: Open, scripts: bool) -> None:
    item = await home.draft(await home.account())
    async with visit(path=f"/items/{item.id}", scripts=scripts) as v:
        await v.page.get_by_label("Later means").select_option("tomorrow")
        await v.page.get_by_role("button", name="Later").click()
        await v.page.get_by_text("Nothing waits for you.").wait_for()
        assert (await home.item(item.id)).snoozed_until is not None
        await v.page.get_by_text("1 put off").click()
        await v.page.locator(".rows a.row").click()
        await v.page.get_by_role("button", name="Bring it back now").click()
        await v.page.get_by_role("button", name="Later").wait_for()
    assert (await home.item(item.id)).snoozed_until is None


@both
async def test_the_class_of_a_mail_is_corrected_and_remembered(home: Home, visit: Open, scripts: bool) -> None:
    account = await home.account()
    _, _, run = await home.mail(account, id="m-corrected", subject="A newsletter", sender="news@example.org")
    item = await home.ask(run, subject="A newsletter")
    content = json.dumps({"text": "Ten ideas for spring"})
    await home.execute("update mails set run_id = %s, content = %s where gmail_id = 'm-corrected'", run, content)
    async with visit(path=f"/items/{item.id}", scripts=scripts) as v:
        await v.page.get_by_text("Everything that happened to this mail").click()
        await v.page.get_by_text("Ten ideas for spring").wait_for()
        await v.page.get_by_label("it should have been").select_option("ignore")
        await v.page.get_by_role("button", name="Correct").click()
        await v.page.get_by_text("You corrected it from “needs an answer” to “needs nothing”.").wait_for()
        assert (await home.item(item.id)).status == "superseded"
        [correction] = await home.app.corrections.of(account)
        await teach_triage(Memory.kept_in(home.app.pool), correction)
        await v.go("/memory")
        await v.page.get_by_text("Mail from news@example.org needs neither").first.wait_for()


@both
async def test_rules_are_added_changed_removed_and_brought_back(home: Home, visit: Open, scripts: bool) -> None:
    account = await home.account()
    memory = Memory.kept_in(home.app.pool)

    async def rules() -> list[str]:
        return [rule.text for rule in await memory.rules(account, "response_preferences")]

    async with visit(path="/memory", scripts=scripts) as v:
        section = v.page.locator("section", has=v.page.get_by_role("heading", name="How you write"))
        await section.get_by_label("A rule of your own").fill("Sign with Ada.")
        await section.get_by_role("button", name="Add").click()
        await section.locator(".rule", has_text="Sign with Ada.").wait_for()
        await section.locator("summary", has_text="Change").click()
        await section.get_by_label("The rule").fill("Sign with A.")
        await section.get_by_role("button", name="Save").last.click()
        await section.locator(".rule", has_text="Sign with A.").wait_for()
        assert await rules() == ["Sign with A."]
        await section.locator("summary", has_text="Change").click()
        await section.get_by_role("button", name="Go back to this").first.click()
        await section.locator(".rule", has_text="Sign with Ada.").wait_for()
        await section.locator("summary", has_text="Change").click()
        await section.get_by_role("button", name="Remove").click()
        await section.get_by_text("Removed (1)").wait_for()
        assert await rules() == []
        await v.page.get_by_label("In your own words").fill("A gardener.")
        await v.page.get_by_role("button", name="Save").first.click()
        await v.page.get_by_role("heading", name="Memory").wait_for()
    assert (await home.app.accounts.get(account)).background == "A gardener."


@both
async def test_an_account_is_paused_and_resumed(home: Home, visit: Open, scripts: bool) -> None:
    account = await home.account()
    async with visit(path="/accounts", scripts=scripts) as v:
        await v.page.get_by_role("button", name="Pause").click()
        await v.page.get_by_role("button", name="Resume").wait_for()
        assert (await home.app.accounts.get(account)).state == "paused"
        await v.page.get_by_role("button", name="Resume").click()
        await v.page.get_by_role("button", name="Pause").wait_for()
    assert (await home.app.accounts.get(account)).state == "active"


async def test_the_days_are_drawn_and_written_out(home: Home, visit: Open) -> None:
    account = await home.account()
    await home.draft(account)
    await home.app.usage.record(account, None, "triage", "stub-model", 1200, 34)
    async with visit(path=f"/activity?days=7&account={ADA}") as v:
        await v.page.get_by_text("This week").wait_for()
        assert await v.page.locator(".weeks dd").all_inner_texts() == ["1 mail"]
        assert await v.page.locator("svg.chart").count() == 0, "one day is told as well in words"
        await home.execute("update model_usage set at = at - interval '1 day'")
        await home.app.usage.record(account, None, "triage", "stub-model", 1200, 34)
        await v.go(f"/activity?days=7&account={ADA}")
        assert await v.page.locator("svg.chart rect").count() == 4, "read and written, on two days"
        await v.page.get_by_text("In numbers").click()
        today = await v.page.locator("tbody tr").first.locator("td").all_inner_texts()
        assert (today[0], today[10]) == ("1", "1,234")
        assert await v.page.locator("tbody tr").count() == 2


# Its push service is elsewhere, so the browser's part that would ask it is replaced; the worker is the real one.
PUSH_SERVICE = """
(() => {
    const given = SUBSCRIPTION;
    let current = null;
    const made = { ...given, toJSON: () => given, unsubscribe: async () => ((current = null), true) };
    PushManager.prototype.getSubscription = async () => current;
    PushManager.prototype.subscribe = async ({ applicationServerKey }) => {
        if (!/^[\\w-]{80,}$/.test(applicationServerKey)) throw new Error("no key");
        return (current = made);
    };
})()
"""


async def test_a_browser_is_told_of_new_items_by_one_button(home: Home, visit: Open) -> None:
    with Receiver() as receiver:
        subscription = Browser(receiver).subscription | {"endpoint": "https://push.example.net/1"}
    async with visit() as v:
        await v.page.add_init_script(PUSH_SERVICE.replace("SUBSCRIPTION", json.dumps(subscription)))
        await v.go("/accounts")
        button = v.page.get_by_role("button", name="Tell me in this browser")
        await button.click()
        await v.page.get_by_text("Browser at push.example.net").wait_for()
        [channel] = await Telling.of(home.app).channels.of_user(home.app.user_id)
        assert (channel.kind, channel.state) == ("push", "active")
        assert await button.get_attribute("aria-pressed") == "true"
        worker = await v.page.evaluate(
            "navigator.serviceWorker.ready.then(found => [found.active.scriptURL, found.scope])"
        )
        assert worker == [f"{v.root}/service-worker.js", f"{v.root}/"]
        await button.click()
        await v.page.get_by_text("Browser at push.example.net").wait_for(state="detached")
        assert await Telling.of(home.app).channels.of_user(home.app.user_id) == []
        assert v.complaints == []


@both
async def test_what_is_wrong_with_a_notice_is_shown_and_its_channel_removed(
    home: Home, visit: Open, scripts: bool
) -> None:
    user = home.app.user_id
    kept = await Telling.of(home.app).channels.add(
        user, "webhook", "hooks.example.org", "https://hooks.example.org/x", {}
    )
    gone = await Telling.of(home.app).channels.add(user, "push", "push.example.net", "https://push.example.net/x", {})
    await Telling.of(home.app).channels.gone(gone, "its server answers 410: add it again")
    async with visit(path="/accounts", scripts=scripts) as v:
        shown = v.page.locator("#channels li", has_text="push.example.net")
        assert "no longer there: its server answers 410: add it again" in await shown.inner_text()
        assert "not told of anything yet" in await v.page.locator("#channels li", has_text="hooks").inner_text()
        await shown.get_by_role("button", name="Remove").click()
        await shown.wait_for(state="detached")
    assert [channel.id for channel in await Telling.of(home.app).channels.of_user(user)] == [kept.id]
    await Telling.of(home.app).channels.remove(user, kept.id)


async def test_logging_out_ends_the_session(visit: Open, home: Home) -> None:
    async with visit() as v:
        await v.page.get_by_role("button", name="Log out").click()
        await v.page.get_by_label("Token").wait_for()
        await v.go("/", 401)
