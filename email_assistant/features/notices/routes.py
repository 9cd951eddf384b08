"""A browser asks to be told of what waits, or no longer; and what the page Accounts shows of that."""

from contextlib import suppress
from pathlib import Path
from typing import Annotated
from uuid import UUID

from fastapi import Depends, Form, Query
from fastapi.responses import FileResponse, RedirectResponse, Response
from markupsafe import Markup
from pydantic import BaseModel, Field

from email_assistant.app import App
from email_assistant.features.notices.channels import NoChannel
from email_assistant.features.notices.telling import Telling
from email_assistant.plugins import Site
from email_assistant.web.errors import documented
from email_assistant.web.rendering import render_part
from email_assistant.web.routers import Assistant, LoggedIn, for_pages, for_programs

_FOLDER = Path(__file__).parent
_MOST_LENGTH = 2_000

router = for_programs("push")
pages = for_pages()


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


def _told(app: Assistant) -> Telling:
    return Telling.of(app)


Told = Annotated[Telling, Depends(_told)]
Endpoint = Annotated[str | None, Query(max_length=_MOST_LENGTH, description="A subscription's endpoint.")]


@router.get("/api/push", responses=documented(401, 422))
async def show_key(app: Assistant, told: Told, endpoint: Endpoint = None) -> PushKey:
    """The key that a browser must know before it subscribes, and whether its subscription still stands."""
    is_told = endpoint is not None and await told.channels.is_told(app.user_id, endpoint)
    return PushKey(public_key=await told.notices.public_key(app.user_id), is_told=is_told)


@router.post("/api/push/subscribe", status_code=204, responses=documented(400, 401, 403, 413, 422))
async def subscribe(app: Assistant, told: Told, session: LoggedIn, given: Subscription) -> None:
    """Tell this browser of what comes from now on; the same address again takes the place of the old subscription.

    Who subscribes by a page is told until that browser is logged out."""
    session_id = session.id if session else None
    await told.notices.add_browser(app.user_id, given.endpoint, given.keys.p256dh, given.keys.auth, session_id)


@router.post("/api/push/unsubscribe", status_code=204, responses=documented(400, 401, 403, 413, 422))
async def unsubscribe(app: Assistant, told: Told, given: PushAddress) -> None:
    """Tell this browser no more. An address that is not known is no error."""
    await told.channels.remove_address(app.user_id, given.endpoint)


@router.get("/service-worker.js", include_in_schema=False)
async def worker() -> FileResponse:
    """At the top, since a worker serves the pages below its own path only."""
    return FileResponse(_FOLDER / "service-worker.js", media_type="text/javascript")


@router.get("/notices.js", include_in_schema=False)
async def script() -> FileResponse:
    """That of the button."""
    return FileResponse(_FOLDER / "button.js", media_type="text/javascript")


@pages.post("/accounts/channels")
async def remove_channel(app: Assistant, told: Told, channel: Annotated[UUID, Form()]) -> Response:
    """Tell a browser or a webhook no more."""
    with suppress(NoChannel):  # it is gone already
        await told.channels.remove(app.user_id, channel)
    return RedirectResponse("/accounts#told", 303)


def site() -> Site:
    return Site(routers=(router, pages), examples=_FOLDER / "examples.yaml", on_accounts=_section)


async def _section(app: App) -> Markup:
    """The part of the page Accounts: where the person is told of what waits."""
    told = Telling.of(app)
    return render_part(
        _FOLDER / "section.html",
        channels=await told.channels.of_user(app.user_id),
        digest_errors=await told.digests.last_errors(app.user_id),
    )
