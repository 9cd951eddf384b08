"""What was read in a chat stays read: whatever dies, is cut, or was kept by another version."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

from email_assistant.web.app import create_api
from tests.doubles.google import Google
from tests.doubles.model import Model, tool
from tests.doubles.serving import Hold
from tests.doubles.stranger import Stranger
from tests.integration.home import Home, OpenHome, in_one_loop, reached
from tests.integration.scene import NEXT_WEEK

pytestmark = in_one_loop

PIN: Final = "4711-0815"
DAY: Final = {"start": f"{NEXT_WEEK:%Y-%m-%d}", "end": f"{NEXT_WEEK + timedelta(days=1):%Y-%m-%d}"}
READ: Final = tool("list_events", **DAY)
ASKS: Final = tool("look_up", query=PIN)
OpenWith = Callable[..., AbstractAsyncContextManager[Home]]


@pytest.fixture
def stranger() -> Iterator[Stranger]:
    with Stranger() as server:
        yield server


@pytest.fixture
def open_with(open_home: OpenHome, tmp_path: Path, stranger: Stranger, google: Google, model: Model) -> OpenWith:
    """Opens the program with a stranger's tool that reads, and that the person never wants to be asked about."""
    google.add_event(f"The PIN is {PIN}", NEXT_WEEK, NEXT_WEEK + timedelta(hours=1))
    model.on_policy("calendar", "web")
    model.on_chat({"What is on?": [[READ], "That is all."], "Go on": [[ASKS], "That is all."]})

    @asynccontextmanager
    async def open_one(*, labelled: bool = True) -> AsyncIterator[Home]:
        look_up = {"write_operation": False, "read_private_data": False, "read_untrusted_public_data": True}
        tools, touches = tmp_path / "tools.yaml", tmp_path / "touches.json"
        server = {"servers": {"stranger": {"url": stranger.url}}}
        never = {"backend": "stranger", "type": "web", "review": "never"}
        tools.write_text(json.dumps(server | {"tools": {"look_up": never}}))
        touches.write_text(json.dumps({"agent": {"look_up": {**look_up, "acl": "PUBLIC"}} if labelled else {}}))
        async with open_home(tools=tools, tool_permissions=touches) as home:
            yield home

    return open_one


async def say(home: Home, words: str, chat: str = "a") -> list[str]:
    """Returns the names of the tools that are asked about."""
    api = create_api(home.app, home.works.chat, token=None, host="127.0.0.1")
    transport = httpx.ASGITransport(app=api)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", timeout=60) as client:
        said = (await client.post("/run", json={"thread_id": chat, "user_request": words})).json()
    asked: list[dict[str, Any]] = (said.get("pending_action") or {}).get("tool_calls", [])
    return [call["tool_name"] for call in asked]


async def test_a_chat_that_has_read_nothing_asks_anybody(open_with: OpenWith, stranger: Stranger) -> None:
    async with open_with() as home:
        assert await say(home, "Go on") == []
    assert stranger.calls == [("look_up", {"query": PIN})]


async def test_but_not_with_a_tool_of_which_nobody_said_what_it_touches(
    open_with: OpenWith, stranger: Stranger
) -> None:
    async with open_with(labelled=False) as home:
        assert await say(home, "Go on") == ["look_up"]
    assert stranger.calls == []


async def test_one_that_has_read_asks_though_it_was_opened_anew_and_its_messages_are_gone(
    open_with: OpenWith, stranger: Stranger
) -> None:
    async with open_with() as home:
        assert await say(home, "What is on?") == []
        for table in ("checkpoint_writes", "checkpoint_blobs", "checkpoints"):
            await home.sql(f"delete from {table}")
    async with open_with() as home:
        assert await say(home, "Go on") == ["look_up"]
    assert stranger.calls == []


async def test_a_call_is_noted_before_it_runs(open_with: OpenWith, google: Google) -> None:
    hold = Hold()
    async with open_with() as home:
        google.fault("events.list", hold=hold)
        turn = asyncio.create_task(say(home, "What is on?"))
        await reached(hold)
        [row] = await home.sql("select tool, answer, labels->>'read_private_data' as private from gate_calls")
        assert row == {"tool": "list_events", "answer": None, "private": "true"}
        hold.abandon()
        await turn


async def test_another_chat_knows_nothing_of_it(open_with: OpenWith, stranger: Stranger) -> None:
    async with open_with() as home:
        await say(home, "What is on?")
        assert await say(home, "Go on", "b") == []
    assert len(stranger.calls) == 1
