"""Where other people's agents ask before they call a tool: the gate decides at once, or a person does while they wait.

Whoever waits holds neither a thread nor a connection to the database: one listener hears of every answer.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import UUID, uuid4

from email_assistant.db.pool import Pool, fetched
from email_assistant.errors import AssistantError
from email_assistant.gate import ledger
from email_assistant.gate.call import Proposed
from email_assistant.gate.doubts import doubts
from email_assistant.gate.policy import GateEntry, GateSession, Verdict, decide, entry
from email_assistant.gate.provenance import spans
from email_assistant.gate.sessions import GateSessions, block, normalised, proposed
from email_assistant.inbox import rows
from email_assistant.inbox.feed import Change, Feed, Listener
from email_assistant.inbox.items import Conflict, NoItem
from email_assistant.inbox.marks import Mark
from email_assistant.inbox.person import Inbox
from email_assistant.mail.charset import cut, plain
from email_assistant.tools.rules import RuleFiles
from email_assistant.tools.spec import ToolError, check_storable

PATIENCE: Final = 30.0  # seconds that a client waits that does not say how long, as `open_edison` does
MOST_PATIENCE: Final = 3600.0
Gone = Callable[[], Coroutine[Any, Any, None]]
_EARLIER: Final = 0.5  # seconds before the client gives up, at which it is answered; of a short wait, a tenth
_LONGEST_SHOWN: Final = 20_000  # characters of arguments that can't be read
_TIMED_OUT: Final = "nobody answered in time"
_GONE: Final = "the program that asked has gone"


@dataclass(frozen=True, slots=True)
class Begun:
    """A call that a client wants to make."""

    session: str
    name: str
    arguments: str | None
    """As JSON; anything else can't be read."""
    patience: float
    """Seconds that the client waits."""
    agent_name: str | None = None
    agent_type: str | None = None


@dataclass(frozen=True, slots=True)
class Ruling:
    call_id: str
    approved: bool
    error: str | None
    """Why it may not be made."""


class NoCall(AssistantError):
    """No such call, or none that waits."""

    status = NoItem.status


class _HeldCalls(Listener):
    """Those who wait for a person, by item."""

    def __init__(self) -> None:
        super().__init__()
        self.wakes: dict[UUID, asyncio.Event] = {}

    def tell(self, change: Change) -> None:
        if change["what"] == "item" and (wake := self.wakes.get(UUID(change["id"]))):
            wake.set()

    def reload(self) -> None:
        for wake in self.wakes.values():
            wake.set()


class Gatehouse:
    def __init__(self, pool: Pool, rules: RuleFiles, inbox: Inbox, feed: Feed, user_id: UUID) -> None:
        self.sessions = GateSessions(pool)
        self._pool = pool
        self._rules = rules
        self._inbox = inbox
        self._feed = feed
        self._user_id = user_id
        self._waiting = _HeldCalls()
        self._heard = ExitStack()
        self._listeners: set[asyncio.Queue[tuple[str, dict[str, Any]]]] = set()

    async def enter(self, name: str, request: str | None) -> None:
        """There is such a session from now on. `request`: the person's own words, by which calls are judged."""
        await self.sessions.enter(self._user_id, name, request)
        self._tell("sessions_db_changed", {})

    async def begin(self, begun: Begun, gone: Gone) -> Ruling:
        """Decide a call, or have a person do so while the client waits.

        Args:
            gone: returns when the client has gone: then nobody can approve it any more.

        Raises:
            BadFile: what tools touch can't be read now.
        """
        tool, call_id = normalised(begun.name), uuid4().hex
        call = proposed(tool, self._rules.now().labels, begun.arguments)
        if not await self._try(begun, tool, call, call_id, item=None):
            with self._expecting(item := uuid4()) as wake:
                await self._feed.listening()
                if not await self._try(begun, tool, call, call_id, item=item):
                    told = {"session_id": begun.session, "kind": "tool", "name": tool, "call_id": call_id}
                    self._tell("mcp_pre_block", told)
                    await self._wait(begun, item, wake, gone, told)
        self._tell("sessions_db_changed", {})
        return await self._answer(call_id)

    async def _try(self, begun: Begun, tool: str, call: Proposed, call_id: str, *, item: UUID | None) -> bool:
        """Decide it, unless a person must: False. Then `item` is what they are asked by, if one is given."""
        async with self._pool.connection() as conn, conn.transaction():
            found = await self.sessions.lock(conn, self._user_id, begun.session)
            if found is None:
                await self.sessions.make(conn, self._user_id, begun.session)
                found = await self.sessions.lock(conn, self._user_id, begun.session)
            assert found is not None
            number, session = found
            verdict, noted = await asyncio.to_thread(_judged, session, call)
            asks = verdict.do == "ask"
            if asks and item is None:
                return False
            if asks and item is not None:
                text, question = await asyncio.to_thread(_question, begun, tool, call, session, verdict)
                await rows.hold(conn, item, self._user_id, text, {**question, "call_id": call_id}, verdict.reason)
            await self.sessions.begin(
                conn,
                number,
                call_id,
                tool,
                verdict,
                noted,
                arguments=_storable(begun.arguments),
                agent=(begun.agent_name, begun.agent_type),
                item=item if asks else None,
                patience=_patience(begun) if asks else None,
            )
            if verdict.do == "allow":
                await ledger.runs(conn, call_id)
            elif verdict.do == "deny":
                await block(conn, verdict.reason, call_id=call_id)
            return not asks

    async def _wait(
        self,
        begun: Begun,
        item: UUID,
        wake: asyncio.Event,
        gone: Gone,
        told: dict[str, Any],
    ) -> None:
        """Until it is answered, or nobody waits for that any more."""
        left = asyncio.ensure_future(gone())
        clock = asyncio.get_running_loop().time
        until = clock() + _patience(begun).total_seconds()
        try:
            while await self._is_pending(item):
                waking = asyncio.ensure_future(wake.wait())
                await asyncio.wait({waking, left}, timeout=until - clock(), return_when=asyncio.FIRST_COMPLETED)
                waking.cancel()
                wake.clear()
                if left.done() or clock() >= until:
                    await self._let_go(begun.session, item, _GONE if left.done() else _TIMED_OUT)
        except asyncio.CancelledError:
            await asyncio.shield(self._let_go(begun.session, item, _GONE))
            raise
        finally:
            left.cancel()
        self._tell("mcp_approve_or_deny_once", told)

    async def _is_pending(self, item: UUID) -> bool:
        query = "select id from inbox_items where id = %s and status = 'pending'"
        return bool(await fetched(self._pool, query, (item,)))

    async def _let_go(self, session: str, item: UUID, why: str) -> None:
        """Nobody can approve it any more, unless they just have."""
        async with self._pool.connection() as conn, conn.transaction():
            await self.sessions.lock(conn, self._user_id, session)
            if await rows.let_go(conn, item):
                await block(conn, why, item=item)

    async def _answer(self, call_id: str) -> Ruling:
        [row] = await fetched(self._pool, _OUTCOME, (call_id,))
        return Ruling(call_id, row["runs"], None if row["runs"] else row["reason"])

    async def end(self, session: str, call_id: str, status: str, duration_ms: float | None, result: str | None) -> None:
        """How a call ended; the first report counts. Raises NoCall."""
        told = _storable(result)
        if not await self.sessions.end(self._user_id, session, call_id, status, duration_ms, told):
            raise NoCall("there is no such call in this session")
        self._tell("sessions_db_changed", {})

    async def decide(self, session: str, name: str, call_id: str | None, *, approve: bool, by: str) -> str:
        """Answer a call that waits, or the oldest of that name, once; returns its id. Raises NoCall, Conflict."""
        found = await self.sessions.waiting(self._user_id, session, normalised(name), call_id)
        if found is None:
            raise NoCall("no such call waits in this session, and none can be approved beforehand")
        if found["status"] != "pending":
            raise Conflict("this call waits no more")
        answer = {"type": "accept" if approve else "ignore", "args": None}
        await self._inbox.decide(self._user_id, found["item_id"], answer, by=by)
        return str(found["call_id"])

    @property
    def is_open(self) -> bool:
        """Whether the program is still at work."""
        return self._feed.is_open

    async def told(self) -> tuple[list[Any], list[Any], list[Any]]:
        """As `GateSessions.told`."""
        return await self.sessions.told(self._user_id)

    @contextmanager
    def events(self) -> Iterator[asyncio.Queue[tuple[str, dict[str, Any]]]]:
        """What happens while the block lasts."""
        queue = asyncio.Queue[tuple[str, dict[str, Any]]](1000)
        self._listeners.add(queue)
        try:
            yield queue
        finally:
            self._listeners.discard(queue)

    def _tell(self, what: str, told: dict[str, Any]) -> None:
        for queue in self._listeners:
            if not queue.full():
                queue.put_nowait((what, told))

    @contextmanager
    def _expecting(self, item: UUID) -> Iterator[asyncio.Event]:
        if not self._waiting.wakes:
            self._heard.enter_context(self._feed.listener(self._user_id, self._waiting))
        self._waiting.wakes[item] = wake = asyncio.Event()
        try:
            yield wake
        finally:
            del self._waiting.wakes[item]
            if not self._waiting.wakes:
                self._heard.close()


_OUTCOME: Final = """select c.id is not null as runs, coalesce(e.reason, b.reason) as reason
    from gate_begun b left join gate_calls c on c.session_id = b.session_id and c.call_id = b.call_id
    left join gate_ended e on e.call_id = b.call_id where b.call_id = %s"""


def _judged(session: GateSession, call: Proposed) -> tuple[Verdict, GateEntry]:
    return decide(session, call), entry(session, call)


def _question(
    begun: Begun, tool: str, call: Proposed, session: GateSession, verdict: Verdict
) -> tuple[str, dict[str, Any]]:
    """What the person is shown, and by which marks."""
    args = dict(call.arguments) if call.arguments is not None else {"arguments": begun.arguments or ""}
    try:
        check_storable(args)
    except ToolError:
        args = {"arguments": begun.arguments or ""}
    if call.arguments is None or args.keys() == {"arguments"}:
        args = {name: cut(plain(str(value)), _LONGEST_SHOWN) for name, value in args.items()}
    reached = dict.fromkeys(mark.value for mark in verdict.marks if mark.what == "goes to" and not mark.grounded)
    strange = [span.key for value in reached for span in spans(value) if span.kind == "address"]
    told = doubts(args, strange, session.texts, datetime.now(UTC).date()) if strange else []
    agent = plain(begun.agent_name or "An agent of yours")
    marks = [{"kind": m.kind, "address": m.address, "text": m.text} for m in map(Mark.unknown, strange)]
    return f"{agent}: {tool}", {
        "action": tool,
        "args": args,
        "marks": marks,
        "doubts": [asdict(doubt) for doubt in told],
    }


def _patience(begun: Begun) -> timedelta:
    seconds = min(begun.patience, MOST_PATIENCE)
    return timedelta(seconds=seconds - min(_EARLIER, seconds / 10))


def _storable(text: str | None) -> str | None:
    """What the database takes: no NUL, and no half of a character."""
    return None if text is None else text.replace("\0", "").encode(errors="replace").decode()
