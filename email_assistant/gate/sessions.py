"""Sessions of other people's agents: what was begun, what of it runs, and how it ended. All rows are appended, and how
a call stands follows from them. It is the one writer of `gate_sessions`, `gate_requests` and `gate_ended`.

What a session is judged by is kept in this process and fed with the rows that came since: of one session they are made
under its lock, so that none turns up later with a lower number.
"""

import asyncio
import json
from collections import OrderedDict, deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from math import isfinite
from typing import Any, Final
from uuid import UUID

from psycopg.types.json import Json

from email_assistant.db.pool import Connection, Pool, fetched
from email_assistant.db.statements import statements
from email_assistant.gate.answers import Indexed, answer
from email_assistant.gate.call import Labels, Proposed, Subject
from email_assistant.gate.ledger import LONGEST, entry_in
from email_assistant.gate.policy import GateEntry, GateSession, Verdict
from email_assistant.gate.provenance import Source, read


def arguments_in(summary: str | None) -> Mapping[str, Any] | None:
    """The arguments that a client tells as JSON, by name or, as `open_edison` does, with those that have none apart.
    None: they can't be read, or a tool may read them otherwise than the gate."""
    if summary is None:
        return {}
    try:
        told: Any = _strictly(summary) if len(summary) <= LONGEST else None
    except (ValueError, RecursionError):
        return None
    match told:
        case {"args": list(unnamed), "kwargs": dict(named), **rest} if not rest:
            return {**named, **({"args": unnamed} if unnamed else {})}
        case dict():
            return told
        case list():
            return {"args": told} if told else {}
        case _:
            return None


def _strictly(text: str) -> Any:
    """JSON of one meaning (RFC 8259, sections 4 and 6; RFC 7493): of two members of one name parsers take either, and
    NaN, infinity and NUL end a text for some and not for others. Raises ValueError."""
    if "\\u0000" in text:
        raise ValueError
    return json.loads(text, object_pairs_hook=_once, parse_float=_finite, parse_constant=_finite)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    named = dict(pairs)
    if len(named) < len(pairs):
        raise ValueError
    return named


def _finite(number: str) -> float:
    if not isfinite(float(number)):
        raise ValueError
    return float(number)


_SQL = statements("gate", "sessions.sql")
_MOST_KEPT: Final = 64  # sessions
_ANSWERS: Final = 100  # of a session, the newest, that are sources; as many more of the person's own records
_PREFIX: Final = "agent_"
_Row = Mapping[str, Any]


def normalised(name: str) -> str:
    """A function as a tool is called here."""
    return name if name.startswith(_PREFIX) else _PREFIX + name


def proposed(name: str, labels: Mapping[str, Labels], summary: str | None) -> Proposed:
    """A call as the gate sees it."""
    bare = name.removeprefix(_PREFIX)
    return Proposed(bare, Subject(None, labels.get(bare), "gate"), arguments_in(summary))


@dataclass(frozen=True, slots=True)
class Locked:
    """A session until the caller's transaction ends."""

    number: int
    read: GateSession
    """What its calls are judged by."""
    is_stopped: bool
    """The person has stopped everything."""


@dataclass(frozen=True, slots=True)
class OnHold:
    """What a person must say of a call."""

    item: UUID
    """By which they are asked."""
    timeout: timedelta
    """How long the client still waits."""
    holder: int | None
    """The process that keeps it waiting; None: others can't tell whether that is there."""


@dataclass
class _Remembered:
    requests: list[Source] = field(default_factory=list)
    own: deque[Indexed] = field(default_factory=lambda: deque(maxlen=_ANSWERS))
    others: deque[Indexed] = field(default_factory=lambda: deque(maxlen=_ANSWERS))
    calls: dict[GateEntry, None] = field(default_factory=dict)  # each kind once: nothing else counts
    ran: int = 0
    told: int = 0

    def feed(self, requests: Sequence[str], ran: Sequence[_Row], told: Sequence[_Row]) -> None:
        self.requests += [read(r, label="your request", by="person") for r in requests[len(self.requests) :]]
        for row in ran:
            self.calls[entry_in(row)] = None
            self.ran = row["id"]
        for row in told:
            if row["id"] <= self.told:  # another call of this session came in between
                continue
            self.told = row["id"]
            indexed = _answer(row)
            if indexed:
                (self.own if indexed.source.by == "own" else self.others).append(indexed)

    @property
    def session(self) -> GateSession:
        return GateSession(
            tuple(self.requests), (*self.own, *self.others), tuple(self.calls), day=datetime.now(UTC).date()
        )


class GateSessions:
    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._kept: OrderedDict[tuple[UUID, str], _Remembered] = OrderedDict()

    async def enter(self, user_id: UUID, name: str, request: str | None = None) -> None:
        """There is such a session from now on, in which the person said this."""
        await fetched(self._pool, _SQL["enter"], (user_id, name))
        if request:
            await fetched(self._pool, _SQL["say"], {"user": user_id, "name": name, "request": request})

    async def lock(self, conn: Connection, user_id: UUID, name: str) -> Locked:
        """The session; it is made if there is none."""
        kept = self._kept.setdefault((user_id, name), _Remembered())
        self._kept.move_to_end((user_id, name))
        if len(self._kept) > _MOST_KEPT:
            self._kept.popitem(last=False)
        row, ran, told = await self._since(conn, user_id, name, kept)
        if row is None:
            await conn.execute(_SQL["enter"].encode(), (user_id, name))
            row, ran, told = await self._since(conn, user_id, name, kept)
            assert row is not None
        await asyncio.to_thread(kept.feed, row["requests"], ran, told)
        return Locked(row["id"], kept.session, row["stopped"])

    async def _since(
        self, conn: Connection, user_id: UUID, name: str, kept: _Remembered
    ) -> tuple[_Row | None, list[_Row], list[_Row]]:
        """Lock the session, if there is one, and look for what came since: all that was there once it was locked."""
        locked = await conn.execute(_SQL["lock"].encode(), (user_id, name))
        ran = await conn.execute(_SQL["ran_since"].encode(), (user_id, name, kept.ran))
        told = await conn.execute(_SQL["told_since"].encode(), (user_id, name, kept.told, _ANSWERS))
        return await locked.fetchone(), list(await ran.fetchall()), list(await told.fetchall())

    async def begin(
        self,
        conn: Connection,
        session: int,
        call_id: str,
        verdict: Verdict,
        entry: GateEntry,
        arguments: str | None,
        agent: tuple[str | None, str | None],
        held: OnHold | None,
    ) -> None:
        """Note what was asked and decided.

        Args:
            entry: the call once it has run.
            arguments: as the client told them.
            agent: its name and its type.
        """
        row = {
            "session": session,
            "call": call_id,
            "tool": entry.tool,
            "arguments": arguments,
            "agent_name": agent[0],
            "agent_type": agent[1],
            "verdict": verdict.do,
            "reason": verdict.reason,
            "labels": Json(entry.labels.model_dump()) if entry.labels else None,
            "external": entry.external,
            "cleared": entry.cleared,
            "item": held.item if held else None,
            "timeout": held.timeout if held else None,
            "holder": held.holder if held else None,
        }
        await conn.execute(_SQL["begin"].encode(), row)

    async def end(
        self,
        user_id: UUID,
        name: str,
        call_id: str,
        status: str,
        duration_ms: float | None,
        result: str | None,
    ) -> bool:
        """Note how a call ended, as it is told first; False: there is no such call. One that never ran says nothing."""
        async with self._pool.connection() as conn, conn.transaction():
            row = await (await conn.execute(_SQL["lock"].encode(), (user_id, name))).fetchone()
            found = row and await (await conn.execute(_SQL["find"].encode(), (row["id"], call_id))).fetchone()
            if not row or not found:
                return False
            if found["runs"]:
                told = {"session": row["id"], "call": call_id, "status": status, "took": duration_ms, "result": result}
                await conn.execute(_SQL["end"].encode(), told)
            return True

    async def waiting(self, user_id: UUID, name: str, tool: str, call_id: str | None) -> Mapping[str, Any] | None:
        """{item_id, call_id, tool, status} of a call that was held, or of the oldest of a tool's that waits."""
        given = {"user": user_id, "name": name, "tool": tool, "call": call_id}
        return next(iter(await fetched(self._pool, _SQL["waiting"], given)), None)

    async def told(self, user_id: UUID) -> tuple[list[Any], list[Any], list[Any], list[Any]]:
        """All sessions, their calls, and what ran in each, each kind once; and the calls of our own agents."""
        queries = ("sessions", "calls", "ran", "own")
        sessions, calls, ran, own = [await fetched(self._pool, _SQL[query], (user_id,)) for query in queries]
        return list(sessions), list(calls), list(ran), list(own)


async def block(conn: Connection, reason: str, *, call_id: str | None = None, item: UUID | None = None) -> None:
    """A call does not run, and why."""
    await conn.execute(_SQL["block"].encode(), {"reason": reason, "call": call_id, "item": item})


def _answer(row: Mapping[str, Any]) -> Indexed | None:
    text = row["result"]
    if len(text) > LONGEST:
        return None
    with suppress(ValueError, RecursionError):  # `open_edison` tells a text as JSON
        text = said if isinstance(said := json.loads(text), str) else text
    label = f"what {row['tool'].removeprefix(_PREFIX)} told"
    labels = entry_in(row).labels if row["status"] == "ok" else None  # an error repeats what the call was told
    is_private = labels is None or labels.read_private_data
    return answer(text, label, labels, readers=() if is_private else None, day=row["at"].date())


async def naming(pool: Pool, user_id: UUID, named: str) -> list[int]:
    """Sessions in which anything matches a pattern of Postgres's."""
    return [row["id"] for row in await fetched(pool, _SQL["naming"], {"user": user_id, "named": named})]


async def blot(conn: Connection, session: int, named: str) -> dict[str, list[int]]:
    """Take the words out of what matches a pattern; returns the ids of the rows, as the log names them."""
    given = {"session": session, "named": named}
    await conn.execute(_SQL["blot_requests"].encode(), given)
    begun = await conn.execute(_SQL["blot_begun"].encode(), given)
    ended = await conn.execute(_SQL["blot_ended"].encode(), given)
    return {
        "begun": [row["id"] for row in await begun.fetchall()],
        "ended": [row["id"] for row in await ended.fetchall()],
    }
