"""`/agent/*`: where other people's agents ask before they call a tool; the public `open_edison` client speaks it."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Annotated, Literal
from uuid import uuid4

from fastapi import Depends, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.sse import EventSourceResponse, ServerSentEvent
from pydantic import BaseModel, Field

from email_assistant.app import App
from email_assistant.cli.context import tell
from email_assistant.features.gate_server import pages
from email_assistant.features.gate_server.agent_calls import WAIT_SECONDS, AgentCalls, Begun
from email_assistant.features.gate_server.sessions_db import sessions_db
from email_assistant.home import agent_key
from email_assistant.plugins import Site
from email_assistant.settings import Settings
from email_assistant.web.errors import documented
from email_assistant.web.routers import Assistant, for_programs

_log = logging.getLogger(__name__)
_WAITS = '{"type": "mcp_pre_block", "session_id": "trip", "kind": "tool", "name": "agent_send", "call_id": "3f0c"}'
_EXAMPLE = f"data: {_WAITS}\n\n"
_LOOK_SECONDS = 15.0
_LONGEST_NAME = 500

Name = Annotated[str, Field(min_length=1, max_length=_LONGEST_NAME, pattern=r"^[^\x00]*$")]
Told = Annotated[str, Field(max_length=1_000_000)]
"""`open_edison` cuts what it tells at so many characters."""

router = for_programs("gate")


def site() -> Site:
    return Site(
        routers=(router, pages.router),
        examples=Path(__file__).with_name("examples.yaml"),
        paths=("/agent/", "/mcp/status", "/sessions.db", "/events"),
        key=_key,
        key_paths=("/agent/", "/mcp/status"),
        long_paths=("/agent/begin", "/agent/end"),
        serving=_serving,
        at_foot=("/agents", "What your agents asked"),
    )


def _key(settings: Settings) -> str | None:
    try:
        return agent_key(settings)
    except OSError as error:  # the home can't be written to
        tell(f"Agents have no key of their own ({error.strerror}): set EMAIL_ASSISTANT_AGENT_KEY, if any ask the gate")
        return None


@asynccontextmanager
async def _serving(app: App) -> AsyncIterator[None]:
    agent_calls = app.part(AgentCalls)
    keeping = asyncio.create_task(agent_calls.keep())
    try:
        yield
    finally:
        keeping.cancel()
        await agent_calls.aclose()


async def _asked(app: Assistant) -> AgentCalls:
    return app.part(AgentCalls)


Asked = Annotated[AgentCalls, Depends(_asked)]


class SessionIn(BaseModel):
    session_id: Name | None = None
    request: str | None = Field(None, description="The person's own words, by which calls are judged.")


class BeginIn(BaseModel):
    session_id: Name | None = None
    name: Name
    args_summary: Told | None = Field(None, description="The arguments as JSON; anything else can't be read, and asks.")
    timeout_s: float | None = Field(None, gt=0, allow_inf_nan=False, description="Seconds that the caller waits.")
    agent_name: Name | None = None
    agent_type: Name | None = None


class EndIn(BaseModel):
    session_id: Name
    call_id: Name
    status: Literal["ok", "error", "blocked"]
    duration_ms: float | None = Field(None, ge=0, allow_inf_nan=False)
    result_summary: Told | None = Field(None, description="The text that the call returned.")


class DecisionIn(BaseModel):
    session_id: Name
    kind: Name = "tool"
    name: str = ""
    command: Literal["approve", "deny"]
    call_id: Name | None = Field(None, description="The one call that is meant; else the oldest of that name.")


class SessionOut(BaseModel):
    ok: bool
    session_id: str


class BegunOut(BaseModel):
    ok: bool
    session_id: str
    call_id: str | None
    approved: bool | None
    error: str | None


class EndOut(BaseModel):
    ok: bool


class GateStatusOut(BaseModel):
    servers: list[str] = Field(description="MCP servers behind it: none.")


class DecidedOut(BaseModel):
    ok: bool
    call_id: str


@router.post("/agent/session", responses=documented(400, 401, 403, 413, 422))
async def begin_session(gate: Asked, given: SessionIn) -> SessionOut:
    """There is such a session from now on; a repeat changes nothing."""
    session = given.session_id or str(uuid4())
    await gate.enter(session, given.request)
    return SessionOut(ok=True, session_id=session)


@router.post("/agent/begin", responses=documented(400, 401, 403, 413, 422))
async def begin_call(gate: Asked, given: BeginIn, request: Request) -> BegunOut:
    """Whether a call may be made now. Where a person must say so, the answer comes when they have, or just before
    `timeout_s` (30 seconds, if it is left out) is over. Only `ok: true` with `approved: true` lets it be made."""
    session = given.session_id or str(uuid4())
    begun = Begun(
        session, given.name, given.args_summary, given.timeout_s or WAIT_SECONDS, given.agent_name, given.agent_type
    )
    try:
        found = await gate.begin(begun, partial(_left, request))
    except Exception:
        _log.exception("a call was neither allowed nor held")
        error = "the gate has failed; its log says more"
        return BegunOut(ok=False, session_id=session, call_id=None, approved=None, error=error)
    return BegunOut(ok=True, session_id=session, call_id=found.call_id, approved=found.approved, error=found.error)


@router.post("/agent/end", responses=documented(400, 401, 403, 404, 413, 422))
async def end_call(gate: Asked, given: EndIn) -> EndOut:
    """How a call ended, and what it returned. The first report counts."""
    await gate.end(given.session_id, given.call_id, given.status, given.duration_ms, given.result_summary)
    return EndOut(ok=True)


@router.post("/api/approve_or_deny", responses=documented(400, 401, 403, 404, 409, 413, 422))
async def approve_or_deny(gate: Asked, given: DecisionIn) -> DecidedOut:
    """Answer one call that waits, once. The inbox answers it as well; whoever comes second is told so."""
    approve = given.command == "approve"
    call_id = await gate.decide(given.session_id, given.name, given.call_id, approve=approve, by="api")
    return DecidedOut(ok=True, call_id=call_id)


@router.get("/mcp/status", responses=documented(401))
async def status() -> GateStatusOut:
    """That the gate is there, and that the key is right."""
    return GateStatusOut(servers=[])


@router.get(
    "/sessions.db",
    response_class=Response,
    responses={200: {"content": {"application/vnd.sqlite3": {}}}, **documented(401)},
)
async def database(gate: Asked) -> Response:
    """All sessions and their calls as they are now, as a SQLite file; made for each request."""
    content = await run_in_threadpool(sessions_db, *await gate.told())
    return Response(content, media_type="application/vnd.sqlite3")


@router.get(
    "/events",
    response_class=EventSourceResponse,
    responses={200: {"content": {"text/event-stream": {"example": _EXAMPLE}}}, **documented(401)},
)
async def events(gate: Asked) -> AsyncIterator[ServerSentEvent]:
    """`mcp_pre_block`: a call waits for a person; `mcp_approve_or_deny_once`: no more; `sessions_db_changed`."""
    with gate.events() as queue:
        yield ServerSentEvent(comment="connected")
        while gate.is_open:
            try:
                async with asyncio.timeout(_LOOK_SECONDS):
                    what, told = await queue.get()
            except TimeoutError:
                continue
            yield ServerSentEvent(data={"type": what, **told})


async def _left(request: Request) -> None:
    """Until the client has gone."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
