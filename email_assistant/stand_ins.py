"""Servers that stand for Google and for a model, each as a process of its own that ends with this one."""

import asyncio
import json
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Literal

_READY_SECONDS = 120


class StandInFailed(RuntimeError):
    """The server did not start; the message is what it said."""


@asynccontextmanager
async def stand_in(name: Literal["google_sandbox", "demo_model"], *arguments: str) -> AsyncIterator[dict[str, Any]]:
    """Run one of the servers while the block lasts; yields what it said when it was ready.

    Raises:
        StandInFailed.
    """
    process = await asyncio.create_subprocess_exec(
        # -P: no module of the current folder, which may be anybody's, takes the place of one of ours.
        sys.executable, "-P", "-m", f"email_assistant_servers.{name}", *arguments, "--exit-with-parent",
        stdin=PIPE, stdout=PIPE, stderr=PIPE, start_new_session=True,
    )  # fmt: skip
    try:
        yield await _ready(process, name)
    finally:
        assert process.stdin is not None
        process.stdin.close()
        await process.wait()


async def _ready(process: Process, name: str) -> dict[str, Any]:
    assert process.stdout is not None
    assert process.stderr is not None
    line = await asyncio.wait_for(process.stdout.readline(), _READY_SECONDS)
    if not line:
        complaint = (await process.stderr.read()).decode().strip().splitlines()
        raise StandInFailed(complaint[-1] if complaint else f"{name} did not start")
    ready: dict[str, Any] = json.loads(line)
    return ready
