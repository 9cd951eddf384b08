"""A Google double: Gmail, Calendar and the token endpoint over HTTP, in memory, in a thread of the test process.

Gmail is at `<root>/gmail/v1`, Calendar at `<root>/calendar/v3`, tokens at `<root>/token`. Known gaps: no batch, no
uploads, nothing published to topics, no `fields` (answers are always whole), no recurring events; a search word it does
not know is refused with 400, and a path it does not know is recorded as `unknown` and answered 404.
"""

import base64
import binascii
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from starlette.responses import JSONResponse, Response

from tests.doubles.front import Call, Front, error
from tests.doubles.mailbox import SYSTEM_LABELS, Mailbox, Message, RefusedError, attached, invalid, not_found, show


class Google(Front):
    """One person's Google account."""

    login = {"client_id": "client-id", "client_secret": "client-secret", "refresh_token": "refresh-1"}

    def __init__(self, address: str = "ada@example.com", timezone: str = "Europe/Berlin", roots: int = 1) -> None:
        super().__init__(address, roots)
        self.timezone = timezone
        self.mailbox = Mailbox(address)
        self.events: dict[str, dict[str, Any]] = {}
        """Those of the primary calendar."""
        self.calendars: dict[str, dict[str, Any]] = {}
        """The person's other calendars, as their list shows them."""
        self.meets = True
        """Whether the primary calendar may hold Meet conferences."""
        self._others: dict[str, dict[str, dict[str, Any]]] = {}
        self.refresh_tokens = {self.login["refresh_token"]}
        self.access_tokens: set[str] = set()
        self.signature = ""
        self.history_is_shuffled = False
        """Whether records of history come unordered, as nothing forbids Gmail."""
        self.watch_topic = ""
        """The Pub/Sub topic that is told of changes, none at first. Nothing is published."""
        self._methods = self._implementations()
        self._people: list[Google] = []

    def another(self, address: str, timezone: str) -> "Google":
        """Another person's account at the same server, with requests and faults in common."""
        person = Google(address, timezone)
        person.login = {**self.login, "refresh_token": f"refresh-{address}"}
        person.refresh_tokens = {person.login["refresh_token"]}
        self._people.append(person)
        return person

    # What a test does

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

    def deliver_raw(self, raw: bytes, thread: str | None = None) -> str:
        """Mail arrives, byte for byte as given; return its Gmail id."""
        with self._lock:
            return self.mailbox.deliver_raw(raw, thread).id

    def deposit(self, raw: bytes, labels: Iterable[str], at: datetime) -> str:
        """A mail, byte for byte as given, lies there since then; return its Gmail id."""
        with self._lock:
            return self.mailbox.deposit(raw, labels, at).id

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

    def add_alias(
        self,
        address: str,
        name: str = "",
        signature: str = "",
        *,
        verified: bool = True,
        default: bool = False,
    ) -> None:
        """The person may send from one more address, once it is verified; their default is what new mail goes from."""
        with self._lock:
            self._alias(address, name, signature, verified=verified, default=default)

    def remove_alias(self, address: str) -> None:
        """The person takes an address off their account."""
        with self._lock:
            del self.mailbox.aliases[address]

    def _alias(
        self, address: str, name: str, signature: str, *, verified: bool, default: bool = False
    ) -> dict[str, Any]:
        self.mailbox.aliases[address] = {
            "sendAsEmail": address,
            "displayName": name,
            "signature": signature,
            "isDefault": default,
            "verificationStatus": "accepted" if verified else "pending",
        }
        return self.mailbox.aliases[address]

    def add_calendar(self, name: str, *, selected: bool = True, role: str = "reader") -> str:
        """The person sees one more calendar, ticked or not, as its owner or not; return its id."""
        with self._lock:
            calendar = f"{name}@group.calendar.google.com"
            entry = {"id": calendar, "summary": name, "accessRole": role, "timeZone": self.timezone}
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

    @property
    def sent(self) -> list[Message]:
        """What was sent over the API, in order."""
        return list(self.mailbox.sent)

    @property
    def drafts(self) -> list[Message]:
        return list(self.mailbox.drafts.values())

    def message(self, message_id: str) -> Message:
        return self.mailbox.message(message_id)

    # The server

    def _implementations(self) -> dict[str, Callable[[Call], Any]]:
        return {
            "token": self._token,
            "clock": self._no_grant,
            "watch": self._watch,
            "stop": self._stop,
            "labels.create": self._labels_create,
            "getProfile": self._profile,
            "messages.list": self._messages_list,
            "messages.send": self._messages_send,
            "messages.get": self._messages_get,
            "messages.modify": self._messages_modify,
            "messages.attachments.get": self._attachments_get,
            "threads.get": self._threads_get,
            "threads.modify": self._threads_modify,
            "drafts.list": self._drafts_list,
            "drafts.create": self._drafts_create,
            "drafts.send": self._drafts_send,
            "drafts.get": self._drafts_get,
            "drafts.update": self._drafts_update,
            "drafts.delete": self._drafts_delete,
            "history.list": self._history_list,
            "labels.list": self._labels_list,
            "sendAs.list": self._send_as_list,
            "sendAs.create": self._send_as_create,
            "events.list": self._events_list,
            "events.insert": self._events_insert,
            "events.get": self._events_get,
            "events.patch": self._events_patch,
            "calendars.get": self._calendars_get,
            "calendarList.list": self._calendar_list,
            "settings.get": self._settings_get,
            "freebusy.query": self._freebusy,
            "unknown": _gap,
        }

    def carry_out(self, call: Call) -> Response:
        for person in self._people:
            if person.knows(call):
                return person.carry_out(call)
        try:
            with self._lock:
                self._check_caller(call)
                answer = self._methods[call.name](call)
                return Response(status_code=204) if answer is None else JSONResponse(answer)
        except RefusedError as refused:
            return error(call, refused.status, refused.reason, refused.message)

    def knows(self, call: Call) -> bool:
        """Whether it is asked for by this person's login."""
        if call.name == "token":
            return bool(call.body["refresh_token"] == self.login["refresh_token"])
        return call.authorization.removeprefix("Bearer ") in self.access_tokens

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

    def _attachments_get(self, call: Call) -> dict[str, Any]:
        return attached(self.mailbox.message(call.path_params["id"]), call.path_params["attachment"])

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
        page = _page(call, records[::-1] if self.history_is_shuffled else records)
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
            "isDefault": not any(alias["isDefault"] for alias in self.mailbox.aliases.values()),
        }
        return {"sendAs": [own, *self.mailbox.aliases.values()]}

    def _send_as_create(self, call: Call) -> dict[str, Any]:
        """What Gmail asks nobody about, an address of the person's own domain, may be sent from at once."""
        address = str(call.body.get("sendAsEmail", "")).lower()
        verified = address.endswith(self.address[self.address.index("@") :])
        return self._alias(address, call.body.get("displayName", ""), call.body.get("signature", ""), verified=verified)

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
        changed = _merged(event, call.body)
        if self._instant(changed["start"]) >= self._instant(changed["end"]):
            raise RefusedError(400, "timeRangeEmpty", "The specified time range is empty.")
        event.clear()
        event.update(changed)
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


def _merged(old: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """What a patch makes of an object: null takes a field away, objects within are patched, lists are replaced."""
    merged = {name: value for name, value in old.items() if name not in changes}
    for name, value in changes.items():
        if isinstance(value, Mapping):
            merged[name] = _merged(old.get(name, {}), value)
        elif value is not None:
            merged[name] = value
    return merged


def _when(at: date) -> dict[str, str]:
    return {"dateTime" if isinstance(at, datetime) else "date": at.isoformat()}


def _gap(call: Call) -> None:
    raise not_found()


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
