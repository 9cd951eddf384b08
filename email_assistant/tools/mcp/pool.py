"""The servers of tools, each with one session that is kept open: opened at first use, and again after it has died."""

import asyncio
import weakref
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar
from uuid import UUID

from mcp import types
from mcp.server.lowlevel import Server

from email_assistant.tools.config import ServerConfig
from email_assistant.tools.mcp.connection import Connection, Lost, NotSent, NoUse, ServerRefused, TurnedAway
from email_assistant.tools.mcp.schema import UnusableTool
from email_assistant.tools.spec import FilledIn, Progress, ServerDown

_OWN_SECONDS: Final = 60.0  # for calls of our own servers, whose own time-outs come first
_START_SECONDS: Final = 60.0  # for a command to start, which may be installed at that moment, as npx does
_FIRST_WAIT: Final = 0.5
_LONGEST_WAIT: Final = 60.0

Look = Callable[[str, types.Tool], Awaitable[bool]]  # whether a server's tool, as it is told now, may be used
Builtin = Mapping[str, Callable[[UUID], Awaitable[Server[Any, Any]]]]  # makes our own servers, by name, for an account
T = TypeVar("T")


@dataclass(eq=False)
class _Seat:
    """The place of one server's session."""

    name: str
    server: ServerConfig | None  # None: it is in this process
    connect: Callable[[Callable[[], None]], Connection]
    connection: Connection | None = None
    listing: dict[str, types.Tool] | None = None
    failures: int = 0
    not_before: float = 0
    why: str = ""
    has_changed: bool = False
    opening: asyncio.Lock = field(default_factory=asyncio.Lock)
    reading: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def opened(self) -> Connection:
        """The session, opened if there is none. Raises ServerDown."""
        async with self.opening:
            if self.connection is not None and not (self.connection.ended or self.connection.left):
                return self.connection
            now = asyncio.get_running_loop().time()
            if now < self.not_before:
                raise ServerDown(self.name, f"{self.why}; it is tried again in {self.not_before - now:.0f} s")
            if self.connection is not None and self.connection.ended:
                await self.connection.gone()
            self.listing = None  # another session may be another program
            self.connection = self.connect(self.forget_listing)
            try:
                await self.connection.open()
            except ServerDown as error:
                self.failures += 1
                self.why = error.reason
                self.not_before = now + min(_LONGEST_WAIT, _FIRST_WAIT * 2**self.failures)
                raise
            self.failures, self.not_before = 0, 0
            return self.connection

    async def listed(self) -> dict[str, types.Tool]:
        """The server's tools. Raises ServerDown."""
        async with self.reading:
            connection = await self.opened()
            if self.listing is not None:
                return self.listing
            self.has_changed = False
            try:
                listing = {tool.name: tool for tool in await connection.tools()}
            except (NotSent, TurnedAway, Lost, ServerRefused) as error:
                connection.leave(str(error))
                raise ServerDown(self.name, f"its tools can't be listed: {error}") from None
            if not self.has_changed:
                self.listing = listing
            return listing

    def forget_listing(self) -> None:
        self.listing, self.has_changed = None, True


class Servers:
    """`configured`: those that are not in this process, by name, as the person's file was read last; `builtin`: those
    that are, and that no configured one takes the place of; `look`: looks at each tool of those that are not in this
    process, before it is called; `folder`: where those run that are processes."""

    def __init__(
        self,
        configured: Callable[[], Mapping[str, ServerConfig]],
        builtin: Builtin,
        look: Look,
        folder: Path = Path("/"),
    ) -> None:
        self._configured = configured
        self._builtin = builtin
        self._look = look
        self._folder = folder
        self._seats: dict[tuple[str, UUID | None], _Seat] = {}
        self._connections: weakref.WeakSet[Connection] = weakref.WeakSet()

    def is_own(self, name: str) -> bool:
        """Whether it is a program of ours, here or elsewhere."""
        server = self._configured().get(name)
        return server.own if server else name in self._builtin

    def is_remote(self, name: str) -> bool:
        return name not in self._builtin or name in self._configured()

    def repeats_safely(self, name: str) -> bool:
        """Whether the same call with the same idempotency key is done once."""
        server = self._configured().get(name)
        return self.is_own(name) or (server is not None and server.repeats == "safe")

    async def listing(self, name: str, account_id: UUID | None) -> dict[str, types.Tool]:
        """Its tools as it lists them now, by name. Raises ServerDown."""
        return await self._seat(name, account_id).listed()

    async def told(self, name: str, account_id: UUID | None, tool: str) -> types.Tool:
        """One of its tools, as it may be used. Raises ServerDown; UnusableTool: it has none of this name, or one that
        has changed."""
        told = (await self.listing(name, account_id)).get(tool)
        if told is None:
            raise UnusableTool(f"the tool server {name} has no tool {tool}")
        if self.is_remote(name) and not await self._look(name, told):
            raise UnusableTool(f"{tool} has changed: `email-assistant tools show {tool}` shows how")
        return told

    async def renew(self, name: str, account_id: UUID | None) -> None:
        """See to a session that its server knows, for a call that may be sent once only. Raises ServerDown."""
        seat = self._seat(name, account_id)
        connection = await seat.opened()
        try:
            await connection.check()
        except (NotSent, TurnedAway, Lost) as error:
            connection.leave(str(error))
            await seat.opened()

    async def call(
        self,
        name: str,
        account_id: UUID | None,
        tool: str,
        arguments: Mapping[str, Any],
        *,
        meta: Mapping[str, Any],
        progress: Progress,
        filled_in: Sequence[FilledIn],
        repeatable: bool,
        reads: bool,
    ) -> types.CallToolResult:
        """
        Args:
            meta: told to the server beside the arguments.
            filled_in: the server's forms that the person has filled in before.
            repeatable: doing it twice does no harm, so it is called again where the connection has died, or the server
                turns it away; what is not is sent once.
            reads: it changes nothing at all.

        Raises:
            ServerDown, UnusableTool: nothing was asked of it.
            Lost: it may have been done.
            ServerRefused, LinkNeeded, FormNeeded: it was not done.
        """
        seat = self._seat(name, account_id)
        lost: Lost | None = None
        for is_last in (False, True):
            try:
                connection = await seat.opened()
                await self.told(name, account_id, tool)  # another session may be with another program
            except (ServerDown, UnusableTool) as error:
                raise lost or error from None
            try:
                return await connection.call(tool, arguments, meta, progress, filled_in, reads=reads)
            except (NotSent, TurnedAway) as error:
                connection.leave(str(error))
                if isinstance(error, TurnedAway) and not repeatable:
                    raise Lost(str(error)) from None  # what a server says of itself is no reason to do it twice
                if is_last:
                    raise lost or ServerDown(name, str(error)) from None
            except NoUse:
                raise
            except Lost as error:
                connection.leave(str(error))
                if is_last or not repeatable:
                    raise
                lost = error
        raise AssertionError("the second try returns or raises")

    async def aclose(self) -> None:
        await asyncio.gather(*(connection.aclose() for connection in list(self._connections)))

    def _seat(self, name: str, account_id: UUID | None) -> _Seat:
        server = self._configured().get(name)
        key = (name, None if server else account_id)
        seat = self._seats.get(key)
        if seat is not None and seat.server != server and seat.connection is not None:
            seat.connection.leave("tools.yaml has changed")
        if seat is None or seat.server != server:
            seat = _Seat(name, server, lambda on_change: self._connection(name, server, account_id, on_change))
            self._seats[key] = seat
        return seat

    def _connection(
        self, name: str, server: ServerConfig | None, account_id: UUID | None, on_change: Callable[[], None]
    ) -> Connection:
        """Raises ServerDown."""
        if server is not None:
            connect_seconds = server.timeout_seconds if server.url else max(server.timeout_seconds, _START_SECONDS)
            connection = Connection(name, server, server.timeout_seconds, connect_seconds, on_change, self._folder)
        elif account_id and name in self._builtin:
            connection = Connection(
                name, lambda: self._builtin[name](account_id), _OWN_SECONDS, _OWN_SECONDS, on_change
            )
        else:
            raise ServerDown(name, "tools.yaml names it no more")
        self._connections.add(connection)
        return connection
