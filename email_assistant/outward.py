"""Requests to addresses that somebody gave: they reach the public network only, carry nothing of ours, and no cookie is
kept."""

import asyncio
import ipaddress
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cached_property
from http import HTTPStatus
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import TYPE_CHECKING

from email_assistant.errors import AssistantError

if TYPE_CHECKING:
    import httpx  # which takes long; most commands ask nobody

_SECONDS = 10.0  # how long one request may take, from the look-up of the name to the answer's status
_MOST_WAIT = 3600
_MOST_REDIRECTS = 5
_FETCHING = {"Accept": "image/*", "Accept-Encoding": "identity", "User-Agent": "Mozilla/5.0"}
"""As little as a server takes: many refuse who does not call itself a browser."""


class TargetRefused(AssistantError):
    """The address is none that may be asked; the message says why."""

    status = HTTPStatus.UNPROCESSABLE_ENTITY


class Unreachable(AssistantError):
    """No answer came; the message says why, without the address."""

    passes = "on another try"


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    retry_after: int  # seconds that the server asked to be left alone; 0 if it did not


@dataclass(frozen=True, slots=True)
class Download:
    media_type: str  # as the server says
    content: bytes


class Outward:
    def __init__(self, *, private: bool, allowed_by: str = "") -> None:
        """
        Args:
            private: allow http, and addresses of this machine and of its network.
            allowed_by: the setting that would, to be named where one is refused.
        """
        self._private = private
        self._remedy = f"; {allowed_by} allows it" if allowed_by else ""

    def check(self, url: str) -> "httpx.URL":
        """The address, taken apart; what its name stands for is looked at when it is asked. Raises TargetRefused."""
        import httpx

        try:
            target = httpx.URL(url)
        except httpx.InvalidURL:
            raise TargetRefused("this is no address") from None
        if target.scheme != "https" and not (self._private and target.scheme == "http"):
            raise TargetRefused("the address must begin with https://")
        if not target.host:
            raise TargetRefused("the address names no server")
        return target

    async def post(self, url: str, headers: Mapping[str, str], body: bytes) -> Answer:
        """Send it once. A redirect is an answer like another; of the answer only the status is read. Raises
        TargetRefused, Unreachable."""
        target = self.check(url)
        async with _answered_in_time(), self._asked("POST", target, headers, body) as answer:
            return Answer(answer.status_code, _seconds(answer.headers.get("retry-after", "")))

    async def get(self, url: str, most: int) -> Download:
        """What stands at an address, or where it leads to: each step is checked like the first. Raises TargetRefused,
        Unreachable, also for more than `most` bytes."""
        target = self.check(url)
        async with _answered_in_time():
            for _ in range(_MOST_REDIRECTS + 1):
                async with self._asked("GET", target, _FETCHING, b"") as answer:
                    if answer.has_redirect_location:
                        target = self.check(str(target.join(answer.headers["location"])))
                        continue
                    return await _read(answer, most)
        raise Unreachable("it leads on and on")

    async def aclose(self) -> None:
        if "_client" in vars(self):
            await self._client.aclose()

    @cached_property
    def _client(self) -> "httpx.AsyncClient":
        import httpx

        # A connection is never kept: it was opened, and its certificate checked, for one name behind an address.
        limits = httpx.Limits(max_keepalive_connections=0)
        cookies = CookieJar(DefaultCookiePolicy(allowed_domains=[]))
        return httpx.AsyncClient(
            trust_env=False, follow_redirects=False, timeout=_SECONDS, limits=limits, cookies=cookies
        )

    @asynccontextmanager
    async def _asked(
        self, method: str, target: "httpx.URL", headers: Mapping[str, str], body: bytes
    ) -> AsyncIterator["httpx.Response"]:
        """The answer, of which nothing but its head has been read."""
        import httpx

        addresses = await self._addresses(target)
        for address in addresses:
            # The name is not looked up again: what was checked is what is connected to.
            request = self._client.build_request(
                method,
                target.copy_with(host=address),
                headers={**headers, "Host": target.netloc.decode("ascii")},
                content=body,
                extensions={"sni_hostname": target.raw_host.decode("ascii")},
            )
            try:
                answer = await self._client.send(request, stream=True)
            except httpx.ConnectError:
                if address == addresses[-1]:
                    raise
                continue
            try:
                yield answer
            finally:
                await answer.aclose()
            return
        raise Unreachable("its name stands for no address")

    async def _addresses(self, target: "httpx.URL") -> list[str]:
        try:
            found = await asyncio.get_running_loop().getaddrinfo(
                target.raw_host.decode("ascii"), target.port or 0, type=socket.SOCK_STREAM
            )
        except (socket.gaierror, UnicodeError):
            raise Unreachable("its name can't be looked up") from None
        addresses = list(dict.fromkeys(str(each[4][0]) for each in found))
        if not self._private and not all(map(_is_public, addresses)):
            raise TargetRefused(f"the address leads to this machine or its network{self._remedy}")
        return addresses


@asynccontextmanager
async def _answered_in_time() -> AsyncIterator[None]:
    import httpx

    try:
        async with asyncio.timeout(_SECONDS):
            yield
    except TimeoutError:
        raise Unreachable(f"no answer within {_SECONDS:g} s") from None
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise Unreachable(f"the server can't be reached ({type(error).__name__})") from None


async def _read(answer: "httpx.Response", most: int) -> Download:
    if answer.status_code != HTTPStatus.OK:
        raise Unreachable(f"the server answers {answer.status_code}")
    if answer.headers.get("content-encoding", "identity").lower() != "identity":
        raise Unreachable("it comes packed, though it was asked not to")  # how large it is would show too late
    content = bytearray()
    async for piece in answer.aiter_raw():
        content += piece
        if len(content) > most:
            raise Unreachable(f"it has more than {most:,} bytes")
    return Download(answer.headers.get("content-type", "").partition(";")[0].strip().lower(), bytes(content))


def _is_public(address: str) -> bool:
    """Reserved ranges hold the ways to write an IPv4 address in IPv6 (NAT64 and others), 6to4 aside."""
    given = ipaddress.ip_address(address)
    if isinstance(given, ipaddress.IPv6Address):
        if given.sixtofour:
            return False
        given = given.ipv4_mapped or given
    return given.is_global and not (given.is_multicast or given.is_reserved)


def _seconds(retry_after: str) -> int:
    """Of the two forms of the header only the number is read; a date counts as none."""
    return min(int(retry_after), _MOST_WAIT) if retry_after.isascii() and retry_after.isdecimal() else 0
