"""Where the browser brings Google's answer to a login: an HTTP server on loopback, as the browser sees it."""

import asyncio
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from http import HTTPStatus
from typing import Final
from urllib.parse import parse_qsl, urlsplit

_HOST: Final = "127.0.0.1"
_LONGEST = 64 * 1024
_PATIENCE_SECONDS = 10  # browsers open connections ahead, over which nothing may ever come

_DONE = "Google has answered. You can close this page: the terminal shows how the login went."
_OTHER = "This belongs to no login that is under way. Begin again in the terminal."
_NOTHING = "There is nothing here."


class Loopback:
    """Takes the one answer that holds `state`; whatever else comes is refused, and the wait goes on."""

    def __init__(self, state: str) -> None:
        self._state = state
        self._answer: asyncio.Future[dict[str, str]] = asyncio.get_running_loop().create_future()

    @asynccontextmanager
    async def listen(self, port: int, host: str = _HOST) -> AsyncIterator[str]:
        """Listen while the block lasts; yields the redirect URI. Raises OSError.

        Args:
            port: 0 is any free one.
            host: another in a container, whose loopback is not the browser's.
        """
        server = await asyncio.start_server(self._serve, host, port, limit=_LONGEST)
        try:
            yield f"http://{_HOST}:{server.sockets[0].getsockname()[1]}/"
        finally:
            server.close()

    async def answer(self) -> dict[str, str]:
        """What Google has added to the redirect URI, once the browser has been there."""
        return await self._answer

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        answer = None
        # Not HTTP, or nobody there any more: nothing to do.
        with suppress(OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            async with asyncio.timeout(_PATIENCE_SECONDS):
                head = await reader.readuntil(b"\r\n\r\n")
                answer, status, text = self._judge(head)
                writer.write(_page(status, text))
                await writer.drain()
                writer.close()
                await writer.wait_closed()
        writer.close()
        if answer and not self._answer.done():
            self._answer.set_result(answer)

    def _judge(self, head: bytes) -> tuple[dict[str, str] | None, HTTPStatus, str]:
        method, _, rest = head.partition(b"\r\n")[0].decode("ascii", "replace").partition(" ")
        try:
            target = urlsplit(rest.rpartition(" ")[0])
        except ValueError:
            return None, HTTPStatus.BAD_REQUEST, _NOTHING
        if method != "GET" or target.path != "/":
            return None, HTTPStatus.NOT_FOUND, _NOTHING
        answer = dict(parse_qsl(target.query))
        ours = secrets.compare_digest(answer.get("state", "").encode(), self._state.encode())
        if not ours or not {"code", "error"} & answer.keys():
            return None, HTTPStatus.BAD_REQUEST, _OTHER
        return answer, HTTPStatus.OK, _DONE


def _page(status: HTTPStatus, text: str) -> bytes:
    body = f'<!doctype html><html lang="en"><meta charset="utf-8"><title>email-assistant</title><p>{text}</p></html>'
    lines = (
        f"HTTP/1.1 {status.value} {status.phrase}",
        "Content-Type: text/html; charset=utf-8",
        f"Content-Length: {len(body)}",
        "Content-Security-Policy: default-src 'none'",
        "Referrer-Policy: no-referrer",  # the address holds the code
        "Cache-Control: no-store",
        "Connection: close",
        "",
        body,
    )
    return "\r\n".join(lines).encode()
