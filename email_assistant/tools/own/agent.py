"""The mail agent's acting tools as an MCP server, under their own names and with their own arguments.

Each call bears a key in its `_meta`. One key is one mail, or one meeting, whatever dies and however often the call is
made; a call of its own accord can't be told from a repeat, so one without a key is refused.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from importlib.metadata import version
from typing import Any, Final

from mcp import types
from mcp.server.lowlevel import Server

from email_assistant.google.errors import Ambiguous, NotFound, Refused
from email_assistant.mail.parse import parse_gmail
from email_assistant.outgoing.entry import EffectMismatch, InDoubt, NotYetClear
from email_assistant.outgoing.keyed import KeyedOutbox
from email_assistant.outgoing.letters import Letter
from email_assistant.settings.values import WorkingHours
from email_assistant.tools import check_calendar, events, sending
from email_assistant.tools.check_calendar import CheckCalendar, told_days
from email_assistant.tools.events import ScheduleMeeting, event_id_of, insert, scheduled
from email_assistant.tools.mcp.words import EXTERNAL_ID, INVITATION, KEY, SENDER
from email_assistant.tools.own.mail import replied
from email_assistant.tools.own.mailbox import Mailbox, TryAgain, Visit
from email_assistant.tools.own.server import Admits, OwnCall, admit_all, answered, refusal
from email_assistant.tools.sending import SendEmail, sent_to
from email_assistant.tools.spec import ToolError, ToolSpec, shown_whole

log = logging.getLogger(__name__)

INSTRUCTIONS: Final = (
    "The tools that the mail agent acts with, for the agent itself: they do what they are asked at once, so whoever "
    "calls them has asked the person. Each call needs a key of its own in _meta."
)

Meta = Mapping[str, Any]
Done = tuple[str, str | None]  # what the model is told, and Google's id of what was made


class AgentTools:
    """`meet`: whether meetings have a Google Meet link."""

    def __init__(self, mailbox: Mailbox, outbox: KeyedOutbox, hours: WorkingHours, *, meet: bool) -> None:
        self._mailbox = mailbox
        self._outbox = outbox
        self._hours = hours
        self._meet = meet

    async def check_calendar(self, arguments: dict[str, Any], meta: Meta) -> Done:
        given = CheckCalendar.model_validate(check_calendar.SPEC.parse(arguments).model_dump())
        invitation = meta.get(INVITATION)
        async with self._mailbox.visit("read") as visit:
            calendar = visit.google.calendar
            return await told_days(calendar, given.dates, visit.zone, self._hours, invitation), None

    async def schedule_meeting(self, arguments: dict[str, Any], meta: Meta) -> Done:
        given = ScheduleMeeting.model_validate(events.SPEC.parse(arguments).model_dump())
        event_id = event_id_of(_key(meta))
        async with self._mailbox.visit("write") as visit:
            try:
                event = await insert(visit.google.calendar, event_id, given, visit.zone, meet=self._meet)
            except Ambiguous:
                raise TryAgain("it is not clear whether the meeting was made") from None
            except Refused as refusal:
                raise ToolError(f"Google Calendar refused: {refusal}") from None
            return scheduled(given, visit.zone, event), event_id

    async def send_email(self, arguments: dict[str, Any], meta: Meta) -> Done:
        given = SendEmail.model_validate(sending.REPLY_SPEC.parse(arguments).model_dump())
        key = _key(meta)
        if not given.email_id:
            raise ToolError("email_id: name the mail that this answers")
        if not given.email_address:
            raise ToolError("email_address: name an address")

        async with self._mailbox.visit("write") as visit:

            async def write() -> Letter:
                return await _reply(visit, given, meta.get(SENDER))

            try:
                posted = await self._outbox.send(visit.google.gmail, visit.account, "program", key, arguments, write)
            except NotFound:
                raise ToolError("The conversation is no longer in the mailbox.") from None
            except Refused as refusal:
                raise ToolError(f"Gmail refused to send: {refusal}") from None
            except EffectMismatch:
                raise ToolError("its key stands for another mail") from None
            except (NotYetClear, InDoubt):
                raise TryAgain("the mail's draft is gone, and it is not in Sent, or not yet") from None
            return sent_to([given.email_address, *given.additional_recipients]), posted.message_id


async def _reply(visit: Visit, given: SendEmail, sender: object) -> Letter:
    """`sender`: the address that the person saw it go from, if they saw it; else the mail says it."""
    message = await visit.google.gmail.message(str(given.email_id))
    to, seen = [str(given.email_address)], sender if isinstance(sender, str) else None
    mail = await asyncio.to_thread(parse_gmail, message.payload)
    return await replied(visit, mail, message.thread_id, to, given.additional_recipients, given.response_text, seen)


def create_agent_server(
    mailbox: Mailbox, outbox: KeyedOutbox, hours: WorkingHours, admits: Admits = admit_all, *, meet: bool
) -> Server[Any, Any]:
    """The MCP server of one account's mail agent. `hours`: when free time may be offered; `meet`: whether meetings have
    a Google Meet link."""
    tools = AgentTools(mailbox, outbox, hours, meet=meet)
    offered: dict[str, tuple[ToolSpec, Callable[[dict[str, Any], Meta], Awaitable[Done]]]] = {
        spec.name: (spec, run)
        for spec, run in (
            (check_calendar.SPEC, tools.check_calendar),
            (events.SPEC, tools.schedule_meeting),
            (sending.REPLY_SPEC, tools.send_email),
        )
    }
    server: Server[Any, Any] = Server("email-assistant-agent", version("email-assistant"), INSTRUCTIONS)

    async def list_tools() -> list[types.Tool]:
        return [_told(spec) for spec, _ in offered.values()]

    async def call_tool(name: str, arguments: dict[str, Any]) -> types.CallToolResult:
        if name not in offered:
            return refusal(f"there is no such tool; there are: {', '.join(offered)}")
        meta = server.request_context.meta

        async def run() -> types.CallToolResult:
            call = OwnCall(name, name, "reads" if name == check_calendar.SPEC.name else "changes", arguments)
            told = (meta.model_extra or {}) if meta else {}
            text, made = await admits(call, lambda: offered[name][1](shown_whole(arguments), told))
            content = types.TextContent(type="text", text=text)
            return types.CallToolResult(content=[content], _meta={EXTERNAL_ID: made} if made else None)

        return await answered(name, run)

    server.list_tools()(list_tools)  # type: ignore[no-untyped-call]
    # The tools check their arguments themselves: the library's refusals quote the whole schema's wording.
    server.call_tool(validate_input=False)(call_tool)
    return server


def _told(spec: ToolSpec) -> types.Tool:
    writes = spec.name != check_calendar.SPEC.name
    return types.Tool(
        name=spec.name,
        description=spec.description,
        inputSchema={"type": "object", **spec.parameters, "additionalProperties": False},
        annotations=types.ToolAnnotations(
            readOnlyHint=not writes, destructiveHint=writes, idempotentHint=True, openWorldHint=True
        ),
    )


def _key(meta: Meta) -> str:
    key = meta.get(KEY)
    if not isinstance(key, str) or not 8 <= len(key) <= 200:
        raise ToolError(f"_meta: give each call of your own a {KEY} of 8 to 200 characters")
    return key
