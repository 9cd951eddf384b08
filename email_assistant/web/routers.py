"""Where a file's routes are put, by whom they are for.

`include_router` would make every route a second time, in each process that serves: half a second. So each router says
itself what goes for all of its kind, and the application takes the routes as they are."""

from collections.abc import Iterable
from typing import Any

import psycopg
from fastapi import APIRouter, Depends
from fastapi.security import APIKeyHeader, HTTPBearer
from starlette.routing import BaseRoute

from email_assistant.accounts.account import stopped
from email_assistant.web.dependencies import Assistant
from email_assistant.web.errors import AsciiJSON, documented
from email_assistant.web.rendering import say_at_head, say_stand_ins, say_stopped


async def say_how_it_stands(app: Assistant) -> None:
    """Have the page say at its head what is not the real thing, and if everything is stopped, nothing works on the
    mail, or a model's server refuses."""
    say_stand_ins(app.settings.stand_ins)
    try:
        absence = await app.presence.absence()
        since = await app.accounts.stopped_since(app.user_id)
        refusing = await app.model_servers.standing(app.settings.model_server)
        own = await app.accounts.of_user(app.user_id) if absence or since or refusing else []
    except psycopg.Error:  # the page itself says what is wrong
        return
    zone = own[0].zone if own else None
    say_stopped(stopped(since, zone) if since else None)
    if absence:
        say_at_head(
            f"{absence.of_mail(zone)} What you answer is kept until then; an agent that asks is answered at once."
        )
    elif refusing:
        say_at_head(" ".join(each.sentence(zone) for each in refusing))


# The guard has looked at the token by then; these say in the OpenAPI document how to send it.
_CREDENTIALS = [Depends(HTTPBearer(auto_error=False)), Depends(APIKeyHeader(name="x-api-key", auto_error=False))]


def for_programs(tag: str, prefix: str = "") -> APIRouter:
    """For whoever has the token."""
    return _router(prefix=prefix, tags=[tag], dependencies=_CREDENTIALS, responses=documented(401, 503))


def for_anybody(tag: str) -> APIRouter:
    """For who has no token, too."""
    return _router(tags=[tag])


def undocumented() -> APIRouter:
    """For who reads no OpenAPI document, and gets no page with our head."""
    return _router(include_in_schema=False)


def for_pages(prefix: str = "") -> APIRouter:
    """For browsers."""
    return _router(prefix=prefix, include_in_schema=False, dependencies=[Depends(say_how_it_stands)])


def routes_of(routers: Iterable[APIRouter]) -> list[BaseRoute]:
    """What a `FastAPI` is given; of two that answer to the same path, the first does."""
    return [route for router in routers for route in router.routes]


def _router(**settings: Any) -> APIRouter:
    return APIRouter(default_response_class=AsciiJSON, **settings)
