"""Chats and their turns, as they are read from the tables, and what the assistant did in one, by the messages of its
graph.

A chat is a row of `threads`, each request in it a run: its turn. Of one chat only the newest turn can be open.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from psycopg.rows import class_row

from email_assistant.accounts.account import Account
from email_assistant.db import threads
from email_assistant.db.pool import Pool
from email_assistant.inbox.items import NoItem
from email_assistant.work.rows import RunRow, read_runs


@dataclass(frozen=True, slots=True)
class ChatRow:
    id: UUID
    chat_id: str
    """The client's."""
    account_id: UUID
    account: str
    """The account's address."""
    request: str | None
    """What was asked for first; None: nothing yet."""
    at: datetime | None
    """When something was asked for last."""


_CHATS = """
select t.id, t.chat_id, t.account_id, a.address as account, first.input->>'request' as request, last.created_at as at
from threads t join accounts a on a.id = t.account_id
left join runs first on first.thread_id = t.id and first.attempt = 1
left join lateral (select created_at from runs r where r.thread_id = t.id order by attempt desc limit 1) as last on true
where t.user_id = %s and t.chat_id is not null"""


_NEWEST = "order by r.attempt desc"


class Turns:
    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def open_chat(self, account: Account, chat_id: str) -> ChatRow:
        """The chat of that id; begun with this account if there is none."""
        async with self._pool.connection() as conn:
            await threads.insert_chat(conn, account.user_id, account.id, chat_id)
        return await self.chat(account.user_id, chat_id)

    async def now_about(self, chat: ChatRow, account: Account) -> ChatRow:
        """A chat that was begun without a mailbox goes on about this one."""
        async with self._pool.connection() as conn:
            await threads.now_about(conn, chat.id, account.id)
        return await self.chat(account.user_id, chat.chat_id)

    async def chat(self, user_id: UUID, chat_id: str) -> ChatRow:
        """Raises NoItem."""
        found = await self._read(f"{_CHATS} and t.chat_id = %s", user_id, chat_id)
        if not found:
            raise NoItem("there is no such chat; `/run` begins one")
        return found[0]

    async def chats(self, user_id: UUID, most: int) -> list[ChatRow]:
        """The person's chats, the latest first."""
        latest = f"{_CHATS} order by last.created_at desc nulls last, t.id limit %s"
        return await self._read(latest, user_id, most)

    async def newest(self, thread_id: UUID, most: int) -> list[RunRow]:
        """The last turns of a chat, the newest first."""
        return await self._turns("r.thread_id = %s", thread_id, last=f"{_NEWEST} limit {most:d}")

    async def last(self, thread_id: UUID) -> RunRow | None:
        return next(iter(await self.newest(thread_id, 1)), None)

    async def lasts(self, chats: Sequence[ChatRow]) -> dict[str, RunRow]:
        """The last turn of each chat in which there is one, by the client's id of the chat."""
        found = await self._turns(
            """r.id in (select (select id from runs where thread_id = chat.id order by attempt desc limit 1)
                        from unnest(%s::uuid[]) as chat (id))""",
            [chat.id for chat in chats],
        )
        return {turn.input["chat"]: turn for turn in found}

    async def last_begun(self, thread_id: UUID, before: int) -> RunRow | None:
        """The last turn before another, by its number, whose graph got as far as a checkpoint."""
        begun = "exists (select from checkpoints c where c.thread_id = r.id::text)"
        which = f"r.thread_id = %s and r.attempt < %s and {begun}"
        found = await self._turns(which, thread_id, before, last=f"{_NEWEST} limit 1")
        return next(iter(found), None)

    async def _turns(self, which: str, *parameters: object, last: str = "") -> list[RunRow]:
        async with self._pool.connection() as conn:
            return await read_runs(conn, which, *parameters, last=last)

    async def _read(self, query: str, *parameters: object) -> list[ChatRow]:
        async with self._pool.connection() as conn, conn.cursor(row_factory=class_row(ChatRow)) as cursor:
            await cursor.execute(query.encode(), parameters)
            return await cursor.fetchall()


_AN_ID = 8
"""Characters that an id has at least."""
_MOST_LINES = 6
_LONGEST_LINE = 200


@dataclass(frozen=True, slots=True)
class Did:
    """A call of a tool."""

    call_id: str
    tool: str
    args: Mapping[str, Any]
    result: str | None
    """What came of it, as the model was told; others may have written it. None: it has not run."""

    @property
    def failed(self) -> bool:
        return self.result is not None and self.result.startswith("Error:")


def did(messages: Sequence[AnyMessage]) -> list[Did]:
    """The calls since the person's last words, in order."""
    turn = list(_since_the_request(messages))[::-1]
    results = {message.tool_call_id: message.text for message in turn if isinstance(message, ToolMessage)}
    calls = [call for message in turn if isinstance(message, AIMessage) for call in message.tool_calls]
    return [Did(str(call["id"]), call["name"], call["args"], results.get(str(call["id"]))) for call in calls]


def named_in(calls: Sequence[Did], args: Mapping[str, Any]) -> list[str]:
    """What was looked up about the ids in a call's arguments, which say nothing to a person: the lines that hold one,
    each with the line before it. Others may have written them."""
    ids = [value for value in args.values() if isinstance(value, str) and len(value) >= _AN_ID and " " not in value]
    lines = [line for call in calls for line in (call.result or "").splitlines()]
    found = [n for n, line in enumerate(lines) if any(each in line for each in ids)]
    near = dict.fromkeys(n for at in found for n in (at - 1, at) if n >= 0 and not lines[n].startswith("<"))
    return [lines[n][:_LONGEST_LINE] for n in near][:_MOST_LINES]


def _since_the_request(messages: Sequence[AnyMessage]) -> Iterator[AnyMessage]:
    """From the newest back."""
    for message in reversed(messages):
        if isinstance(message, HumanMessage):
            return
        yield message
