"""The faulting front before somebody else's Google double, which runs as a process of its own."""

from collections.abc import Mapping
from dataclasses import dataclass

import httpx
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from tests.doubles.front import Call, Front, error

_PASSED_ON = ("content-type", "authorization")
_HANDED_BACK = ("content-type", "location")


@dataclass(frozen=True)
class Upstream:
    """Where requests are sent on to."""

    url: str
    """What takes the place of the path's beginning."""
    bearer: str | None = None
    """The access token there; None: the client's own."""


class Proxy(Front):
    """Carries out what is asked for by asking another server."""

    def __init__(self, address: str, upstreams: Mapping[str, Upstream], roots: int = 1) -> None:
        """`upstreams` are chosen by how a path begins."""
        super().__init__(address, roots)
        self._upstreams = upstreams
        self._http = httpx.Client(trust_env=False, timeout=30)
        self._handed_out: set[str] = set()

    def __exit__(self, *stop: object) -> None:
        super().__exit__(*stop)
        self._http.close()

    async def carry_out(self, call: Call) -> Response:
        prefix, upstream = next((p, u) for p, u in self._upstreams.items() if call.path.startswith(p))
        headers = {name: call.headers[name] for name in _PASSED_ON if name in call.headers}
        if upstream.bearer is not None:
            if call.authorization.removeprefix("Bearer ") not in self._handed_out:
                return error(call, 401, "authError", "Request had invalid authentication credentials.")
            headers["authorization"] = f"Bearer {upstream.bearer}"
        answer = await run_in_threadpool(
            self._http.request,
            call.method,
            upstream.url + call.path.removeprefix(prefix),
            params=[(name, value) for name, values in call.query.items() for value in values],
            content=call.raw,
            headers=headers,
        )
        if call.name == "token" and answer.is_success:
            self._handed_out.add(answer.json()["access_token"])
        kept = {name: answer.headers[name] for name in _HANDED_BACK if name in answer.headers}
        return Response(answer.content, answer.status_code, kept)
