"""Where other people's agents ask before they call a tool: the gate decides at once, or a person while they wait.

Whoever waits holds neither a thread nor a connection to the database: one listener hears of every answer.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import UUID, uuid4

import psycopg

from email_assistant.app import App
from email_assistant.db.pool import Pool, fetched, fetched_together
from email_assistant.errors import AssistantError
from email_assistant.gate import ledger
from email_assistant.gate.call import Proposed
from email_assistant.gate.doubts import doubts
from email_assistant.gate.ledger import SEAL
from email_assistant.gate.policy import GateEntry, GateSession, Verdict, decide, entry
from email_assistant.gate.provenance import spans
from email_assistant.gate.sessions import GateSessions, Locked, OnHold, block, normalised, proposed
from email_assistant.inbox import rows
from email_assistant.inbox.feed import Change, Feed, Listener
from email_assistant.inbox.items import Conflict, NoItem
from email_assistant.inbox.person import NOBODY_ANSWERED
from email_assistant.mail.charset import plain
from email_assistant.tools.spec import ToolError, check_storable

Gone = Callable[[], Coroutine[Any, Any, None]]
"""Returns when the client has gone."""

_GONE: Final = "the program that asked has gone"
_ENDING: Final = "the gate's server is ending; ask again once it is back"
_FAREWELL_SECONDS: Final = 5.0


class WaitingCalls(Listener):
    def __init__(self, pool: Pool, sessions: GateSessions, feed: Feed, user_id: UUID) -> None:
        super().__init__()
        self._pool = pool
        self._sessions = sessions
        self._feed = feed
        self._user_id = user_id
        self._heard = ExitStack()
        self._wakes: dict[UUID, asyncio.Event] = {}  # by item
        self._nobody_waits = asyncio.Event()
        self._nobody_waits.set()
        self._is_ending = False

    def tell(self, change: Change) -> None:
        if change["what"] == "item" and (wake := self._wakes.get(UUID(change["id"]))):
            wake.set()

    def reload(self) -> None:
        for wake in self._wakes.values():
            wake.set()

    @contextmanager
    def expecting(self, item: UUID) -> Iterator[None]:
        """No answer to the item is missed while the block lasts."""
        if not self._wakes:
            self._heard.enter_context(self._feed.listener(self._user_id, self))
        self._wakes[item] = asyncio.Event()
        self._nobody_waits.clear()
        try:
            yield
        finally:
            del self._wakes[item]
            if not self._wakes:
                self._nobody_waits.set()
                self._heard.close()

    async def answered(self, session: str, item: UUID, until: float, gone: Gone) -> None:
        """Wait until an item that is expected is answered, or nobody waits for that any more.

        Args:
            until: when that is at the latest, by the loop's clock.
        """
        wake, now = self._wakes[item], asyncio.get_running_loop().time
        left = asyncio.ensure_future(gone())
        try:
            while await self._is_pending(item):
                if self._is_ending or left.done() or now() >= until:
                    why = _ENDING if self._is_ending else _GONE if left.done() else NOBODY_ANSWERED
                    await self._let_go(session, item, why)
                    continue
                waking = asyncio.ensure_future(wake.wait())
                await asyncio.wait({waking, left}, timeout=until - now(), return_when=asyncio.FIRST_COMPLETED)
                waking.cancel()
                wake.clear()
        except asyncio.CancelledError:
            await asyncio.shield(self._let_go(session, item, _GONE))
            raise
        finally:
            left.cancel()

    async def end(self) -> None:
        """Tell all who wait, and whoever comes, that this server is ending; returns once they know."""
        self._is_ending = True
        self.reload()
        with suppress(TimeoutError):  # they hear no more, as the database doesn't answer
            async with asyncio.timeout(_FAREWELL_SECONDS):
                await self._nobody_waits.wait()

    async def _is_pending(self, item: UUID) -> bool:
        query = "select id from inbox_items where id = %s and status = 'pending'"
        return bool(await fetched(self._pool, query, (item,)))

    async def _let_go(self, session: str, item: UUID, why: str) -> None:
        """Nobody can approve it any more, unless they just have."""
        async with self._pool.connection() as conn, conn.transaction():
            await self._sessions.lock(conn, self._user_id, session)
            if await rows.expire_held_call(conn, item):
                await block(conn, why, item=item)


log = logging.getLogger(__name__)

WAIT_SECONDS: Final = 30.0  # seconds that a client waits that does not say how long, as `open_edison` does
MOST_SECONDS: Final = 3600.0
_EARLIER: Final = 1.0  # seconds before the client gives up, at which it is answered; of a short wait, a fifth
_KEEP_SECONDS: Final = 10.0
_STOPPED: Final = "the person has stopped everything"


@dataclass(frozen=True, slots=True)
class Begun:
    """A call that a client wants to make."""

    session: str
    name: str
    arguments: str | None
    """As JSON; anything else can't be read."""
    timeout: float
    """Seconds that the client waits."""
    agent_name: str | None = None
    agent_type: str | None = None


@dataclass(frozen=True, slots=True)
class AskedCall:
    """The same, as the gate sees it."""

    tool: str
    call: Proposed
    call_id: str
    item: UUID
    """By which the person is asked, if they are."""
    until: float
    """When it is answered at the latest, by `_now`."""


@dataclass(frozen=True, slots=True)
class Ruling:
    call_id: str
    approved: bool
    error: str | None
    """Why it may not be made."""


class NoCall(AssistantError):
    """No such call, or none that waits."""

    status = NoItem.status


class AgentCalls:
    def __init__(self, app: App) -> None:
        self.sessions = GateSessions(app.pool)
        self._pool = app.pool
        self._holder = app.holder
        self._rules = app.rules
        self._inbox = app.inbox
        self._feed = app.feed
        self._user_id = app.user_id
        self._waiting = WaitingCalls(app.pool, self.sessions, app.feed, app.user_id)
        self._listeners: set[asyncio.Queue[tuple[str, dict[str, Any]]]] = set()

    async def enter(self, name: str, request: str | None) -> None:
        """There is such a session from now on. `request`: the person's own words, by which calls are judged."""
        await self.sessions.enter(self._user_id, name, request)
        self._tell("sessions_db_changed", {})

    async def begin(self, begun: Begun, gone: Gone) -> Ruling:
        """Decide a call, or have a person do so while the client waits.

        Args:
            gone: when it has returned, nobody can approve it any more.

        Raises:
            BadFile: what tools touch can't be read now.
        """
        tool = normalised(begun.name)
        call = proposed(tool, self._rules.now().labels, begun.arguments)
        asked = AskedCall(tool, call, uuid4().hex, uuid4(), _now() + _timeout(begun))
        with ExitStack() as waiting:
            verdict = await self._judge(begun, asked, waiting)
            if verdict.do == "ask":
                told = {"session_id": begun.session, "kind": "tool", "name": tool, "call_id": asked.call_id}
                self._tell("mcp_pre_block", told)
                await self._waiting.answered(begun.session, asked.item, asked.until, gone)
                self._tell("mcp_approve_or_deny_once", told)
            self._tell("sessions_db_changed", {})
            return await self._ruling(asked.call_id, verdict)

    async def _judge(self, begun: Begun, asked: AskedCall, waiting: ExitStack) -> Verdict:
        """Note what was asked and decided. If a person must decide, ask them; their answer is expected until `waiting`
        is closed."""
        # In a pipeline the database is waited for twice: for what it knows of the session, and for the end.
        async with self._pool.connection() as conn, conn.pipeline(), conn.transaction():
            locked = await self.sessions.lock(conn, self._user_id, begun.session)
            verdict, noted = await asyncio.to_thread(_judged, locked, asked.call)
            held = None
            if verdict.do == "ask":
                waiting.enter_context(self._waiting.expecting(asked.item))
                await self._holder.open()
                text, question = await asyncio.to_thread(_question, begun, asked, locked.read, verdict)
                await rows.hold(conn, asked.item, self._user_id, text, question, verdict.reason)
                held = OnHold(asked.item, timedelta(seconds=asked.until - _now()), self._holder.name)
            agent, arguments = (begun.agent_name, begun.agent_type), _storable(begun.arguments)
            noted = replace(noted, tool=asked.tool)
            await self.sessions.begin(conn, locked.number, asked.call_id, verdict, noted, arguments, agent, held)
            if verdict.do == "allow":
                await ledger.runs(conn, asked.call_id)
            elif verdict.do == "deny":
                await block(conn, verdict.reason, call_id=asked.call_id)
        return verdict

    async def _ruling(self, call_id: str, verdict: Verdict) -> Ruling:
        if verdict.do != "ask":
            allowed = verdict.do == "allow"
            return Ruling(call_id, allowed, None if allowed else verdict.reason)
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
        if call_id and name and found["tool"] != normalised(name):
            raise Conflict(f"this call is of another tool: {found['tool']}")
        if found["status"] != "pending":
            raise Conflict("this call waits no more")
        answer = {"type": "accept" if approve else "ignore", "args": None}
        await self._inbox.decide(self._user_id, found["item_id"], answer, by=by)
        return str(found["call_id"])

    async def aclose(self) -> None:
        """Tell all who wait here, and whoever comes, that this server is ending."""
        await self._waiting.end()

    async def keep(self) -> None:
        """Close what servers held that died, and seal the log, until cancelled."""
        while True:
            try:
                overdue, _ = await fetched_together(self._pool, self._inbox.overdue(), SEAL)
                await self._inbox.expire_held_calls(overdue)
            except psycopg.Error as error:
                log.warning("the gate's log is not sealed: the database is not available (%s)", type(error).__name__)
            await asyncio.sleep(_KEEP_SECONDS)

    @property
    def is_open(self) -> bool:
        """Whether the program is still at work."""
        return self._feed.is_open

    async def told(self) -> tuple[list[Any], list[Any], list[Any], list[Any]]:
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


_OUTCOME: Final = """select c.id is not null as runs, coalesce(e.reason, b.reason) as reason
    from gate_requests b left join gate_calls c on c.session_id = b.session_id and c.call_id = b.call_id
    left join gate_ended e on e.call_id = b.call_id where b.call_id = %s"""


def _judged(locked: Locked, call: Proposed) -> tuple[Verdict, GateEntry]:
    verdict = Verdict("deny", _STOPPED) if locked.is_stopped else decide(locked.read, call)
    return verdict, entry(locked.read, call)


def _question(begun: Begun, asked: AskedCall, session: GateSession, verdict: Verdict) -> tuple[str, dict[str, Any]]:
    """What the person is shown, and by which marks."""
    args = dict(asked.call.arguments) if asked.call.arguments is not None else _as_text(begun)
    try:
        check_storable(args)
    except ToolError:
        args = _as_text(begun)
    reached = dict.fromkeys(mark.value for mark in verdict.marks if mark.what == "goes to")
    to = [span.key for value in reached for span in spans(value) if span.kind == "address"]
    told = doubts(args, to, session.texts, session.day or datetime.now(UTC).date()) if to else []
    question = {"call_id": asked.call_id, "action": asked.tool, "args": args, "doubts": [asdict(each) for each in told]}
    return f"{plain(begun.agent_name or 'An agent of yours')}: {asked.tool}", question


def _as_text(begun: Begun) -> dict[str, str]:
    """Arguments that can't be read."""
    return {"arguments": plain(begun.arguments or "")}


def _now() -> float:
    return asyncio.get_running_loop().time()


def _timeout(begun: Begun) -> float:
    """Seconds until it is answered at the latest: before its client, which may count from earlier, gives up."""
    seconds = min(begun.timeout, MOST_SECONDS)
    return seconds - min(_EARLIER, seconds / 5)


def _storable(text: str | None) -> str | None:
    """What the database takes: no NUL, and no half of a character."""
    return None if text is None else text.replace("\0", "").encode(errors="replace").decode()
