"""How a refusal looks: problem details (RFC 9457) from the API, a page to a browser.."""

import json
import logging
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

import psycopg
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from email_assistant.db.pool import AWAY
from email_assistant.errors import AssistantError, in_plain_words
from email_assistant.plugins import sites
from email_assistant.web.rendering import render
from email_assistant.web.replies import refused
from email_assistant.web.wording import refused_as

_log = logging.getLogger(__name__)
_CHAT = ("/run", "/resume")  # paths that answer in a form of their own
_UNSTORABLE = (psycopg.DataError, UnicodeEncodeError)
"""What is raised for a text that Postgres does not take, such as one with a NUL character or half a surrogate pair."""


class Problem(BaseModel):
    """Problem details (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str


class AsciiJSON(JSONResponse):
    """JSON in ASCII: a model may leave half a surrogate pair in its arguments, which UTF-8 can't carry."""

    def render(self, content: Any) -> bytes:
        return json.dumps(content).encode("ascii")


def add_error_handlers(api: FastAPI) -> None:
    errors = (AssistantError, RequestValidationError, *_UNSTORABLE, *AWAY, HTTPException, Exception)
    for error in errors:
        api.add_exception_handler(error, refused_by)


def documented(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The refusals of a route, for the OpenAPI document."""
    content = {"application/problem+json": {"schema": Problem.model_json_schema()}}
    return {status: {"description": HTTPStatus(status).phrase, "content": content} for status in statuses}


def is_for_programs(path: str) -> bool:
    is_one = path in ("/openapi.json", "/metrics", "/google/push", *_CHAT)
    return path.startswith("/api/") or is_one or any(each.has(path) for each in sites())


def refusal(path: str, status: int, detail: str, headers: Mapping[str, str] | None = None) -> Response:
    """The answer to a request for `path` that is refused."""
    if path in _CHAT:
        return AsciiJSON(refused(status, None, detail)[1].model_dump(), status, headers)
    if is_for_programs(path):
        problem = Problem(type="about:blank", title=HTTPStatus(status).phrase, status=status, detail=detail)
        return AsciiJSON(problem.model_dump(), status, headers, media_type="application/problem+json")
    return render("error.html", status_code=status, headers=headers, title=refused_as(status), detail=detail)


async def refused_by(request: Request, error: Exception) -> Response:
    """The answer to a request that an error ended."""
    if isinstance(error, RequestValidationError) and request.url.path in _CHAT:
        # As FastAPI's own, but in ASCII, and without what was given: that may be long, or no text at all.
        faults = [{key: each[key] for key in ("type", "loc", "msg")} for each in error.errors()]
        return AsciiJSON({"detail": faults}, HTTPStatus.UNPROCESSABLE_ENTITY)
    if isinstance(error, HTTPException):
        return refusal(request.url.path, error.status_code, error.detail, error.headers)
    status, detail = _told(error)
    if isinstance(error, AssistantError) and status == HTTPStatus.INTERNAL_SERVER_ERROR:
        _log.error("%s %s was not answered", request.method, request.url.path, exc_info=error)
    return refusal(request.url.path, status, detail)


def _told(error: Exception) -> tuple[HTTPStatus, str]:
    """The status, and what may be told: messages of our own errors, and none of the database's."""
    match error:
        case AssistantError():
            return error.status, str(error)
        case RequestValidationError():
            told = (
                f"{'.'.join(map(str, each['loc'][1:])) or 'body'}: {in_plain_words(each)}" for each in error.errors()
            )
            return HTTPStatus.UNPROCESSABLE_ENTITY, "; ".join(told)
        case _ if isinstance(error, _UNSTORABLE):
            return HTTPStatus.UNPROCESSABLE_ENTITY, "a value can't be looked up or stored"
        case _ if isinstance(error, AWAY):
            return HTTPStatus.SERVICE_UNAVAILABLE, "the database can't be reached; try again in a moment"
        case _:
            return HTTPStatus.INTERNAL_SERVER_ERROR, "this went wrong at our end; the log says more"


class Refusals:
    """Puts refusals of the library's middleware, which are plain text, in the form of all others. `details`: what is
    said instead, by status."""

    def __init__(self, app: ASGIApp, details: Mapping[int, str]) -> None:
        self._app = app
        self._details = details

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_replaced = False

        async def send_ours(message: Message) -> None:
            nonlocal is_replaced
            if self._is_theirs(message):
                is_replaced = True
                ours = refusal(scope["path"], message["status"], self._details[message["status"]])
                await ours(scope, receive, send)
            elif not is_replaced:
                await send(message)

        await self._app(scope, receive, send_ours)

    def _is_theirs(self, message: Message) -> bool:
        if message["type"] != "http.response.start" or message["status"] not in self._details:
            return False
        return Headers(raw=message["headers"]).get("content-type", "").startswith("text/plain")
