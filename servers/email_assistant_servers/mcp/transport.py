"""How clients reach an MCP server: over the pipes of the process that they started, or over HTTP with the token."""

import asyncio
import hmac
import os
import socket
import sys
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

import anyio
from fastapi.security.utils import get_authorization_scheme_param
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from email_assistant.cli.context import tell
from email_assistant.settings import Settings
from email_assistant.settings.values import is_loopback

PATH: Final = "/mcp"
_MOST_BYTES: Final = 1_000_000
_LOOPBACK: Final = ("127.0.0.1", "localhost", "[::1]")


async def serve_stdio(server: Server[Any, Any]) -> None:
    """Serve the process that started this one, until it closes our standard input."""
    # Nothing else that is printed, by a library or a child of ours, may get between the messages.
    protocol = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    with os.fdopen(protocol, "w", encoding="utf-8") as output:
        lines: Any = _StandardInput()
        async with stdio_server(lines, anyio.wrap_file(output)) as (incoming, outgoing):
            await server.run(incoming, outgoing, server.create_initialization_options())


async def serve_http(settings: Settings, server: Server[Any, Any], listener: socket.socket, host: str) -> None:
    """Serve over HTTP with the token that is kept at home. `host`: the address that was asked for."""
    from email_assistant.cli.serve import serve_app
    from email_assistant.home import mcp_token

    if not is_loopback(host):
        tell("It is reachable from other machines: put TLS in front.")
    address, port = listener.getsockname()[:2]
    tell(f"Serving at http://{f'[{address}]' if ':' in address else address}:{port}{PATH}. Ctrl-C stops.")
    api = create_http_app(server, token=lambda: mcp_token(settings), is_loopback=is_loopback(host))
    # uvicorn drops the lifespan of what it has to stop at once, and its end is then logged as an error.
    async with api.router.lifespan_context(api):
        await serve_app(api, listener)


class _StandardInput:
    """The lines of standard input, read by a thread that keeps nobody from stopping, unlike the library's own."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[str | None] = asyncio.Queue()
        loop = asyncio.get_running_loop()

        def read() -> None:
            with open(0, encoding="utf-8", errors="replace", closefd=False) as stdin:
                for line in stdin:
                    loop.call_soon_threadsafe(self._queue.put_nowait, line)
            loop.call_soon_threadsafe(self._queue.put_nowait, None)

        threading.Thread(target=read, name="stdin", daemon=True).start()

    async def __aiter__(self) -> AsyncIterator[str]:
        while (line := await self._queue.get()) is not None:
            yield line


def create_http_app(server: Server[Any, Any], *, token: Callable[[], str], is_loopback: bool) -> Starlette:
    """The server at `/mcp`. Each request stands for itself: a client notices nothing of a restart.

    Args:
        token: the one that opens it now; asked for with each request, so that a renewed one counts at once.
        is_loopback: whether it is bound to this machine. Then only names of this machine are answered to, since another
            site's name may be pointed at it (DNS rebinding).
    """
    hosts = [f"{host}{port}" for host in _LOOPBACK for port in ("", ":*")]
    security = TransportSecuritySettings(
        enable_dns_rebinding_protection=is_loopback,
        allowed_hosts=hosts,
        allowed_origins=[f"http://{host}" for host in hosts],
    )
    manager = StreamableHTTPSessionManager(
        server, json_response=True, stateless=True, security_settings=security, max_request_body_size=_MOST_BYTES
    )

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with manager.run():
            yield

    endpoint = _WithToken(manager.handle_request, token)
    return Starlette(routes=[Route(PATH, endpoint=endpoint)], lifespan=lifespan)


class _WithToken:
    """Lets a request through that carries the token."""

    def __init__(self, app: ASGIApp, token: Callable[[], str]) -> None:
        self._app = app
        self._token = token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope)
        await (self._refusal(request) or self._app)(scope, receive, send)

    def _refusal(self, request: Request) -> Response | None:
        scheme, bearer = get_authorization_scheme_param(request.headers.get("authorization"))
        if scheme.lower() == "bearer" and hmac.compare_digest(bearer.encode(), self._token().encode()):
            return None
        detail = "send the token of `mcp config --http` as `Authorization: Bearer TOKEN`"
        return JSONResponse({"detail": detail}, 401, {"WWW-Authenticate": "Bearer"})
