"""Where a file's routes are put, by whom they are for.

`include_router` would make every route a second time, in each process that serves: half a second. So each router says
itself what goes for all of its kind, and the application takes the routes as they are.
"""

from collections.abc import Iterable
from typing import Any

from fastapi import APIRouter, Depends
from fastapi.security import APIKeyHeader, HTTPBearer
from starlette.routing import BaseRoute

from email_assistant.web.errors import AsciiJSON, documented
from email_assistant.web.head import say_how_it_stands

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
