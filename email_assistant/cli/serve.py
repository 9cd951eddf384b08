"""Running for long: the daemon and the web server, until a signal ends them."""

import asyncio
import ctypes
import gc
import logging
import os
import signal
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Coroutine, Iterator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, contextmanager, suppress
from typing import Any

import uvicorn
from starlette.types import ASGIApp

from email_assistant.app import App, open_app, open_chat
from email_assistant.cli.context import NO_MODEL, CommandError, err, load_settings, out, say, tell
from email_assistant.cli.door import Door, opened_door
from email_assistant.cli.follow import follow, introduce
from email_assistant.cli.watchdog import Watchdog
from email_assistant.daemon import open_daemon
from email_assistant.home import api_token, bring_up_to_date, database
from email_assistant.plugins import sites
from email_assistant.settings import Settings
from email_assistant.settings.values import is_loopback
from email_assistant.telemetry import log_to_stderr
from email_assistant.tracing import tracing
from email_assistant.web.app import create_api, create_monitor
from email_assistant.web.auth import Key
from email_assistant.web.health import lacking

log = logging.getLogger(__name__)

_IDLE_CONNECTION_SECONDS = 75
"""Longer than proxies keep theirs (nginx and load balancers: 60), or one of them asks in the moment of the closing."""

_TRIM_SECONDS = 30.0
_M_MMAP_THRESHOLD, _M_ARENA_MAX = -3, -8  # malloc.h
_HEAPS = 2
_LARGE_BYTES = 256 * 1024
"""Blocks of so much are the system's, and go back to it at once."""

_TICK_SECONDS = 1.0
"""In which the date of the answers stands still."""


async def run_up(host: str, port: int, *, no_token: bool) -> None:
    """Serve the inbox and work, until SIGINT or SIGTERM."""
    _check_token_needed(host, no_token)
    settings = _ready_settings()
    if settings.is_demo:
        raise CommandError("`email-assistant demo` is what runs the demo")
    with bound(host, port) as listener, opened_door(settings, listener, no_token=no_token) as door:
        async with _opened(settings) as app, open_daemon(app) as daemon:
            with signals_heeded() as stop:
                _welcome(settings, door, host)
                work = (daemon.run(), serve(app, door, host), _tell_what_happens(app))
                await until_stopped(stop, *work, stop_seconds=stop_seconds(settings))


async def run_api(host: str, port: int, *, no_token: bool) -> None:
    """Serve the inbox and do nothing else, until SIGINT or SIGTERM."""
    _check_token_needed(host, no_token)
    settings = _settings()
    with bound(host, port) as listener, opened_door(settings, listener, no_token=no_token) as door:
        async with _opened(settings) as app:
            with signals_heeded() as stop:
                _welcome(settings, door, host)
                await until_stopped(stop, serve(app, door, host), stop_seconds=stop_seconds(settings))


async def run_scheduler() -> None:
    """Have mailboxes looked at and forgotten work found, until SIGINT or SIGTERM."""
    settings = _settings()
    with _monitor_bound(settings) as listener:
        async with _opened(settings) as app, open_daemon(app) as daemon:
            with signals_heeded() as stop:
                out.print("Scheduling. Ctrl-C stops.")
                work = (daemon.schedule(), *_monitoring(app, listener))
                await until_stopped(stop, *work, stop_seconds=stop_seconds(settings))


async def run_worker() -> None:
    """Work on what is scheduled, until SIGINT or SIGTERM."""
    settings = _ready_settings()
    with _monitor_bound(settings) as listener:
        async with _opened(settings) as app, open_daemon(app) as daemon:
            with signals_heeded() as stop:
                out.print("Working. Ctrl-C stops.")
                work = (daemon.work(), *_monitoring(app, listener))
                await until_stopped(stop, *work, stop_seconds=stop_seconds(settings))


@contextmanager
def _monitor_bound(settings: Settings) -> Iterator[socket.socket | None]:
    """Where a process without an inbox is watched; None if nowhere."""
    if settings.metrics_port is None:
        yield None
        return
    others = "EMAIL_ASSISTANT_METRICS_HOST and EMAIL_ASSISTANT_METRICS_PORT"
    with bound(settings.metrics_host, settings.metrics_port, others) as listener:
        yield listener


def _monitoring(app: App, listener: socket.socket | None) -> list[Coroutine[Any, Any, None]]:
    if listener is None:
        return []
    host, port = listener.getsockname()[:2]
    out.print(f"Metrics: http://{f'[{host}]' if ':' in host else host}:{port}/metrics", soft_wrap=True)
    return [serve_app(create_monitor(app, token=api_token(app.settings), host=host), listener)]


@asynccontextmanager
async def _opened(settings: Settings) -> AsyncIterator[App]:
    """The app of what stays: it waits for its database, and says so."""
    with Watchdog() as watchdog, database(settings, keep=True) as url:
        watchdog.tell_of_waiting(url)
        await bring_up_to_date(settings, url)
        async with open_app(settings, url) as app:
            watchdog.stop_watching()
            for reason in await lacking(app):
                log.error("%s", reason)
            yield app


@contextmanager
def signals_heeded() -> Iterator[asyncio.Event]:
    """Have SIGINT and SIGTERM set an event; a second of them ends the process at once.

    Whatever says that the program is there, and so can be stopped, is said within."""
    stop = asyncio.Event()

    def stop_or_die() -> None:
        if stop.is_set():
            os._exit(130)
        stop.set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop_or_die)
    try:
        yield stop
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)


async def until_stopped(stop: asyncio.Event, *work: Coroutine[Any, Any, None], stop_seconds: float) -> None:
    """Run all of it until one part ends or `stop` is set. What runs is finished, or handed back, before this returns.
    `stop`: of `signals_heeded`; `stop_seconds`: seconds that stopping in good order may take."""
    # Three hundred thousand objects, which all stay: to look through them for garbage holds everything up for 200 ms.
    gc.freeze()
    tasks = [asyncio.ensure_future(part) for part in work]
    stopping, trimming = asyncio.ensure_future(stop.wait()), asyncio.ensure_future(_give_memory_back())
    try:
        await asyncio.wait([*tasks, stopping], return_when=asyncio.FIRST_COMPLETED)
        if stop.is_set():
            err.print("Stopping; once more stops at once.")
    finally:  # also where Ctrl-C came just before our handlers did, and asyncio's own cancels us here
        stopping.cancel()
        trimming.cancel()
        await _end(tasks, stop_seconds)
    ended = await asyncio.gather(*tasks, return_exceptions=True)
    for outcome in ended:
        if isinstance(outcome, Exception):
            raise outcome


async def _give_memory_back() -> None:
    """Keep the memory that long mails have taken no longer than they need it.

    glibc has a heap for each thread. Once a large block was freed, it takes the next of that size from the heap, where
    small ones that stay keep it from being returned (https://man7.org/linux/man-pages/man3/mallopt.3.html): of 700 MB
    that a worker had after some hundred mails of up to 6 MB, 150 were in use.
    """
    libc = ctypes.CDLL(None)
    if not hasattr(libc, "mallopt") or not hasattr(libc, "malloc_trim"):
        return
    libc.mallopt(_M_ARENA_MAX, _HEAPS)
    libc.mallopt(_M_MMAP_THRESHOLD, _LARGE_BYTES)
    while True:
        await asyncio.sleep(_TRIM_SECONDS)
        await asyncio.to_thread(libc.malloc_trim, 0)


async def _tell_what_happens(app: App) -> None:
    await introduce(app)
    await follow(app)


async def _end(tasks: Collection[asyncio.Task[None]], stop_seconds: float) -> None:
    """Cancel, and wait for what runs. What does not end in time is left as if the process had been killed."""
    for task in tasks:
        task.cancel()
    _, left = await asyncio.wait(tasks, timeout=stop_seconds)
    if left:
        err.print("Not all of it stopped in time; the next start goes on with what is left.")
        os._exit(130)


async def serve(app: App, door: Door, host: str) -> None:
    """Serve the inbox's pages and API until cancelled."""
    push_token = app.settings.push_token
    if door.token:
        await app.sessions.end_those_of_others(app.user_id, door.token, door.name.host if door.name else None)
    async with tracing(app.settings) as callbacks, aclosing(open_chat(app, callbacks)) as chat:
        api = create_api(
            app,
            chat,
            token=door.token,
            host=host,
            push_token=push_token.get_secret_value() if push_token else None,
            own_name=door.name,
            keys=[Key(key, each.is_opened_by_key) for each in sites() if (key := each.key(app.settings))],
        )
        gc.freeze()  # as in `until_stopped`, of what was imported and made since
        async with AsyncExitStack() as parts:
            for each in sites():
                if each.serving:
                    await parts.enter_async_context(each.serving(app))
            await serve_app(api, *door.listeners, before_end=parts.aclose)
    await app.ledger.drain()


async def serve_app(
    app: ASGIApp, *listeners: socket.socket, before_end: Callable[[], Awaitable[None]] | None = None
) -> None:
    """Serve any application until cancelled. Its lifespan is the caller's.

    Args:
        before_end: has those answered who wait for long; they still hear that.
    """
    config = uvicorn.Config(
        app, log_config=None, access_log=False, lifespan="off", timeout_keep_alive=_IDLE_CONNECTION_SECONDS
    )
    server = _InnerServer(config)
    serving = asyncio.ensure_future(server.serve(sockets=list(listeners)))
    try:
        await asyncio.shield(serving)
    finally:
        if before_end:
            await before_end()
        server.end()
        await serving


@contextmanager
def bound(host: str, port: int, others: str = "--host, --port") -> Iterator[socket.socket]:
    """A listening socket, taken before anything is started. `others`: with what other places are chosen. Raises
    CommandError if the port is taken."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With the protocol named, uvicorn turns Nagle's algorithm off; else each answer takes 40 ms longer.
    with socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, port))
            listener.listen()  # so that the link works from the moment at which it is printed
        except (OSError, OverflowError) as error:  # OverflowError: no port has such a number
            reason = error.strerror if isinstance(error, OSError) else error
            raise CommandError(f"can't listen on {host}:{port} ({reason}); choose others with {others}") from None
        yield listener


def stop_seconds(settings: Settings) -> float:
    """Seconds that the program may take to stop: what runs gets `stop_seconds`, the rest is for what must be told."""
    return settings.stop_seconds + 5


def _welcome(settings: Settings, door: Door, host: str) -> None:
    """Say where the inbox is."""
    # Beyond loopback this is a service's log, which others keep; who has set a token knows it.
    link = door.link if is_loopback(host) or settings.api_token is None else f"{door.address}login"
    say(f"Your inbox: {link}")
    if door.plain:
        out.print(f"(If your browser does not find that name: {door.plain})", soft_wrap=True)
    if not is_loopback(host):
        out.print("[yellow]It is reachable from other machines: put TLS in front.[/]")


def _check_token_needed(host: str, no_token: bool) -> None:
    if no_token and not is_loopback(host):
        raise CommandError(f"--no-token works on a loopback address only, not on {host}")


def _settings() -> Settings:
    settings = load_settings()
    log_to_stderr(settings.log_level, settings.log_format)
    if there := settings.unread_env_file:
        tell(f"{there} is not read: settings come from the environment and from {settings.env_file}.")
    return settings


def _ready_settings() -> Settings:
    settings = _settings()
    if settings.openai_api_key is None and settings.openai_base_url is None:
        raise CommandError(f"no model {NO_MODEL}; `email-assistant demo` needs none of them")
    return settings


class _InnerServer(uvicorn.Server):
    """Ends when it is told to: uvicorn's own looks ten times a second whether it shall, half of what an idle program
    takes."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._ends = asyncio.Event()

    def end(self) -> None:
        self.should_exit = self.force_exit = True
        self._ends.set()

    async def main_loop(self) -> None:
        while not await self.on_tick(0):
            with suppress(TimeoutError):
                async with asyncio.timeout(_TICK_SECONDS):
                    await self._ends.wait()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the signals to `until_stopped`, which must end the worker before the database."""
        yield
