"""One session with one server."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import anyio
from mcp import ClientSession, McpError, types
from mcp.server.lowlevel import Server
from mcp.shared.context import RequestContext
from mcp.shared.memory import create_client_server_memory_streams
from pydantic import ValidationError

from email_assistant.errors import AssistantError
from email_assistant.plugins import BadPlugin, plugin
from email_assistant.settings.values import is_on_this_machine
from email_assistant.tools.config import ServerConfig
from email_assistant.tools.mcp.asked import from_error, from_request
from email_assistant.tools.mcp.content import Redirect, Status, TooMuch, Undone, Unreached, one_line, quoted
from email_assistant.tools.mcp.http import http_session
from email_assistant.tools.mcp.stdio import stdio_session
from email_assistant.tools.spec import FilledIn, FormNeeded, LinkNeeded, Progress, ServerDown, ToolError

_CLOSE_SECONDS: Final = 6.0
_FAREWELL_SECONDS: Final = 1.0
_PING_SECONDS: Final = 2.0
_SESSION_OVER: Final = 32600
"""What the library says for a server that has forgotten the session (`_send_session_terminated_error`, 1.30)."""
_CLOSED: Final = "Connection closed"
"""What the library says where its streams have closed (`_receive_loop`, 1.30); servers use the same code for others."""
_MOST_PAGES: Final = 20
_MOST_TOOLS: Final = 500
_CLIENT: Final = types.Implementation(name="email-assistant", version=version("email-assistant"))


class NotSent(AssistantError):
    """The server has not got the request; the message says why."""


class TurnedAway(AssistantError):
    """The server has got the request, and its status says that it did nothing, as it does where the session or the
    token is over (MCP, "Session Management", "Authorization"); the message says why."""


class Lost(AssistantError):
    """The server may have got the request, and no answer came; the message says why."""


class NoUse(Lost):
    """It took too long, or what came can't be read: the same call again would fare no better."""


class Redirected(NoUse):
    """It leads elsewhere, where nothing is asked; it may have done it all the same, as 303 says."""


class ServerRefused(ToolError):
    """The server answered with an error."""


InProcess = Callable[[], Awaitable[Server[Any, Any]]]  # makes a server that runs in this process


@dataclass(eq=False)
class _Flight:
    """A call that is under way."""

    filled_in: list[FilledIn]
    """The server's forms that the person has filled in before, and that it has not asked for again yet."""
    needs: LinkNeeded | FormNeeded | ToolError | None = None
    """What the server asked the person for meanwhile."""


@dataclass(eq=False)
class Connection:
    """A session that a task of its own enters and leaves: anyio wants its scopes left by the task that entered them.

    It is used once: after it has ended, another is made."""

    name: str
    server: ServerConfig | InProcess
    seconds: float  # for each call
    connect_seconds: float  # for connecting, in seconds
    on_change: Callable[[], None]  # called when the server says that its tools have changed
    folder: Path = Path("/")  # where its process runs, if it is one
    ended: str | None = None  # why it can't be used any more
    left: str | None = None  # why nothing new should be asked in it
    _flights: set[_Flight] = field(default_factory=set)
    _undone: Undone = field(default_factory=dict)
    _under_way: int = 0  # requests that wait for their answer
    _leave: asyncio.Event = field(default_factory=asyncio.Event)
    _farewells: set["asyncio.Task[None]"] = field(default_factory=set)
    _limits: set[asyncio.Timeout] = field(default_factory=set)  # of what is asked and not answered
    _is_left: bool = False
    _owner: "asyncio.Task[None] | None" = None
    _session: ClientSession | None = None

    async def open(self) -> None:
        """Raises ServerDown."""
        ready: asyncio.Future[ClientSession] = asyncio.get_running_loop().create_future()
        self._owner = asyncio.create_task(self._own(ready), name=f"mcp-{self.name}")
        try:
            self._session = await ready
        except asyncio.CancelledError:
            self.end("it was not waited for")
            raise

    def end(self, why: str) -> None:
        """Leave the session, without waiting for it; calls that are under way fail."""
        self.ended = self.ended or why
        self._leave.set()

    def leave(self, why: str) -> None:
        """Ask nothing new in it; it ends once what is under way has its answer."""
        self.left = self.left or why
        if not self._under_way:
            self.end(self.left)

    async def aclose(self) -> None:
        self.end("the program stops")
        if self._owner is not None:
            await asyncio.wait([self._owner], timeout=_CLOSE_SECONDS)
            if not self._owner.done():
                self._owner.cancel()
                await asyncio.wait([self._owner], timeout=_CLOSE_SECONDS)

    async def gone(self) -> None:
        """Wait for the end of what has been left, so that no two processes of one server run at a time."""
        if self._is_process and self._owner is not None:
            await asyncio.wait([self._owner], timeout=_CLOSE_SECONDS)

    async def tools(self) -> list[types.Tool]:
        """Raises NotSent, TurnedAway, Lost, ServerRefused."""
        found: list[types.Tool] = []
        cursor: str | None = None
        for _ in range(_MOST_PAGES):
            params = types.PaginatedRequestParams(cursor=cursor)
            request = types.ClientRequest(types.ListToolsRequest(params=params))
            page: types.ListToolsResult = await self._exchanged(request, types.ListToolsResult)
            found += page.tools
            cursor = page.nextCursor
            if not cursor or len(found) > _MOST_TOOLS:
                break
        return found[:_MOST_TOOLS]

    async def check(self) -> None:
        """Find out whether the server still knows the session and the token, which one over HTTP may forget.

        Raises NotSent, TurnedAway, Lost."""
        if isinstance(self.server, ServerConfig) and self.server.url is not None:
            with suppress(ServerRefused):  # it doesn't know the question, but whose it is
                await self._exchanged(types.ClientRequest(types.PingRequest()), types.EmptyResult)

    async def call(
        self,
        tool: str,
        arguments: Mapping[str, Any],
        meta: Mapping[str, Any],
        progress: Progress,
        filled_in: Sequence[FilledIn],
        *,
        reads: bool,
    ) -> types.CallToolResult:
        """`filled_in`: the server's forms that the person has filled in before; `reads`: it changes nothing, so it may
        be called again with what the person says. Raises NotSent, TurnedAway, Lost; ServerRefused: the server did not
        do it, and says so; LinkNeeded, FormNeeded: it needs the person first, and did not do it."""
        params = types.CallToolRequestParams(
            name=tool, arguments=dict(arguments), _meta=types.RequestParams.Meta(**meta) if meta else None
        )
        request = types.ClientRequest(types.CallToolRequest(params=params))
        flight = _Flight(list(filled_in))
        self._flights.add(flight)
        try:
            result: types.CallToolResult = await self._exchanged(
                request, types.CallToolResult, progress_callback=_teller(progress)
            )
        except ServerRefused as refusal:
            raise flight.needs or refusal from None
        finally:
            self._flights.discard(flight)
        if result.isError and flight.needs:
            raise flight.needs
        # A server may do without what it was not told, and answer all the same. What only reads is called again, with
        # the person's answer; what was written has happened, and to ask now would have it done a second time.
        if reads and isinstance(flight.needs, FormNeeded | LinkNeeded):
            raise flight.needs
        return result

    async def _exchanged(self, request: types.ClientRequest, answer: Any, **more: Any) -> Any:
        """Raises NotSent, TurnedAway, Lost, ServerRefused."""
        session = self._session
        assert session is not None
        if self.ended:
            raise NotSent(self.ended)
        # The library takes the next number before it waits for anything; it tells nobody which.
        asked = session._request_id
        self._under_way += 1
        limit = asyncio.timeout(self.seconds)
        self._limits.add(limit)
        try:
            async with limit:
                return await session.send_request(request, answer, **more)
        except TimeoutError:
            if self._is_left:
                raise Lost(self.ended or "the connection has ended") from None
            self._call_off(session, asked)
            await self._end_if_hung(session)
            raise NoUse(f"it did not answer within {self.seconds:g} s") from None
        except asyncio.CancelledError:
            self._call_off(session, asked)
            raise
        except (anyio.ClosedResourceError, anyio.BrokenResourceError):
            raise NotSent(self.ended or "the connection has ended") from None
        except ValidationError:
            raise NoUse("it answers in a form that the protocol doesn't know") from None
        except McpError as error:
            raise self._meaning(error, asked) from None
        finally:
            self._limits.discard(limit)
            self._undone.pop(asked, None)
            self._under_way -= 1
            if self.left:
                self.leave(self.left)

    async def _end_if_hung(self, session: ClientSession) -> None:
        """End a process that has no answer to a ping either, so that another is started; one over HTTP is not ours."""
        if not self._is_process:
            return
        ping = types.ClientRequest(types.PingRequest())
        try:
            with suppress(McpError, ValidationError, anyio.ClosedResourceError, anyio.BrokenResourceError):
                async with asyncio.timeout(_PING_SECONDS):
                    await session.send_request(ping, types.EmptyResult)
        except TimeoutError:
            self.end("it hung, and was ended")

    def _meaning(self, error: McpError, asked: int) -> Exception:
        match self._undone.get(asked):
            case Unreached() as why:
                return NotSent(str(why))
            case Status() as why:
                return TurnedAway(str(why))
            case Redirect() as why:
                return Redirected(str(why))
            case TooMuch() as why:
                return NoUse(f"it {why}")
            case Exception() as why:
                return Lost(str(why))
        if error.error.code == types.CONNECTION_CLOSED and error.error.message == _CLOSED:
            return Lost(self.ended or "the connection has ended")
        if error.error.code == _SESSION_OVER and error.error.message == "Session terminated":
            return TurnedAway("it has forgotten the session")
        if error.error.code == types.URL_ELICITATION_REQUIRED:
            return from_error(self.name, error.error.data, here=self._is_here)
        return ServerRefused(f"{self.name} refuses: {quoted(error.error.message)}")

    @property
    def _is_process(self) -> bool:
        return isinstance(self.server, ServerConfig) and self.server.command is not None

    @property
    def _is_here(self) -> bool:
        """Whether its server is on this machine's loopback, where its links may lead as well."""
        url = self.server.url if isinstance(self.server, ServerConfig) else None
        return url is not None and is_on_this_machine(url)

    def _call_off(self, session: ClientSession, asked: int) -> None:
        """Tell the server that nobody waits any more; nobody waits for that either."""

        async def farewell() -> None:
            params = types.CancelledNotificationParams(requestId=asked, reason="nobody waits any more")
            notice = types.ClientNotification(types.CancelledNotification(params=params))
            with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError, TimeoutError):
                async with asyncio.timeout(_FAREWELL_SECONDS):
                    await session.send_notification(notice)

        task = asyncio.create_task(farewell())
        self._farewells.add(task)
        task.add_done_callback(self._farewells.discard)

    async def _own(self, ready: "asyncio.Future[ClientSession]") -> None:
        """Enter the session, wait for its end, and leave it: all in this task."""
        try:
            async with AsyncExitStack() as stack:
                async with asyncio.timeout(self.connect_seconds):
                    session = await stack.enter_async_context(self._entered())
                    await session.initialize()
                ready.set_result(session)
                await self._leave.wait()
        except BaseException as error:
            self.end(self._why(error))
            if isinstance(error, asyncio.CancelledError):
                raise
        finally:
            self.end("the connection has ended")
            self._is_left = True
            # The library forgets those that wait when a session is left.
            for limit in [each for each in self._limits if not each.expired()]:
                limit.reschedule(asyncio.get_running_loop().time())
            if not ready.done():
                ready.set_exception(ServerDown(self.name, self.ended or ""))

    def _why(self, error: BaseException) -> str:
        """Why there is no session, in words of ours: the error's own may quote headers or an answer."""
        match error:
            case BaseExceptionGroup():
                return self._why(error.exceptions[0])
            case TimeoutError():
                return f"it did not answer within {self.connect_seconds:g} s"
            case FileNotFoundError() | PermissionError():
                return f"its command can't be started ({error.strerror})"
            case BadPlugin():
                return str(error)
            case McpError():
                refused = next(iter(self._undone.values()), None)
                return str(refused) if refused else "it refuses the connection"
            case _:
                return f"the connection failed ({type(error).__name__})"

    def _entered(self) -> AbstractAsyncContextManager[ClientSession]:
        own: dict[str, Any] = {
            "client_info": _CLIENT,
            "message_handler": self._heard,
            "elicitation_callback": self._elicited,
        }
        if not isinstance(self.server, ServerConfig):
            return _in_process(self.server, own)
        if self.server.plugin is not None:
            return _in_process(partial(_added, self.server.plugin), own)
        if self.server.url is not None:
            return http_session(self.server, own, self._undone)
        return stdio_session(self.server, self.folder, own, self._undone, self.end)

    async def _heard(self, message: object) -> None:
        if isinstance(message, types.ServerNotification) and isinstance(
            message.root, types.ToolListChangedNotification
        ):
            self.on_change()

    async def _elicited(
        self, _: "RequestContext[ClientSession, Any]", params: types.ElicitRequestParams
    ) -> types.ElicitResult:
        """Nobody is asked while a call is under way: it ends, and says what it needs. Where several are under way, the
        protocol does not tell which one it is for."""
        if len(self._flights) == 1:
            [flight] = self._flights
            flight.needs = needs = from_request(self.name, params, here=self._is_here)
            for form in flight.filled_in:
                # What was said to one question is no answer to another.
                if isinstance(needs, FormNeeded) and (needs.message, needs.schema) == (form.message, form.schema):
                    flight.filled_in.remove(form)
                    flight.needs = None
                    return types.ElicitResult(action="accept", content=dict(form.values))
        return types.ElicitResult(action="cancel")


async def _added(name: str) -> Server[Any, Any]:
    """Raises BadPlugin."""
    return plugin("tools", name).made(Server)


@asynccontextmanager
async def _in_process(make: InProcess, own: dict[str, Any]) -> AsyncIterator[ClientSession]:
    server = await make()
    async with create_client_server_memory_streams() as (ours, its), anyio.create_task_group() as tasks:
        tasks.start_soon(server.run, *its, server.create_initialization_options())
        async with ClientSession(*ours, **own) as session:
            yield session
        tasks.cancel_scope.cancel()


def _teller(progress: Progress) -> Callable[[float, float | None, str | None], Awaitable[None]]:
    async def told(done: float, total: float | None, message: str | None) -> None:
        amount = f"{done:g}" if total is None else f"{done:g} of {total:g}"
        progress(one_line(f"{message} ({amount})" if message else amount, 200))

    return told
