"""How fast ten mixed mails are cleared by key.

The keys are pressed in Chromium, each a little after the time in which the same key is a slip, with the processor as it
is and four times slower; a card counts from the key until its first frame is drawn.
"""

import argparse
import asyncio
import tempfile
from pathlib import Path

from playwright.async_api import Browser, async_playwright
from pydantic import SecretStr

from email_assistant.app import open_app
from email_assistant.db.embedded import EmbeddedPostgres
from email_assistant.settings import Settings
from tests.benchmark.measured import spread
from tests.browser.test_pace import ten
from tests.integration.test_api import TOKEN, Home, served
from tests.tools import CHROMIUM_ARGUMENTS, CHROMIUM_WITHOUT_WINDOWS

_WATCH = """
let pressed = 0;
window.spans = [];
addEventListener("keydown", (event) => { pressed = event.timeStamp; }, { capture: true });
addEventListener("DOMContentLoaded", () => new MutationObserver((changes) => {
    if (!pressed || !changes.some((change) => [...change.addedNodes].some((node) => node.localName === "main"))) return;
    const since = pressed;
    pressed = 0;
    const drawn = new MessageChannel();
    drawn.port1.onmessage = () => spans.push(performance.now() - since);
    requestAnimationFrame(() => drawn.port2.postMessage(0));
}).observe(document.body, { childList: true }));
"""
_PAUSE = 650  # milliseconds between two keys


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rounds", type=int, default=5)


def main(given: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory() as folder, EmbeddedPostgres(Path(folder) / "postgres") as server:
        asyncio.run(_measure(Path(folder), server.url(), given.rounds))


async def _measure(folder: Path, url: str, rounds: int) -> None:
    settings = Settings(
        home=folder, secret_key=SecretStr("6OGYLyGsqb31m8jzXYSdX6yFw5wBDjqdjzhTwMBRWNc="), undo_seconds=60
    )
    async with open_app(settings, url) as app, served(app) as root:
        await _clear(Home(app), root, rounds)


async def _clear(home: Home, root: str, rounds: int) -> None:
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM_WITHOUT_WINDOWS, args=CHROMIUM_ARGUMENTS)
        print(f"Chromium {browser.version}")
        spans: dict[int, list[list[float]]] = {1: [], 4: []}
        for _ in range(rounds):
            for slower, found in spans.items():
                await ten(home)
                found.append(await _cleared(browser, root, slower))
                await home.execute("delete from accounts")
        for slower, found in spans.items():
            print(f"next card, {slower} × slower  {spread([span for each in found for span in each[:-1]])}")
            print(f"all ten, {slower} × slower    {spread([sum(each) for each in found])}")
        await browser.close()


async def _cleared(browser: Browser, root: str, slower: int) -> list[float]:
    """What each key was waited for, the last one for the list."""
    context = await browser.new_context(viewport={"width": 1280, "height": 800})
    context.set_default_timeout(300_000)  # a busy machine is measured, too
    page = await context.new_page()
    await page.add_init_script(_WATCH)
    await page.goto(f"{root}/?token={TOKEN}")
    await (await context.new_cdp_session(page)).send("Emulation.setCPUThrottlingRate", {"rate": slower})
    await page.wait_for_load_state("networkidle")
    await page.keyboard.press("o")
    await page.locator(".bar").wait_for()
    await page.evaluate("spans.length = 0")
    for count in range(1, 11):
        await page.wait_for_timeout(_PAUSE)
        await page.keyboard.press("a")
        await page.wait_for_function("count => spans.length >= count", arg=count)
    spans: list[float] = await page.evaluate("spans")
    await context.close()
    return spans
