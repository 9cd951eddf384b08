"""How a refusal looks: problem details (RFC 9457) from the API, a page to a browser. Which error is which, once."""

import json
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

import psycopg
from fastapi import FastAPI, Request
from fastapi.encoders import jsonable_encoder
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from starlette.exceptions import HTTPException

from email_assistant.accounts.accounts import UnknownAccount
from email_assistant.accounts.vault import VaultError
from email_assistant.db.pool import AWAY
from email_assistant.gate.source import BadFile
from email_assistant.inbox.items import Conflict, Invalid, NoItem
from email_assistant.inbox.pages import BadCursor
from email_assistant.tools.overview import NotAsShown, NoTool
from email_assistant.web.rendering import render
from email_assistant.web.replies import refused
from email_assistant.web.schemas import Problem

_STATUS: Mapping[type[Exception], HTTPStatus] = {
    NoItem: HTTPStatus.NOT_FOUND,
    UnknownAccount: HTTPStatus.NOT_FOUND,
    NoTool: HTTPStatus.NOT_FOUND,
    NotAsShown: HTTPStatus.CONFLICT,
    Conflict: HTTPStatus.CONFLICT,
    Invalid: HTTPStatus.UNPROCESSABLE_ENTITY,
    BadCursor: HTTPStatus.UNPROCESSABLE_ENTITY,
    RequestValidationError: HTTPStatus.UNPROCESSABLE_ENTITY,
    psycopg.DataError: HTTPStatus.UNPROCESSABLE_ENTITY,  # such as a NUL character where Postgres takes none
    **dict.fromkeys(AWAY, HTTPStatus.SERVICE_UNAVAILABLE),
    VaultError: HTTPStatus.SERVICE_UNAVAILABLE,
    BadFile: HTTPStatus.SERVICE_UNAVAILABLE,
}
_CHAT = ("/run", "/resume")
"""Paths that answer in a form of their own."""
_UNPROCESSABLE = "a value can't be looked up or stored"
_DATABASE_DOWN = "the database can't be reached; try again in a moment"
_OURS = "this went wrong at our end; the log says more"


class AsciiJSON(JSONResponse):
    """JSON in ASCII: a model may leave half a surrogate pair in its arguments, which UTF-8 can't carry."""

    def render(self, content: Any) -> bytes:
        return json.dumps(content).encode("ascii")


def add_error_handlers(api: FastAPI) -> None:
    for error in (*_STATUS, HTTPException, Exception):
        api.add_exception_handler(error, refused_by)


def documented(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The refusals of a route, for the OpenAPI document."""
    content = {"application/problem+json": {"schema": Problem.model_json_schema()}}
    return {status: {"description": HTTPStatus(status).phrase, "content": content} for status in statuses}


def is_for_programs(path: str) -> bool:
    is_one = path in ("/openapi.json", "/google/push", *_CHAT)
    return path.startswith("/api/") or is_one or is_for_agent_inbox(path)


def is_for_agent_inbox(path: str) -> bool:
    """Whether it is one that the public Agent Inbox app uses."""
    return path.startswith("/threads/") or path == "/info"


def refusal(path: str, status: int, detail: str, headers: Mapping[str, str] | None = None) -> Response:
    """The answer to a request for `path` that is refused."""
    title = HTTPStatus(status).phrase
    if path in _CHAT:
        return AsciiJSON(refused(status, None, detail)[1].model_dump(), status, headers)
    if is_for_programs(path):
        problem = Problem(type="about:blank", title=title, status=status, detail=detail)
        return AsciiJSON(problem.model_dump(), status, headers, media_type="application/problem+json")
    return render("error.html", status_code=status, headers=headers, title=title, detail=detail)


async def refused_by(request: Request, error: Exception) -> Response:
    """The answer to a request that an error ended."""
    if isinstance(error, RequestValidationError) and request.url.path in _CHAT:
        # As FastAPI's own, but in ASCII.
        return AsciiJSON({"detail": jsonable_encoder(error.errors())}, HTTPStatus.UNPROCESSABLE_ENTITY)
    if isinstance(error, HTTPException):
        return refusal(request.url.path, error.status_code, error.detail, error.headers)
    status = next((status for kind, status in _STATUS.items() if isinstance(error, kind)), None)
    return refusal(request.url.path, status or HTTPStatus.INTERNAL_SERVER_ERROR, _detail(error))


def _detail(error: Exception) -> str:
    """What may be told: messages of our own errors, and none of the database's."""
    match error:
        case RequestValidationError():
            return "; ".join(f"{'.'.join(map(str, e['loc'][1:])) or 'body'}: {e['msg']}" for e in error.errors())
        case NoItem() | UnknownAccount() | Conflict() | Invalid() | BadCursor() | VaultError():
            return str(error)
        case NoTool() | NotAsShown() | BadFile():
            return str(error)
        case psycopg.DataError():
            return _UNPROCESSABLE
        case _ if isinstance(error, AWAY):
            return _DATABASE_DOWN
        case _:
            return _OURS
