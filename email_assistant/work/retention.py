"""What is kept of mail that is done goes after its time: first the text of its conversation, then the conversation.

Chats are text alone, as is what rehearsals have read: they go as a whole, with the text. What goes, goes a few
conversations at a time, each in one transaction that has locked them and looked again whether they are at rest; begun
anew, the same finds what is left.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

from email_assistant.accounts.accounts import SERVED
from email_assistant.db import checkpoints, mails, runs
from email_assistant.db.checkpoints import FencedSaver
from email_assistant.db.order import lock_all
from email_assistant.db.pool import Connection, Pool, fetched
from email_assistant.db.statements import statements
from email_assistant.gate import ledger
from email_assistant.inbox import recipients, rows
from email_assistant.mail.message import NOT_KEPT
from email_assistant.memory.profiles import Memory
from email_assistant.memory.profiles import lock as lock_profiles
from email_assistant.memory.rules import PROFILES
from email_assistant.outgoing.effects import Ledger
from email_assistant.outgoing.left_drafts import LeftDrafts
from email_assistant.settings import Settings
from email_assistant.sync.past_mails import forget_mails
from email_assistant.work.forgetting import delete_conversations
from email_assistant.work.runs import Runs

_SQL = statements("work", "retention.sql", served=SERVED)
_LOOKED_AT: Final = 500  # mails, or chats, that are read at once
_AT_ONCE: Final = 50  # conversations in one transaction
_MOST: Final = 1_000  # conversations of a kind in one go
_FINISHED_RUNS_KEPT: Final = timedelta(days=1)
_NOBODY: Final = "(?!)"  # a pattern that nothing matches

Takes = Callable[[Connection, UUID, Sequence[UUID]], Awaitable[None]]
"""Takes from an account's conversations, which are locked, what is to go."""
Finds = Callable[[UUID, timedelta], AsyncIterator[list[UUID]]]
"""Finds an account's conversations that are over for so long, some at a time."""


@dataclass(frozen=True)
class Retention:
    pool: Pool
    runs: Runs
    saver: FencedSaver
    settings: Settings
    memory: Memory

    async def tidy(self) -> None:
        """Let go what has been kept for as long as the person wants, or a part of it if it is much."""
        await self._drop_checkpoints()
        text, trail = self.settings.keep_text_days, self.settings.keep_trail_days
        if trail is not None:
            await self._take(self._old("trail"), trail, self._take_all)
        if text is not None:
            await self._take(self._old("text"), text, _take_text)
        if (chats := text or trail) is not None:
            await self._take(self._chats, chats, self._take_all)
            await self._forget_past(timedelta(days=chats))

    async def _drop_checkpoints(self) -> None:
        finished = await self.runs.finished(before=_FINISHED_RUNS_KEPT)
        if finished:
            await self.saver.aprune([str(run_id) for run_id in finished])
            await self.runs.pruned(finished)
        over = await self.runs.over(timedelta(days=self.settings.keep_checkpoints_days))
        if over:
            await self.saver.drop(over)
            await self.runs.pruned(over)

    async def _forget_past(self, age: timedelta) -> None:
        """What rehearsals have read is text alone, too."""
        for account in await fetched(self.pool, _SQL["accounts"], (self.settings.provider,)):
            given = {"account": account["id"], "age": age, "most": _MOST}
            read = await fetched(self.pool, _SQL["read_before"], given)
            async with self.pool.connection() as conn:
                await forget_mails(conn, account["id"], [row["gmail_id"] for row in read])

    async def _take(self, finds: Finds, days: int, takes: Takes) -> None:
        age, left = timedelta(days=days), _MOST
        for account in await fetched(self.pool, _SQL["accounts"], (self.settings.provider,)):
            async for found in finds(account["id"], age):
                for start in range(0, len(found), _AT_ONCE):
                    await self._take_some(account["id"], found[start : start + _AT_ONCE], age, takes)
                left -= len(found)
                if left <= 0:
                    return

    async def _take_some(self, account_id: UUID, ids: list[UUID], age: timedelta, takes: Takes) -> None:
        async with self.pool.connection() as conn, conn.transaction():
            await lock_profiles(conn, account_id, *PROFILES)
            await lock_all(conn, account_id, ids)
            cursor = await conn.execute(_SQL["resting"].encode(), {"threads": ids, "age": age})
            if resting := [row["id"] for row in await cursor.fetchall()]:
                await takes(conn, account_id, resting)

    def _old(self, statement: str) -> Finds:
        """By the mail in them, oldest first."""

        async def finds(account_id: UUID, age: timedelta) -> AsyncIterator[list[UUID]]:
            given: dict[str, Any] = {"account": account_id, "age": age, "most": _LOOKED_AT}
            after = {"at": "-infinity", "mail": ""}
            while found := await fetched(self.pool, _SQL[statement], {**given, **after}):
                ids = list(dict.fromkeys(row["id"] for row in found))
                resting = await fetched(self.pool, _SQL["resting"], {"threads": ids, "age": age})
                yield [row["id"] for row in resting]
                after = found[-1]

        return finds

    async def _chats(self, account_id: UUID, age: timedelta) -> AsyncIterator[list[UUID]]:
        given, after = {"account": account_id, "age": age, "most": _LOOKED_AT}, UUID(int=0)
        while found := await fetched(self.pool, _SQL["chats"], {**given, "after": after}):
            yield [row["id"] for row in found]
            after = found[-1]["id"]

    async def _take_all(self, conn: Connection, account_id: UUID, ids: Sequence[UUID]) -> None:
        given = {"account": account_id, "threads": ids}
        past = [row["gmail_id"] for row in await (await conn.execute(_SQL["past"].encode(), given)).fetchall()]
        taught = [row["id"] for row in await (await conn.execute(_SQL["taught"].encode(), given)).fetchall()]
        await self.memory.mails_went(conn, account_id, taught)
        # That Gmail knew of no mail to them counts only beside the mail to them that is stored here.
        await recipients.forget(conn, account_id, _NOBODY, ids)
        await delete_conversations(conn, account_id, ids, past)


async def _take_text(conn: Connection, account_id: UUID, ids: Sequence[UUID]) -> None:
    await rows.redact_text(conn, ids)
    its_runs = await runs.redact_text(conn, ids)
    await mails.redact_text(conn, ids, NOT_KEPT)
    await Ledger.redact_text(conn, ids)
    await LeftDrafts.redact_text(conn, ids)
    await ledger.blot(conn, its_runs)
    await checkpoints.forget(conn, its_runs)
