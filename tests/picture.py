"""The picture in the README: the demo's inbox in Chromium. `uv run python -m tests.picture FILE` takes it anew."""

import asyncio
import os
import re
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import httpx
from playwright.async_api import ViewportSize, async_playwright

from tests.integration.home import until
from tests.tools import CHROMIUM, CHROMIUM_ARGUMENTS

SIZE: ViewportSize = {"width": 1000, "height": 640}
_LINK = re.compile(r"Your inbox: (http\S+)\n")
_SETTLED = {"waiting", "done", "failed"}


@asynccontextmanager
async def demo(folder: Path) -> AsyncIterator[str]:
    """The link of a demo that runs while the block lasts, at a port of its own and on a home in this folder."""
    log = folder / "demo.log"
    with log.open("wb") as said:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "email_assistant", "demo", "--port", "0"),
            env={"PATH": os.environ["PATH"], "PYTHONPATH": os.environ.get("PYTHONPATH", ""), "HOME": str(folder)},
            cwd=folder,
            stderr=said,
        )
    try:
        await until(lambda: _LINK.search(log.read_text()) or process.returncode is not None)
        link = _LINK.search(log.read_text())
        assert link, log.read_text()
        yield link[1]
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


async def all_looked_at(link: str) -> None:
    """Wait until the demo has sorted the mail that it begins with, and has made its proposals."""
    [token] = parse_qs(urlsplit(link).query)["token"]
    root = f"http://127.0.0.1:{urlsplit(link).port}"
    headers = {"Authorization": f"Bearer {token}"}
    async with httpx.AsyncClient(base_url=root, headers=headers, trust_env=False) as http:

        async def settled() -> bool:
            mails = (await http.get("/api/mails")).raise_for_status().json()["items"]
            return bool(mails) and {mail["state"] for mail in mails} <= _SETTLED

        await until(settled)


async def take(target: Path) -> None:
    """Write the picture of a demo's inbox to a PNG file."""
    with tempfile.TemporaryDirectory(prefix="email-assistant-picture-") as folder:
        async with demo(Path(folder)) as link, async_playwright() as playwright:
            await all_looked_at(link)
            browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=CHROMIUM_ARGUMENTS)
            page = await browser.new_page(viewport=SIZE, color_scheme="light", reduced_motion="reduce")
            await page.goto(link)
            await page.locator("#rows li").first.wait_for()
            await page.screenshot(path=target)
            await browser.close()


if __name__ == "__main__":
    asyncio.run(take(Path(sys.argv[1])))
