"""Talk to the person: take a request or their answers, and carry the chat on as far as it goes without them.

A chat is a row of `threads`, each request in it a run: its turn. Of one chat only the newest turn can be open. As with
mail, all that is to be done is read from the tables, under the chat's lease, and may be repeated or killed anywhere:
whoever asked may have gone, and another process takes up what a dead one left.
"""

import asyncio
from collections import defaultdict
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeVar
from uuid import UUID

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from psycopg.rows import class_row

from email_assistant.accounts.account import Account
from email_assistant.accounts.accounts import Accounts
from email_assistant.accounts.vault import VaultError
from email_assistant.db import threads
from email_assistant.db.lease import Lease, held
from email_assistant.db.pool import Pool
from email_assistant.db.presence import Holder
from email_assistant.google.errors import GoogleError
from email_assistant.inbox.items import Conflict, Item, NoItem
from email_assistant.inbox.person import Inbox
from email_assistant.outgoing.effects import Ledger
from email_assistant.outgoing.entry import Effect, InDoubt, NotYetClear
from email_assistant.tools.spec import ServerDown
from email_assistant.work.driver import Driver
from email_assistant.work.invoke import Invoker, Watch
from email_assistant.work.rows import OpenRuns, RunRow, read_runs
from email_assistant.work.runs import Runs

_CHATS = """
select t.id, t.chat_id, t.account_id, a.address as account, first.input->>'request' as request, last.created_at as at
from threads t join accounts a on a.id = t.account_id
left join runs first on first.thread_id = t.id and first.attempt = 1
left join lateral (select created_at from runs r where r.thread_id = t.id order by attempt desc limit 1) as last on true
where t.user_id = %s and t.chat_id is not null"""
_NEWEST = "order by r.attempt desc"
_AN_ID = 8
"""Characters that an id has at least."""
_MOST_LINES = 6
_LONGEST_LINE = 200
T = TypeVar("T")
_LOOK_SECONDS = 0.05
"""How soon is looked again whether another process has finished what it is at; then after twice as long each time."""
_LONGEST_LOOK_SECONDS = 1.0
_ELSEWHERE_SECONDS = 60.0
"""How long a caller is kept waiting for another process."""
_UNDO_SECONDS = 15.0
"""How long a caller is kept waiting for the end of an undo window."""
_ELSEWHERE = "your answer is taken; another process is at this chat, and carries it out: look again in a moment"


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


@dataclass(frozen=True, slots=True)
class ToolUse:
    """A call of a tool."""

    call_id: str
    tool: str
    args: Mapping[str, Any]
    result: str | None
    """What came of it, as the model was told; others may have written it. None: it has not run."""

    @property
    def failed(self) -> bool:
        return self.result is not None and self.result.startswith("Error:")


def tool_uses(messages: Sequence[AnyMessage]) -> list[ToolUse]:
    """The calls since the person's last words, in order."""
    turn = list(_since_the_request(messages))[::-1]
    results = {message.tool_call_id: message.text for message in turn if isinstance(message, ToolMessage)}
    calls = [call for message in turn if isinstance(message, AIMessage) for call in message.tool_calls]
    return [ToolUse(str(call["id"]), call["name"], call["args"], results.get(str(call["id"]))) for call in calls]


def named_in(calls: Sequence[ToolUse], args: Mapping[str, Any]) -> list[str]:
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


@dataclass(frozen=True, slots=True)
class Talk:
    """Where a chat stands."""

    chat: ChatRow
    turn: RunRow | None
    """The last one."""
    waiting: Sequence[Item]
    """What it waits for."""
    done: Sequence[Effect] = ()
    """What has happened in a turn that is held up, or could not be finished."""


@dataclass(frozen=True)
class Chat:
    driver: Driver[OpenRuns]
    pool: Pool
    turns: Turns
    runs: Runs
    inbox: Inbox
    ledger: Ledger
    accounts: Accounts
    invoker: Invoker
    lease_seconds: float
    holder: Holder
    _under_way: "set[asyncio.Task[Any]]" = field(default_factory=set)

    async def ask(self, account: Account, chat_id: str, request: str, watch: Watch | None = None) -> Talk:
        """Begin a turn and carry it on until it waits for the person or ends. Goes on if the caller is cancelled.

        Args:
            account: what a new chat is about; an old one goes on with its own, if that has a mailbox.

        Raises:
            Conflict: the chat is at work, or at something that the person decided.
            NoItem: the chat belongs to somebody else's account.
        """
        return await self._whatever_comes(self._ask(account, chat_id, request, watch))

    async def answer(
        self,
        chat: ChatRow,
        user_id: UUID,
        answers: Sequence[tuple[UUID, Mapping[str, Any]]],
        watch: Watch | None = None,
    ) -> Talk:
        """Take the person's answers, all or none, and carry the chat on. Goes on if the caller is cancelled.

        Raises:
            Conflict, Invalid, NoItem: nothing was taken.
        """
        _check_active(await self.accounts.get(chat.account_id))
        await self.inbox.decide_together(user_id, answers, by="chat")
        return await self._whatever_comes(self._carry_on(chat, user_id, watch))

    async def look(self, user_id: UUID, chat_id: str) -> Talk:
        """Raises NoItem."""
        return await self._talk(await self.turns.chat(user_id, chat_id), user_id)

    async def stand(self, user_id: UUID, chats: Sequence[ChatRow]) -> list[Talk]:
        """Where each chat stands; of what it waits for, the oldest."""
        return await stand(self.turns, self.inbox, self.ledger, user_id, chats)

    async def tool_uses(self, turn: RunRow) -> list[ToolUse]:
        """What the assistant did in a turn so far."""
        return tool_uses(await self.invoker.messages(turn.id))

    async def aclose(self) -> None:
        """Break off what is under way; another start takes it up."""
        for task in self._under_way:
            task.cancel()
        await asyncio.gather(*self._under_way, return_exceptions=True)

    async def _whatever_comes(self, work: Coroutine[Any, Any, T]) -> T:
        """Run to the end even if whoever waits for it has gone."""
        task = asyncio.ensure_future(work)
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)
        return await asyncio.shield(task)

    async def _ask(self, account: Account, chat_id: str, request: str, watch: Watch | None) -> Talk:
        chat = await self.turns.open_chat(account, chat_id)
        if chat.account_id != account.id:
            own = await self.accounts.get(chat.account_id)
            if own.has_mailbox:
                account = own
            else:
                chat = await self.turns.now_about(chat, account)
        _check_active(account)
        async with held(self.pool, "conversation", chat.id, self.lease_seconds, self.holder) as lease:
            if lease is None:
                raise Conflict("the assistant is still at what you asked for before; wait for its answer")
            held_up: UUID | None = None
            if chat.request is not None:  # it was used before, and a dead process may have left something
                await self.driver.work(lease)
                last = await self.turns.last(chat.id)
                await self._settle_left(lease, account, last)
                held_up = last.id if last and await self._is_held_up(last) else None
            async with self.pool.connection() as conn, conn.transaction():
                turn = await self.runs.begin(conn, lease, account, chat_id, request, held_up=held_up)
            await self.driver.work(lease, watch, OpenRuns(account, [turn]))
            return await self._talk(chat, account.user_id)

    async def _carry_on(self, chat: ChatRow, user_id: UUID, watch: Watch | None) -> Talk:
        """Work until the chat rests. What was decided in the inbox, and can be undone for a moment, is waited for.

        Raises:
            Conflict: another process has been at it for too long to be waited for.
        """
        clock = asyncio.get_running_loop().time
        begun, pause = clock(), _LOOK_SECONDS
        while True:
            async with held(self.pool, "conversation", chat.id, self.lease_seconds, self.holder) as lease:
                if lease:
                    await self.driver.work(lease, watch)
                talk = await self._talk(chat, user_id)
            undoable = talk.turn is not None and talk.turn.waits and not talk.waiting
            if lease and not (undoable and clock() < begun + _UNDO_SECONDS):
                return talk
            if lease is None and clock() > begun + _ELSEWHERE_SECONDS:
                raise Conflict(_ELSEWHERE)
            await asyncio.sleep(pause)
            pause = _LOOK_SECONDS if lease else min(2 * pause, _LONGEST_LOOK_SECONDS)

    async def _talk(self, chat: ChatRow, user_id: UUID) -> Talk:
        turn = await self.turns.last(chat.id)
        items = await self.inbox.of_run(user_id, turn.id) if turn and turn.waits else []
        done = await self.ledger.done_of([turn.id]) if turn and not turn.waits and turn.state != "done" else ()
        return Talk(chat, turn, [item for item in items if item.status == "pending"], done)

    async def _is_held_up(self, turn: RunRow) -> bool:
        """Whether an outage holds a turn up after all that the person decided in it is done: what is left of it is the
        assistant's own, so it may be set aside for a new request, and nobody is locked out of their chat."""
        return turn.is_at_work and all(call.result is not None for call in await self.tool_uses(turn))

    async def _settle_left(self, lease: Lease, account: Account, last: RunRow | None) -> None:
        """Find out what became of effects that turns left when they broke off, before anything new begins. Those of a
        turn that still acts are done yet."""
        acting = last.id if last and last.is_open else None
        left = [effect for effect in await self.ledger.in_thread(lease.thread_id, "started") if effect.run_id != acting]
        tolerated = (NotYetClear, InDoubt, GoogleError, VaultError, ServerDown)
        await self.driver.settler.settle_all(left, account, lease, tolerated)


async def stand(turns: Turns, inbox: Inbox, ledger: Ledger, user_id: UUID, chats: Sequence[ChatRow]) -> list[Talk]:
    """Where each chat stands; of what it waits for, the oldest."""
    lasts = await turns.lasts(chats)
    waiting = await inbox.waiting_in(user_id, [turn.id for turn in lasts.values() if turn.waits])
    done: dict[UUID, list[Effect]] = defaultdict(list)
    for effect in await ledger.done_of([t.id for t in lasts.values() if not t.waits and t.state != "done"]):
        done[effect.run_id].append(effect)
    talks: list[Talk] = []
    for chat in chats:
        turn = lasts.get(chat.chat_id)
        oldest = waiting.get(turn.id) if turn else None
        talks.append(Talk(chat, turn, [oldest] if oldest else [], done[turn.id] if turn else ()))
    return talks


def _check_active(account: Account) -> None:
    """Raises Conflict."""
    if account.state == "stopped":
        raise Conflict(
            "everything is stopped, so nothing is asked or done here: `email-assistant go-on`, or Go on on any page"
        )
    if account.state != "active":
        raise Conflict(
            f"{account.address} is paused: `email-assistant account resume {account.address}`"
            if account.state == "paused"
            else f"{account.address} can't be used now: `email-assistant auth status` says why"
        )
