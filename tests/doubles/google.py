"""A Google double: Gmail, Calendar and the token endpoint over HTTP, in memory, in a thread of the test process.

Gmail is at `<root>/gmail/v1`, Calendar at `<root>/calendar/v3`, tokens at `<root>/token`. Known gaps: no batch, no
uploads, nothing published to topics, no attachments apart, no `fields` (answers are always whole),
no recurring events; a search word it does not know is refused with 400, and a path it does not know is recorded as
`unknown` and answered 404.
"""

import base64
import binascii
import json
import threading
import time
import urllib.parse
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal
from zoneinfo import ZoneInfo

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from tests.doubles.mailbox import SYSTEM_LABELS, Mailbox, Message, RefusedError, invalid, not_found, show
from tests.doubles.serving import Dropped, Hold, Server

UNITS = {
    "getProfile": 1,
    "labels.list": 1,
    "history.list": 2,
    "sendAs.list": 1,
    "messages.list": 5,
    "messages.modify": 5,
    "labels.create": 5,
    "drafts.list": 5,
    "drafts.get": 5,
    "drafts.create": 10,
    "drafts.delete": 10,
    "threads.modify": 10,
    "drafts.update": 15,
    "messages.get": 20,
    "threads.get": 40,
    "messages.send": 100,
    "drafts.send": 100,
}
"""What a request costs of Gmail's quota (usage limits of the Gmail API, for projects made since May 2026)."""

Moment = Literal["before", "after"]
"""Before Google carries a request out, or after, when only its answer is still to come."""


@dataclass(frozen=True)
class Call:
    """One request as it came."""

    name: str
    """Google's name of the method, such as `drafts.send` or `history.list`."""
    method: str
    path: str
    path_params: Mapping[str, str]
    query: Mapping[str, list[str]]
    body: Any
    root: str
    """The root by which it came."""
    port: int
    """The client's: requests over one connection share it."""
    authorization: str
    time: float

    def get(self, name: str, default: str = "") -> str:
        return self.query.get(name, [default])[0]

    def all(self, name: str) -> list[str]:
        return self.query.get(name, [])


@dataclass
class Fault:
    match: str
    times: int
    root: str | None
    status: int | None
    reason: str
    retry_after: int | None
    drop: Moment | None
    hold: Hold | None
    at: Moment
    truncated: bool
    html502: bool
    delay: float


class Google:
    """One person's Google account.

    `roots` are the same account under different ports: give each process its own, and `Call.root` tells who asked.
    """

    def __init__(self, address: str = "ada@example.com", timezone: str = "Europe/Berlin", roots: int = 1) -> None:
        self.address, self.timezone = address, timezone
        self.mailbox = Mailbox(address)
        self.events: dict[str, dict[str, Any]] = {}
        """Those of the primary calendar."""
        self.calendars: dict[str, dict[str, Any]] = {}
        """The person's other calendars, as their list shows them."""
        self.meets = True
        """Whether the primary calendar may hold Meet conferences."""
        self._others: dict[str, dict[str, dict[str, Any]]] = {}
        self.requests: list[Call] = []
        self.refresh_tokens = {"refresh-1"}
        self.access_tokens: set[str] = set()
        self.signature = ""
        self.watch_topic = ""
        """The Pub/Sub topic that is told of changes, none at first. Nothing is published."""
        self._faults: list[Fault] = []
        self._holds: list[Hold] = []
        self._lock = threading.RLock()
        self._server = Server(self._app(), roots)
        self.roots = self._server.urls

    @property
    def root(self) -> str:
        return self.roots[0]

    def __enter__(self) -> "Google":
        self._server.start()
        return self

    def __exit__(self, *_: object) -> None:
        for hold in self._holds:
            hold.abandon()
        self._server.stop()

    # What a test does

    @contextmanager
    def at_once(self) -> Iterator[None]:
        """What happens in this block happens between two requests."""
        with self._lock:
            yield

    def deliver(
        self,
        from_: str,
        subject: str | None,
        text: str | None,
        *,
        thread: str | None = None,
        headers: Mapping[str, str] | None = None,
        html: str | None = None,
        labels: Iterable[str] = ("INBOX", "UNREAD"),
        age: timedelta = timedelta(0),
    ) -> str:
        """Mail arrives, `age` ago; return its Gmail id. With `thread` it answers that thread's last message."""
        with self._lock:
            message = self.mailbox.deliver(
                from_, subject, text, thread=thread, headers=headers or {}, html=html, labels=labels, age=age
            )
            return message.id

    def deliver_raw(self, raw: bytes) -> str:
        """Mail arrives, byte for byte as given; return its Gmail id."""
        with self._lock:
            return self.mailbox.deliver_raw(raw).id

    def person_sends(self, thread: str, text: str) -> str:
        """The person answers in Gmail themselves; return the sent message's id."""
        with self._lock:
            return self.mailbox.person_sends(thread, text).id

    def person_deletes(self, message_id: str) -> None:
        """The person deletes a message or a draft for good."""
        with self._lock:
            self.mailbox.delete(message_id)

    def person_relabels(self, message_id: str, add: Iterable[str] = (), remove: Iterable[str] = ()) -> None:
        """The person puts labels on a message and takes others off, by their names; a new name makes a label."""
        with self._lock:
            box = self.mailbox
            box.relabel(box.message(message_id), map(box.label, add), map(box.label, remove))

    def person_deletes_label(self, name: str) -> None:
        """The person deletes a label, which takes it off every message."""
        with self._lock:
            self.mailbox.delete_label(name)

    def labels_of(self, message_id: str) -> set[str]:
        """The names of the labels on a message that are not Gmail's own."""
        with self._lock:
            return {self.mailbox.labels[i] for i in self.message(message_id).labels} - set(SYSTEM_LABELS)

    def person_moves(self, message_id: str, *, to: Iterable[str] = (), out_of: Iterable[str] = ()) -> None:
        """The person adds and removes labels of a message: out of INBOX is what archiving does."""
        with self._lock:
            self.mailbox.relabel(self.mailbox.message(message_id), to, out_of)

    def person_drafts(self, thread: str, text: str, draft_id: str | None = None) -> str:
        """The person begins an answer in Gmail, or changes the text of a draft; return the draft's id."""
        with self._lock:
            return self.mailbox.person_drafts(thread, text, draft_id)

    def person_sends_draft(self, draft_id: str) -> str:
        """The person sends a draft in Gmail; return the sent message's id."""
        with self._lock:
            return self.mailbox.person_sends_draft(draft_id).id

    def add_calendar(self, name: str, *, selected: bool = True) -> str:
        """The person has one more calendar, ticked or not; return its id."""
        with self._lock:
            calendar = f"{name}@group.calendar.google.com"
            entry = {"id": calendar, "summary": name, "accessRole": "reader", "timeZone": self.timezone}
            self.calendars[calendar] = entry | ({"selected": True} if selected else {})
            self._others[calendar] = {}
            return calendar

    def add_event(self, title: str, start: date, end: date, *, calendar: str = "primary", **more: Any) -> str:
        """Something stands in a calendar, at times or on whole days, with fields of the test's own; return its id."""
        with self._lock:
            events = self._events_in(calendar)
            event_id = f"event{len(events) + 1}"
            events[event_id] = {
                "id": event_id,
                "iCalUID": f"{event_id}-{calendar}@google.com",
                "status": "confirmed",
                "summary": title,
                "start": _when(start),
                "end": _when(end),
                **more,
            }
            return event_id

    def expire_history(self) -> None:
        """Every historyId handed out so far is too old: asking from it answers 404."""
        with self._lock:
            self.mailbox.history_id += 1
            self.mailbox.history_floor = self.mailbox.history_id

    def expire_access_tokens(self) -> None:
        """Every access token answers 401 until it is refreshed."""
        with self._lock:
            self.access_tokens.clear()

    def fault(
        self,
        match: str,
        *,
        times: int = 1,
        root: str | None = None,
        status: int | None = None,
        reason: str = "backendError",
        retry_after: int | None = None,
        drop: Moment | None = None,
        hold: Hold | None = None,
        at: Moment = "before",
        truncated: bool = False,
        html502: bool = False,
        delay: float = 0,
    ) -> None:
        """Let the next `times` requests whose name matches (`drafts.send`, `events.*`, `*`) go wrong.

        `status` answers so without doing it; `drop` closes the connection before or after it is done; `hold` keeps
        the request waiting before or after it is done (`at`); `truncated` does it and cuts the answer's JSON in half;
        `html502` answers like a proxy, without doing it; `delay` is in seconds. `root` limits it to one of `roots`.
        """
        with self._lock:
            self._faults.append(
                Fault(match, times, root, status, reason, retry_after, drop, hold, at, truncated, html502, delay)
            )
            if hold:
                self._holds.append(hold)

    def calls(self, *names: str) -> list[Call]:
        """The requests with one of these names, in order; all of them without a name."""
        return [call for call in list(self.requests) if not names or call.name in names]

    def units(self, calls: Iterable[Call]) -> int:
        """What these requests cost of Gmail's quota."""
        return sum(UNITS[call.name] for call in calls if call.path.startswith("/gmail/"))

    @property
    def sent(self) -> list[Message]:
        """What was sent over the API, in order."""
        return list(self.mailbox.sent)

    @property
    def drafts(self) -> list[Message]:
        return list(self.mailbox.drafts.values())

    def message(self, message_id: str) -> Message:
        return self.mailbox.message(message_id)

    def write_token_file(self, path: Path) -> Path:
        """Write the person's login, in the `authorized_user` form of google-auth."""
        path.write_text(
            json.dumps(
                {
                    "type": "authorized_user",
                    "client_id": "client-id",
                    "client_secret": "client-secret",
                    "refresh_token": "refresh-1",
                    "token_uri": f"{self.root}/token",
                }
            )
        )
        return path

    # The server

    def _app(self) -> Starlette:
        me = "/gmail/v1/users/{user}"
        calendar = "/calendar/v3"
        methods: list[tuple[str, str, str, Callable[[Call], Any]]] = [
            ("token", "POST", "/token", self._token),
            ("clock", "GET", "/token", self._no_grant),
            ("getProfile", "GET", f"{me}/profile", self._profile),
            ("watch", "POST", f"{me}/watch", self._watch),
            ("stop", "POST", f"{me}/stop", self._stop),
            ("messages.list", "GET", f"{me}/messages", self._messages_list),
            ("messages.send", "POST", f"{me}/messages/send", self._messages_send),
            ("messages.get", "GET", f"{me}/messages/{{id}}", self._messages_get),
            ("messages.modify", "POST", f"{me}/messages/{{id}}/modify", self._messages_modify),
            ("threads.get", "GET", f"{me}/threads/{{id}}", self._threads_get),
            ("threads.modify", "POST", f"{me}/threads/{{id}}/modify", self._threads_modify),
            ("drafts.list", "GET", f"{me}/drafts", self._drafts_list),
            ("drafts.create", "POST", f"{me}/drafts", self._drafts_create),
            ("drafts.send", "POST", f"{me}/drafts/send", self._drafts_send),
            ("drafts.get", "GET", f"{me}/drafts/{{id}}", self._drafts_get),
            ("drafts.update", "PUT", f"{me}/drafts/{{id}}", self._drafts_update),
            ("drafts.delete", "DELETE", f"{me}/drafts/{{id}}", self._drafts_delete),
            ("history.list", "GET", f"{me}/history", self._history_list),
            ("labels.list", "GET", f"{me}/labels", self._labels_list),
            ("labels.create", "POST", f"{me}/labels", self._labels_create),
            ("sendAs.list", "GET", f"{me}/settings/sendAs", self._send_as_list),
            ("events.list", "GET", f"{calendar}/calendars/{{calendar}}/events", self._events_list),
            ("events.insert", "POST", f"{calendar}/calendars/{{calendar}}/events", self._events_insert),
            ("events.get", "GET", f"{calendar}/calendars/{{calendar}}/events/{{id}}", self._events_get),
            ("events.patch", "PATCH", f"{calendar}/calendars/{{calendar}}/events/{{id}}", self._events_patch),
            ("calendars.get", "GET", f"{calendar}/calendars/{{calendar}}", self._calendars_get),
            ("calendarList.list", "GET", f"{calendar}/users/me/calendarList", self._calendar_list),
            ("settings.get", "GET", f"{calendar}/users/me/settings/{{id}}", self._settings_get),
            ("freebusy.query", "POST", f"{calendar}/freeBusy", self._freebusy),
        ]
        routes = [Route(path, self._endpoint(name, do), methods=[verb]) for name, verb, path, do in methods]
        every_verb = ["GET", "POST", "PUT", "PATCH", "DELETE"]
        return Starlette(routes=[*routes, Route("/{path:path}", self._endpoint("unknown", _gap), methods=every_verb)])

    def _endpoint(self, name: str, do: Callable[[Call], Any]) -> Callable[[Request], Awaitable[Response]]:
        async def endpoint(request: Request) -> Response:
            raw = await request.body()
            form = request.headers.get("content-type", "").startswith("application/x-www-form-urlencoded")
            call = Call(
                name=name,
                method=request.method,
                path=request.url.path,
                path_params=request.path_params,
                query=urllib.parse.parse_qs(request.url.query, keep_blank_values=True),
                body=dict(urllib.parse.parse_qsl(raw.decode())) if form else json.loads(raw or b"null"),
                root="http://{}:{}".format(*request.scope["server"]),
                port=request.scope["client"][1],
                authorization=request.headers.get("authorization", ""),
                time=time.monotonic(),
            )
            return await run_in_threadpool(self._answer, call, do)

        return endpoint

    def _answer(self, call: Call, do: Callable[[Call], Any]) -> Response:
        with self._lock:
            self.requests.append(call)
            fault = self._take_fault(call)
        if fault is None:
            return self._carry_out(call, do)
        time.sleep(fault.delay)
        if fault.drop == "before" or not _let_through(fault, "before", call):
            return Dropped()
        if fault.html502:
            return HTMLResponse("<html><h1>502 Bad Gateway</h1></html>", 502)
        if fault.status:
            refused = _error(call, RefusedError(fault.status, fault.reason, f"{fault.reason} (injected)"))
            if fault.retry_after is not None:
                refused.headers["Retry-After"] = str(fault.retry_after)
            return refused
        answer = self._carry_out(call, do)
        if fault.drop == "after" or not _let_through(fault, "after", call):
            return Dropped()
        if fault.truncated:
            whole = bytes(answer.body)
            return Response(whole[: len(whole) // 2], answer.status_code, media_type="application/json")
        return answer

    def _take_fault(self, call: Call) -> Fault | None:
        for fault in self._faults:
            if fault.times > 0 and fnmatchcase(call.name, fault.match) and fault.root in (None, call.root):
                fault.times -= 1
                return fault
        return None

    def _carry_out(self, call: Call, do: Callable[[Call], Any]) -> Response:
        try:
            with self._lock:
                self._check_caller(call)
                answer = do(call)
                return Response(status_code=204) if answer is None else JSONResponse(answer)
        except RefusedError as refused:
            return _error(call, refused)

    def _check_caller(self, call: Call) -> None:
        if call.name in ("token", "clock"):
            return
        if call.authorization.removeprefix("Bearer ") not in self.access_tokens:
            raise RefusedError(401, "authError", "Request had invalid authentication credentials.")
        if call.path_params.get("user", "me") not in ("me", self.address):
            raise RefusedError(403, "forbidden", f"Delegation denied for {self.address}")

    def _token(self, call: Call) -> dict[str, Any]:
        if call.body.get("grant_type") != "refresh_token" or call.body.get("refresh_token") not in self.refresh_tokens:
            raise RefusedError(400, "invalid_grant", "Token has been expired or revoked.")
        token = f"access-{len(self.calls('token'))}"
        self.access_tokens.add(token)
        return {"access_token": token, "expires_in": 3599, "token_type": "Bearer"}

    def _no_grant(self, call: Call) -> Any:
        raise not_found()

    # Gmail

    def _profile(self, call: Call) -> dict[str, Any]:
        box = self.mailbox
        threads = {m.thread_id for m in box.messages.values()}
        return {
            "emailAddress": self.address,
            "messagesTotal": len(box.messages),
            "threadsTotal": len(threads),
            "historyId": str(box.history_id),
        }

    def _watch(self, call: Call) -> dict[str, Any]:
        self.watch_topic = call.body["topicName"]
        expiration = datetime.now(UTC) + timedelta(days=7)
        return {"historyId": str(self.mailbox.history_id), "expiration": str(int(expiration.timestamp() * 1000))}

    def _stop(self, call: Call) -> None:
        self.watch_topic = ""

    def _messages_list(self, call: Call) -> dict[str, Any]:
        hidden_too = call.get("includeSpamTrash") == "true"
        found = self.mailbox.search(call.get("q"), call.all("labelIds"), hidden_too)
        page = _page(call, found)
        listed = {"messages": [_ids(m) for m in page.items]} if page.items else {}
        return {**listed, **page.next, "resultSizeEstimate": len(found)}

    def _messages_get(self, call: Call) -> dict[str, Any]:
        return show(
            self.mailbox.message(call.path_params["id"]), call.get("format", "full"), call.all("metadataHeaders")
        )

    def _messages_modify(self, call: Call) -> dict[str, Any]:
        message = self.mailbox.message(call.path_params["id"])
        self._relabel([message], call.body)
        return _ids(message) | {"labelIds": sorted(message.labels)}

    def _messages_send(self, call: Call) -> dict[str, Any]:
        return _with_labels(self.mailbox.send(_raw(call.body), call.body.get("threadId")))

    def _threads_get(self, call: Call) -> dict[str, Any]:
        messages = self.mailbox.thread(call.path_params["id"])
        form = call.get("format", "full")
        return {
            "id": call.path_params["id"],
            "historyId": str(max(m.history_id for m in messages)),
            "messages": [show(m, form, call.all("metadataHeaders")) for m in messages],
        }

    def _threads_modify(self, call: Call) -> dict[str, Any]:
        messages = self.mailbox.thread(call.path_params["id"])
        self._relabel(messages, call.body)
        return {"id": call.path_params["id"], "messages": [_with_labels(m) for m in messages]}

    def _relabel(self, messages: list[Message], body: Mapping[str, list[str]]) -> None:
        for message in messages:
            self.mailbox.relabel(message, body.get("addLabelIds", []), body.get("removeLabelIds", []))

    def _drafts_list(self, call: Call) -> dict[str, Any]:
        found = {m.id for m in self.mailbox.search(call.get("q"), ["DRAFT"], spam_and_trash=False)}
        page = _page(call, [key for key, message in self.mailbox.drafts.items() if message.id in found])
        listed = {"drafts": [self._draft(key) for key in page.items]} if page.items else {}
        return {**listed, **page.next, "resultSizeEstimate": len(found)}

    def _drafts_create(self, call: Call) -> dict[str, Any]:
        message = call.body.get("message", {})
        return self._draft(self.mailbox.create_draft(_raw(message), message.get("threadId")))

    def _drafts_get(self, call: Call) -> dict[str, Any]:
        draft_id = call.path_params["id"]
        return {"id": draft_id, "message": show(self.mailbox.draft(draft_id), call.get("format", "full"))}

    def _drafts_update(self, call: Call) -> dict[str, Any]:
        message = call.body.get("message", {})
        self.mailbox.update_draft(call.path_params["id"], _raw(message), message.get("threadId"))
        return self._draft(call.path_params["id"])

    def _drafts_delete(self, call: Call) -> None:
        self.mailbox.delete_draft(call.path_params["id"])

    def _drafts_send(self, call: Call) -> dict[str, Any]:
        return _with_labels(self.mailbox.send_draft(call.body.get("id", "")))

    def _draft(self, draft_id: str) -> dict[str, Any]:
        return {"id": draft_id, "message": _with_labels(self.mailbox.draft(draft_id))}

    def _history_list(self, call: Call) -> dict[str, Any]:
        start = call.get("startHistoryId")
        if not start.isdigit():
            raise invalid("Invalid startHistoryId")
        if int(start) < self.mailbox.history_floor:
            raise not_found()
        kinds, label = call.all("historyTypes"), call.get("labelId")
        records = [
            record
            for record in self.mailbox.history
            if record.id > int(start)
            and (not kinds or record.change in kinds)
            and (not label or label in record.labels | record.changed)
        ]
        page = _page(call, records)
        listed = {"history": [_history(record) for record in page.items]} if page.items else {}
        return {**listed, **page.next, "historyId": str(self.mailbox.history_id)}

    def _labels_list(self, call: Call) -> dict[str, Any]:
        return {"labels": [self._shown_label(label_id) for label_id in self.mailbox.labels]}

    def _labels_create(self, call: Call) -> dict[str, Any]:
        name = call.body.get("name") or ""
        if not name or name.upper() in SYSTEM_LABELS:
            raise invalid("Invalid label name")
        if name.lower() in {known.lower() for known in self.mailbox.labels.values()}:
            raise RefusedError(409, "aborted", "Label name exists or conflicts")
        return self._shown_label(self.mailbox.label(name))

    def _shown_label(self, label_id: str) -> dict[str, Any]:
        kind = "system" if label_id in SYSTEM_LABELS else "user"
        return {"id": label_id, "name": self.mailbox.labels[label_id], "type": kind}

    def _send_as_list(self, call: Call) -> dict[str, Any]:
        own = {
            "sendAsEmail": self.address,
            "displayName": "",
            "signature": self.signature,
            "isPrimary": True,
            "isDefault": True,
        }
        return {"sendAs": [own]}

    # Calendar

    def _events_list(self, call: Call) -> dict[str, Any]:
        earliest, latest = _bound(call.get("timeMin")), _bound(call.get("timeMax"))
        events = self._events_in(call.path_params["calendar"])
        found = [event for event in events.values() if event["status"] != "cancelled"]
        if earliest:
            found = [event for event in found if self._instant(event["end"]) > earliest]
        if latest:
            found = [event for event in found if self._instant(event["start"]) < latest]
        if call.get("orderBy") == "startTime":
            found.sort(key=lambda event: self._instant(event["start"]))
        page = _page(call, found)
        return {"kind": "calendar#events", "timeZone": self.timezone, "items": page.items, **page.next}

    def _events_in(self, calendar: str) -> dict[str, dict[str, Any]]:
        if calendar in ("primary", self.address):
            return self.events
        try:
            return self._others[calendar]
        except KeyError:
            raise not_found() from None

    def _events_get(self, call: Call) -> dict[str, Any]:
        try:
            return self._events_in(call.path_params["calendar"])[call.path_params["id"]]
        except KeyError:
            raise not_found() from None

    def _events_insert(self, call: Call) -> dict[str, Any]:
        event_id = call.body.get("id") or f"event{len(self.events) + 1}"
        if not 5 <= len(event_id) <= 1024 or set(event_id) - set("abcdefghijklmnopqrstuv0123456789"):
            raise RefusedError(400, "invalid", "Invalid resource id value.")
        if event_id in self.events:
            raise RefusedError(409, "duplicate", "The requested identifier already exists.")
        if self._instant(call.body["start"]) >= self._instant(call.body["end"]):
            raise RefusedError(400, "timeRangeEmpty", "The specified time range is empty.")
        self.events[event_id] = {
            "status": "confirmed",
            "organizer": {"email": self.address, "self": True},
            **call.body,
            **self._conference(call, event_id),
            "id": event_id,
            "iCalUID": f"{event_id}@google.com",
            "htmlLink": f"{self.root}/event/{event_id}",
        }
        return self.events[event_id]

    def _conference(self, call: Call, event_id: str) -> dict[str, Any]:
        """What a request for a conference makes of an event; without version 1 it is ignored."""
        if call.get("conferenceDataVersion") != "1" or "conferenceData" not in call.body:
            return {"conferenceData": {}}
        if not self.meets:
            raise RefusedError(400, "invalid", "Invalid conference type value.")
        link = f"https://meet.google.com/{event_id[:3]}-{event_id[3:7]}-{event_id[7:10]}"
        return {"hangoutLink": link, "conferenceData": {"entryPoints": [{"entryPointType": "video", "uri": link}]}}

    def _events_patch(self, call: Call) -> dict[str, Any]:
        event = self._events_get(call)
        event.update(call.body)
        return event

    def _calendars_get(self, call: Call) -> dict[str, Any]:
        return {"id": self.address, "summary": self.address, "timeZone": self.timezone}

    def _calendar_list(self, call: Call) -> dict[str, Any]:
        own = {"id": self.address, "primary": True, "timeZone": self.timezone, "accessRole": "owner", "selected": True}
        return {"items": [own, *self.calendars.values()]}

    def _settings_get(self, call: Call) -> dict[str, Any]:
        if call.path_params["id"] != "timezone":
            raise not_found()
        return {"kind": "calendar#setting", "id": "timezone", "value": self.timezone}

    def _freebusy(self, call: Call) -> dict[str, Any]:
        earliest, latest = _bound(call.body["timeMin"]), _bound(call.body["timeMax"])
        assert earliest
        assert latest
        busy = []
        for event in self.events.values():
            start, end = self._instant(event["start"]), self._instant(event["end"])
            if event["status"] != "cancelled" and end > earliest and start < latest:
                busy.append({"start": start.isoformat(), "end": end.isoformat()})
        calendars = {item["id"]: {"busy": busy} for item in call.body["items"]}
        return {"timeMin": call.body["timeMin"], "timeMax": call.body["timeMax"], "calendars": calendars}

    def _instant(self, when: Mapping[str, str]) -> datetime:
        if "date" in when:
            return datetime.fromisoformat(when["date"]).replace(tzinfo=ZoneInfo(self.timezone))
        moment = datetime.fromisoformat(when["dateTime"])
        if moment.tzinfo:
            return moment.astimezone(UTC)
        if "timeZone" not in when:
            raise RefusedError(400, "required", "Missing time zone definition for start time.")
        return moment.replace(tzinfo=ZoneInfo(when["timeZone"])).astimezone(UTC)


@dataclass(frozen=True)
class Page:
    items: list[Any]
    next: dict[str, str] = field(default_factory=dict)


def _page(call: Call, found: list[Any]) -> Page:
    size, start = min(int(call.get("maxResults", "100")), 500), int(call.get("pageToken", "0"))
    more = {"nextPageToken": str(start + size)} if start + size < len(found) else {}
    return Page(found[start : start + size], more)


def _let_through(fault: Fault, moment: Moment, call: Call) -> bool:
    return fault.hold is None or fault.at != moment or fault.hold.wait(call.root)


def _when(at: date) -> dict[str, str]:
    return {"dateTime" if isinstance(at, datetime) else "date": at.isoformat()}


def _gap(call: Call) -> None:
    raise not_found()


def _error(call: Call, refused: RefusedError) -> JSONResponse:
    if call.name == "token":
        body: dict[str, Any] = {"error": refused.reason, "error_description": refused.message}
    else:
        detail = {"domain": "global", "reason": refused.reason, "message": refused.message}
        body = {"error": {"code": refused.status, "message": refused.message, "errors": [detail]}}
    return JSONResponse(body, refused.status)


def _raw(message: Mapping[str, str]) -> bytes:
    raw = message.get("raw", "")
    try:
        return base64.b64decode(raw + "=" * (-len(raw) % 4), altchars=b"-_", validate=True)
    except binascii.Error:
        raise invalid("Invalid value for ByteString: raw is not base64url") from None


def _bound(value: str) -> datetime | None:
    if not value:
        return None
    moment = datetime.fromisoformat(value)
    if moment.tzinfo is None:
        raise RefusedError(400, "badRequest", "Bad Request")
    return moment


def _ids(message: Message) -> dict[str, Any]:
    return {"id": message.id, "threadId": message.thread_id}


def _with_labels(message: Message) -> dict[str, Any]:
    return {**_ids(message), "labelIds": sorted(message.labels)}


def _history(record: Any) -> dict[str, Any]:
    ids = {"id": record.message_id, "threadId": record.thread_id}
    entry: dict[str, Any] = {"message": {**ids, "labelIds": sorted(record.labels)}}
    if record.changed:
        entry["labelIds"] = sorted(record.changed)
    plural = {
        "messageAdded": "messagesAdded",
        "messageDeleted": "messagesDeleted",
        "labelAdded": "labelsAdded",
        "labelRemoved": "labelsRemoved",
    }[record.change]
    return {"id": str(record.id), "messages": [ids], plural: [entry]}
