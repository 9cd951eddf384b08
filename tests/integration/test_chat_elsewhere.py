"""A chat that another process is at: whoever answers waits for it, looks seldom, and not for ever."""

import asyncio
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest

from email_assistant.app import open_chat
from email_assistant.db.lease import Lease, held
from email_assistant.inbox.items import Conflict
from email_assistant.work import chat as chats
from tests.doubles.model import Model, tool
from tests.integration.home import Home, in_one_loop

ASK = tool("request_clarification", question="When?", context="Lunch")


@in_one_loop
async def test_it_is_looked_at_ever_more_seldom_and_given_up(
    home: Home, model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    model.on_policy("calendar")
    model.on_chat({"plan": [[ASK], "At noon."]})
    monkeypatch.setattr(chats, "_ELSEWHERE_SECONDS", 2.0)
    looks = 0

    def counted(*given: Any) -> AbstractAsyncContextManager[Lease | None]:
        nonlocal looks
        looks += 1
        return held(*given)

    chat = open_chat(home.app)
    try:
        talk = await chat.ask(await home.account(), "errands", "plan")
        [item] = talk.waiting
        async with held(home.app.pool, "conversation", talk.chat.id, 60, home.app.holder) as lease:
            assert lease is not None
            monkeypatch.setattr(chats, "held", counted)
            async with asyncio.timeout(10):
                with pytest.raises(Conflict, match="your answer is taken"):
                    await chat.answer(talk.chat, home.app.user_id, [(item.id, {"type": "response", "args": "At noon"})])
        assert looks <= 10
        await chat.advance(talk.chat.id)
        assert (await chat.look(home.app.user_id, "errands")).turn.answer == "At noon."  # type: ignore[union-attr]
    finally:
        await chat.aclose()
