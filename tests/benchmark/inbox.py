"""How fast the inbox is: its pages at the server with 100,000 items waiting, and ten mixed mails cleared by key.

    uv run python -m tests.benchmark.inbox [--items N] [--rounds N]

The pages are asked for in turn, over HTTP on this machine, of a server in this process. The keys are pressed in
Chromium, each a little after the time in which the same key is a slip, with the processor as it is and four times
slower; a card counts from the key until its first frame is drawn.
"""

# ruff: noqa: T201

import argparse
import asyncio
import os
import statistics
import tempfile
from importlib.metadata import version
from pathlib import Path
from shutil import which

import httpx
import psycopg
from playwright.async_api import Browser, async_playwright
from pydantic import SecretStr

from email_assistant.app import open_app
from email_assistant.db.embedded import EmbeddedPostgres
from email_assistant.settings import Settings
from tests.benchmark.due import machine
from tests.browser.test_pace import ten
from tests.integration.test_api import TOKEN, Home, client, served

_WAITING = """
with conversations as (
    insert into threads (user_id, account_id, gmail_id)
    select user_id, id, 'b' || n from accounts, generate_series(%(first)s, %(last)s) n
    returning id, user_id, account_id, gmail_id),
work as (
    insert into runs (id, user_id, account_id, thread_id, mail_id, attempt, input, state)
    select gen_random_uuid(), user_id, account_id, id, gmail_id, 1, '{}', 'waiting' from conversations
    returning id, mail_id),
letters as (
    insert into mails (account_id, gmail_id, user_id, thread_id, own, sender, subject, content, received_at, state,
                       classification, run_id)
    select account_id, gmail_id, user_id, c.id, false, 'bob' || right(gmail_id, 2) || '@example.org',
           'Matter ' || gmail_id, json_build_object('text', 'Does it suit you?'), now(), 'waiting', 'respond', w.id
    from conversations c join work w on w.mail_id = c.gmail_id)
insert into inbox_items (user_id, account_id, thread_id, run_id, mail_id, call_id, interrupt_id, kind, action, args,
                         allowed, mail_text, marks, teaches, words)
select user_id, account_id, c.id, w.id, mail_id, 'call', mail_id, 'draft', 'send_email_tool',
       json_build_object('email_address', 'bob@example.org', 'response_text', 'It does.' || chr(10) || 'Ada'),
       '{accept,edit,ignore,response}', 'Does it suit you?', '[]', true, ''
from conversations c join work w on w.mail_id = c.gmail_id"""
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
_AT_ONCE = 1_000  # rows of one statement, whose joins are planned for few
_PAUSE = 650  # milliseconds between two keys


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--items", type=int, default=100_000)
    arguments.add_argument("--asked", type=int, default=60)
    arguments.add_argument("--rounds", type=int, default=5)
    given = arguments.parse_args()
    print(machine())
    with tempfile.TemporaryDirectory() as folder, EmbeddedPostgres(Path(folder) / "postgres") as server:
        with psycopg.connect(server.url()) as conn:
            print(f"uvicorn {version('uvicorn')}, Postgres {conn.info.server_version // 10_000}")
        asyncio.run(_measure(Path(folder), server.url(), given))


async def _measure(folder: Path, url: str, given: argparse.Namespace) -> None:
    settings = Settings(
        home=folder, secret_key=SecretStr("6OGYLyGsqb31m8jzXYSdX6yFw5wBDjqdjzhTwMBRWNc="), undo_seconds=60
    )
    async with open_app(settings, url) as app, served(app) as root:
        home = Home(app)
        await _clear(home, root, given.rounds)
        await home.execute("delete from accounts")
        await home.account()
        for first in range(1, given.items + 1, _AT_ONCE):
            last = min(first + _AT_ONCE - 1, given.items)
            await home.execute(_WAITING.replace("%(first)s", str(first)).replace("%(last)s", str(last)))
        await home.execute("vacuum analyze")
        async with client(root, authorization=f"Bearer {TOKEN}") as http:
            await _ask(http, home, given)


async def _ask(http: httpx.AsyncClient, home: Home, given: argparse.Namespace) -> None:
    [first] = await home.column("select id from inbox_items order by created_at, id limit 1")
    [middle] = await home.column(
        f"select id from inbox_items order by created_at, id offset {given.items // 2} limit 1"
    )
    paths = {"/health": "/health", "the list": "/", "its first card": f"/items/{first}", "a card": f"/items/{middle}"}
    times: dict[str, list[float]] = {what: [] for what in paths}
    for _ in range(given.asked):
        for what, path in paths.items():
            answer = (await http.get(path)).raise_for_status()
            times[what].append(answer.elapsed.total_seconds() * 1000)
    print(f"with {given.items} items waiting:")
    for what, each in times.items():
        _show(what, each)


async def _clear(home: Home, root: str, rounds: int) -> None:
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=which("chromium"), args=["--no-sandbox"])
        print(f"Chromium {browser.version}")
        spans: dict[int, list[list[float]]] = {1: [], 4: []}
        for _ in range(rounds):
            for slower, found in spans.items():
                await ten(home)
                found.append(await _cleared(browser, root, slower))
                await home.execute("delete from accounts")
        for slower, found in spans.items():
            _show(f"next card, {slower} × slower", [span for each in found for span in each[:-1]])
            _show(f"all ten, {slower} × slower", [sum(each) for each in found])
        await browser.close()


async def _cleared(browser: Browser, root: str, slower: int) -> list[float]:
    """What each key was waited for, the last one for the list."""
    context = await browser.new_context(viewport={"width": 1280, "height": 800})
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


def _show(what: str, each: list[float]) -> None:
    low, *_, high = statistics.quantiles(each, n=20, method="inclusive") if len(each) > 1 else [*each, *each]
    spread = f"5 % {low:.1f}, 95 % {high:.1f}, most {max(each):.1f}"
    load = f"load average {os.getloadavg()[0]:.1f}"
    print(f"{what:24} median {statistics.median(each):.1f} ms ({spread}; {len(each)} measured, {load})", flush=True)


if __name__ == "__main__":
    main()
