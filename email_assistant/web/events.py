"""`/api/events`: tells an open page, as it happens, that something changed."""

from collections.abc import AsyncIterator

import psycopg
from anyio import CancelScope
from fastapi.sse import EventSourceResponse, ServerSentEvent

from email_assistant.web.errors import documented
from email_assistant.web.routers import Assistant, LoggedIn, for_programs

_LOOK_SECONDS = 15.0  # how often it is looked whether the browser is still logged in, if nothing happens
_RECONNECT_MS = 1000


router = for_programs("events", "/api")

_CHANGED = '{"items": [{"id": "…", "kind": "draft", "status": "pending"}], "mails": [], "accounts": [], "chats": []}'
_EXAMPLE = f"event: change\ndata: {_CHANGED}\n\n"


@router.get(
    "/events",
    response_class=EventSourceResponse,
    responses={
        200: {"description": "Server-sent events.", "content": {"text/event-stream": {"example": _EXAMPLE}}},
        **documented(401),
    },
)
async def events(app: Assistant, session: LoggedIn) -> AsyncIterator[ServerSentEvent]:
    """A stream of server-sent events, as soon as something changes for this user, whoever changed it.

    - `reload`: look at everything anew. It comes first, and whenever changes may have been missed or were many.
    - `change`: `{"items": [{id, kind, status}], "mails": [{id, state}], "accounts": [{id}], "chats": [{id,
      state}]}`: these were made or changed (of a chat: its last turn); what they and the counts are now is to be asked
      for.

    A comment every 15 seconds shows that the stream lives. It ends with the session of the browser that asked for it.
    After a reconnection the first `reload` makes up for what was missed, so `Last-Event-ID` is not needed, and is
    ignored."""

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

    with app.feed.listener(app.user_id) as listener:
        yield ServerSentEvent(retry=_RECONNECT_MS)
        await app.feed.listening()
        listener.reload()
        while app.feed.is_open:
            event = await listener.next(_LOOK_SECONDS)
            if not await may_hear():
                return
            if event is not None:
                yield ServerSentEvent(event=event[0], data=event[1])
