"""Another server on the same machine, and what a real browser gives it: nothing that opens the inbox."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
import pytest_asyncio
import uvicorn
from playwright.async_api import Browser, BrowserContext, Page
from pydantic import SecretStr
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.types import Receive, Scope, Send

from email_assistant.cli.door import opened_door
from email_assistant.cli.serve import bound, serve
from email_assistant.settings import Settings
from tests.integration.test_api import TOKEN, Home, served

pytestmark = pytest.mark.asyncio(loop_scope="session")

COOKIE = "email_assistant_session"

# What a page there may find out: of whence it was opened, of what opened it, and of the inbox, whose port it knows.
SPY = """
<!doctype html><title>spy</title><script type="module">
const inbox = "INBOX";
const told = { referrer: document.referrer, opener: null, frames: [], read: [], timing: [] };
try { told.opener = String(window.opener?.location?.href ?? null) } catch (error) { told.opener = "closed" }
const ways = ["/", "/login", "/api/inbox", "/?token=guess", "/health", "/static/style.css"];
for (const way of ways) {
  for (const mode of ["cors", "no-cors"]) {
    try {
      const answer = await fetch(inbox + way, { mode, credentials: "include" });
      told.read.push([way, answer.type, answer.url, answer.status, await answer.text()]);
    } catch (error) { told.read.push([way, String(error)]) }
  }
}
for (const way of ["/", "/?token=guess"]) {
  const frame = document.createElement("iframe");
  frame.src = inbox + way;
  await new Promise((done) => { frame.onload = done; frame.onerror = done; document.body.append(frame) });
  try { told.frames.push(frame.contentWindow.location.href) } catch (error) { told.frames.push("closed") }
}
told.timing = performance.getEntriesByType("resource").map((entry) => entry.name);
await fetch("/told", { method: "POST", body: JSON.stringify(told) });
document.title = "told";
</script><body></body>
"""


@dataclass
class OtherServer:
    """A program of somebody else's at another port; it keeps all that it is sent."""

    port: int
    inbox: str = ""
    heads: list[str] = field(default_factory=list)
    told: list[dict[str, Any]] = field(default_factory=list)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        self.heads.append(json.dumps([str(request.url), *request.headers.items()]))
        answer: Response = HTMLResponse(SPY.replace("INBOX", self.inbox))
        if request.url.path == "/told":
            self.told.append(json.loads(await request.body()))
            answer = Response(status_code=204)
        await answer(scope, receive, send)

    @property
    def everything(self) -> str:
        return json.dumps([self.heads, self.told])


@asynccontextmanager
async def other_server() -> AsyncIterator[OtherServer]:
    """At both addresses of this machine, so that whatever name leads here is answered to."""
    with socket.create_server(("127.0.0.1", 0)) as one:
        port = one.getsockname()[1]
        with socket.create_server(("::1", port), family=socket.AF_INET6) as two:
            other = OtherServer(port)
            config = uvicorn.Config(other, lifespan="off", access_log=False, log_level="critical")
            server = uvicorn.Server(config)
            task = asyncio.create_task(server.serve([one, two]))
            try:
                yield other
            finally:
                server.should_exit = True
                await task


@asynccontextmanager
async def by_name(home: Home, monkeypatch: pytest.MonkeyPatch, settings: Settings) -> AsyncIterator[str]:
    """The printed link of a server on a system that knows names below .localhost, as Chromium does anyway."""
    real = socket.getaddrinfo

    def knows(host: str, *arguments: Any, **more: Any) -> Any:
        return real("127.0.0.1" if str(host).endswith(".localhost") else host, *arguments, **more)

    monkeypatch.setattr(socket, "getaddrinfo", knows)
    with bound("127.0.0.1", 0) as listener, opened_door(settings, listener) as door:
        task = asyncio.create_task(serve(home.app, door, "127.0.0.1"))
        await _answers(f"http://127.0.0.1:{listener.getsockname()[1]}/health")
        try:
            yield door.link
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


async def _answers(address: str) -> None:
    async with httpx.AsyncClient(trust_env=False, timeout=30) as http:
        assert (await http.get(address)).status_code == 200  # the port is listened on from the first


@pytest_asyncio.fixture(loop_scope="session")
async def context(chromium: Browser) -> AsyncIterator[BrowserContext]:
    opened = await chromium.new_context()
    opened.set_default_timeout(15_000)
    yield opened
    await opened.close()


@asynccontextmanager
async def tab(context: BrowserContext) -> AsyncIterator[Page]:
    """A page that is closed before its server is, which waits for those that listen to it."""
    page = await context.new_page()
    try:
        yield page
    finally:
        await page.close()


async def follow(page: Page, address: str, **attributes: str) -> Page:
    """Click a link, put into the open page; the page that it opens."""
    await page.evaluate(
        """([address, attributes]) => {
            const link = Object.assign(document.createElement("a"), attributes, { href: address, textContent: "Out" });
            link.id = "out";
            document.querySelector("main").prepend(link);
        }""",
        [address, attributes],
    )
    if "target" not in attributes:
        await page.click("#out")
        await page.wait_for_url(address)
        return page
    async with page.context.expect_page() as opened:
        await page.click("#out")
    found: Page = await opened.value
    return found


async def test_another_server_learns_nothing_that_opens_the_inbox(
    home: Home, context: BrowserContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = home.app.settings.model_copy(update={"api_token": SecretStr(TOKEN)})
    async with by_name(home, monkeypatch, settings) as link, other_server() as other:
        address = urlsplit(link)
        name = str(address.hostname)
        assert name.endswith(".localhost")
        other.inbox = f"http://127.0.0.1:{address.port}"
        page = await context.new_page()
        await page.goto(link)
        assert await page.title() == "Waiting – Email assistant"
        [cookie] = await context.cookies()
        assert cookie["name"].startswith(COOKIE)
        assert (cookie["domain"], cookie["sameSite"]) == (name, "Strict")

        there = f"http://127.0.0.1:{other.port}/"
        for attributes in ({}, {"target": "_blank"}, {"target": "_blank", "rel": "opener"}):
            opened = await follow(page, there, **attributes)
            await opened.wait_for_function("document.title === 'told'")
            for extra in context.pages[1:]:
                await extra.close()
            await page.goto(link.partition("?")[0])
            assert await page.title() == "Waiting – Email assistant"
        assert len(other.told) == 3
        for secret in (name, name.split(".")[0], cookie["value"], TOKEN, COOKIE):
            assert secret not in other.everything
        for told in other.told:
            assert set(told["frames"]) == {"closed"}


async def test_the_plain_link_leads_to_the_name_and_so_does_the_form(
    home: Home, context: BrowserContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = home.app.settings.model_copy(update={"api_token": SecretStr(TOKEN)})
    async with by_name(home, monkeypatch, settings) as link:
        root, port = link.partition("?")[0], urlsplit(link).port
        page = await context.new_page()
        await page.goto(f"http://127.0.0.1:{port}/mails?token={TOKEN}")
        assert page.url == f"{root}mails"
        assert await page.title() == "All mail – Email assistant"
        await context.clear_cookies()

        await page.goto(f"http://127.0.0.1:{port}/")
        assert await page.title() == "Log in – Email assistant"
        await page.get_by_label("Token").fill(TOKEN)
        await page.get_by_role("button", name="Log in").click()
        await page.wait_for_url(root)
        await page.get_by_role("heading", name="Waiting").wait_for()
        assert {each["domain"] for each in await context.cookies()} == {urlsplit(link).hostname}
        await context.clear_cookies()

        await page.goto(f"http://127.0.0.1:{port}/")
        await page.get_by_label("Token").fill(TOKEN)
        await page.get_by_label("Stay at this address").check()
        await page.get_by_role("button", name="Log in").click()
        await page.wait_for_url(f"http://127.0.0.1:{port}/")
        await page.get_by_role("heading", name="Waiting").wait_for()


async def test_a_page_elsewhere_can_t_log_in_but_by_a_whole_tab(home: Home, context: BrowserContext) -> None:
    async with served(home.app) as root, other_server() as other, tab(context) as page:
        await page.goto(f"http://127.0.0.1:{other.port}/")
        await page.evaluate(
            """async (link) => {
                for (const kind of ["iframe", "img", "embed"]) {
                    const element = Object.assign(document.createElement(kind), { src: link });
                    await new Promise((done) => {
                        element.onload = done;
                        element.onerror = done;
                        document.body.append(element);
                    });
                }
                await fetch(link, { mode: "no-cors", credentials: "include" }).catch(() => {});
            }""",
            f"{root}/?token={TOKEN}",
        )
        assert await context.cookies() == []
        await page.evaluate("(link) => { location.href = link }", f"{root}/?token={TOKEN}")
        await page.wait_for_url(f"{root}/")
        await page.get_by_role("heading", name="Waiting").wait_for()


async def test_at_the_plain_address_the_cookie_is_what_is_left(home: Home, context: BrowserContext) -> None:
    """What the threat model says of systems that know no such name: other servers here are sent it, till the logout."""
    async with served(home.app) as root, other_server() as other, tab(context) as page:
        await page.goto(f"{root}/?token={TOKEN}")
        [cookie] = await context.cookies()
        await follow(page, f"http://127.0.0.1:{other.port}/")
        await page.wait_for_function("document.title === 'told'")
        assert cookie["value"] in other.everything
        async with httpx.AsyncClient(
            trust_env=False, headers={"cookie": f"{cookie['name']}={cookie['value']}"}
        ) as thief:
            assert (await thief.get(root)).status_code == 200
            await page.goto(root)
            await page.get_by_role("button", name="Log out").click()
            await page.wait_for_url(f"{root}/login")
            assert (await thief.get(root)).status_code == 401


async def test_logging_out_is_said_on_the_pages_that_are_open(home: Home, context: BrowserContext) -> None:
    async with served(home.app) as root, tab(context) as page:
        async with page.expect_request("**/api/events"):
            await page.goto(f"{root}/?token={TOKEN}")
        account = await home.account()
        await home.app.sessions.end_all(home.app.user_id)
        await home.app.accounts.note_error(account, "Something happens.")
        await page.get_by_text("You are logged out").wait_for()
