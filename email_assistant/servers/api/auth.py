"""Who may come in: the token, the session cookie that stands for it, and whence a request may come."""

import hashlib
import hmac
from collections.abc import Mapping
from urllib.parse import quote, urlencode, urlsplit

from fastapi.responses import RedirectResponse, Response
from fastapi.security.utils import get_authorization_scheme_param
from starlette.datastructures import MutableHeaders
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from email_assistant.servers.api.errors import is_for_agent_inbox, is_for_programs, refusal
from email_assistant.servers.api.rendering import render
from email_assistant.servers.api.throttle import Guesses, TooManyGuesses

COOKIE = "email_assistant_session"
_COOKIE_SECONDS = 30 * 24 * 3600
_OPEN_PATHS = ("/health", "/health-check", "/login", "/info", "/.well-known/security.txt", "/google/push")
"""Of these, the last asks for a token of its own."""
_OPEN_FOLDER = "/static/"
_READING = ("GET", "HEAD", "OPTIONS")

_HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; connect-src 'self'; style-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'; img-src 'self' data:",
    "X-Content-Type-Options": "nosniff",
    # Not no-referrer: with it a browser sends "Origin: null" with our own forms too, and they could not be told from a
    # stranger's (https://fetch.spec.whatwg.org/#append-a-request-origin-header). Other sites learn nothing either way.
    "Referrer-Policy": "same-origin",
}


class Access:
    """Knows the token. Without one, everybody is let in."""

    def __init__(self, token: str | None) -> None:
        self._token = token
        self._guesses = Guesses()

    def is_token(self, request: Request, given: str) -> bool:
        """Whether the caller knows the token. Raises TooManyGuesses."""
        if self._token is None:
            return True
        address = request.client.host if request.client else ""
        self._guesses.check(address)
        if is_same(given, self._token):
            return True
        self._guesses.note(address, given)
        return False

    def is_allowed(self, request: Request) -> bool:
        """Whether the request carries a session or the token. Raises TooManyGuesses."""
        if self._token is None or is_same(request.cookies.get(COOKIE, ""), self._session()):
            return True
        scheme, bearer = get_authorization_scheme_param(request.headers.get("authorization"))
        given = [bearer] if scheme.lower() == "bearer" else []
        given += [request.headers["x-api-key"]] if "x-api-key" in request.headers else []
        return any(self.is_token(request, each) for each in given)

    def log_in(self, response: Response, *, https: bool) -> None:
        """Give the browser its session cookie."""
        response.set_cookie(
            COOKIE, self._session(), max_age=_COOKIE_SECONDS, httponly=True, samesite="strict", secure=https
        )

    def log_out(self, response: Response) -> None:
        response.delete_cookie(COOKIE, httponly=True, samesite="strict")

    def _session(self) -> str:
        """Stands for the token without holding it; another token ends all sessions."""
        return hmac.new((self._token or "").encode(), b"email-assistant session", hashlib.sha256).hexdigest()


class Guard:
    """Lets a request through, or answers it itself; nothing of it is read before.

    Args:
        agent_inbox_origin: the other site whose page may change something, on the paths that it uses.
    """

    def __init__(self, app: ASGIApp, access: Access, agent_inbox_origin: str | None) -> None:
        self._app = app
        self._access = access
        self._agent_inbox_origin = agent_inbox_origin

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        try:
            answer = self._answer(request)
        except TooManyGuesses as refused:
            answer = too_many_guesses(request, refused)
        await (answer or self._app)(scope, receive, send)

    def _answer(self, request: Request) -> Response | None:
        path = request.url.path
        if request.method not in _READING and not (_is_from_our_pages(request) or self._is_from_agent_inbox(request)):
            return refusal(path, 403, "this request comes from another site's page")
        token = request.query_params.get("token")
        if token is not None and request.method == "GET" and not is_for_programs(path):
            return self._by_link(request, token)
        if path in _OPEN_PATHS or path.startswith(_OPEN_FOLDER) or self._access.is_allowed(request):
            return None
        return _unauthorized(request)

    def _is_from_agent_inbox(self, request: Request) -> bool:
        origin = request.headers.get("origin")
        return origin is not None and origin == self._agent_inbox_origin and is_for_agent_inbox(request.url.path)

    def _by_link(self, request: Request, token: str) -> Response:
        if not self._access.is_token(request, token):
            return login_page(without_token(request), "This link holds another token.")
        response = RedirectResponse(without_token(request), 303)
        self._access.log_in(response, https=request.url.scheme == "https")
        return response


class AgentInboxCors:
    """Lets the pages of one other site read what the public Agent Inbox app asks for, and nothing else.

    A browser asks first whether it may (preflight), without the token; that is answered here, before the guard.
    """

    def __init__(self, app: ASGIApp, origin: str) -> None:
        self._app = app
        self._shared = CORSMiddleware(
            app,
            allow_origins=[origin],
            allow_methods=["GET", "POST"],
            allow_headers=["content-type", "x-api-key"],
            allow_private_network=True,
            expose_headers=["location", "content-location"],
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        shared = scope["type"] == "http" and is_for_agent_inbox(scope["path"])
        await (self._shared if shared else self._app)(scope, receive, send)


class SecurityHeaders:
    """Adds to every answer what tells a browser to trust nothing in it, and to keep nothing of it."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_static = scope["type"] == "http" and scope["path"].startswith(_OPEN_FOLDER)

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(_HEADERS)
                headers["Cache-Control"] = "no-cache" if is_static else "no-store"
            await send(message)

        await self._app(scope, receive, send_with_headers)


def login_page(following: str, wrong: str | None = None) -> Response:
    """The page that asks for the token, and goes on to the local path `following`."""
    return render(
        "login.html", status_code=401, headers={"WWW-Authenticate": "Bearer"}, following=following, wrong=wrong
    )


def too_many_guesses(request: Request, refused: TooManyGuesses) -> Response:
    return refusal(request.url.path, 429, str(refused), {"Retry-After": str(refused.seconds)})


def local_path(path: str) -> str:
    """A path that stays on this server: `//host` and `/\\host` would lead to another."""
    return "/" + path.lstrip("/\\")


def without_token(request: Request) -> str:
    """The path and query of a request, as it would be sent after logging in."""
    query = urlencode([pair for pair in request.query_params.multi_items() if pair[0] != "token"])
    return local_path(quote(local_path(request.scope["path"]))) + (f"?{query}" if query else "")


def _unauthorized(request: Request) -> Response:
    if is_for_programs(request.url.path):
        detail = "send the token as `Authorization: Bearer TOKEN` or `x-api-key: TOKEN`"
        return refusal(request.url.path, 401, detail, {"WWW-Authenticate": "Bearer"})
    return login_page(without_token(request) if request.method == "GET" else "/")


def is_same(given: str, known: str) -> bool:
    """In a time that does not tell how much of it is right."""
    return hmac.compare_digest(given.encode("utf-8", "replace"), known.encode())


def _is_from_our_pages(request: Request) -> bool:
    """Whether a request that changes something was sent by a page of ours, or by no page at all."""
    origin = request.headers.get("origin")
    return origin is None or urlsplit(origin).netloc.lower() == request.headers.get("host", "").lower() != ""
