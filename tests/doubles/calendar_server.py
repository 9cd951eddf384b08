"""Somebody else's calendar as an MCP server over streamable HTTP, with tools of its own, which a test can make fail."""

import asyncio
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

from mcp import types
from mcp.server.lowlevel import Server as Protocol
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.exceptions import UrlElicitationRequiredError
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from tests.doubles.serving import Hold, Server

PATH = "/mcp"

_TEXT = {"type": "string"}
_EVENT: Mapping[str, Mapping[str, Any]] = {
    "calendar_id": _TEXT,
    "start": {**_TEXT, "description": "Such as 2026-01-16T10:00:00"},
    "name": _TEXT,
    "duration_minutes": {"type": "integer"},
}
_LETTER: Mapping[str, Mapping[str, Any]] = {"response_text": _TEXT, "email_address": _TEXT, "email_id": _TEXT}
_TOOLS: Mapping[str, tuple[str, Mapping[str, Mapping[str, Any]], tuple[str, ...]]] = {
    "list_calendars": ("The calendars", {}, ()),
    "list_events": ("The events of a time", {"start": _TEXT, "end": _TEXT}, ()),
    "create_event": ("Add an event", {**_EVENT, "details": {"type": "object"}}, tuple(_EVENT)),
    "update_event": ("Change an event", {"event_id": _TEXT, **_EVENT}, ("event_id",)),
    "send_email_tool": ("Send a letter", _LETTER, tuple(_LETTER)),
    "clear_calendar": ("Delete all events", {}, ()),
}
"""Name → description, properties, which of them are required. The last is in no mapping."""

OFFERED = ("list_calendars", "list_events", "create_event", "update_event")


@dataclass(frozen=True)
class ToolUse:
    """A call as it came in."""

    name: str
    args: Mapping[str, Any]


@dataclass
class ToolFault:
    """What is to go wrong in the next `times` calls of a tool.

    A call is refused with `error`, or sent to the person with `url`, or asks for a form; or it waits at the hold,
    either before anything is done or after.
    """

    tool: str
    times: int = 1
    error: str | None = None
    url: str | None = None
    form: Mapping[str, Any] | None = None
    """The JSON schema of what the person is asked for."""
    then: Mapping[str, Any] | None = None
    """Of a second form, once the first is filled in."""
    progress: str | None = None
    """What it says of its work before it does it."""
    hold: Hold | None = None
    at: Literal["before", "after"] = "before"


@dataclass
class CalendarServer:
    """The server. `calls` are all that reached it; `events` what stands in the calendar, by id."""

    calls: list[ToolUse] = field(default_factory=list)
    events: dict[str, dict[str, Any]] = field(default_factory=dict)
    answers: list[types.ElicitResult] = field(default_factory=list)
    """What came back for the forms that it asked for."""
    greets: bool = True
    """Whether it answers at all; else a client waits for ever at its first words."""
    _faults: list[ToolFault] = field(default_factory=list)
    _running: Server | None = None

    def __post_init__(self) -> None:
        # Bound and never listening: while the server is down, nobody else gets the port, and clients are refused.
        self._place = socket.socket()
        self._place.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._place.bind(("127.0.0.1", 0))

    @property
    def url(self) -> str:
        """What goes into ASSISTANT_MCP_URL."""
        return f"http://127.0.0.1:{self._place.getsockname()[1]}{PATH}"

    def __enter__(self) -> "CalendarServer":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self._place.close()

    # What a test does

    def start(self) -> None:
        self._running = Server(self._app(), port=self._place.getsockname()[1], lifespan="on")
        self._running.start()

    def stop(self) -> None:
        """Die: what is under way goes no further, and who comes is refused."""
        self.forget()
        if self._running:
            self._running.stop()
        self._running = None

    def fault(self, tool: str, **what: Any) -> None:
        """See `ToolFault`."""
        self._faults.append(ToolFault(tool, **what))

    def forget(self) -> None:
        """Let nothing go wrong any more; what waits at a hold goes no further."""
        for fault in self._faults:
            if fault.hold:
                fault.hold.abandon()
        self._faults.clear()
        self.greets = True

    def used(self, name: str) -> list[Mapping[str, Any]]:
        """The arguments of every call of one tool."""
        return [call.args for call in self.calls if call.name == name]

    @property
    def names(self) -> list[str]:
        """The names of the events, in the order in which they were made."""
        return [event["name"] for event in self.events.values()]

    # The server

    def _app(self) -> Starlette:
        server: Protocol[Any, Any] = Protocol("calendar-of-the-test", "1")

        async def list_tools() -> list[types.Tool]:
            return [_told(name) for name in _TOOLS]

        async def call_tool(name: str, args: dict[str, Any]) -> types.CallToolResult:
            return await self._call(server, name, args)

        server.list_tools()(list_tools)  # type: ignore[no-untyped-call]
        server.call_tool()(call_tool)
        manager = StreamableHTTPSessionManager(server)

        @asynccontextmanager
        async def lifespan(_: Starlette) -> AsyncIterator[None]:
            async with manager.run():
                yield

        return Starlette(routes=[Route(PATH, endpoint=_Endpoint(self, manager))], lifespan=lifespan)

    async def _call(self, server: "Protocol[Any, Any]", name: str, args: dict[str, Any]) -> types.CallToolResult:
        self.calls.append(ToolUse(name, args))
        fault = self._take_fault(name)
        if fault and fault.error:
            return types.CallToolResult(content=[_words(fault.error)], isError=True)
        if fault and fault.url:
            raise UrlElicitationRequiredError([_elicitation(fault.url)])
        for form in filter(None, (fault.form, fault.then) if fault else ()):
            if not await self._filled_in(server, form):
                return types.CallToolResult(content=[_words("The form was not filled in.")], isError=True)
        if fault and fault.progress:
            await _say(server, fault.progress)
        if fault and fault.at == "before":
            await _pass(fault, name)
        done = self._do(name, args)
        if fault and fault.at == "after":
            await _pass(fault, name)
        return types.CallToolResult(content=[_words(done)])

    async def _filled_in(self, server: "Protocol[Any, Any]", form: Mapping[str, Any]) -> bool:
        context = server.request_context
        answer = await context.session.elicit_form("Which calendar is it?", dict(form), context.request_id)
        self.answers.append(answer)
        return answer.action == "accept"

    def _do(self, name: str, args: Mapping[str, Any]) -> str:
        match name:
            case "list_calendars":
                return "primary, work"
            case "create_event":
                event_id = f"event-{len(self.events) + 1}"
                self.events[event_id] = dict(args)
                return f"{event_id} is made: {args['name']}"
            case "update_event":
                changes = {key: value for key, value in args.items() if key != "event_id"}
                self.events.setdefault(args["event_id"], {"name": "unnamed"}).update(changes)
                return f"{args['event_id']} is changed"
            case "send_email_tool":
                return "handed in"
            case "clear_calendar":
                self.events.clear()
                return "all are deleted"
            case _:
                return "; ".join(f"{event_id}: {e['name']}" for event_id, e in self.events.items()) or "no events"

    def _take_fault(self, tool: str) -> ToolFault | None:
        for fault in self._faults:
            if fault.tool == tool and fault.times > 0:
                fault.times -= 1
                return fault
        return None


class _Endpoint:
    """The protocol, unless the server is to keep silent."""

    def __init__(self, calendar: CalendarServer, manager: StreamableHTTPSessionManager) -> None:
        self._calendar = calendar
        self._manager = manager

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] == "GET":  # which would open a stream for what belongs to no call; there is nothing of that
            await Response(status_code=405)(scope, receive, send)
        elif self._calendar.greets:
            await self._manager.handle_request(scope, receive, send)
        else:
            while (await receive())["type"] != "http.disconnect":
                pass


async def _say(server: "Protocol[Any, Any]", text: str) -> None:
    context = server.request_context
    assert context.meta
    assert context.meta.progressToken is not None
    await context.session.send_progress_notification(
        context.meta.progressToken, 1, 3, text, related_request_id=str(context.request_id)
    )


async def _pass(fault: ToolFault, name: str) -> None:
    """Wait at the hold. Who is not let through stays there, until its connection is closed."""
    if fault.hold and not await asyncio.to_thread(fault.hold.wait, name):
        await asyncio.Event().wait()


def _told(name: str) -> types.Tool:
    description, properties, required = _TOOLS[name]
    schema = {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}
    return types.Tool(name=name, description=description, inputSchema=schema)


def _words(text: str) -> types.TextContent:
    return types.TextContent(type="text", text=text)


def _elicitation(url: str) -> types.ElicitRequestURLParams:
    return types.ElicitRequestURLParams(message="Let us into your calendar.", url=url, elicitationId="consent-1")
