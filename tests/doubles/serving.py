"""What the doubles share: a server in a thread, on one or several loopback ports, and requests that a test can hold."""

import asyncio
import socket
import threading
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any, Literal, cast

import uvicorn
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send


class Hold:
    """A place where one request waits until the test releases or abandons it."""

    def __init__(self) -> None:
        self._reached = threading.Event()
        self._decided = threading.Event()
        self._goes_on = False
        self._by = ""

    def reached(self, timeout: float = 30) -> str:
        """Wait until a request is held here; return the root address that it came by.

        Raises:
            TimeoutError: no request came.
        """
        if not self._reached.wait(timeout):
            raise TimeoutError("no request reached the hold")
        return self._by

    @property
    def is_reached(self) -> bool:
        return self._reached.is_set()

    def release(self) -> None:
        """Let the request go on."""
        self._goes_on = True
        self._decided.set()

    def abandon(self) -> None:
        """Let the request go no further: its connection is dropped. A released hold stays released."""
        self._decided.set()

    def wait(self, by: str) -> bool:
        """Called by the server: report the request and wait; true if it may go on."""
        self._by = by
        self._reached.set()
        self._decided.wait(timeout=300)
        return self._goes_on


class Dropped(Response):
    """No answer at all: the connection is closed."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["drop"]()
        while (await receive())["type"] != "http.disconnect":
            pass


class Unanswered(Response):
    """No answer at all, until the client has given up."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass


class _Uvicorn(uvicorn.Server):
    """Ends as soon as it is told, where the original looks ten times a second, and waits for a tenth of one more."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.told = asyncio.Event()

    async def main_loop(self) -> None:
        while not self.told.is_set():
            await self.on_tick(0)  # the Date of the answers
            with suppress(TimeoutError):
                async with asyncio.timeout(1):
                    await self.told.wait()

    async def shutdown(self, sockets: Sequence[socket.socket] | None = None) -> None:
        for server in self.servers:
            server.close()
        for connection in list(self.server_state.connections):
            connection.shutdown()
        if self.server_state.tasks:
            _, late = await asyncio.wait(self.server_state.tasks, timeout=self.config.timeout_graceful_shutdown)
            for task in late:
                task.cancel()
        await self.lifespan.shutdown()


class Server:
    """Serves an ASGI application in a thread on `ports` loopback ports, so that a test can tell its clients apart.

    Or on one port of the test's choice, so that the next server can take the place of one that has stopped.
    """

    def __init__(self, app: ASGIApp, ports: int = 1, *, port: int = 0, lifespan: Literal["on", "off"] = "off") -> None:
        self._sockets = [_listener(port) for _ in range(ports)]
        self.urls = [f"http://127.0.0.1:{s.getsockname()[1]}" for s in self._sockets]
        config = uvicorn.Config(
            _droppable(app),
            http="h11",
            lifespan=lifespan,
            log_level="critical",
            timeout_graceful_shutdown=1,
            timeout_keep_alive=300,  # or an idle connection is closed in the moment in which it is used again
        )
        self._server = _Uvicorn(config)

    def start(self) -> None:
        # The sockets listen already: a client that connects before the thread serves waits in their backlog.
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._server.told.set)
        self._thread.join(timeout=10)

    def _serve(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._server.serve(self._sockets))


def _listener(port: int) -> socket.socket:
    # With the protocol named, asyncio sets TCP_NODELAY; without it each answer waits 40 ms for a delayed ACK.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", port))
    listener.listen()
    return listener


def _droppable(app: ASGIApp) -> Callable[[Scope, Receive, Send], Awaitable[None]]:
    async def with_drop(scope: Scope, receive: Receive, send: Send) -> None:
        # ASGI has no message that closes a connection; uvicorn's `send` is a method of the object that holds it.
        if scope["type"] == "http":
            scope["drop"] = cast("Any", send).__self__.transport.close
        await app(scope, receive, send)

    return with_drop
