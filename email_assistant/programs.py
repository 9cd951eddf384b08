"""The programs that others connect to, `email_assistant_servers`: started as processes, never imported."""

import asyncio
import json
import os
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Literal, NoReturn

from email_assistant.errors import AssistantError


class StandInFailed(AssistantError):
    """The server did not start; the message is what it said."""


def become(name: Literal["mcp"], *arguments: str) -> NoReturn:
    """Go on as one of them, in this process: its input and output, its folder and whoever signals it stay.

    Raises:
        OSError: Python can't be started.
    """
    os.execv(sys.executable, command(name, *arguments))  # noqa: S606 - no shell is meant


@asynccontextmanager
async def stand_in(
    name: Literal["google_sandbox", "demo_model"],
    *arguments: str,
    progress: Callable[[int, int], None] = lambda _read, _of: None,
) -> AsyncIterator[dict[str, Any]]:
    """Run a server that stands for Google or for a model while the block lasts; yields what it said when it was ready.

    It ends with this process, however that ends. It is waited for as long as it lives: a large file takes long to read.

    Args:
        progress: told how many mails of how many it has read so far, where it says so.

    Raises:
        StandInFailed.
    """
    process = await asyncio.create_subprocess_exec(
        *command(name, *arguments, "--exit-with-parent"), stdin=PIPE, stdout=PIPE, stderr=PIPE, start_new_session=True
    )
    try:
        yield await _ready(process, name, progress)
    finally:
        assert process.stdin is not None
        process.stdin.close()
        await process.wait()


def command(name: str, *arguments: str) -> list[str]:
    """What starts one of them."""
    # -P: no module of the current folder, which may be anybody's, takes the place of one of ours.
    return [sys.executable, "-P", "-m", f"email_assistant_servers.{name}", *arguments]


async def _ready(process: Process, name: str, progress: Callable[[int, int], None]) -> dict[str, Any]:
    assert process.stdout is not None
    assert process.stderr is not None
    while line := await process.stdout.readline():
        said: dict[str, Any] = json.loads(line)
        if "read" not in said:
            return said
        progress(said["read"], said["of"])
    complaint = (await process.stderr.read()).decode().strip().splitlines()
    raise StandInFailed(complaint[-1] if complaint else f"{name} did not start")
