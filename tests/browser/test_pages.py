"""What holds for each page: axe-core finds no fault, nothing scrolls sideways, and it weighs little."""

import asyncio
import json
from collections.abc import Sequence
from uuid import UUID

import pytest

from email_assistant.agents.mail.graph import NOTIFY_ACTION
from email_assistant.features.gate_server.agent_calls import AgentCalls, Begun
from email_assistant.gate.doubt import Doubt
from email_assistant.memory.profiles import Memory
from tests.browser.conftest import Open, Size, Theme, Visit
from tests.integration.test_api import ADA, BOB, DRAFT, MEETING, Home
from tests.tools import AXE

pytestmark = pytest.mark.asyncio(loop_scope="session")

PLACES = [
    "/",
    "/?status=all&kind=draft",
    "/?status=snoozed",
    "/?q=nothing",
    "/mails",
    "/memory",
    "/activity",
    "/rehearsal",
    "/accounts",
    "/agents",
    "/sessions",
    "/chat",
    "/docs",
    "/nothing",
]
MOST_BYTES = 60_000
LONG = "Donaudampfschifffahrtsgesellschaftskapitänspatentverlängerungsantragsformular" * 2
BOTH_THEMES: list[tuple[Size, Theme]] = [("desktop", "light"), ("phone", "dark")]
WIDTHS = (1280, 768, 360)
THEMES: tuple[Theme, ...] = ("light", "dark")
COLOURS = ["color-contrast", "link-in-text-block"]
"""What a theme can break of axe's rules."""
LOOKS = [*COLOURS, "landmark-one-main", "page-has-heading-one", "region", "scrollable-region-focusable"]
"""What a width can: where things stand, and what is hidden."""


async def furnish(home: Home) -> list[UUID]:
    """One item of each kind, one answered, mail in each state of interest, and two accounts, one in trouble."""
    account, other = await home.account(), await home.account("bea@example.com")
    _, _, run = await home.mail(account, subject=LONG, sender=f"{LONG}@example.org")
    draft = await home.ask(run, args=DRAFT | {"additional_recipients": [f"{LONG}@example.net"]}, body=LONG, new=[BOB])
    meeting = await home.ask(run, "schedule_meeting_tool", MEETING, kind="meeting")
    question = await home.ask(run, "Question", {"content": "Which?"}, kind="question", allowed=["ignore", "response"])
    notice = await home.ask(run, NOTIFY_ACTION, {}, kind="notification", allowed=["ignore", "response"])
    doubt = await home.ask(run, kind="in_doubt", allowed=["accept", "ignore"])
    answered = await home.draft(account)
    edit = {"type": "edit", "args": DRAFT | {"response_text": "Monday is fine.\n\nAda"}}
    await home.app.inbox.decide(home.app.user_id, answered.id, edit, by="web")
    await home.mail(account, id="failed", subject="Hello", state="failed", reason=LONG)
    memory = Memory.kept_in(home.app.pool)
    rule = await memory.add(account, "response_preferences", f"Write {LONG}.", "web")
    await memory.edit(account, "response_preferences", rule.key, "Write shortly.", "web")
    gone = await memory.add(account, "response_preferences", "Be formal.", "web")
    await memory.remove(account, "response_preferences", gone.key, "web")
    await home.app.accounts.set_state(other, "login", "the login has expired")
    agents = home.app.part(AgentCalls)
    await agents.begin(Begun("trip", "search_mail", json.dumps({"query": LONG}), 1, "planner"), _stays)
    return [item.id for item in (draft, meeting, question, notice, doubt, answered)]


async def _stays() -> None:
    await asyncio.Event().wait()


async def every_page(home: Home) -> list[str]:
    items = await furnish(home)
    return [
        *PLACES,
        f"/?answered={items[-1]}",
        "/agents/session?name=trip",
        *(f"/items/{item}" for item in items),
        f"/items/{items[1]}/day",
        f"/items/{items[0]}/body",
        f"/mails/failed/trail?account={ADA}",
    ]


async def test_axe_finds_no_fault_and_nothing_scrolls_sideways(home: Home, visit: Open) -> None:
    """At each width, in both themes. The page is loaded once, so that looks are all that changes."""
    faults: list[str] = []
    async with visit() as v:
        for path in await every_page(home):
            await v.go(path, 404 if path == "/nothing" else 200)
            if path.startswith("/items/"):
                await v.page.locator("details").evaluate_all("all => all.forEach(each => (each.open = true))")
            faults += [f"{path}{fault}" for fault in await faults_at_every_size(v)]
        await v.go("/")
        await v.press("?")
        faults += [f"keys{fault}" for fault in await faults_at_every_size(v)]
    assert faults == [], "\n".join(faults)


async def faults_at_every_size(visit: Visit) -> list[str]:
    faults: list[str] = []
    await visit.page.evaluate(AXE.read_text())
    for width in WIDTHS:
        await visit.page.set_viewport_size({"width": width, "height": 800})
        for theme in THEMES:
            await visit.page.emulate_media(color_scheme=theme)
            rules = [] if (width, theme) == (WIDTHS[0], "light") else LOOKS if theme == "light" else COLOURS
            faults += [f" at {width} px, {theme}: {each}" for each in await axe_run(visit, rules)]
        excess = await visit.page.evaluate(
            "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        )
        faults += [f" is {excess} px too wide for {width} px"] if excess > 0 else []
    return faults


@pytest.mark.parametrize(("size", "theme"), BOTH_THEMES, ids=["desktop, light", "phone, dark"])
async def test_what_an_item_is_marked_for_is_text_and_readable(
    home: Home, visit: Open, size: Size, theme: Theme
) -> None:
    prices = [f"{price} EUR" for price in range(11, 23)]
    args = {**DRAFT, "additional_recipients": [f"{LONG}@example.net"], "response_text": ", ".join([*prices, LONG])}
    leak = Doubt("leak", LONG, f"{LONG}'s mail of 3 May 2031", (f"{LONG}@example.net".lower(),))
    own = [Doubt("unfounded", price, "") for price in prices]
    item = await home.draft(await home.account(), args=args, doubts=[leak, *own], because=f"you never named “{LONG}”")
    async with visit(size, theme) as v:
        for path, count in (("/", 1), (f"/items/{item.id}", 3)):
            await v.go(path)
            marks = v.page.locator(".mark:visible" if path == "/" else ".beside .mark:visible")
            assert await marks.count() == count
            texts = await marks.all_inner_texts()
            assert all(text.startswith("! ") for text in texts)
            assert "You are asked because you never named" in texts[0]
            assert "the assistant's own: “11 EUR”, “12 EUR”, “13 EUR”" in texts[-1]
            assert ("and 9 more" in texts[-1]) == (path == "/")
            assert await axe(v) == []
            assert await v.page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")


async def test_the_login_page_is_accessible(root: str, visit: Open) -> None:
    async with visit() as v:
        await v.page.context.clear_cookies()
        await v.go("/", 401)
        await v.page.get_by_label("Token").wait_for()
        assert await axe(v) == []


async def axe(visit: Visit) -> list[str]:
    """The faults of the page as it is now, each with the places where it is."""
    await visit.page.evaluate(AXE.read_text())
    return await axe_run(visit)


async def axe_run(visit: Visit, rules: Sequence[str] = ()) -> list[str]:
    """By these rules alone, or by all; axe is on the page."""
    found = await visit.page.evaluate(
        "rules => axe.run(document, {resultTypes: ['violations'], ...(rules.length && {runOnly: rules})})", list(rules)
    )
    return [f"{fault['id']} at {[node['target'] for node in fault['nodes']]}" for fault in found["violations"]]


WEIGHT = """() => ["navigation", "resource"].flatMap(kind => performance.getEntriesByType(kind))
    .map(entry => entry.encodedBodySize).reduce((sum, size) => sum + size, 0)"""


async def test_each_page_is_small(home: Home, visit: Open) -> None:
    """All that a page loads, as it comes over the wire; the longest list is a hundred items."""
    account = await home.account()
    for number in range(100):
        mail_id, _, run = await home.mail(account, subject=f"Lunch {number}, {LONG[:40]}?")
        item = await home.ask(run, args=DRAFT | {"response_text": f"{run} " * 20}, subject=f"Lunch {number}?")
    memory = Memory.kept_in(home.app.pool)
    for number in range(20):
        await memory.add(account, "response_preferences", f"Rule {number}: {run} {LONG}", "web")
    meeting = await home.ask(run, "schedule_meeting_tool", MEETING, kind="meeting")
    late = {"/accounts": "Tell me in this browser", f"/items/{meeting.id}": "can't be read"}
    places = [*PLACES, "/activity?days=90", f"/items/{item.id}", f"/items/{meeting.id}", f"/mails/{mail_id}/trail"]
    sizes: dict[str, float] = {}
    async with visit() as v:
        for path in places:
            await v.go(path, 404 if path == "/nothing" else 200)
            if path in late:
                await v.page.get_by_text(late[path]).wait_for()
            sizes[path] = await v.page.evaluate(WEIGHT)
        assert v.complaints[1:] == []  # the first says that there is no /nothing
    assert min(sizes.values()) > 5_000  # style and scripts alone
    assert {path: size for path, size in sizes.items() if size > MOST_BYTES} == {}
