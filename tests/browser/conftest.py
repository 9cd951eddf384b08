"""One Chromium for the whole run, the real server on a real database, and a page that reports what must not happen."""

import os
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal
from urllib.parse import urlsplit

import psycopg
import pytest
import pytest_asyncio
from playwright.async_api import Browser, BrowserContext, Page, ViewportSize, async_playwright
from pydantic import SecretStr

from email_assistant.app import open_app
from email_assistant.settings import Settings
from tests.doubles.calendar_server import CalendarServer
from tests.doubles.google import Google
from tests.doubles.model import Model
from tests.integration.test_api import ADA, TOKEN, Home, served
from tests.tools import CHROMIUM, CHROMIUM_ARGUMENTS, CHROMIUM_WITHOUT_WINDOWS, need

Size = Literal["desktop", "phone"]
Theme = Literal["light", "dark"]
SIZES: dict[Size, ViewportSize] = {
    "desktop": {"width": 1280, "height": 800},
    "phone": {"width": 360, "height": 740},
}


@dataclass
class Visit:
    """A browser at the inbox, logged in, and what it did that a test must know of."""

    page: Page
    root: str
    elsewhere: list[str] = field(default_factory=list)
    """Requests that would have left this server; they were stopped."""
    complaints: list[str] = field(default_factory=list)
    """What the browser's console called an error, and exceptions of scripts."""

    async def press(self, key: str) -> None:
        """Press a key once the page listens to keys."""
        await self.page.locator("#show-help:not([hidden])").wait_for(state="attached")
        await self.page.keyboard.press(key)

    async def stands_still(self, path: str) -> None:
        """Open a page whose clock stands still, however long the machine takes."""
        await self.page.clock.install(time=datetime.fromtimestamp(0, UTC))
        await self.go(path)
        await self.page.wait_for_load_state("networkidle")
        await self.page.clock.pause_at(datetime.fromtimestamp(3600, UTC))

    async def looks(self) -> None:
        """Let the time go by in which a press would be a slip; `page.clock` was installed before."""
        await self.page.clock.fast_forward(SLIP)

    async def go(self, path: str = "/", expected: int = 200) -> None:
        answer = await self.page.goto(self.root + path)
        assert answer is not None
        assert answer.status == expected, path


SLIP = 600  # milliseconds, as guard.js has them

Open = Callable[..., AbstractAsyncContextManager[Visit]]


@pytest.fixture(scope="session", autouse=True)
def tools() -> None:
    need("Chromium", "axe-core")


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def chromium(tools: None) -> AsyncIterator[Browser]:
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM_WITHOUT_WINDOWS, args=CHROMIUM_ARGUMENTS)
        yield browser
        await browser.close()


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def notifying_chromium(tools: None) -> AsyncIterator[Browser]:
    """The whole browser, which alone shows notices."""
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=CHROMIUM_ARGUMENTS)
        yield browser
        await browser.close()


@pytest.fixture(scope="session")
def google() -> Iterator[Google]:
    """Where calendars are."""
    with Google(ADA) as double:
        yield double


@pytest.fixture(scope="session")
def model() -> Iterator[Model]:
    """What chats with the person."""
    with Model() as double:
        double.on_policy("calendar")
        yield double
        assert double.violations == []


@pytest.fixture(scope="session")
def calendar() -> Iterator[CalendarServer]:
    """Somebody else's calendar, which chats have the tools of."""
    with CalendarServer() as double:
        yield double


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def program(
    tmp_path_factory: pytest.TempPathFactory,
    postgres_url: str,
    worker_id: str,
    google: Google,
    model: Model,
    calendar: CalendarServer,
) -> AsyncIterator[Home]:
    """The program on one database for the whole run: a new one for each test takes longer than the test."""
    name = f"browser_{worker_id}_{os.getpid()}"
    with psycopg.connect(postgres_url, autocommit=True) as conn:
        conn.execute(f'create database "{name}"'.encode())
    settings = Settings(
        home=tmp_path_factory.mktemp("home"),
        secret_key=SecretStr("6OGYLyGsqb31m8jzXYSdX6yFw5wBDjqdjzhTwMBRWNc="),
        undo_seconds=60,
        google_root=google.root,
        google_timeout_seconds=2,
        openai_api_key=SecretStr("model-key"),
        openai_base_url=model.root,
        model="stub-model",
        mcp_url=calendar.url,
    )
    async with open_app(settings, postgres_url.replace("/postgres?", f"/{name}?", 1)) as app:
        yield Home(app)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def root(program: Home) -> AsyncIterator[str]:
    async with served(program.app) as address:
        yield address


@pytest_asyncio.fixture(loop_scope="session")
async def home(program: Home) -> AsyncIterator[Home]:
    """The program without any account."""
    yield program
    await program.execute("delete from accounts")


@pytest.fixture
def visit(chromium: Browser, root: str, home: Home) -> Open:
    """Opens a browser of its own at the inbox."""
    return _visits_by(chromium, root)


@pytest.fixture
def notifying_visit(notifying_chromium: Browser, root: str, home: Home) -> Open:
    """The same, in a browser that shows notices."""
    return _visits_by(notifying_chromium, root)


def _visits_by(browser: Browser, root: str) -> Open:
    @asynccontextmanager
    async def opened(
        size: Size = "desktop", theme: Theme = "light", path: str = "/", *, scripts: bool = True, **more: Any
    ) -> AsyncIterator[Visit]:
        context = await browser.new_context(
            viewport=SIZES[size],
            has_touch=size == "phone",
            color_scheme=theme,
            java_script_enabled=scripts,
            reduced_motion="reduce",
            **more,
        )
        context.set_default_timeout(int(os.environ.get("PW_MS", "15000")))
        try:
            found = Visit(await context.new_page(), root)
            await _watch(context, found)
            await found.page.goto(f"{root}{path}{'&' if '?' in path else '?'}token={TOKEN}")
            yield found
        finally:
            await context.close()

    return opened


async def _watch(context: BrowserContext, visit: Visit) -> None:
    host = urlsplit(visit.root).netloc

    async def stop(route: Any) -> None:
        visit.elsewhere.append(route.request.url)
        await route.abort()

    await context.route(lambda url: urlsplit(url).netloc != host and not url.startswith("data:"), stop)
    visit.page.on("console", lambda message: visit.complaints.append(message.text) if message.type == "error" else None)
    visit.page.on("pageerror", lambda error: visit.complaints.append(str(error)))
