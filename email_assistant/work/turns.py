"""Chats and their turns in the tables. All SQL on the runs of chats.

A chat is a row of `threads`, each request in it a run: its turn. Of one chat only the newest turn can be open.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal, TypeVar
from uuid import NAMESPACE_URL, UUID, uuid5

from psycopg.rows import kwargs_row
from psycopg.types.json import Json

from email_assistant.accounts.account import Account
from email_assistant.agents.chat.run import Turn
from email_assistant.db.lease import Lease
from email_assistant.db.pool import Connection, Pool
from email_assistant.inbox.items import Conflict, NoItem, supersede

T = TypeVar("T")

State = Literal["running", "waiting", "acting", "done", "failed", "superseded"]


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


@dataclass(frozen=True, slots=True)
class TurnRow:
    id: UUID
    attempt: int
    """Which turn of the chat it is."""
    input: Turn
    state: State
    reason: str | None
    answer: str | None
    created_at: datetime
    waits: bool
    """Something in it waits for the person, or for the end of an undo window."""
    decided: bool
    """All that waited is decided, and every undo window has passed."""
    answered: bool
    """Something in it was decided, and is not carried out."""
    asks: bool
    """Something in it waits for the person."""
    unreadable: bool = False
    """What it was given was damaged in the database, or changed by somebody else; `input` says what is known beside."""
    is_new: bool = False
    """It was made just now, by whoever goes on with it; its first start is counted already."""

    @property
    def is_open(self) -> bool:
        return self.state in ("running", "waiting", "acting")

    @property
    def is_at_work(self) -> bool:
        """It goes on by itself, now or when what keeps it has passed."""
        return self.is_open and not self.waits

    @property
    def why(self) -> str | None:
        """Why it failed, was set aside, or can't go on now."""
        return self.reason.removeprefix(_WAITING) if self.reason else None


_CHATS = """
select t.id, t.chat_id, t.account_id, a.address as account, first.input->>'request' as request, last.created_at as at
from threads t join accounts a on a.id = t.account_id
left join runs first on first.thread_id = t.id and first.attempt = 1
left join lateral (select created_at from runs r where r.thread_id = t.id order by attempt desc limit 1) as last on true
where t.user_id = %s and t.chat_id is not null"""
_TOLD = """
select r.id, r.attempt, r.input, r.account_id, t.chat_id, r.state, r.reason, r.answer, r.created_at,
       count(i.id) > 0 as waits,
       coalesce(bool_and(i.status = 'decided' and i.undo_until <= clock_timestamp()), false) as decided,
       coalesce(bool_or(i.status = 'decided'), false) as answered,
       coalesce(bool_or(i.status = 'pending'), false) as asks
from runs r join threads t on t.id = r.thread_id
left join inbox_items i on i.run_id = r.id and i.status in ('pending', 'decided')
where {} group by r.id, t.chat_id"""
_TURNS = f"{_TOLD.format('r.thread_id = %s and {}')} order by r.attempt desc limit %s"
_LASTS = _TOLD.format("""r.id in (select (select id from runs where thread_id = chat.id order by attempt desc limit 1)
    from unnest(%s::uuid[]) as chat (id))""")
_WAITING = "waiting: "
_BUSY = "the assistant is still at what you asked for before; wait for its answer"
_NOT_DONE = "what you decided before is not done yet; it is done by itself as soon as it can be, so wait for it"
_ANSWERED = "what you decided a moment ago is not carried out yet; wait for it, or undo it"
_ANSWERED_IN_PART = "what you decided waits for your answers on the rest of what it asks: answer the rest, or undo it"
_ASKS = "it asks you once more about what you decided before: answer that first"


class Turns:
    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def open_chat(self, account: Account, chat_id: str) -> ChatRow:
        """The chat of that id; begun with this account if there is none."""
        async with self._pool.connection() as conn:
            await conn.execute(
                """insert into threads (user_id, account_id, chat_id, heard) values (%s, %s, %s, '{}')
                   on conflict (user_id, chat_id) do nothing""",
                (account.user_id, account.id, chat_id),
            )
        return await self.chat(account.user_id, chat_id)

    async def now_about(self, chat: ChatRow, account: Account) -> ChatRow:
        """A chat that was begun without a mailbox goes on about this one."""
        async with self._pool.connection() as conn:
            await conn.execute("update threads set account_id = %s where id = %s", (account.id, chat.id))
        return await self.chat(account.user_id, chat.chat_id)

    async def chat(self, user_id: UUID, chat_id: str) -> ChatRow:
        """Raises NoItem."""
        found = await self._read(ChatRow, f"{_CHATS} and t.chat_id = %s", user_id, chat_id)
        if not found:
            raise NoItem("there is no such chat; `/run` begins one")
        return found[0]

    async def chats(self, user_id: UUID, most: int) -> list[ChatRow]:
        """The person's chats, the latest first."""
        latest = f"{_CHATS} order by last.created_at desc nulls last, t.id limit %s"
        return await self._read(ChatRow, latest, user_id, most)

    async def is_chat(self, thread_id: UUID) -> bool:
        async with self._pool.connection() as conn:
            cursor = await conn.execute("select chat_id is not null as yes from threads where id = %s", (thread_id,))
            row = await cursor.fetchone()
        return bool(row and row["yes"])

    async def newest(self, thread_id: UUID, most: int) -> list[TurnRow]:
        """The last turns of a chat, the newest first."""
        return await self._read(_turn, _TURNS.format("true"), thread_id, most)

    async def last(self, thread_id: UUID) -> TurnRow | None:
        return next(iter(await self.newest(thread_id, 1)), None)

    async def lasts(self, chats: Sequence[ChatRow]) -> dict[str, TurnRow]:
        """The last turn of each chat in which there is one, by the client's id of the chat."""
        found = await self._read(_turn, _LASTS, [chat.id for chat in chats])
        return {turn.input["chat"]: turn for turn in found}

    async def last_begun(self, thread_id: UUID, before: int) -> TurnRow | None:
        """The last turn before another, by its number, whose graph got as far as a checkpoint."""
        begun = "r.attempt < %s and exists (select from checkpoints c where c.thread_id = r.id::text)"
        return next(iter(await self._read(_turn, _TURNS.format(begun), thread_id, before, 1)), None)

    async def input_of(self, run_id: UUID) -> Turn:
        """What a turn's graph was started with."""
        async with self._pool.connection() as conn:
            cursor = await conn.execute(
                """select r.input, r.account_id, t.chat_id from runs r join threads t on t.id = r.thread_id
                   where r.id = %s""",
                (run_id,),
            )
            row = await cursor.fetchone()
        assert row is not None
        known = _known(run_id, row["account_id"], row["chat_id"])
        return row["input"] if _is_of(known, row["input"]) else known

    async def begin(
        self, lease: Lease, account: Account, chat_id: str, request: str, *, held_up: UUID | None = None
    ) -> TurnRow:
        """Make the turn of a new request. What still waits in the chat is set aside, and can never be done.

        Args:
            held_up: a turn that can't go on now, and in which nothing is left to do that the person decided. It is set
                aside as well.

        Raises:
            Conflict: the turn before is being worked on, or something in it was decided and is not carried out yet.
        """
        async with self._pool.connection() as conn, conn.transaction():
            return await self.begin_in(conn, lease, account, chat_id, request, held_up=held_up)

    async def begin_in(
        self,
        conn: Connection,
        lease: Lease,
        account: Account,
        chat_id: str,
        request: str,
        *,
        held_up: UUID | None = None,
    ) -> TurnRow:
        """`begin`, in the caller's transaction."""
        await lease.check(conn)
        # The thread before its items, as whoever decides locks them: what is decided meanwhile is seen here.
        await conn.execute("select from threads where id = %s for no key update", (lease.thread_id,))
        before = await self._last(conn, lease.thread_id)
        attempt = before.attempt + 1 if before else 1
        run_id = uuid5(NAMESPACE_URL, f"email-assistant:chat/{lease.thread_id}/{attempt}")
        if before and before.is_open:
            await self._set_aside(conn, before, run_id, may_act=before.id == held_up)
        turn = Turn(
            agent="chat",
            id=str(run_id),
            account_id=str(account.id),
            address=account.address,
            chat=chat_id,
            request=request,
        )
        cursor = await conn.execute(
            """insert into runs (id, user_id, account_id, thread_id, attempt, input, state, tries)
               values (%s, %s, %s, %s, %s, %s, 'running', 1) returning created_at""",
            (run_id, account.user_id, account.id, lease.thread_id, attempt, Json(turn)),
        )
        row = await cursor.fetchone()
        assert row is not None
        return TurnRow(
            run_id,
            attempt,
            turn,
            "running",
            reason=None,
            answer=None,
            created_at=row["created_at"],
            waits=False,
            decided=False,
            answered=False,
            asks=False,
            is_new=True,
        )

    async def _set_aside(self, conn: Connection, turn: TurnRow, by: UUID, *, may_act: bool) -> None:
        if turn.state == "acting" and turn.waits and not turn.answered:
            raise Conflict(_ASKS)
        if turn.state != "waiting" and (turn.waits or not may_act):
            raise Conflict(_NOT_DONE if turn.why else _BUSY)
        if turn.answered:
            raise Conflict(_ANSWERED_IN_PART if turn.asks else _ANSWERED)
        await supersede(conn, [turn.id], by)
        await conn.execute(
            """update runs set state = 'superseded', superseded_by = %s, reason = 'you asked for something else'
               where id = %s""",
            (by, turn.id),
        )
        # A new request doesn't wait out a back-off from before it.
        await conn.execute(
            """update threads set not_before = '-infinity', outages = 0
               where id = (select thread_id from runs where id = %s)""",
            (turn.id,),
        )

    async def start_work(self, lease: Lease, turn: TurnRow, most_tries: int) -> bool:
        """Count a start of work before it begins, since work that kills the process would begin for ever."""
        async with self._pool.connection() as conn, conn.transaction():
            await lease.check(conn)
            cursor = await conn.execute(
                "update runs set tries = tries + 1 where id = %s returning tries <= %s as may", (turn.id, most_tries)
            )
            row = await cursor.fetchone()
        return bool(row and row["may"])

    async def handed_back(self, lease: Lease, turn: TurnRow) -> None:
        """The process is stopping: the try that it broke off doesn't count."""
        async with self._pool.connection() as conn, conn.transaction():
            await lease.check(conn)
            await self._untry(conn, turn)

    async def rested(self, conn: Connection, turn: TurnRow, state: State, answer: str | None = None) -> None:
        """The turn came to rest: in front of the person, or at its end."""
        await conn.execute(
            """with turn as (update runs set state = %s, answer = %s, reason = null, tries = 0 where id = %s
                            returning thread_id)
               update threads set outages = 0 where id = (select thread_id from turn)""",
            (state, answer, turn.id),
        )

    async def acting(self, conn: Connection, turn: TurnRow) -> None:
        """Every answer is in and past its window: from here on the turn acts."""
        await conn.execute("update runs set state = 'acting', reason = null, tries = 0 where id = %s", (turn.id,))

    async def fail(self, conn: Connection, turn: TurnRow, reason: str) -> None:
        await conn.execute("update runs set state = 'failed', reason = %s where id = %s", (reason, turn.id))

    async def back_off(self, lease: Lease, turn: TurnRow, reason: str, until: datetime | None, *, outage: bool) -> None:
        """Come back later; an outage is no try."""
        async with self._pool.connection() as conn, conn.transaction():
            await lease.check(conn)
            await conn.execute(
                """update threads set outages = outages + 1, not_before = greatest(%s, clock_timestamp()
                          + back_off(outages, '1 second', '5 minutes'))
                   where id = %s""",
                (until or datetime.now(UTC), lease.thread_id),
            )
            await conn.execute("update runs set reason = %s where id = %s", (f"{_WAITING}{reason}", turn.id))
            if outage:
                await self._untry(conn, turn)

    async def _untry(self, conn: Connection, turn: TurnRow) -> None:
        await conn.execute("update runs set tries = greatest(0, tries - 1) where id = %s", (turn.id,))

    async def _last(self, conn: Connection, thread_id: UUID) -> TurnRow | None:
        async with conn.cursor(row_factory=kwargs_row(_turn)) as cursor:
            await cursor.execute(_TURNS.format("true").encode(), (thread_id, 1))
            return await cursor.fetchone()

    async def _read(self, make: Callable[..., T], query: str, *parameters: object) -> list[T]:
        async with self._pool.connection() as conn, conn.cursor(row_factory=kwargs_row(make)) as cursor:
            await cursor.execute(query.encode(), parameters)
            return await cursor.fetchall()


def _turn(*, account_id: UUID, chat_id: str, **columns: Any) -> TurnRow:
    known = _known(columns["id"], account_id, chat_id)
    readable = _is_of(known, columns["input"])
    return TurnRow(**{**columns, "input": columns["input"] if readable else known}, unreadable=not readable)


def _known(run_id: UUID, account_id: UUID, chat_id: str) -> Turn:
    """What is known of what a turn was given, without what the person asked for."""
    return Turn(agent="chat", id=str(run_id), account_id=str(account_id), address="", chat=chat_id, request="")


def _is_of(known: Turn, given: Any) -> bool:
    """Whether that is what a turn was given, as this program writes it."""
    return (
        isinstance(given, dict)
        and all(given.get(name) == known[name] for name in ("id", "account_id", "chat"))
        and all(isinstance(given.get(name), str) for name in ("address", "request"))
    )
