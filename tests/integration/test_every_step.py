"""One mail's whole path, with the process dying at every touch of the database in turn, and started again.

The program's own pool is replaced by one that fails at a chosen moment and from then on: no real part can be made to
die at exactly the n-th step. What happened is judged at Google's side alone.
"""

import asyncio
import itertools
import os
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Literal
from uuid import UUID

import pytest
from pydantic import SecretStr

import email_assistant.app
from email_assistant.app import open_app
from email_assistant.daemon import Daemon, open_daemon
from email_assistant.db.pool import Connection, Pool, fetched, make_pool
from email_assistant.google.errors import Transient
from email_assistant.settings import Settings
from tests.doubles.google import Google
from tests.doubles.model import Answer, Model, ModelRequest, tool
from tests.integration.home import log_in
from tests.integration.scene import BOB, DONE, NEXT_WEEK, meeting, reply

pytestmark = pytest.mark.long

STRIDE = int(os.environ.get("EMAIL_ASSISTANT_STEP_STRIDE", "7"))
"""Every n-th step; 1 for all of them, which takes minutes."""


class Died(Exception):
    """The process is gone: so says every use of the database from here on."""


class Fuse:
    """Lets so many uses of the pool pass, then makes this use and every later one fail."""

    def __init__(self, passes: int | None, moment: Literal["before", "after"]) -> None:
        self.uses = 0
        self._passes = passes
        self._moment = moment

    @property
    def blown(self) -> bool:
        return self._passes is not None and self.uses > self._passes

    @asynccontextmanager
    async def guard(self, opened: AbstractAsyncContextManager[Connection]) -> AsyncIterator[Connection]:
        already = self.blown
        self.uses += 1
        if already or (self.blown and self._moment == "before"):
            raise Died
        async with opened as connection:
            yield connection
        if self.blown:
            raise Died


def propose(request: ModelRequest) -> Answer:
    """Look into the calendar, then offer a meeting and a reply in one message."""
    if not request.tool_results:
        return [tool("check_calendar_tool", dates=[f"{NEXT_WEEK:%d-%m-%Y}"])]
    return [meeting(), reply("Booked."), DONE]


@asynccontextmanager
async def life(settings: Settings, url: str, fuse: Fuse, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Daemon]:
    """One life of the program, on a pool that may fail."""

    def fused(url: str, *, size: int, idle_seconds: float) -> Pool:
        pool = make_pool(url, size=size, idle_seconds=idle_seconds)
        lend = pool.connection
        pool.connection = lambda *args, **kwargs: fuse.guard(lend(*args, **kwargs))  # type: ignore[method-assign]
        return pool

    with monkeypatch.context() as patch:
        patch.setattr(email_assistant.app, "make_pool", fused)
        async with open_app(settings, url) as app, open_daemon(app) as daemon:
            yield daemon


async def sync(daemon: Daemon, account_id: UUID) -> None:
    """Look into the mailbox; on a busy machine the short time-out of this test may pass, and it is tried again."""
    while True:
        try:
            await daemon.mailboxes.sync(account_id)
            while await daemon.backfill.run(account_id):
                pass
        except Transient:
            continue
        return


async def live(daemon: Daemon) -> None:
    """Do what the worker, the sweep and a person who accepts everything would do, until nothing moves."""
    app = daemon.app
    [account] = await app.accounts.pollable()
    await sync(daemon, account.id)
    while True:
        for due in await daemon.due.due():
            await daemon.driver.advance(due.id)
        waiting, _ = await app.inbox.page(app.user_id, status="pending")
        for item in waiting:
            await app.inbox.decide(app.user_id, item.id, {"type": "accept"}, by="test")
        for row in await fetched(app.pool, *app.teaching.unlearned(app.settings.provider)):
            await daemon.learn(row["account_id"])
        if not waiting and await daemon.due.is_at_rest():
            return
        await asyncio.sleep(0.02)


async def one_path(settings: Settings, url: str, fuse: Fuse, google: Google, monkeypatch: pytest.MonkeyPatch) -> None:
    """A mail comes in; the program dies where the fuse says, and is started again."""
    before = len(google.sent), len(google.events)
    google.deliver(BOB, "A meeting?", "Can we meet next week?")
    try:
        async with asyncio.timeout(60), life(settings, url, fuse, monkeypatch) as daemon:
            await live(daemon)
    except Died:
        async with asyncio.timeout(60), life(settings, url, Fuse(None, "before"), monkeypatch) as daemon:
            await live(daemon)
    assert (len(google.sent), len(google.events)) == (before[0] + 1, before[1] + 1), f"died at use {fuse.uses}"
    assert google.drafts == []


@pytest.mark.parametrize("moment", ["before", "after"])
async def test_a_death_at_any_step_loses_and_doubles_nothing(
    moment: Literal["before", "after"],
    tmp_path: Path,
    database_url: str,
    google: Google,
    model: Model,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model.script(propose)
    settings = Settings(
        home=tmp_path,
        google_root=google.root,
        openai_base_url=model.root,
        openai_api_key=SecretStr("test"),
        undo_seconds=0,
        google_timeout_seconds=0.4,
        lease_seconds=0.8,
        replies_per_day=10_000,
        max_tries=3,
    )
    async with open_app(settings, database_url) as app:
        await log_in(app, google, tmp_path)
    for step in itertools.count(0, STRIDE):
        fuse = Fuse(step, moment)
        await one_path(settings, database_url, fuse, google, monkeypatch)
        assert model.violations == []
        if not fuse.blown:
            break
    assert step > 50
