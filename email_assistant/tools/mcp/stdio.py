"""A server that is a process of ours, over its standard input and output.

The library's own client (`mcp.client.stdio`, 1.30) puts no bound to a line, joins its pieces in quadratic time, and
hands the server our standard error, which may be a terminal or a log.
"""

import re
import subprocess
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final

import anyio
from anyio.abc import Process
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp import ClientSession
from mcp.client.stdio import get_default_environment
from mcp.os.posix.utilities import terminate_posix_process_tree
from mcp.shared.message import SessionMessage
from mcp.types import INTERNAL_ERROR, ErrorData, JSONRPCError, JSONRPCMessage, JSONRPCNotification, JSONRPCRequest

from email_assistant.tools.config import ServerConfig
from email_assistant.tools.mcp.content import MOST_BYTES, Meter, TooMuch, Undone

_LEAVE_SECONDS: Final = 2.0  # for a process to end by itself once its standard input is closed, as the protocol asks
_MOST_SKIPPED: Final = 64 * MOST_BYTES  # of a line that is too long anyway: how long we read on for the next one
_ID = re.compile(rb'^[^{]*\{[^{}\[\]]{0,200}?"id"\s*:\s*(\d{1,18})\b')

Sender = MemoryObjectSendStream[SessionMessage | Exception]
Receiver = MemoryObjectReceiveStream[SessionMessage]


@asynccontextmanager
async def stdio_session(
    server: ServerConfig, folder: Path, own: dict[str, Any], undone: Undone, ended: Callable[[str], None]
) -> AsyncIterator[ClientSession]:
    """A session with a process that is started for it, not yet initialized. `folder`: where it runs; not the current
    one, since `npx`, `uv` and `python -m` believe what lies there; `own`: what to make the session with; `undone`:
    filled in; `ended`: told why when the process ends, or has said too much. Raises OSError: it can't be started."""
    assert server.command is not None
    process = await anyio.open_process(
        server.command,
        cwd=folder,
        env={**get_default_environment(), **server.env},
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    said, heard = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    to_send, sent = anyio.create_memory_object_stream[SessionMessage](0)
    async with process, said, heard, to_send, sent, anyio.create_task_group() as tasks:
        tasks.start_soon(_read, process, said, _Lines(undone), ended)
        tasks.start_soon(_write, process, sent)
        try:
            async with ClientSession(heard, to_send, **own) as session:
                yield session
        finally:
            with anyio.CancelScope(shield=True):
                await _leave(process)
            tasks.cancel_scope.cancel()


async def _read(process: Process, said: Sender, lines: "_Lines", ended: Callable[[str], None]) -> None:
    try:
        async with said:
            assert process.stdout is not None
            async for chunk in process.stdout:
                for message in lines.feed(chunk):
                    await said.send(message)
        with anyio.move_on_after(_LEAVE_SECONDS):
            await process.wait()
        ended("it has ended" + (f" with status {process.returncode}" if process.returncode is not None else ""))
    except TooMuch as error:
        ended(f"it {error}")
    except (anyio.ClosedResourceError, anyio.BrokenResourceError):
        ended("the connection has ended")


async def _write(process: Process, sent: Receiver) -> None:
    assert process.stdin is not None
    with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
        async for message in sent:
            line = message.message.model_dump_json(by_alias=True, exclude_none=True)
            await process.stdin.send(line.encode() + b"\n")


async def _leave(process: Process) -> None:
    """End the process: close its input, then ask, then kill (MCP, "Lifecycle", shutdown)."""
    if process.stdin is not None:
        with suppress(OSError, anyio.ClosedResourceError, anyio.BrokenResourceError):
            await process.stdin.aclose()
    with suppress(ProcessLookupError):
        with anyio.move_on_after(_LEAVE_SECONDS):
            await process.wait()
            return
        await terminate_posix_process_tree(process, _LEAVE_SECONDS)


class _Lines:
    """Makes messages of what comes in, a line each."""

    def __init__(self, undone: Undone) -> None:
        self._undone = undone
        self._pieces: list[bytes] = []
        self._length = 0
        self._meter = Meter()

    def feed(self, chunk: bytes) -> list[SessionMessage]:
        """The messages that are complete now. Raises TooMuch."""
        first, *others = chunk.split(b"\n")
        done = [] if not others else [self._line(first), *map(self._message, others[:-1])]
        self._keep(others[-1] if others else first)
        return [message for message in done if message]

    def _keep(self, piece: bytes) -> None:
        if self._length <= MOST_BYTES:
            self._pieces.append(piece)
        self._length += len(piece)
        if self._length > _MOST_SKIPPED:
            raise TooMuch(f"sent a line of more than {_MOST_SKIPPED // 1_000_000} MB")

    def _line(self, end: bytes) -> SessionMessage | None:
        """The line that was begun and now ends."""
        self._keep(end)
        line, length = b"".join(self._pieces), self._length
        self._pieces, self._length = [], 0
        return self._message(line) if length <= MOST_BYTES else self._refusal(line)

    def _message(self, line: bytes) -> SessionMessage | None:
        try:
            message = JSONRPCMessage.model_validate_json(line)
        except ValueError:
            self._meter.count()
            return None
        if isinstance(message.root, JSONRPCNotification | JSONRPCRequest):
            self._meter.count()
        return SessionMessage(message)

    def _refusal(self, line: bytes) -> SessionMessage | None:
        """What stands in for an answer that is too long, so that only its own call fails."""
        why = TooMuch(f"answered with more than {MOST_BYTES // 1_000_000} MB")
        found = _ID.match(line[:1000])
        if not found:
            raise why
        asked = int(found[1])
        self._undone[asked] = why
        error = ErrorData(code=INTERNAL_ERROR, message=str(why))
        return SessionMessage(JSONRPCMessage(JSONRPCError(jsonrpc="2.0", id=asked, error=error)))
