"""The calls of the public Agent Inbox app."""

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any
from uuid import UUID

from anyio import CancelScope
from fastapi import Depends, Request, Response
from fastapi.responses import StreamingResponse
from starlette.exceptions import HTTPException

from email_assistant.features.agent_inbox import wire
from email_assistant.features.agent_inbox.settings import AgentInboxSettings
from email_assistant.features.agent_inbox.threads import Thread, Threads
from email_assistant.inbox.items import Conflict, Invalid, Item
from email_assistant.plugins import Site
from email_assistant.web.errors import documented
from email_assistant.web.routers import Assistant, for_anybody, for_programs

_BY = "agent inbox"
_ANSWERS_WITHIN = timedelta(seconds=2)
"""How long a stream follows a run. What a run does, it does without anybody who watches."""
_LOOK_SECONDS = 0.1

_EXAMPLE = """event: events\r
data: {"event": "on_chain_start", "name": "interrupt_handler", "metadata": {"langgraph_node": "interrupt_handler"}}\r
\r
"""

router = for_programs("agent inbox")
info_router = for_anybody("agent inbox")


def site() -> Site:
    return Site(
        routers=(info_router, router),
        examples=Path(__file__).with_name("examples.yaml"),
        paths=("/info", "/threads/"),
        open_paths=("/info",),
        other_site=lambda settings: settings.of(AgentInboxSettings).agent_inbox_origin,
    )


def _threads(request: Request, app: Assistant) -> Threads:
    told_by = f"{request.client.host if request.client else ''} {request.headers.get('user-agent', '')}"
    return Threads(app.pool, app.inbox, app.user_id, hashlib.sha256(told_by.encode()).hexdigest())


def _thread_id(thread_id: str) -> UUID:
    try:
        return UUID(thread_id)
    except ValueError:
        raise _no_thread(thread_id) from None


Shown = Annotated[Threads, Depends(_threads)]
ThreadId = Annotated[UUID, Depends(_thread_id)]


@info_router.get("/info")
async def info() -> wire.Info:
    """What kind of server this is. It is open to everybody, and says nothing of anybody."""
    return wire.Info()


@router.post("/threads/search", responses=documented(400, 401, 403, 413, 422))
async def search(threads: Shown, wanted: wire.Search) -> list[wire.ThreadOut]:
    """Threads of a status, newest first; each with the oldest item that waits in it. Another graph has none."""
    if not wanted.is_for_us:
        return []
    return [wire.ThreadOut.of(thread) for thread in await threads.page(wanted.status, wanted.limit, wanted.offset)]


@router.get("/threads/{thread_id}", responses=documented(401, 404, 422))
async def show_thread(threads: Shown, thread_id: ThreadId) -> wire.ThreadOut:
    """One thread with the oldest item in it that waits."""
    return wire.ThreadOut.of(await _shown(threads, thread_id))


@router.get("/threads/{thread_id}/state", responses=documented(401, 404, 422))
async def show_state(threads: Shown, thread_id: ThreadId) -> wire.StateOut:
    """What a thread waits for, in the form of a graph's state."""
    return wire.StateOut.of(await _shown(threads, thread_id))


@router.post(
    "/threads/{thread_id}/runs/stream",
    response_class=StreamingResponse,
    responses={
        200: {"content": {"text/event-stream": {"example": _EXAMPLE}}},
        **documented(400, 401, 403, 404, 413, 422),
    },
)
async def answer_and_watch(app: Assistant, threads: Shown, thread_id: ThreadId, run: wire.RunIn) -> Response:
    """Answer what the thread was last shown to wait for, and watch what follows for a moment.

    An answer that can't be taken is an event `error`, whose reason the app shows. Its client would post after a 409
    again (`STATUS_IGNORE` in `@langchain/langgraph-sdk` 0.0.30), and say no more than that it failed."""
    await _check(threads, thread_id, run)
    try:
        item = await _answer(app, threads, thread_id, run.command.resume[0])
    except (Conflict, Invalid) as refusal:
        return _stream(_once(_error(type(refusal).__name__, str(refusal))), thread_id, None)
    return _stream(_progress(threads, item), thread_id, item)


@router.post("/threads/{thread_id}/runs", responses=documented(400, 401, 403, 404, 409, 413, 422))
async def answer(
    app: Assistant, threads: Shown, thread_id: ThreadId, run: wire.RunIn, response: Response
) -> wire.RunOut:
    """Answer what the thread was last shown to wait for. The repeat of an answer that was taken changes nothing, and
    another one is refused with 409."""
    await _check(threads, thread_id, run)
    item = await _answer(app, threads, thread_id, run.command.resume[0])
    response.headers["Content-Location"] = _location(item)
    return wire.RunOut.of(item, datetime.now(UTC))


@router.post("/threads/{thread_id}/state", responses=documented(400, 401, 403, 404, 409, 413, 422))
async def resolve(app: Assistant, threads: Shown, thread_id: ThreadId, wanted: wire.ResolveIn) -> wire.Resolved:
    """Ignore what the thread was last shown to wait for, and learn nothing from it."""
    await _existing(threads, thread_id)
    item = await threads.served(thread_id)
    await app.inbox.decide(app.user_id, item.id, {"type": "ignore", "args": None}, by=_BY, teaches=False)
    return wire.Resolved(checkpoint=wire.Checkpoint(thread_id=thread_id, checkpoint_id=str(item.id)))


async def _answer(app: Assistant, threads: Threads, thread_id: UUID, given: wire.HumanResponse) -> Item:
    """Take an answer for the item that it belongs to, and for no other. Raises Conflict, Invalid."""
    if given.type not in ("accept", "edit"):
        item = await threads.served(thread_id)
        return await app.inbox.decide(app.user_id, item.id, wire.decision(item, given), by=_BY)
    words = hashlib.sha256(json.dumps(given.model_dump(), sort_keys=True).encode()).hexdigest()
    known = await threads.approved(thread_id, words)
    if known and await _speaks_of_another(threads, thread_id, given, known):
        raise Conflict("already answered, and what waits now looks the same: answer that in the assistant's own inbox")
    item = known or await threads.approves(await _approved(threads, thread_id, given), words)
    taken = await app.inbox.decide(app.user_id, item.id, wire.decision(item, given), by=_BY)
    await threads.was_taken(thread_id, words)
    return taken


async def _approved(threads: Threads, thread_id: UUID, given: wire.HumanResponse) -> Item:
    """The item that was served, if it is what the answer speaks of. Raises Conflict, Invalid."""
    item, request = await threads.served(thread_id), given.args
    if request is None and given.type == "accept":
        return item
    if not isinstance(request, wire.ActionRequest):
        raise Invalid(f"{given.type} takes the action as {{action, args}}")
    if request.action != wire.shown_action(item).action or (
        given.type == "accept" and not wire.is_shown(item, request)
    ):
        raise Conflict("this is not the action that waits now; load the thread again")
    return item


async def _speaks_of_another(threads: Threads, thread_id: UUID, given: wire.HumanResponse, known: Item) -> bool:
    """Whether an answer that was given before would fit what was served since: nobody can tell what it is meant for."""
    try:
        item = await _approved(threads, thread_id, given)
    except (Conflict, Invalid):
        return False
    return item.id != known.id and item.status == "pending"


async def _progress(threads: Threads, item: Item) -> AsyncIterator[str]:
    """What the run does, until it rests or the time is over; the end of an undo window is not waited for."""
    yield _started(wire.node_of(item), item)
    until = datetime.now(UTC) + _ANSWERS_WITHIN
    acts = False
    while (item.undo_until or until) <= until:
        with CancelScope(shield=True):  # as for `web/events.py`
            thread = await threads.get(item.run_id)
        if thread and thread.state == "failed":
            yield _error("RunFailed", thread.reason or "it failed")
        if thread and thread.state == "acting" and not acts:
            acts = True
            yield _started("act", item)
        if thread is None or thread.status != "busy" or datetime.now(UTC) > until:
            return
        await asyncio.sleep(_LOOK_SECONDS)


async def _once(event: str) -> AsyncIterator[str]:
    yield event


async def _check(threads: Threads, thread_id: UUID, run: wire.RunIn) -> None:
    if run.assistant_id not in (wire.GRAPH_ID, str(wire.ASSISTANT_ID)):
        raise HTTPException(404, f"Invalid assistant ID: {run.assistant_id[:40]}")  # the app looks for these words
    await _existing(threads, thread_id)


async def _existing(threads: Threads, thread_id: UUID) -> None:
    if await threads.get(thread_id) is None:
        raise _no_thread(thread_id)


async def _shown(threads: Threads, thread_id: UUID) -> Thread:
    thread = await threads.show(thread_id)
    if thread is None:
        raise _no_thread(thread_id)
    return thread


def _no_thread(thread_id: object) -> HTTPException:
    return HTTPException(404, f"there is no thread {thread_id}")


def _stream(events: AsyncIterator[str], thread_id: UUID, item: Item | None) -> Response:
    # A proxy that holds events back would show them all at the end.
    headers = {"X-Accel-Buffering": "no"} | ({"Content-Location": _location(item)} if item else {})
    return StreamingResponse(events, headers=headers, media_type="text/event-stream")


def _location(item: Item) -> str:
    return f"/threads/{item.run_id}/runs/{item.id}"


def _started(node: str, item: Item) -> str:
    about = {"langgraph_node": node, "thread_id": str(item.run_id)}
    started = {"event": "on_chain_start", "name": node, "run_id": str(item.id), "tags": [], "metadata": about}
    return _event("events", {**started, "data": {}, "parent_ids": []})


def _error(kind: str, message: str) -> str:
    return _event("error", {"error": kind, "message": message})


def _event(name: str, data: dict[str, Any]) -> str:
    return f"event: {name}\r\ndata: {json.dumps(data)}\r\n\r\n"
