"""The gate at the door of our MCP servers: each call of a client is judged by the same policy as the assistant's own,
and noted among the calls of other people's agents. What a person must decide is put to the client's user (elicitation).

A client tells nothing of what its user asked for, so all that writes is asked about. The record keeps neither what was
read, nor the text of a letter.
"""

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from time import monotonic
from typing import Any, Final, TypeVar
from uuid import UUID, uuid4

import anyio
import psycopg
from mcp import McpError, types
from mcp.server.lowlevel.server import request_ctx
from pydantic import ValidationError

from email_assistant.db.pool import Pool
from email_assistant.errors import logged
from email_assistant.gate import ledger
from email_assistant.gate.call import PROSE, Proposed, argument_lines
from email_assistant.gate.policy import Verdict, decide, entry, refused
from email_assistant.gate.sessions import GateSessions, block, proposed
from email_assistant.mail.charset import one_line, plain, visible
from email_assistant.tools.config import RuleFiles
from email_assistant.tools.own.mailbox import STOPPED, Mailbox, TryAgain
from email_assistant.tools.own.server import OwnCall
from email_assistant.tools.spec import ToolError

R = TypeVar("R")

log = logging.getLogger(__name__)

_CANNOT_ASK: Final = (
    "this is not done unasked, and your client can't put the question to its user; if it asks before each call by "
    "itself, start the server with --client-asks (`mcp config --client-asks` prints that)"
)
_FORM: Final[dict[str, Any]] = {"type": "object", "properties": {}}
_KEY: Final = "idempotency_key"
_LONGEST_NAME: Final = 100
_WHOM: Final = ("to", "cc", "attendees")
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
    account: str
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
            await self._ask(call_id, call, verdict)
        began, status = monotonic(), "error"
        try:
            result = await run()
            status = "ok"
            return result
        finally:
            with anyio.CancelScope(shield=True):
                await self._end(call_id, status, (monotonic() - began) * 1000)

    async def _begin(self, call: OwnCall) -> tuple[str, Verdict]:
        asked, call_id, client = self._proposed(call), uuid4().hex, request_ctx.get().session.client_params
        agent = one_line(client.clientInfo.name)[:_LONGEST_NAME] if client else None
        async with self.pool.connection() as conn, conn.transaction():
            locked = await self.sessions.lock(conn, self.user_id, self.name)
            if locked.is_stopped:
                raise TryAgain(STOPPED)
            verdict, noted = await asyncio.to_thread(lambda: (decide(locked.read, asked), entry(locked.read, asked)))
            if verdict.do == "ask" and self.client_asks:
                verdict = replace(verdict, do="allow", reason=f"{_LEFT_TO_CLIENT}: {verdict.reason}")
            elif verdict.do == "ask":  # if it runs, they saw it whole: that is their own word
                noted = replace(noted, cleared=True)
            told = json.dumps(_for_the_record(call))
            await self.sessions.begin(conn, locked.number, call_id, verdict, noted, told, (agent, "MCP client"), None)
            if verdict.do == "allow":
                await ledger.runs(conn, call_id)
            elif verdict.do == "deny":
                await block(conn, verdict.reason, call_id=call_id)
        return call_id, verdict

    def _proposed(self, call: OwnCall) -> Proposed:
        return proposed(call.name, self.rules.now().labels, json.dumps(_recipients_first(call)))

    async def _ask(self, call_id: str, call: OwnCall, verdict: Verdict) -> None:
        """Raises ToolError: the client's user does not let it run, or can't be asked."""
        why = _GONE
        try:
            question = _question(call, await call.look(), verdict, self.account)
            why = await _refused(question) or refused(None, self._proposed(call).subject)
        except (ToolError, TryAgain) as error:
            why = str(error)
            raise
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
    client = context.session.client_params
    can = client.capabilities.elicitation if client else None
    if can is None or (can.url is not None and can.form is None):
        return _CANNOT_ASK
    try:
        answer = await context.session.elicit_form(question, _FORM, related_request_id=context.request_id)
    except McpError as error:
        if error.error.code == types.CONNECTION_CLOSED:
            return _GONE
        log.warning("the client's user can't be asked: %s", plain(error))
        return _CANNOT_ASK
    except ValidationError:
        return "the client's answer can't be read"
    return {"accept": "", "decline": "the person said no"}.get(answer.action, "nobody answered")


def _question(call: OwnCall, about: Mapping[str, Any], verdict: Verdict, account: str) -> str:
    """All that would be done, and why it is asked about; nothing in a value can pass for another line of it."""
    lines = [f"{call.title}, with {account}?", f"Asked because {visible(one_line(verdict.reason))}."]
    # First, and whatever the client says of the same: what was found out.
    return "\n".join([*lines, *argument_lines({**about, **_recipients_first(call), **about})])


def _recipients_first(call: OwnCall) -> dict[str, Any]:
    """The arguments in an order that the client does not choose, texts last; without the key, which does nothing."""
    place = {name: number for number, name in enumerate(_WHOM)}

    def order(name: str) -> tuple[bool, int, str]:
        return bool(PROSE.fullmatch(name)), place.get(name, len(place)), name

    return {name: call.arguments[name] for name in sorted(call.arguments, key=order) if name != _KEY}


def _for_the_record(call: OwnCall) -> dict[str, Any]:
    return {
        name: f"({len(value)} characters)" if isinstance(value, str) and PROSE.fullmatch(name) else value
        for name, value in _recipients_first(call).items()
    }
