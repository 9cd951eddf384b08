"""A server at a URL. Every request gets an answer that its own call can fail by, whatever becomes of it on the way.

The library's client (`mcp.client.streamable_http`, 1.30) ends the whole session, and all its calls, where a server
answers 401 or 500, and leaves a call waiting where an answer can't be read. So what is wrong is turned here into an
error of the protocol, and `Undone` keeps what it was.
"""

import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import httpx
from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client
from mcp.types import INTERNAL_ERROR, JSONRPCError, JSONRPCMessage, JSONRPCResponse

from email_assistant.tools.config import ServerConfig
from email_assistant.tools.mcp.content import MOST_BYTES, Meter, Redirect, Status, TooMuch, Undone, Unreached

_STREAM: Final = "text/event-stream"
_EVENT_ID: Final = re.compile(rb"(?m)^id:")
_EVENT_END: Final = re.compile(rb"\n\r?\n")


@asynccontextmanager
async def http_session(server: ServerConfig, session: dict[str, Any], undone: Undone) -> AsyncIterator[ClientSession]:
    """A session with a server at a URL, not yet initialized. `session`: what to make the session with; `undone`: filled
    in."""
    assert server.url is not None
    async with (
        httpx.AsyncClient(
            # What is compressed may be a thousand times as long.
            headers={**server.headers, "Accept-Encoding": "identity"},
            # The stream for what the server says by itself is silent for hours.
            timeout=httpx.Timeout(server.timeout_seconds, read=24 * 3600.0),
            # Proxies of the environment are for other programs' traffic with the web; httpx leaves them out where it is
            # given a transport.
            transport=_Answering(undone, server.timeout_seconds),
        ) as client,
        streamable_http_client(server.url, http_client=client) as (read, write, _),
        ClientSession(read, write, **session) as made,
    ):
        yield made


class _Answering(httpx.AsyncBaseTransport):
    def __init__(self, undone: Undone, read_seconds: float) -> None:
        self._undone = undone
        self._read_seconds = read_seconds
        self._inner = httpx.AsyncHTTPTransport()

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if request.method != "POST":
            return await self._beside(request)
        asked = json.loads(request.content).get("id")
        # A call that nobody waits for any more keeps no connection.
        request.extensions["timeout"] = {**request.extensions["timeout"], "read": self._read_seconds}
        try:
            response = await self._inner.handle_async_request(request)
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout):
            return self._failed(request, asked, Unreached("it can't be reached"))
        except httpx.TransportError:
            return self._failed(request, asked, ConnectionError("the connection broke"))
        if response.status_code == 404 and asked is not None:
            await response.aclose()
            return httpx.Response(404, request=request)  # the session is over; the library says so
        if response.is_success and not _is_packed(response):
            if response.headers.get("content-type", "").lower().startswith(_STREAM):
                return self._bounded(response, asked)
            return await self._whole(request, response, asked)
        await response.aclose()
        return self._failed(request, asked, _turned_away(response))

    async def _beside(self, request: httpx.Request) -> httpx.Response:
        """A stream for what the server says by itself, or a farewell: one that can't be had is done without."""
        response = await self._inner.handle_async_request(request)
        if not _is_packed(response):
            return self._bounded(response, None)
        await response.aclose()
        return httpx.Response(405, request=request)

    async def _whole(self, request: httpx.Request, response: httpx.Response, asked: int | str | None) -> httpx.Response:
        content = bytearray()
        try:
            async for piece in response.aiter_raw():
                content += piece
                if len(content) > MOST_BYTES:
                    raise TooMuch(f"answered with more than {MOST_BYTES // 1_000_000} MB")
        except TooMuch as error:
            return self._failed(request, asked, error)
        except httpx.TransportError:
            return self._failed(request, asked, ConnectionError("the connection broke"))
        finally:
            await response.aclose()
        if asked is not None and not _answers(bytes(content), asked):
            return self._failed(request, asked, ConnectionError("it answers with something else than was asked for"))
        headers = {name: value for name, value in response.headers.items() if name.lower() != "content-length"}
        return httpx.Response(response.status_code, headers=headers, content=bytes(content), request=request)

    def _bounded(self, response: httpx.Response, asked: int | str | None) -> httpx.Response:
        assert isinstance(response.stream, httpx.AsyncByteStream)
        response.stream = _Events(response.stream, asked, self._undone)
        return response

    def _failed(self, request: httpx.Request, asked: int | str | None, error: Exception) -> httpx.Response:
        if asked is None:
            return httpx.Response(202, request=request)
        self._undone[asked] = error
        return httpx.Response(200, json=_error(asked), request=request)


class _Events(httpx.AsyncByteStream):
    """A stream of events, which ends where it says too much or breaks, with an answer to what was asked."""

    def __init__(self, stream: httpx.AsyncByteStream, asked: int | str | None, undone: Undone) -> None:
        self._stream = stream
        self._asked = asked
        self._undone = undone
        self._meter = Meter()
        self._length = 0  # of the event that has begun
        self._tail = b""  # what came last, which may be half of an event's end

    async def __aiter__(self) -> AsyncIterator[bytes]:
        resumes = False
        why: Exception = ConnectionError("the connection broke")
        try:
            async for chunk in self._stream:
                resumes = resumes or bool(_EVENT_ID.search(chunk))
                self._count(chunk)
                yield chunk
        except TooMuch as error:
            why, resumes = error, False
        except httpx.TransportError:
            pass
        # Where events have ids, the library asks for those that are still missing.
        if self._asked is not None and not resumes:
            # After the answer has come nobody reads this any more.
            self._undone[self._asked] = why
            yield b"\n\nevent: message\ndata: " + json.dumps(_error(self._asked)).encode() + b"\n\n"

    async def aclose(self) -> None:
        await self._stream.aclose()

    def _count(self, chunk: bytes) -> None:
        """Raises TooMuch: an event is longer than a message may be, or they are too many."""
        text, counted = self._tail + chunk, len(self._tail)
        ends = [found.end() for found in _EVENT_END.finditer(text)]
        for end in ends:
            self._add(end - counted)
            self._length, counted = 0, end
        self._add(len(text) - counted)
        self._meter.count(len(ends))
        self._tail = text[max(ends[-1] if ends else 0, len(text) - 2) :]

    def _add(self, length: int) -> None:
        self._length += length
        if self._length > MOST_BYTES:
            raise TooMuch(f"answered with more than {MOST_BYTES // 1_000_000} MB")


def _is_packed(response: httpx.Response) -> bool:
    """Whether it is longer than what is counted of it."""
    return bool(response.headers.get("content-encoding"))


def _error(asked: int | str) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": asked, "error": {"code": INTERNAL_ERROR, "message": "no answer"}}


def _answers(content: bytes, asked: int | str) -> bool:
    try:
        message = JSONRPCMessage.model_validate_json(content).root
    except ValueError:
        return False
    return isinstance(message, JSONRPCResponse | JSONRPCError) and message.id == asked


def _turned_away(response: httpx.Response) -> Exception:
    match response.status_code:
        case 401 | 403:
            return Status(f"it answers {response.status_code}: check the token in its headers")
        case 400 | 404 | 405 | 406 | 413 | 415 | 429:
            return Status(f"it answers {response.status_code}")
        case status if 300 <= status < 400:
            return Redirect("it redirects: set the address that it leads to as its url")
        case status if status >= 400:
            return ConnectionError(f"it answers {status}")
        case _:
            return ConnectionError("it answers in a compression that was not asked for")
