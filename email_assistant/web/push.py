"""`/api/push`: a browser asks to be told of what waits, or no longer."""

from pathlib import Path
from typing import Annotated

from fastapi import Query
from fastapi.responses import FileResponse
from pydantic import BaseModel, Field

from email_assistant.web.dependencies import Assistant, LoggedIn
from email_assistant.web.errors import documented
from email_assistant.web.routers import for_programs

_WORKER = Path(__file__).parent / "static" / "service-worker.js"
_MOST_LENGTH = 2_000

router = for_programs("push")


class PushKey(BaseModel):
    """What a browser subscribes with."""

    public_key: str = Field(description="The `applicationServerKey`, in url-safe base64.")
    is_told: bool = Field(description="Whether the `endpoint` that was asked about is told of what waits.")


class SubscriptionKeys(BaseModel):
    p256dh: str = Field(max_length=_MOST_LENGTH, description="The browser's public key, in url-safe base64.")
    auth: str = Field(max_length=_MOST_LENGTH, description="The browser's secret, in url-safe base64.")


class PushAddress(BaseModel):
    endpoint: str = Field(max_length=_MOST_LENGTH, description="Where the push service takes messages for the browser.")


class Subscription(PushAddress):
    """A browser's subscription, as `PushSubscription.toJSON()` gives it."""

    keys: SubscriptionKeys


Endpoint = Annotated[str | None, Query(max_length=_MOST_LENGTH, description="A subscription's endpoint.")]


@router.get("/api/push", responses=documented(401, 422))
async def show_key(app: Assistant, endpoint: Endpoint = None) -> PushKey:
    """The key that a browser must know before it subscribes, and whether its subscription still stands."""
    is_told = endpoint is not None and await app.channels.is_told(app.user_id, endpoint)
    return PushKey(public_key=await app.notices.public_key(app.user_id), is_told=is_told)


@router.post("/api/push/subscribe", status_code=204, responses=documented(400, 401, 403, 413, 422))
async def subscribe(app: Assistant, session: LoggedIn, given: Subscription) -> None:
    """Tell this browser of what comes from now on; the same address again takes the place of the old subscription.

    Who subscribes by a page is told until that browser is logged out."""
    session_id = session.id if session else None
    await app.notices.add_browser(app.user_id, given.endpoint, given.keys.p256dh, given.keys.auth, session_id)


@router.post("/api/push/unsubscribe", status_code=204, responses=documented(400, 401, 403, 413, 422))
async def unsubscribe(app: Assistant, given: PushAddress) -> None:
    """Tell this browser no more. An address that is not known is no error."""
    await app.channels.remove_address(app.user_id, given.endpoint)


@router.get("/service-worker.js", include_in_schema=False)
async def worker() -> FileResponse:
    """At the top, since a worker serves the pages below its own path only."""
    return FileResponse(_WORKER, media_type="text/javascript")
