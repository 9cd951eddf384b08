"""Runs the requests of google-api-python-client, which is synchronous, beside the event loop."""

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

import httplib2
from googleapiclient.discovery import build_from_document  # type: ignore[attr-defined]
from googleapiclient.discovery_cache import get_static_doc
from googleapiclient.http import HttpRequest

from email_assistant.google.auth import Authorization
from email_assistant.google.errors import RateLimited, Revoked
from email_assistant.google.quota import Quota
from email_assistant.google.replies import refusal
from email_assistant.google.transport import GoogleCall, Transport
from email_assistant.meters import measured
from email_assistant.spans import call_span

T = TypeVar("T")
Work = Callable[[GoogleCall, str], T]
"""What is done in a thread, with an access token."""

# Calls of one account that run at the same time: what was decided together leaves together, as far as quota allows.
_AT_ONCE: Final = 24
# Of all accounts: more than a process looks at and works on at once, so that some that hang leave others theirs. One is
# started when none is idle.
_THREADS: Final = 128


class Wire:
    """How this process reaches Google, or the server at `root`: the connections and threads of all accounts, of which
    each would cost megabytes."""

    def __init__(self, root: str | None) -> None:
        self.root = root
        self.transport = Transport(connections=_THREADS)
        self.threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="google")

    def uri(self, at_google: str) -> str:
        """Where a request goes that was made for Google."""
        if self.root is None:
            return at_google
        return self.root.rstrip("/") + urlsplit(at_google)._replace(scheme="", netloc="").geturl()

    async def aclose(self) -> None:
        """Wait for the calls under way, then close the connections."""
        await asyncio.to_thread(self.threads.shutdown)
        self.transport.close()


@cache
def methods(service: str, version: str, *path: str) -> Any:
    """The methods of a service under `path`, such as "users", "messages".

    Their requests carry no transport of their own: run them with a `GoogleClient`.
    """
    if path:
        return getattr(methods(service, version, *path[:-1]), path[-1])()
    document = get_static_doc(service, version)  # type: ignore[no-untyped-call]
    return build_from_document(document, http=object())


class _Http:
    """Stands for an httplib2.Http: what one request of google-api-python-client is executed with."""

    def __init__(self, call: GoogleCall, wire: Wire, bearer: str, *, effect: bool) -> None:
        self._call = call
        self._wire = wire
        self._bearer = bearer
        self._effect = effect

    def request(
        self, uri: str, method: str = "GET", body: str | None = None, headers: Mapping[str, str] | None = None, **_: Any
    ) -> tuple[httplib2.Response, bytes]:
        """Send once. Raises what any status but success means."""
        signed = {**(headers or {}), "authorization": f"Bearer {self._bearer}"}
        at = self._wire.uri(uri)
        reply = self._wire.transport.send(self._call, method, at, headers=signed, body=body, effect=self._effect)
        if not 200 <= reply.status < 300:
            raise refusal(self._call, reply)
        return httplib2.Response({**reply.headers, "status": str(reply.status)}), reply.data


@dataclass(frozen=True, slots=True)
class GoogleClient:
    """Executes requests for one account, each within `timeout` seconds from the moment it is asked for.

    A call that is cancelled or out of time is cut: what was not sent by then is never sent.
    """

    authorization: Authorization
    wire: Wire
    timeout: float
    quota: Quota | None
    _slots: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_AT_ONCE), init=False)

    async def read(self, request: HttpRequest, parse: Callable[[dict[str, Any]], T]) -> T:
        """Execute a request that changes nothing. Raises Transient for every passing fault."""
        return await self._run(request, lambda call, bearer: self._parsed(call, bearer, request, parse, effect=False))

    async def read_all(
        self, page: Callable[..., HttpRequest], parse: Callable[[dict[str, Any]], tuple[list[T], str | None]]
    ) -> list[T]:
        """All that a listing holds. `page`: makes a request by `pageToken`; `parse`: gives entries, and the next."""
        found, token = await self.read(page(pageToken=None), parse)
        while token is not None:
            more, token = await self.read(page(pageToken=token), parse)
            found += more
        return found

    async def write(self, request: HttpRequest, parse: Callable[[dict[str, Any]], T]) -> T:
        """Execute a request that must not happen twice. Raises Ambiguous when it may have happened."""
        return await self._run(request, lambda call, bearer: self._parsed(call, bearer, request, parse, effect=True))

    async def repeat(self, request: HttpRequest) -> None:
        """Execute a write that may happen twice, of which only the success matters. Raises Transient like a read."""
        await self._run(request, lambda call, bearer: self._answer(call, bearer, request, effect=False))

    async def _run(self, request: HttpRequest, work: Work[T]) -> T:
        call = GoogleCall(request.methodId or request.method, self.timeout)
        await self._admitted(call)
        with measured("google", call.name), call_span("google", method=call.name):
            return await self._answered(call, work)

    async def _answered(self, call: GoogleCall, work: Work[T]) -> T:
        try:
            async with asyncio.timeout(call.remaining()), self._slots:
                return await self._authorized(call, work)
        except TimeoutError:
            call.cut()
            raise call.failure(f"no answer within {self.timeout:g} s") from None
        except asyncio.CancelledError:
            call.cut()
            raise
        except RateLimited as limited:
            if self.quota and limited.until:
                await self.quota.close(call.name, limited.until)
            raise

    async def _admitted(self, call: GoogleCall) -> None:
        if self.quota is None:
            return
        try:
            async with asyncio.timeout(call.remaining()):
                await self.quota.admit(call.name, call.remaining())
        except TimeoutError:
            raise call.failure("the quota was not known in time") from None

    async def _authorized(self, call: GoogleCall, work: Work[T]) -> T:
        """Work with an access token, and after a 401 once more with another; one of another process may be bad too."""
        refused: set[str] = set()
        while True:
            bearer = await self.authorization.bearer(call, refused)
            try:
                beside = copy_context().run  # what is logged there is about the same mail
                threads = self.wire.threads
                return await asyncio.get_running_loop().run_in_executor(threads, beside, work, call, bearer.token)
            except Revoked:
                if refused and bearer.is_new:
                    raise
            call.was_refused()  # refused and not executed, so that even a write may be repeated
            refused.add(bearer.token)

    def _parsed(
        self, call: GoogleCall, bearer: str, request: HttpRequest, parse: Callable[[dict[str, Any]], T], *, effect: bool
    ) -> T:
        answer = self._answer(call, bearer, request, effect=effect)
        # googleapiclient hands on a body that is not JSON, a truncated one for instance, as a str.
        if not isinstance(answer, dict):
            raise call.failure("unreadable answer")
        try:
            return parse(answer)
        except (AttributeError, LookupError, TypeError, ValueError):
            raise call.failure("unexpected answer") from None

    def _answer(self, call: GoogleCall, bearer: str, request: HttpRequest, *, effect: bool) -> Any:
        http: Any = _Http(call, self.wire, bearer, effect=effect)
        try:
            return request.execute(http=http, num_retries=0)
        except UnicodeDecodeError:
            raise call.failure("unreadable answer") from None
