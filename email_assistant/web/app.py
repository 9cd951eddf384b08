"""The web application: which room answers which request, and what stands before all of them."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from fastapi import APIRouter, FastAPI
from fastapi.staticfiles import StaticFiles
from fastapi.telemetry import TelemetryConfig
from starlette.middleware.body_limit import RequestBodyLimitMiddleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send

from email_assistant.app import App
from email_assistant.memory.profiles import Memory
from email_assistant.metrics.gauges import Gauges
from email_assistant.plugins import sites
from email_assistant.settings.values import is_loopback
from email_assistant.trail.activity import Activity
from email_assistant.trail.context import Contexts
from email_assistant.trail.story import Trail
from email_assistant.web import (
    activity,
    chats,
    events,
    google_push,
    health,
    inbox,
    login,
    mails,
    memory,
    metrics,
    pages,
    status,
    tools,
)
from email_assistant.web import chat as chat_routes
from email_assistant.web.auth import Access, Guard, Key, OtherSite, OwnName, SecurityHeaders, Sharing
from email_assistant.web.errors import Refusals, add_error_handlers
from email_assistant.web.routers import DocumentedAPI, routes_of
from email_assistant.work.chat import Chat

_STATIC = Path(__file__).parent / "static"
_LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
_MOST_BYTES = 1_000_000
_MOST_BYTES_OF_LONG = 13_000_000  # a million characters in JSON, where one takes twelve bytes at most
_LIBRARY_REFUSALS = {
    400: "this server doesn't answer to that host name; open it by its address",
    413: f"a request may have {_MOST_BYTES:,} bytes at most; an agent's, about a call, {_MOST_BYTES_OF_LONG:,}",
}
_COMPRESSION = 5  # Of gzip. Above it, pages get hardly smaller and take longer.
_SILENT: TelemetryConfig = {"tracing": False, "metrics": False, "logs": False, "auto_configure": False}
"""FastAPI reports to OpenTelemetry by itself where the environment has it; the program decides that."""

_ABOUT = """What waits for you, what came in, and what was learned, for programs.

Every refusal is a problem as of RFC 9457 (`application/problem+json`); `detail` says what to do.
Times are ISO 8601 with their offset. A list comes in pages: `next` is the `cursor` of the following one.
"""

_OF_MAIL = (metrics, inbox, mails, memory, activity)
_FOR_PROGRAMS = (*_OF_MAIL, events, status, tools, chat_routes, chats)
_FOR_ANYBODY = (health.router, google_push.router, login.router)


def create_api(
    app: App,
    chat: Chat,
    *,
    token: str | None,
    host: str,
    push_token: str | None = None,
    own_name: OwnName | None = None,
    keys: Sequence[Key] = (),
) -> FastAPI:
    """The API and the pages of an app that is open, within its event loop.

    Args:
        token: what lets a caller in; None lets everybody in.
        host: the address that the server is bound to. On loopback only names of this machine are answered to, since
            another site's name may be pointed at it (DNS rebinding).
        push_token: what lets Google's Pub/Sub in, to tell of new mail and to nothing else; None: it is not let in.
        own_name: a name of this machine that is answered to as well, and that browsers had better use.
        keys: what lets programs in where features serve them, and nowhere else.
    """
    api = DocumentedAPI(
        title="Email assistant",
        description=_ABOUT,
        docs_url=None,
        redoc_url=None,
        telemetry=_SILENT,
        routes=routes_of([*_FOR_ANYBODY, *(room.router for room in _FOR_PROGRAMS), *_of_features(), *pages.routers]),
    )
    api.state.assistant = app
    api.state.chat = chat
    api.state.access = access = Access(token, app.sessions, app.user_id, own_name, keys)
    api.state.push_token = push_token
    api.state.memory = learned = Memory.kept_in(app.pool)
    api.state.trail = Trail(app.pool, learned)
    api.state.contexts = Contexts(app.pool, learned)
    api.state.activity = Activity(app.pool)
    api.state.gauges = _gauges(app)
    api.mount("/static", StaticFiles(directory=_STATIC))
    add_error_handlers(api)
    # The one that was added last is met first. No page holds a token or a session: the length of what is compressed
    # gives none away (https://www.breachattack.com).
    api.add_middleware(GZipMiddleware, compresslevel=_COMPRESSION)
    others = [OtherSite(origin, each) for each in sites() if (origin := each.other_site(app.settings))]
    api.add_middleware(Guard, access=access, others=others)
    for other in others:
        api.add_middleware(Sharing, other=other)
    api.add_middleware(TrustedHostMiddleware, allowed_hosts=_answered_to(host, own_name), www_redirect=False)
    api.add_middleware(_BodyLimit)
    api.add_middleware(Refusals, details=_LIBRARY_REFUSALS)
    api.add_middleware(SecurityHeaders)
    return api


def create_monitor(app: App, *, token: str, host: str) -> FastAPI:
    """What a process serves that has no inbox: its figures, and whether it is well. Arguments as of `create_api`."""
    routes = routes_of([health.router, metrics.router])
    api = FastAPI(openapi_url=None, docs_url=None, redoc_url=None, telemetry=_SILENT, routes=routes)
    api.state.assistant = app
    api.state.gauges = _gauges(app)
    add_error_handlers(api)
    api.add_middleware(Guard, access=Access(token, app.sessions, app.user_id))
    api.add_middleware(TrustedHostMiddleware, allowed_hosts=_answered_to(host, None), www_redirect=False)
    api.add_middleware(SecurityHeaders)
    return api


def _of_features() -> Iterator[APIRouter]:
    for each in sites():
        yield from each.routers


def _gauges(app: App) -> Gauges:
    waits = app.settings.when_spent == "wait"
    return Gauges(app.pool, app.settings.provider, app.clients.limits, waits_when_spent=waits)


class _BodyLimit:
    """What a feature takes may be longer than all else."""

    def __init__(self, app: ASGIApp) -> None:
        self._most = RequestBodyLimitMiddleware(app, max_body_size=_MOST_BYTES)
        self._long = RequestBodyLimitMiddleware(app, max_body_size=_MOST_BYTES_OF_LONG)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_long = scope["type"] == "http" and any(scope["path"] in each.long_paths for each in sites())
        await (self._long if is_long else self._most)(scope, receive, send)


def _answered_to(host: str, own_name: OwnName | None) -> list[str]:
    bare = host.strip("[]").lower()
    names = {*_LOOPBACK, f"[{bare}]" if ":" in bare else bare, *([own_name.host] if own_name else [])}
    return sorted(names) if is_loopback(bare) else ["*"]
