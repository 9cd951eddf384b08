"""What was told to stop stops, however little is between the word and what it waits for."""

import asyncio
import os
import signal

import pytest

from email_assistant.cli.serve import signals_heeded
from email_assistant.db.pool import Pool, make_pool
from tests.doubles.model import Model
from tests.integration.home import OpenHome

TURNS = 15
"""Of the event loop, from a connection that is given back to whoever has it next."""


async def test_whoever_is_told_to_stop_as_a_connection_comes_does_not_go_on(database_url: str) -> None:
    async with make_pool(database_url, size=1, idle_seconds=60) as pool:
        for turns in range(TURNS):
            async with pool.connection():
                waiting = asyncio.create_task(_hold(pool))
                await asyncio.sleep(0.01)
            for _ in range(turns):
                await asyncio.sleep(0)
            waiting.cancel()
            _, left = await asyncio.wait([waiting], timeout=5)
            assert not left, f"the cancellation after {turns} turns was lost"
        async with pool.connection(timeout=5) as conn:  # and none of them was kept
            await conn.execute("select 1")


async def _hold(pool: Pool) -> None:
    async with pool.connection():
        await asyncio.Event().wait()


async def test_a_second_signal_ends_the_program_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    ended = asyncio.get_running_loop().create_future()
    monkeypatch.setattr(os, "_exit", ended.set_result)
    with signals_heeded() as stop:
        signal.raise_signal(signal.SIGINT)
        async with asyncio.timeout(5):
            await stop.wait()
        assert not ended.done()
        signal.raise_signal(signal.SIGTERM)
        async with asyncio.timeout(5):
            assert await ended == 130


def test_no_connection_to_the_model_outlives_the_program(open_home: OpenHome, model: Model) -> None:
    async def take(subject: str) -> None:
        async with open_home() as home:
            await home.receive(subject)

    model.on_triage("ignore")
    for subject in ("Once?", "And in a second event loop?"):
        asyncio.run(take(subject))
    assert [request.mail.subject for request in model.requests] == ["Once?", "And in a second event loop?"]
