"""Google for the tests: the demo's sandbox, in a thread of the test process and in memory, and the faults before it.

Gmail is at `<root>/gmail/v1`, Calendar at `<root>/calendar/v3`, tokens at `<root>/token`. The sandbox's README says
what it lacks of Google's own services; a method that has no name in `front.METHODS` is recorded as `unknown`.
"""

import json
import re
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

from starlette.responses import JSONResponse, Response
from starlette.types import Message as Event

from email_assistant_servers.google_sandbox import app, oauth
from email_assistant_servers.google_sandbox.aliases import Aliases
from email_assistant_servers.google_sandbox.calendars import Calendars
from email_assistant_servers.google_sandbox.events import SandboxCalendar
from email_assistant_servers.google_sandbox.mailbox import SYSTEM_LABELS, SandboxMailbox
from email_assistant_servers.google_sandbox.outbox import Outbox
from email_assistant_servers.google_sandbox.store import Store
from tests.doubles.front import Call, Front
from tests.doubles.mail import Message, answer, written


class Google(Front):
    """One person's Google account."""

    def __init__(
        self,
        address: str = "ada@example.com",
        timezone: str = "Europe/Berlin",
        roots: int = 1,
        refresh_token: str = "refresh-1",
    ) -> None:
        self._first_zone = ZoneInfo(timezone)
        self.login = {"client_id": "client-id", "client_secret": "client-secret", "refresh_token": refresh_token}
        super().__init__(address, roots)

    def forget(self) -> None:
        super().forget()
        self.history_floor = self.history_ahead = 0
        self.history_is_shuffled = False
        """Whether records of history come unordered, as nothing forbids Gmail."""
        self._store = Store(Path(":memory:"))
        self._box = SandboxMailbox(self._store, self.address, "")
        self._outbox = Outbox(self._box, lambda message_id: self._sent.append(self.message(message_id)))
        self._calendars = Calendars(SandboxCalendar(self._store, self.address, self._first_zone))
        self._sandbox = app.build(self._box, self._outbox, self._calendars)
        self._sent: list[Message] = []
        self._roles: dict[str, str] = {}
        self._people: list[Google] = []
        for name, value in self.login.items():
            self._store.remember(name, value)
        oauth.credentials(self._store, self.root)

    def another(self, address: str, timezone: str) -> "Google":
        """Another person's account at the same server, with requests and faults in common."""
        self._people.append(Google(address, timezone, refresh_token=f"refresh-{address}"))
        return self._people[-1]

    # What happens to the mail

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
        with self._store.transaction():
            before = self._thread(thread) if thread else ()
            raw = written(from_, self.address, subject, text, thread=before, headers=headers, html=html, age=age)
            return self._insert(raw, labels, thread, age)

    def deliver_raw(self, raw: bytes, thread: str | None = None) -> str:
        """Mail arrives, byte for byte as given; return its Gmail id."""
        return self._insert(raw, ("INBOX", "UNREAD"), thread)

    def deposit(self, raw: bytes, labels: Iterable[str], at: datetime) -> str:
        """A mail, byte for byte as given, lies there since then; return its Gmail id."""
        return self._box.insert(raw, labels, round(at.timestamp() * 1000))

    def person_sends(self, thread: str, text: str) -> str:
        """The person answers in Gmail themselves; return the sent message's id."""
        with self._store.transaction():
            return self._insert(answer(self.address, self._thread(thread), text), ["SENT"], thread)

    def person_deletes(self, message_id: str) -> None:
        """The person deletes a message or a draft for good."""
        with self._store.transaction() as db:
            db.execute("DELETE FROM drafts WHERE message_id = ?", (message_id,))
            self._box.delete(message_id)

    def person_relabels(self, message_id: str, add: Iterable[str] = (), remove: Iterable[str] = ()) -> None:
        """The person puts labels on a message and takes others off, by their names; a new name makes a label."""
        self._box.modify(message_id, [*map(self.label, add)], [*map(self.label, remove)])

    def label(self, name: str) -> str:
        """The id of the label with this name, which is made if it isn't there."""
        return self._box.label_named(name) or self._box.create_label(name)

    def person_deletes_label(self, name: str) -> None:
        """The person deletes a label, which takes it off every message."""
        self._box.delete_label(self.label(name))

    def labels_of(self, message_id: str) -> set[str]:
        """The names of the labels on a message that are not Gmail's own."""
        return {self._box.label(each)["name"] for each in self.message(message_id).labels} - set(SYSTEM_LABELS)

    def person_moves(self, message_id: str, *, to: Iterable[str] = (), out_of: Iterable[str] = ()) -> None:
        """The person adds and removes labels of a message: out of INBOX is what archiving does."""
        self._box.modify(message_id, to, out_of)

    def person_drafts(self, thread: str, text: str, draft_id: str | None = None) -> str:
        """The person begins an answer in Gmail, or changes the text of a draft; return the draft's id."""
        raw = answer(self.address, self._thread(thread), text)
        if draft_id is None:
            return self.create_draft(raw, thread)
        self.update_draft(draft_id, raw, thread)
        return draft_id

    def person_sends_draft(self, draft_id: str) -> str:
        """The person sends a draft in Gmail; return the sent message's id."""
        with self._store.transaction():
            draft = self.draft(draft_id)
            self._outbox.delete_draft(draft_id)
            return self._insert(draft.raw, ["SENT"], draft.thread_id)

    def send(self, raw: bytes, thread: str | None = None) -> None:
        """A mail is sent as over the API."""
        self._outbox.send(raw, thread)

    def create_draft(self, raw: bytes, thread: str | None = None) -> str:
        """A draft is made as over the API; return its id."""
        return self._outbox.create_draft(raw, thread)

    def update_draft(self, draft_id: str, raw: bytes, thread: str | None = None) -> None:
        """A draft is changed as over the API."""
        self._outbox.update_draft(draft_id, raw, thread)

    def send_draft(self, draft_id: str) -> None:
        """A draft is sent as over the API."""
        self._outbox.send_draft(draft_id)

    def _insert(self, raw: bytes, labels: Iterable[str], thread: str | None, age: timedelta = timedelta(0)) -> str:
        return self._box.insert(raw, labels, int((time.time() - age.total_seconds()) * 1000), thread)

    # The addresses that the person sends from

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
        with self._store.transaction() as db:
            aliases = Aliases(self._box)
            aliases.add({"sendAsEmail": address, "displayName": name, "signature": signature})
            db.execute("UPDATE aliases SET verified = ? WHERE address = ?", (verified, address))
            if default:
                aliases.change(address, {"isDefault": True})

    def remove_alias(self, address: str) -> None:
        """The person takes an address off their account."""
        Aliases(self._box).remove(address)

    @property
    def signature(self) -> str:
        """What the person signs with, as HTML, that goes from the account's own address."""
        return str(Aliases(self._box).find(self.address)["signature"])

    @signature.setter
    def signature(self, signature: str) -> None:
        Aliases(self._box).change(self.address, {"signature": signature})

    # What happens to the calendars

    @property
    def timezone(self) -> str:
        """That of the person's own calendar."""
        return self._calendars.primary.zone.key

    @timezone.setter
    def timezone(self, timezone: str) -> None:
        self._calendars.primary.zone = ZoneInfo(timezone)

    def add_calendar(self, name: str, *, selected: bool = True, role: str = "reader") -> str:
        """The person sees one more calendar, ticked or not, as its owner or not; return its id."""
        calendar = f"{re.sub(r'[^a-z]', '', name)}@group.calendar.google.com"
        with self._store.transaction() as db:
            db.execute("INSERT INTO calendars VALUES (?, ?, ?, ?, FALSE)", (calendar, name, self.timezone, selected))
        self._roles[calendar] = role
        return calendar

    def add_event(self, title: str, start: date, end: date, *, calendar: str = "primary", **more: Any) -> str:
        """Something stands in a calendar, at times or on whole days, with fields of the test's own; return its id."""
        event = {"summary": title, "start": _when(start), "end": _when(end), **more}
        return str(self._calendars.find(calendar).insert(event)["id"])

    def person_changes_event(self, event_id: str, **changes: Any) -> None:
        """The person changes some fields of an event of their own calendar."""
        self._calendars.primary.patch(event_id, changes)

    def person_deletes_event(self, event_id: str) -> None:
        """The person deletes an event of their own calendar."""
        self._calendars.primary.cancel(event_id)

    # What happens to the login and to the history

    def grant(self, refresh_token: str) -> None:
        """One more refresh token is good."""
        with self._store.transaction() as db:
            db.execute("INSERT INTO grants VALUES (?, ?)", (refresh_token, " ".join(oauth.SCOPES)))

    def revoke(self) -> None:
        """The refresh token of the first login is good no longer, nor are access tokens that were had by it."""
        with self._store.transaction() as db:
            db.execute("DELETE FROM grants WHERE refresh_token = ?", (self.login["refresh_token"],))

    def expire_access_tokens(self) -> None:
        """Every access token answers 401 until it is refreshed."""
        with self._store.transaction() as db:
            db.execute("DELETE FROM bearers")

    def expire_history(self) -> None:
        """Every historyId handed out so far is too old: asking from it answers 404."""
        self.history_floor = self._store.new_history_id() + self.history_ahead

    @contextmanager
    def at_once(self) -> Iterator[None]:
        with super().at_once(), self._store.reading():
            yield

    # What there is

    @property
    def history_id(self) -> int:
        """The newest."""
        return self._store.history_id() + self.history_ahead

    @property
    def access_tokens(self) -> set[str]:
        return {row["token"] for row in self._store.rows("SELECT token FROM bearers")}

    @property
    def watch_topic(self) -> str:
        """The Pub/Sub topic that is told of changes, none at first. Nothing is published."""
        asked = self.calls("watch", "stop")
        return str(asked[-1].body["topicName"]) if asked and asked[-1].name == "watch" else ""

    @property
    def sent(self) -> list[Message]:
        """What was sent over the API, in order; not what the person sent in Gmail."""
        return list(self._sent)

    @property
    def messages(self) -> list[Message]:
        return [self._shown(row) for row in self._store.rows("SELECT * FROM messages ORDER BY id")]

    @property
    def drafts(self) -> list[Message]:
        return [self.draft(draft_id) for draft_id in self.draft_ids]

    @property
    def draft_ids(self) -> list[str]:
        return [row["id"] for row in self._store.rows("SELECT id FROM drafts ORDER BY id")]

    @property
    def events(self) -> dict[str, dict[str, Any]]:
        """Those of the primary calendar, by id, as they came."""
        own = "SELECT id, body FROM events WHERE calendar = ? AND status <> 'cancelled' ORDER BY rowid"
        return {row["id"]: json.loads(row["body"]) for row in self._store.rows(own, self.address)}

    def message(self, message_id: str) -> Message:
        return self._shown(self._box.message(message_id))

    def draft(self, draft_id: str) -> Message:
        return self._shown(self._outbox.draft_message(draft_id))

    def _thread(self, thread: str) -> list[Message]:
        return [self._shown(row) for row in self._box.thread(thread)]

    def _shown(self, row: sqlite3.Row) -> Message:
        labels = set(self._box.labels_of(row["id"]))
        return Message(row["id"], row["thread_id"], row["raw"], labels, row["internal_date"])

    # The server

    async def carry_out(self, call: Call) -> Response:
        person = next((person for person in self._people if person._knows(call)), self)
        return person._as_told(call, await person._asked(call))

    def _knows(self, call: Call) -> bool:
        """Whether it is asked for by this person's login."""
        if call.name == "token":
            return bool(call.body["refresh_token"] == self.login["refresh_token"])
        return call.authorization.removeprefix("Bearer ") in self.access_tokens

    async def _asked(self, call: Call) -> Response:
        events: list[Event] = []

        async def receive() -> Event:
            return {"type": "http.request", "body": call.raw}

        async def send(event: Event) -> None:
            events.append(event)

        query = urlencode(call.query, doseq=True).encode()
        await self._sandbox({**call.scope, "path_params": {}, "query_string": query}, receive, send)
        start, *rest = events
        answered = Response(b"".join(event["body"] for event in rest), start["status"])
        answered.raw_headers = start["headers"]
        return answered

    def _as_told(self, call: Call, answered: Response) -> Response:
        """The sandbox's answer, as the test has it look."""
        shuffled = call.name == "history.list" and self.history_is_shuffled
        shared = call.name == "calendarList.list" and self._roles
        if answered.status_code != 200 or not (shuffled or shared):
            return answered
        body = json.loads(bytes(answered.body))
        body.get("history", []).reverse()
        for item in body.get("items", []):
            item["accessRole"] = self._roles.get(item["id"], item["accessRole"])
        return JSONResponse(body)


def _when(at: date) -> dict[str, str]:
    return {"dateTime" if isinstance(at, datetime) else "date": at.isoformat()}
