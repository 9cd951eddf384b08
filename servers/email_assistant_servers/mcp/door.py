"""The gate at the door of our MCP servers: each call of a client is judged by the same policy as the assistant's own,
and noted among the calls of other people's agents. What a person must decide is put to the client's user (elicitation).

A client tells nothing of what its user asked for, so all that writes is asked about. The record keeps no text of the
mailbox: neither what was read, nor the text of a letter.
"""

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from time import monotonic
from typing import Any, Final, TypeVar
from uuid import UUID, uuid4

import anyio
import psycopg
from mcp import McpError, types
from mcp.server.lowlevel.server import request_ctx

from email_assistant.db.pool import Pool
from email_assistant.errors import logged
from email_assistant.gate import ledger
from email_assistant.gate.call import PROSE
from email_assistant.gate.policy import Verdict, decide, entry
from email_assistant.gate.sessions import GateSessions, block, proposed
from email_assistant.mail.charset import plain
from email_assistant.tools.config import RuleFiles
from email_assistant.tools.own.mailbox import STOPPED, Mailbox, TryAgain
from email_assistant.tools.own.server import OwnCall
from email_assistant.tools.spec import ToolError

R = TypeVar("R")

log = logging.getLogger(__name__)

_CAN_ASK: Final = types.ClientCapabilities(elicitation=types.ElicitationCapability())
_CANNOT_ASK: Final = (
    "this is not done unasked, and your client can't put the question to its user; if it asks before each call by "
    "itself, start the server with --client-asks (`mcp config --client-asks` prints that)"
)
_FORM: Final[dict[str, Any]] = {"type": "object", "properties": {}}
_GONE: Final = "the program that asked has gone"
_LEFT_TO_CLIENT: Final = "left to the client, which asks its user (--client-asks)"


@dataclass(frozen=True)
class GuardedDoor:
    """One session of the gate: all that a server's clients call."""

    pool: Pool
    sessions: GateSessions
    rules: RuleFiles
    mailbox: Mailbox
    user_id: UUID
    name: str
    """The session's."""
    client_asks: bool
    """The client asks its user before each call, and needs no question of ours."""

    async def admit(self, call: OwnCall, run: Callable[[], Awaitable[R]]) -> R:
        """Run a call if the gate, or the client's user, lets it run. Raises ToolError: they don't; BadFile: what tools
        touch can't be read now."""
        if not self.client_asks:  # nobody is asked about what is refused in any case
            await self.mailbox.check("read" if call.effect == "reads" else "write")
        call_id, verdict = await self._begin(call)
        if verdict.do == "deny":
            raise ToolError(verdict.reason)
        if verdict.do == "ask":
            await self._ask(call_id, _question(call, verdict))
        began, status = monotonic(), "error"
        try:
            result = await run()
            status = "ok"
            return result
        finally:
            with anyio.CancelScope(shield=True):
                await self._end(call_id, status, (monotonic() - began) * 1000)

    async def _begin(self, call: OwnCall) -> tuple[str, Verdict]:
        asked = proposed(call.name, self.rules.now().labels, json.dumps(dict(call.arguments)))
        call_id, client = uuid4().hex, request_ctx.get().session.client_params
        agent = client.clientInfo.name if client else None
        async with self.pool.connection() as conn, conn.transaction():
            locked = await self.sessions.lock(conn, self.user_id, self.name)
            if locked.is_stopped:
                raise TryAgain(STOPPED)
            verdict, noted = await asyncio.to_thread(lambda: (decide(locked.read, asked), entry(locked.read, asked)))
            if verdict.do == "ask" and self.client_asks:
                verdict = replace(verdict, do="allow", reason=f"{_LEFT_TO_CLIENT}: {verdict.reason}")
            elif verdict.do == "ask":  # if it runs, they saw it whole: that is their own word
                noted = replace(noted, cleared=True)
            told = json.dumps({name: _without_prose(name, value) for name, value in call.arguments.items()})
            await self.sessions.begin(conn, locked.number, call_id, verdict, noted, told, (agent, "MCP client"), None)
            if verdict.do == "allow":
                await ledger.runs(conn, call_id)
            elif verdict.do == "deny":
                await block(conn, verdict.reason, call_id=call_id)
        return call_id, verdict

    async def _ask(self, call_id: str, question: str) -> None:
        """Raises ToolError: the client's user does not let it run, or can't be asked."""
        why = _GONE
        try:
            why = await _refused(question)
        finally:  # a client that goes cancels what it asked for, and would each `await` that follows
            with anyio.CancelScope(shield=True):
                await self._decided(call_id, why)
        if why:
            raise ToolError(why)

    async def _decided(self, call_id: str, why: str) -> None:
        async with self.pool.connection() as conn, conn.transaction():
            await (block(conn, why, call_id=call_id) if why else ledger.runs(conn, call_id))

    async def _end(self, call_id: str, status: str, took_ms: float) -> None:
        try:
            await self.sessions.end(self.user_id, self.name, call_id, status, took_ms, None)
        except psycopg.Error as error:
            log.warning("the gate's record of call %s has no end: %s", call_id, logged(error))


async def _refused(question: str) -> str:
    """Why the client's user does not let a call run; empty: they do."""
    context = request_ctx.get()
    if not context.session.check_client_capability(_CAN_ASK):
        return _CANNOT_ASK
    try:
        answer = await context.session.elicit_form(question, _FORM, related_request_id=context.request_id)
    except McpError as error:
        if error.error.code == types.CONNECTION_CLOSED:
            return _GONE
        log.warning("the client's user can't be asked: %s", plain(error))
        return _CANNOT_ASK
    return {"accept": "", "decline": "the person said no"}.get(answer.action, "nobody answered")


def _question(call: OwnCall, verdict: Verdict) -> str:
    """All that would be done, and why it is asked about."""
    given = call.arguments.items()
    lines = (f"{name}: {value if isinstance(value, str) else json.dumps(value)}" for name, value in given)
    return plain("\n".join([f"{call.title}?", *lines, "", f"Asked because {verdict.reason}."]))


def _without_prose(name: str, value: Any) -> Any:
    return f"({len(value)} characters)" if isinstance(value, str) and PROSE.fullmatch(name) else value
