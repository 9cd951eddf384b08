"""What routes are handed, where a file's routes are put, by whom they are for, and the OpenAPI document of them.

`include_router` would make every route a second time, in each process that serves: half a second. So each router says
itself what goes for all of its kind, and the application takes the routes as they are.
"""

from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Annotated, Any, cast
from uuid import UUID

import psycopg
import yaml
from fastapi import APIRouter, Depends, FastAPI, Request
from fastapi.security import APIKeyHeader, HTTPBearer
from pydantic import BeforeValidator
from starlette.routing import BaseRoute

from email_assistant.accounts.account import stopped
from email_assistant.accounts.sessions import Session
from email_assistant.app import App
from email_assistant.inbox.items import NoItem
from email_assistant.metrics.gauges import Gauges
from email_assistant.plugins import sites
from email_assistant.trail.activity import Activity
from email_assistant.trail.context import Contexts
from email_assistant.trail.story import Trail
from email_assistant.web.errors import AsciiJSON, documented
from email_assistant.web.rendering import say_at_head, say_stand_ins, say_stopped

BlankAsNone = BeforeValidator(lambda value: value or None)
"""For a query parameter: a filter that a form left empty is no filter."""
# The guard has looked at the token by then; these say in the OpenAPI document how to send it.
_CREDENTIALS = [Depends(HTTPBearer(auto_error=False)), Depends(APIKeyHeader(name="x-api-key", auto_error=False))]
_EXAMPLES = Path(__file__).with_name("examples.yaml")  # of the spine; features have their own


def served(name: str) -> Any:
    """What the server keeps in its state under this name, as a dependency. It is async, since FastAPI hands what is not
    to a thread."""

    async def found(request: Request) -> Any:
        return getattr(request.app.state, name)

    return Depends(found)


def _session(request: Request) -> Session | None:
    return cast("Session | None", getattr(request.state, "session", None))


def _item_id(item_id: str) -> UUID:
    """Raises NoItem for what can't be an id at all."""
    try:
        return UUID(item_id)
    except ValueError:
        raise NoItem(f"there is no item {item_id}") from None


Assistant = Annotated[App, served("assistant")]
ToldActivity = Annotated[Activity, served("activity")]
ToldGauges = Annotated[Gauges, served("gauges")]
ToldContexts = Annotated[Contexts, served("contexts")]
ToldTrail = Annotated[Trail, served("trail")]
LoggedIn = Annotated[Session | None, Depends(_session)]
"""The session that let the request in; None if it came with the token, or none is asked for."""
ItemId = Annotated[UUID, Depends(_item_id)]


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


@cache
def examples() -> dict[str, Any]:
    """What requests and answers look like, by the name of their model."""
    # Ours, so it may repeat parts of itself by aliases.
    files = [_EXAMPLES, *(each.examples for each in sites() if each.examples)]
    return {name: example for file in files for name, example in yaml.safe_load(file.read_text()).items()}


class DocumentedAPI(FastAPI):
    def openapi(self) -> dict[str, Any]:
        """Examples are added here, since FastAPI drops every null from those that stand in a model."""
        document = super().openapi()
        for name, example in examples().items():
            document["components"]["schemas"][name]["examples"] = [example]
        return document
