"""Proxies before Google, the model and Postgres: they see every request of one process, and may let it go wrong."""

import asyncio
import re
import struct
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal, Protocol

Place = Literal["google", "model", "postgres"]
Moment = Literal["before", "unanswered", "after"]
"""When a process dies of a request: before it is forwarded, when it was carried out and before the answer is returned,
or after that."""
Fault = Literal["403", "429", "500", "502", "503", "drop before", "drop after", "truncated", "short", "slow"]

DEFERS = "defer"
"""Name of the statements that put a job into the queue."""
_DEFERS = re.compile(r"insert into procrastinate_jobs")
_CHANGES = (b"INSERT", b"UPDATE", b"DELETE")
_BOOKKEEPING = re.compile(r"procrastinate_(workers|periodic)|lease_until|syncing_until|backfill|quota|listed_at")
"""Changes by which a process has not got anywhere: heartbeats, leases, the time of the last look at the mailbox."""
_WRITES = ("insert", "update", "delete", "commit", DEFERS)
_SHORT_NAME = re.compile(r"\s*(?:(insert)\s+into|(update)|(delete)\s+from)\s+([\w.\"]+)|\s*(\w+)", re.IGNORECASE)
_PREFIX = re.compile(r"/(gmail/v1/users/[^/]+|calendar/v3(/calendars/[^/]+|/users/[^/]+)?|v1)/")
_ID = re.compile(r"(?<=/)[^/]*\d[^/]*")


@dataclass(frozen=True)
class Request:
    """One request as a proxy sees it."""

    place: Place
    name: str
    """What is asked for, without ids, such as `POST drafts/send` or `commit`."""
    writes: bool
    """It is meant to change something."""


class Overseer(Protocol):
    """Decides what goes wrong, and keeps count."""

    def kill_moment(self, request: Request) -> Moment | None:
        """Whether the process is to die of this request."""

    def fault(self, request: Request) -> tuple[Fault, float] | None:
        """What else is to go wrong with it, and how many seconds it takes."""

    def effect(self, request: Request) -> None:
        """Something outside the process has changed."""

    def kill(self, request: Request, moment: Moment) -> None:
        """End the process at once."""


class Proxy:
    """Listens on a loopback port of its own."""

    def __init__(self, upstream: int, overseer: Callable[[], Overseer]) -> None:
        """`overseer` returns that of the process which connects now."""
        self._upstream, self._overseer = upstream, overseer
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.Task[None]] = set()

    async def start(self) -> int:
        """Start to listen; return the port."""
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0, limit=1 << 20)
        return int(self._server.sockets[0].getsockname()[1])

    async def stop(self) -> None:
        assert self._server
        self._server.close()
        for task in self._open:
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task
        self._open.add(task)
        try:
            with suppress(OSError, asyncio.IncompleteReadError):
                await self._serve(reader, writer)
        except asyncio.CancelledError:
            pass
        finally:
            self._open.discard(task)
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        raise NotImplementedError


class HttpProxy(Proxy):
    """Before a server that speaks HTTP/1.1 with Content-Length, as the doubles do."""

    def __init__(self, place: Place, upstream: int, overseer: Callable[[], Overseer]) -> None:
        super().__init__(upstream, overseer)
        self._place = place

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        overseer = self._overseer()
        while message := await _read_http(reader):
            request = self._describe(message[0])
            moment = overseer.kill_moment(request)
            if moment == "before":
                overseer.kill(request, moment)
                return
            # Not both in one request, so that each has its own count.
            fault = None if moment else overseer.fault(request)
            answer = await self._answer(message, request, fault, overseer)
            if moment == "unanswered":
                overseer.kill(request, moment)
            if not answer or moment == "unanswered":
                return
            writer.write(answer)
            await writer.drain()
            if moment == "after":
                overseer.kill(request, moment)
            if fault and fault[0] == "short":
                return

    async def _answer(
        self, message: tuple[bytes, bytes], request: Request, fault: tuple[Fault, float] | None, overseer: Overseer
    ) -> bytes:
        """What goes back; nothing if the connection is to be dropped."""
        kind = fault[0] if fault else None
        if fault and kind == "slow":
            await asyncio.sleep(fault[1])
        if kind == "drop before":
            return b""
        if kind in ("403", "429", "500", "502", "503"):
            return _refusal(kind, self._place)
        head, body = await self._forward(message)
        if request.writes and head.split(b" ", 2)[1].startswith(b"2"):
            overseer.effect(request)
        if kind == "drop after":
            return b""
        if kind == "short":
            return head + body[: len(body) // 2]
        if kind == "truncated":
            body = body[: len(body) // 2]
            return re.sub(rb"(?i)content-length: *\d+", b"content-length: %d" % len(body), head) + body
        return head + body

    async def _forward(self, message: tuple[bytes, bytes]) -> tuple[bytes, bytes]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._upstream, limit=1 << 20)
        try:
            writer.write(message[0] + message[1])
            answer = await _read_http(reader)
        finally:
            writer.close()
        assert answer, "the double closed the connection"
        return answer

    def _describe(self, head: bytes) -> Request:
        method, target = head.split(b" ", 2)[:2]
        path = target.decode().partition("?")[0]
        name = _ID.sub("*", _PREFIX.sub("/", path)).removeprefix("/")
        writes = method != b"GET" and name not in ("token", "freeBusy")
        return Request(self._place, f"{method.decode()} {name}", writes)


async def _read_http(reader: asyncio.StreamReader) -> tuple[bytes, bytes] | None:
    """Head and body of the next message; None at the end of the connection."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
        length = re.search(rb"(?i)\r\ncontent-length: *(\d+)", head)
        return head, await reader.readexactly(int(length[1]) if length else 0)
    except asyncio.IncompleteReadError:
        return None


def _refusal(status: str, place: Place) -> bytes:
    """An error in the form of the server that it pretends to come from; 502 is a gateway's, in HTML."""
    if status == "502":
        body, kind = "<html><h1>502 Bad Gateway</h1></html>", "text/html"
    elif place == "google":
        reason = {"403": "forbidden", "429": "rateLimitExceeded"}.get(status, "backendError")
        body = f'{{"error": {{"code": {status}, "message": "injected", "errors": [{{"reason": "{reason}"}}]}}}}'
        kind = "application/json"
    else:
        body, kind = '{"error": {"message": "injected", "type": "injected", "code": null}}', "application/json"
    return f"HTTP/1.1 {status} Injected\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()


class PostgresProxy(Proxy):
    """Before Postgres, without TLS. A request is what the client sends up to the point where it waits for an answer.

    https://www.postgresql.org/docs/current/protocol-message-formats.html
    """

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        overseer = self._overseer()
        length = await reader.readexactly(4)
        startup = length + await reader.readexactly(struct.unpack("!I", length)[0] - 4)
        server_reader, server_writer = await asyncio.open_connection("127.0.0.1", self._upstream)
        server_writer.write(startup)
        session = _Session(overseer)
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(_until_closed(session.requests(reader, server_writer)))
                both.create_task(_until_closed(session.answers(server_reader, writer)))
        except* _Closed:
            pass
        finally:
            server_writer.close()


class _Closed(Exception):
    """One side is gone, and the other must go too."""


async def _until_closed(pump: Coroutine[Any, Any, None]) -> None:
    with suppress(OSError):
        await pump
    raise _Closed


class _Session:
    """One connection: what is under way on it, and what it has changed."""

    def __init__(self, overseer: Overseer) -> None:
        self._overseer = overseer
        self._prepared: dict[bytes, str] = {}
        self._portals: dict[bytes, str] = {}
        self._under_way: deque[str | None] = deque()
        """Statements that run, in order; None where the client waits for an answer."""
        self._dies: tuple[Request, Moment] | None = None
        self._last = "sync"
        self._changed = ""
        """The statement by which the transaction has changed something."""

    async def requests(self, reader: asyncio.StreamReader, server: asyncio.StreamWriter) -> None:
        frames, batch, statements = _Frames(), bytearray(), list[str]()
        while data := await reader.read(1 << 16):
            for kind, frame in frames.cut(data):
                batch += frame
                if statement := self._statement(kind, frame[5:]):
                    statements.append(statement)
                if kind in b"SQ":
                    self._under_way.append(None)
                    if self._dies_before(statements):
                        return
                    statements.clear()
                if kind not in b"PBDEC":  # the rest of a request follows these
                    server.write(batch)
                    batch.clear()
            await server.drain()

    async def answers(self, server: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        frames = _Frames()
        while data := await server.read(1 << 16):
            out = bytearray()
            for kind, frame in frames.cut(data):
                out += frame
                self._follow(kind, frame[5:])
                if kind == b"Z" and self._dies:
                    request, moment = self._dies
                    if moment == "after":
                        writer.write(out)
                        await writer.drain()
                    self._overseer.kill(request, moment)
                    return
            if self._dies and self._dies[1] == "unanswered":
                continue
            writer.write(out)
            await writer.drain()

    def _statement(self, kind: bytes, payload: bytes) -> str | None:
        """Take note of a message of the client; returns the statement that it has run."""
        match kind:
            case b"Q":
                statement = payload[:-1].decode()
            case b"P":
                name, query, _ = payload.split(b"\0", 2)
                self._prepared[name] = query.decode()
                return None
            case b"B":
                portal, name, _ = payload.split(b"\0", 2)
                self._portals[portal] = self._prepared.get(name, "")
                return None
            case b"E":
                statement = self._portals.get(payload.split(b"\0", 1)[0], "")
            case _:
                return None
        self._under_way.append(statement)
        return statement

    def _dies_before(self, statements: list[str]) -> bool:
        self._last = _short(statements[-1]) if statements else self._last  # none in what only ends a pipeline
        name = self._last
        if name == "commit" and self._changed:
            name = f"commit of {self._changed}"
        request = Request("postgres", name, writes=name.split()[0] in _WRITES)
        moment = self._overseer.kill_moment(request)
        if moment == "before":
            self._overseer.kill(request, moment)
            return True
        if moment:
            self._dies = request, moment
        return False

    def _follow(self, kind: bytes, payload: bytes) -> None:
        """Take note of a message of the server."""
        if kind == b"C" and self._under_way and (statement := self._under_way.popleft()) is not None:
            self._completed(statement, payload[:-1])
        elif kind == b"Z":
            while self._under_way and self._under_way.popleft() is not None:
                pass
            if payload == b"I" and self._changed:
                self._overseer.effect(Request("postgres", self._changed, writes=True))
                self._changed = ""

    def _completed(self, statement: str, tag: bytes) -> None:
        if tag == b"ROLLBACK":
            self._changed = ""
        elif self._changed or _BOOKKEEPING.search(statement):
            return
        elif tag.split()[0] in _CHANGES and not tag.endswith(b" 0"):
            self._changed = _short(statement)


class _Frames:
    """Cuts a stream into messages: a type byte, a length that counts itself, the rest."""

    def __init__(self) -> None:
        self._rest = b""

    def cut(self, data: bytes) -> Iterator[tuple[bytes, bytes]]:
        buffer = self._rest + data
        at = 0
        while len(buffer) >= at + 5:
            end = at + 1 + int.from_bytes(buffer[at + 1 : at + 5], "big")
            if len(buffer) < end:
                break
            yield buffer[at : at + 1], buffer[at:end]
            at = end
        self._rest = buffer[at:]


def _short(statement: str) -> str:
    """The verb, and the table if it changes one."""
    if _DEFERS.search(statement):
        return DEFERS
    found = _SHORT_NAME.match(statement)
    if not found:
        return "(empty)"
    verb, table = found[1] or found[2] or found[3], found[4]
    return f"{verb} {table}".lower() if verb else found[5].lower()
