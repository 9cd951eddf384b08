"""`/api/events`: tells an open page, as it happens, that something changed."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Annotated, cast
from uuid import UUID

import psycopg
from anyio import CancelScope
from fastapi import APIRouter, Depends, Request
from fastapi.responses import StreamingResponse

from email_assistant.inbox.feed import Feed
from email_assistant.web.dependencies import Assistant, LoggedIn
from email_assistant.web.errors import documented

_BEAT_SECONDS = 15.0
_RECONNECT_MS = 1000


def _feed(request: Request) -> Feed:
    return cast("Feed", request.app.state.feed)


router = APIRouter(prefix="/api", tags=["events"])

_CHANGED = '{"items": [{"id": "…", "kind": "draft", "status": "pending"}], "mails": [], "accounts": [], "chats": []}'
_EXAMPLE = f"event: change\ndata: {_CHANGED}\n\n"


@router.get(
    "/events",
    response_class=StreamingResponse,
    responses={
        200: {"description": "Server-sent events.", "content": {"text/event-stream": {"example": _EXAMPLE}}},
        **documented(401),
    },
)
async def events(app: Assistant, session: LoggedIn, feed: Annotated[Feed, Depends(_feed)]) -> StreamingResponse:
    """A stream of server-sent events, as soon as something changes for this user, whoever changed it.

    - `reload`: look at everything anew. It comes first, and whenever changes may have been missed or were many.
    - `change`: `{"items": [{id, kind, status}], "mails": [{id, state}], "accounts": [{id}], "chats": [{id,
      state}]}`: these were made or changed (of a chat: its last turn); what they and the counts are now is to be asked
      for.

    A comment every 15 seconds shows that the stream lives. It ends with the session of the browser that asked for it.
    After a reconnection the first `reload` makes up for what was missed, so `Last-Event-ID` is not needed, and is
    ignored.
    """

    async def may_hear() -> bool:
        if session is None:
            return True
        try:
            # A browser that leaves has its stream cancelled again and again, which a query answers by closing its
            # connection (psycopg, `AsyncConnection.wait`).
            with CancelScope(shield=True):
                is_open = await app.sessions.is_open(session)
        except psycopg.Error:
            return False  # the browser asks again by itself
        return is_open

    return StreamingResponse(
        _stream(feed, app.user_id, may_hear), media_type="text/event-stream", headers={"X-Accel-Buffering": "no"}
    )


async def _stream(feed: Feed, user_id: UUID, may_hear: Callable[[], Awaitable[bool]]) -> AsyncIterator[str]:
    with feed.listener(user_id) as listener:
        yield f"retry: {_RECONNECT_MS}\n\n"
        await feed.listening()
        listener.reload()
        while feed.is_open:
            event = await listener.next(_BEAT_SECONDS)
            if not await may_hear():
                return
            yield ": still here\n\n" if event is None else f"event: {event[0]}\ndata: {json.dumps(event[1])}\n\n"
