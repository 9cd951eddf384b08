"""What stands before a Google double: it names and counts every request, and lets those that a test chose go wrong."""

import asyncio
import json
import threading
import time
import urllib.parse
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final, Literal, Self

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route
from starlette.types import Scope

from tests.doubles.serving import Dropped, Hold, Server, Unanswered

Moment = Literal["before", "after"]
"""Before Google carries a request out, or after, when only its answer is still to come."""

_ME: Final = "/gmail/v1/users/{user}"
_CALENDAR: Final = "/calendar/v3"
METHODS: Final = (
    ("token", "POST", "/token"),
    ("clock", "GET", "/token"),
    ("getProfile", "GET", f"{_ME}/profile"),
    ("watch", "POST", f"{_ME}/watch"),
    ("stop", "POST", f"{_ME}/stop"),
    ("messages.list", "GET", f"{_ME}/messages"),
    ("messages.send", "POST", f"{_ME}/messages/send"),
    ("messages.get", "GET", f"{_ME}/messages/{{id}}"),
    ("messages.modify", "POST", f"{_ME}/messages/{{id}}/modify"),
    ("messages.attachments.get", "GET", f"{_ME}/messages/{{id}}/attachments/{{attachment}}"),
    ("threads.get", "GET", f"{_ME}/threads/{{id}}"),
    ("threads.modify", "POST", f"{_ME}/threads/{{id}}/modify"),
    ("drafts.list", "GET", f"{_ME}/drafts"),
    ("drafts.create", "POST", f"{_ME}/drafts"),
    ("drafts.send", "POST", f"{_ME}/drafts/send"),
    ("drafts.get", "GET", f"{_ME}/drafts/{{id}}"),
    ("drafts.update", "PUT", f"{_ME}/drafts/{{id}}"),
    ("drafts.delete", "DELETE", f"{_ME}/drafts/{{id}}"),
    ("history.list", "GET", f"{_ME}/history"),
    ("labels.list", "GET", f"{_ME}/labels"),
    ("labels.create", "POST", f"{_ME}/labels"),
    ("sendAs.list", "GET", f"{_ME}/settings/sendAs"),
    ("sendAs.create", "POST", f"{_ME}/settings/sendAs"),
    ("events.list", "GET", f"{_CALENDAR}/calendars/{{calendar}}/events"),
    ("events.insert", "POST", f"{_CALENDAR}/calendars/{{calendar}}/events"),
    ("events.get", "GET", f"{_CALENDAR}/calendars/{{calendar}}/events/{{id}}"),
    ("events.patch", "PATCH", f"{_CALENDAR}/calendars/{{calendar}}/events/{{id}}"),
    ("calendars.get", "GET", f"{_CALENDAR}/calendars/{{calendar}}"),
    ("calendarList.list", "GET", f"{_CALENDAR}/users/me/calendarList"),
    ("settings.get", "GET", f"{_CALENDAR}/users/me/settings/{{id}}"),
    ("freebusy.query", "POST", f"{_CALENDAR}/freeBusy"),
)
"""Google's names of the methods, and where they are."""

UNITS: Final = {
    **dict.fromkeys(("getProfile", "labels.list", "sendAs.list"), 1),
    "history.list": 2,
    **dict.fromkeys(("messages.list", "messages.modify", "labels.create", "drafts.list"), 5),
    **dict.fromkeys(("threads.modify", "drafts.create", "drafts.delete"), 10),
    "drafts.update": 15,
    **dict.fromkeys(("messages.get", "messages.attachments.get", "drafts.get"), 20),
    "threads.get": 40,
    "stop": 50,
    **dict.fromkeys(("messages.send", "drafts.send", "watch"), 100),
}
"""What a request costs of the Gmail quota (https://developers.google.com/workspace/gmail/api/reference/quota)."""

_EMPTY_PAGE: Final = "after-a-page-without-history"


@dataclass(frozen=True)
class Call:
    """One request as it came."""

    name: str
    """Google's name of the method, such as `drafts.send` or `history.list`; else `unknown`."""
    method: str
    path: str
    path_params: Mapping[str, str]
    query: Mapping[str, list[str]]
    headers: Mapping[str, str]
    raw: bytes
    body: Any
    """What `raw` says, if it is JSON or a form."""
    root: str
    """The root by which it came."""
    port: int
    """The client's: requests over one connection share it."""
    time: float
    scope: Scope = field(repr=False)
    """What ASGI knows of it."""

    @property
    def authorization(self) -> str:
        return self.headers.get("authorization", "")

    def get(self, name: str, default: str = "") -> str:
        return self.query.get(name, [default])[0]

    def all(self, name: str) -> list[str]:
        return self.query.get(name, [])


@dataclass
class Fault:
    """What goes wrong with a request, and with how many more."""

    match: str
    times: int = 1
    root: str | None = None
    about: str = ""
    status: int | None = None
    reason: str = "backendError"
    retry_after: int | None = None
    retry_said: float | None = None
    drop: Moment | None = None
    hang: Moment | None = None
    hold: Hold | None = None
    at: Moment = "before"
    truncated: bool = False
    html502: bool = False
    empty_page: bool = False
    delay: float = 0
    says: Mapping[str, Any] | None = None

    def takes(self, call: Call) -> bool:
        meant = self.root in (None, call.root) and self.about in call.path
        return self.times > 0 and meant and fnmatchcase(call.name, self.match)


class Front:
    """The server of one account. `roots` are the same account under different ports: `Call.root` tells who asked.

    Whoever derives from it says how a request is carried out (`carry_out`) and how a person logs in (`login`).
    """

    login: dict[str, str]
    """The client and refresh token of the account's login."""
    history_floor = 0
    """Asking from below this history id answers that it has expired."""
    history_ahead = 0
    """By how much history ids are shown greater than they are there."""

    def __init__(self, address: str, roots: int = 1) -> None:
        self.address = address
        self._holds: list[Hold] = []
        self._lock = threading.RLock()
        self._server = Server(self._app(), roots)
        self.roots = self._server.urls
        self.forget()

    def forget(self) -> None:
        """Be as new."""
        for hold in self._holds:
            hold.abandon()
        self.requests: list[Call] = []
        self._faults: list[Fault] = []
        self._holds = []

    @property
    def root(self) -> str:
        return self.roots[0]

    def __enter__(self) -> Self:
        self._server.start()
        return self

    def __exit__(self, *_: object) -> None:
        for hold in self._holds:
            hold.abandon()
        self._server.stop()

    async def carry_out(self, call: Call) -> Response:
        """Do what is asked for."""
        raise NotImplementedError

    # What a test does

    @contextmanager
    def at_once(self) -> Iterator[None]:
        """What happens in this block happens between two requests."""
        with self._lock:
            yield

    def fault(
        self,
        match: str,
        *,
        times: int = 1,
        root: str | None = None,
        about: str = "",
        status: int | None = None,
        reason: str = "backendError",
        retry_after: int | None = None,
        retry_said: float | None = None,
        drop: Moment | None = None,
        hang: Moment | None = None,
        hold: Hold | None = None,
        at: Moment = "before",
        truncated: bool = False,
        html502: bool = False,
        empty_page: bool = False,
        delay: float = 0,
        says: Mapping[str, Any] | None = None,
    ) -> Fault:
        """Let the next `times` requests whose name matches (`drafts.send`, `events.*`, `*`) go wrong.

        `status` answers so without doing it, or after it is done (`at`), with a `retry_after` in the header, or
        `retry_said` in the text only (both in seconds); `drop` closes the connection before or after it is done; `hang`
        never answers, before or after it is done; `hold` keeps the request waiting before or after it is done (`at`);
        `truncated` does it and cuts the answer's JSON in half; `html502` answers like a proxy, without doing it;
        `empty_page` answers with nothing but the token of the next page, which holds what was asked for; `delay` is in
        seconds; `says` answers 200 with this, without doing it or after it is done (`at`). `root` limits it to one of
        `roots`, `about` to paths that name this id.
        """
        fault = Fault(
            match,
            times,
            root,
            about,
            status,
            reason,
            retry_after,
            retry_said,
            drop,
            hang,
            hold,
            at,
            truncated,
            html502,
            empty_page,
            delay,
            says,
        )
        with self._lock:
            self._faults.append(fault)
            if hold:
                self._holds.append(hold)
        return fault

    def calls(self, *names: str) -> list[Call]:
        """The requests with one of these names, in order; all of them without a name."""
        return [call for call in list(self.requests) if not names or call.name in names]

    def units(self, calls: Iterable[Call]) -> int:
        """What these requests cost of the Gmail quota."""
        return sum(UNITS[call.name] for call in calls if call.name in UNITS)

    def write_token_file(self, path: Path) -> Path:
        """Write the person's login, in the `authorized_user` form of google-auth."""
        path.write_text(json.dumps({"type": "authorized_user", **self.login, "token_uri": f"{self.root}/token"}))
        return path

    # The server

    def _app(self) -> Starlette:
        routes = [Route(path, self._endpoint(name), methods=[verb]) for name, verb, path in METHODS]
        every_verb = ["GET", "POST", "PUT", "PATCH", "DELETE"]
        return Starlette(routes=[*routes, Route("/{path:path}", self._endpoint("unknown"), methods=every_verb)])

    def _endpoint(self, name: str) -> Callable[[Request], Awaitable[Response]]:
        async def endpoint(request: Request) -> Response:
            raw = await request.body()
            call = Call(
                name=name,
                method=request.method,
                path=request.url.path,
                path_params=request.path_params,
                query=urllib.parse.parse_qs(request.url.query, keep_blank_values=True),
                headers=dict(request.headers),
                raw=raw,
                body=_body(raw, request.headers.get("content-type", "")),
                root="http://{}:{}".format(*request.scope["server"]),
                port=request.scope["client"][1],
                time=time.monotonic(),
                scope=request.scope,
            )
            return await self._answer(call)

        return endpoint

    async def _answer(self, call: Call) -> Response:
        with self._lock:
            self.requests.append(call)
            fault = next((fault for fault in self._faults if fault.takes(call)), None)
            if fault:
                fault.times -= 1
        if fault is None:
            return await self._carried_out(call)
        await asyncio.sleep(fault.delay)
        return await self._refused(fault, call) or await self._spoilt(fault, call, await self._carried_out(call))

    async def _carried_out(self, call: Call) -> Response:
        """What is asked for is done, as far as the history reaches."""
        if call.name == "history.list" and int(call.get("startHistoryId")) < self.history_floor:
            return error(call, 404, "notFound", "Requested entity was not found.")
        if not (self.history_ahead and call.path.startswith("/gmail")):
            return await self.carry_out(call)
        answer = await self.carry_out(self._behind(call))
        if not answer.body:
            return answer
        return JSONResponse(self._ahead(json.loads(bytes(answer.body))), answer.status_code)

    async def _refused(self, fault: Fault, call: Call) -> Response | None:
        """The answer of a request that is not carried out."""
        if fault.hang == "before":
            return Unanswered()
        if fault.drop == "before" or not await _let_through(fault, "before", call):
            return Dropped()
        if fault.html502:
            return HTMLResponse("<html><h1>502 Bad Gateway</h1></html>", 502)
        if fault.empty_page and call.get("pageToken") != _EMPTY_PAGE:
            fault.times += 1  # for the page that follows
            return JSONResponse({"nextPageToken": _EMPTY_PAGE})
        return None if fault.at == "after" else self._says_no(fault, call)

    def _says_no(self, fault: Fault, call: Call) -> Response | None:
        if fault.status is None:
            return JSONResponse(fault.says) if fault.says else None
        said = f"{fault.reason} (injected)"
        if fault.retry_said is not None:
            said += f". Retry after {(datetime.now(UTC) + timedelta(seconds=fault.retry_said)).isoformat()}"
        refused = error(call, fault.status, fault.reason, said)
        if fault.retry_after is not None:
            refused.headers["Retry-After"] = str(fault.retry_after)
        return refused

    async def _spoilt(self, fault: Fault, call: Call, answer: Response) -> Response:
        """What is left of the answer of a request that was carried out."""
        if fault.hang == "after":
            return Unanswered()
        if fault.drop == "after" or not await _let_through(fault, "after", call):
            return Dropped()
        if refused := self._says_no(fault, call):
            return refused
        if fault.truncated:
            whole = bytes(answer.body)
            return Response(whole[: len(whole) // 2], answer.status_code, media_type="application/json")
        return answer

    def _behind(self, call: Call) -> Call:
        if "startHistoryId" not in call.query:
            return call
        start = str(int(call.get("startHistoryId")) - self.history_ahead)
        return replace(call, query={**call.query, "startHistoryId": [start]})

    def _ahead(self, value: Any) -> Any:
        """An answer with its history ids as they are shown."""
        if isinstance(value, list):
            return [self._ahead(entry) for entry in value]
        if not isinstance(value, dict):
            return value
        shown = {name: self._ahead(entry) for name, entry in value.items()}
        for holder, name in ((shown, "historyId"), *((record, "id") for record in shown.get("history", ()))):
            if name in holder:
                holder[name] = str(max(1, int(holder[name]) + self.history_ahead))
        return shown


def error(call: Call, status: int, reason: str, message: str) -> JSONResponse:
    """A refusal as Google's APIs write it, or its token endpoint."""
    if call.name == "token":
        body: dict[str, Any] = {"error": reason, "error_description": message}
    else:
        detail = {"domain": "global", "reason": reason, "message": message}
        body = {"error": {"code": status, "message": message, "errors": [detail]}}
    return JSONResponse(body, status)


def _body(raw: bytes, content_type: str) -> Any:
    if content_type.startswith("application/x-www-form-urlencoded"):
        return dict(urllib.parse.parse_qsl(raw.decode()))
    with suppress(ValueError):
        return json.loads(raw or b"null")
    return None


async def _let_through(fault: Fault, moment: Moment, call: Call) -> bool:
    return fault.hold is None or fault.at != moment or await run_in_threadpool(fault.hold.wait, call.root)
