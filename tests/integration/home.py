"""The program's parts in this process, one step at a time, so that what comes in between comes at an exact place."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from inspect import isawaitable
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from email_assistant.accounts.account import Account
from email_assistant.app import App
from email_assistant.daemon import Daemon as Works
from email_assistant.inbox.items import Item
from email_assistant.inbox.mails import MailRow
from email_assistant.sync.mailbox import Enqueue, Mailboxes
from tests.doubles.daemon import WAIT_SECONDS
from tests.doubles.google import Google
from tests.doubles.serving import Hold
from tests.integration.scene import ADA, BOB

# The clients of the model are kept between tests, and belong to the event loop that they were first used in.
in_one_loop = pytest.mark.asyncio(loop_scope="module")


@dataclass
class Home:
    """The program's parts, opened on one mailbox; nothing happens by itself."""

    app: App
    works: Works
    google: Google
    account_id: UUID

    # What happens

    async def sync(self) -> None:
        await self.works.mailboxes.sync(self.account_id)
        while await self.works.backfill.run(self.account_id):
            pass

    async def step(self) -> None:
        """Do all that is due, as far as it goes now."""
        for conversation in await self.works.due.due():
            await self.works.advance(conversation.id)

    async def carry_on(self) -> None:
        """Work until everything waits for a person or has ended; no back-off is waited for."""
        for _ in range(30):
            await self.sql("update threads set not_before = '-infinity'")
            await self.sql("update model_refusals set next_at = '-infinity'")
            if not await self.works.due.due():
                return
            await self.step()
        raise AssertionError("it does not come to rest")

    async def receive(self, subject: str = "Lunch?", text: str = "Does Friday suit you?", **more: Any) -> str:
        """A mail comes in and is carried as far as it goes; returns its Gmail id."""
        mail_id = self.google.deliver(more.pop("from_", BOB), subject, text, **more)
        await self.sync()
        await self.carry_on()
        return mail_id

    async def decide(self, item: Item, type_: str, args: object = None) -> None:
        """A person answers; nothing follows yet."""
        await self.app.inbox.decide(self.app.user_id, item.id, {"type": type_, "args": args}, by="test")

    async def answer(self, item: Item, type_: str, args: object = None) -> None:
        """A person answers, and what follows is done."""
        await self.decide(item, type_, args)
        await self.carry_on()

    def mailboxes(self, enqueue: Enqueue) -> Mailboxes:
        """The mailboxes, with another way to wake conversations."""
        app = self.app
        return Mailboxes(
            app.pool,
            app.accounts,
            app.clients,
            enqueue=enqueue,
            labels=app.settings.class_labels,
            max_tries=app.settings.max_tries,
        )

    @asynccontextmanager
    async def at_work(self) -> AsyncIterator[None]:
        """Polls, sweeps and workers run by themselves until the block ends."""
        runs = asyncio.create_task(self.works.run())
        try:
            yield
        finally:
            runs.cancel()
            with suppress(asyncio.CancelledError):
                await runs

    # What there is

    async def account(self) -> Account:
        return await self.app.accounts.get(self.account_id)

    async def item(self, item: Item) -> Item:
        """The item as it is now."""
        return await self.app.inbox.get(self.app.user_id, item.id)

    async def items(self) -> list[Item]:
        return (await self.app.inbox.page(self.app.user_id))[0]

    async def pending(self) -> list[Item]:
        return (await self.app.inbox.page(self.app.user_id, status="pending"))[0]

    async def mails(self) -> list[MailRow]:
        return (await self.app.mails.page(self.app.user_id))[0]

    async def mail(self, mail_id: str) -> MailRow:
        [found] = [mail for mail in await self.mails() if mail.id == mail_id]
        return found

    async def is_done(self, mail_id: str) -> bool:
        return (await self.mail(mail_id)).state == "done"

    async def reason(self, mail_id: str) -> str:
        """Why the mail is in the state that it is in, as the person reads it."""
        return (await self.mail(mail_id)).reason or ""

    async def woken(self) -> list[str]:
        """Conversations that were woken for new mail or a person, once for each time."""
        jobs = await self.sql("select args->>'thread_id' as t from procrastinate_jobs where task_name='advance_thread'")
        return [row["t"] for row in jobs]

    async def sql(self, query: str, *parameters: object) -> list[dict[str, Any]]:
        async with self.app.pool.connection() as conn:
            cursor = await conn.execute(query.encode(), parameters, prepare=False)
            return await cursor.fetchall() if cursor.description else []


OpenHome = Callable[..., AbstractAsyncContextManager[Home]]
"""Opens the program, with settings of the test's own; opened again, it finds what it left."""


async def log_in(app: App, google: Google, folder: Path, ago: timedelta = timedelta(days=2)) -> Account:
    """Add the account, or add it once more, with the one token file that there is; mail from `ago` on is triaged."""
    token = json.loads(google.write_token_file(folder / "token.json").read_text())
    return await app.accounts.add(app.user_id, ADA, token, datetime.now(UTC) - ago)


async def reached(hold: Hold) -> None:
    await asyncio.to_thread(hold.reached)


async def until(condition: Callable[[], object], seconds: float = WAIT_SECONDS) -> None:
    """Ask until the answer, awaited if it must be, is true."""
    async with asyncio.timeout(seconds):
        while True:
            answer = condition()
            if await answer if isawaitable(answer) else answer:
                return
            await asyncio.sleep(0.01)
