"""One calendar and its events: their times, their rules, their storage."""

import hashlib
import json
import re
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from typing import Any
from zoneinfo import ZoneInfo

from .errors import ApiError, invalid
from .store import Store

Event = dict[str, Any]

_ID = re.compile(r"[a-v0-9]{5,1024}")
_ID_ALPHABET = "abcdefghijklmnopqrstuv0123456789"
_OURS = (
    *("kind", "etag", "id", "status", "htmlLink", "created", "updated", "creator", "organizer", "iCalUID"),
    *("sequence", "conferenceData", "hangoutLink"),
)


@dataclass(frozen=True)
class Busy:
    """The time that something takes, end not included."""

    start: datetime
    end: datetime


class SandboxCalendar:
    """A calendar of one person, in one timezone: their primary one, unless it has the id of a secondary one."""

    def __init__(self, store: Store, address: str, zone: ZoneInfo, *, secondary: str = "", summary: str = "") -> None:
        self.store = store
        self.address = address
        self.zone = zone
        self.id = secondary or address
        self.summary = summary or address

    def insert(self, body: Event, *, conference: bool = False) -> Event:
        """Add an event, under the id that the body chooses if it does. Raises ApiError (400, 409). `conference`: make
        the conference that the body asks for; else that is ignored."""
        event_id = str(body.get("id") or "".join(secrets.choice(_ID_ALPHABET) for _ in range(26)))
        if not _ID.fullmatch(event_id):
            raise invalid("Invalid resource id value.", "invalid")
        now = _timestamp()
        event = self._written_by_person(body) | {
            "kind": "calendar#event",
            "id": event_id,
            "status": body.get("status") if body.get("status") in {"tentative", "confirmed"} else "confirmed",
            "created": now,
            "creator": {"email": self.address, "self": True},
            "organizer": {"email": self.address, "self": True},
            "iCalUID": body.get("iCalUID") or f"{event_id}@sandbox.example",
            "sequence": 0,
        }
        if conference and "conferenceData" in body:
            event |= _conference(body["conferenceData"])
        with self.store.transaction() as db:
            if db.execute("SELECT 1 FROM events WHERE calendar = ? AND id = ?", (self.id, event_id)).fetchone():
                raise ApiError(409, "duplicate", "The requested identifier already exists.")
            db.execute("INSERT INTO events VALUES (?, ?, '', 0, 0, '', '')", (self.id, event_id))
            return self._save(event, now)

    def get(self, event_id: str) -> Event:
        """One event, also a cancelled one. Raises ApiError (404)."""
        query = "SELECT body FROM events WHERE calendar = ? AND id = ?"
        row = self.store.one(query, self.id, event_id, refusal="Not Found")
        event: Event = json.loads(row["body"])
        return event

    def replace(self, event_id: str, body: Event, etag: str | None = None) -> Event:
        """Give an event new content, if it is still the one with `etag`; what Google sets itself stays.

        Raises ApiError (400, 404, 412)."""
        with self.store.transaction():
            old = self._still(event_id, etag)
            kept = {name: old[name] for name in _OURS if name in old}
            if body.get("status") in {"tentative", "confirmed", "cancelled"}:
                kept["status"] = body["status"]
            kept["sequence"] = old["sequence"] + 1
            return self._save(self._written_by_person(body) | kept, _timestamp())

    def patch(self, event_id: str, changes: Event, etag: str | None = None) -> Event:
        """Change some fields of an event, if it is still the one with `etag`. Raises ApiError (400, 404, 412)."""
        with self.store.transaction():
            return self.replace(event_id, _merged(self.get(event_id), changes), etag)

    def cancel(self, event_id: str, etag: str | None = None) -> None:
        """Delete an event, if it is still the one with `etag`; it stays readable as cancelled.

        Raises ApiError (404, 410, 412)."""
        with self.store.transaction():
            event = self._still(event_id, etag)
            if event["status"] == "cancelled":
                raise ApiError(410, "deleted", "Resource has been deleted")
            self._save(event | {"status": "cancelled"}, _timestamp())

    def _still(self, event_id: str, etag: str | None) -> Event:
        event = self.get(event_id)
        if etag not in (None, "*", event["etag"]):
            raise ApiError(412, "conditionNotMet", "Precondition Failed")
        return event

    def between(
        self,
        after: datetime | None,
        before: datetime | None,
        *,
        cancelled: bool = False,
        by_updated: bool = False,
        limit: int = -1,
        offset: int = 0,
    ) -> list[Event]:
        """Events that end after `after` and start before `before`, by start or by last change."""
        order = "updated, id" if by_updated else "starts, id"
        span = (after.timestamp() if after else float("-inf"), before.timestamp() if before else float("inf"))
        query = (
            "SELECT body FROM events WHERE calendar = ? AND ends > ? AND starts < ?"
            f" AND (status <> 'cancelled' OR ?) ORDER BY {order} LIMIT ? OFFSET ?"
        )
        rows = self.store.rows(query, self.id, *span, cancelled, limit, offset)
        return [json.loads(row["body"]) for row in rows]

    def busy(self, after: datetime, before: datetime) -> list[Busy]:
        """When the person is busy, overlaps merged."""
        merged: list[Busy] = []
        for event in self.between(after, before):
            if event.get("transparency") == "transparent" or self._declined(event):
                continue
            span = self.span(event)
            if merged and span.start <= merged[-1].end:
                merged[-1] = Busy(merged[-1].start, max(span.end, merged[-1].end))
            else:
                merged.append(span)
        return merged

    def span(self, event: Event) -> Busy:
        """An event's time; a day without hours is a day in the calendar's timezone. Raises ApiError (400)."""
        start, end = event.get("start") or {}, event.get("end") or {}
        if ("date" in start) != ("date" in end):
            raise invalid("The start and end times must either both be date or both be dateTime.", "invalid")
        span = Busy(self._instant(start, "start"), self._instant(end, "end"))
        if span.end < span.start or ("date" in start and span.end == span.start):
            raise invalid("The specified time range is empty.", "timeRangeEmpty")
        return span

    def shown(self, event: Event, zone: ZoneInfo | None = None) -> Event:
        """The event with its times in that timezone, by default the calendar's."""
        moved: Event = {}
        for side in ("start", "end"):
            if "dateTime" in event[side]:
                local = self._instant(event[side], side).astimezone(zone or self.zone).isoformat()
                moved[side] = event[side] | {"dateTime": local}
        return event | moved

    def _written_by_person(self, body: Event) -> Event:
        if body.get("recurrence"):
            raise invalid("The sandbox has no recurring events.", "invalid")
        event = {name: value for name, value in body.items() if name not in _OURS}
        for side in ("start", "end"):
            when = event.get(side)
            if isinstance(when, dict) and "dateTime" in when:
                event[side] = {"timeZone": self.zone.key} | when
        event.setdefault("reminders", {"useDefault": True})
        event.setdefault("eventType", "default")
        if attendees := event.get("attendees"):
            event["attendees"] = list(self._attendees(attendees))
        return event

    def _attendees(self, given: list[Event]) -> Iterator[Event]:
        for attendee in given:
            address = str(attendee.get("email", ""))
            if "@" not in address:
                raise invalid("Invalid attendee email.", "invalid")
            mine = {"self": True} if address.lower() == self.address else {}
            yield {"responseStatus": "needsAction"} | attendee | mine

    def _declined(self, event: Event) -> bool:
        return any(one.get("self") and one["responseStatus"] == "declined" for one in event.get("attendees", []))

    def _save(self, event: Event, now: str) -> Event:
        span = self.span(event)
        event |= {"updated": now, "etag": f'"{secrets.token_hex(8)}"'}
        changed = "status = ?, starts = ?, ends = ?, updated = ?, body = ?"
        given = (event["status"], span.start.timestamp(), span.end.timestamp(), now, json.dumps(event))
        with self.store.transaction() as db:
            db.execute(f"UPDATE events SET {changed} WHERE calendar = ? AND id = ?", (*given, self.id, event["id"]))
        return event

    def _instant(self, when: Event, side: str) -> datetime:
        try:
            if "date" in when:
                return datetime.combine(date.fromisoformat(when["date"]), time.min, self.zone)
            if "dateTime" not in when:
                raise invalid(f"Missing {side} time.", "required")
            moment = datetime.fromisoformat(when["dateTime"])
            return moment if moment.tzinfo else moment.replace(tzinfo=ZoneInfo(when.get("timeZone") or self.zone.key))
        except (TypeError, ValueError, KeyError):
            raise invalid(f"Invalid {side} time.", "invalid") from None


def _conference(data: object) -> Event:
    """What becomes of a request for a new conference; Google does it at once or later, here it is at once."""
    match data:
        case {"createRequest": {"requestId": str(request), "conferenceSolutionKey": {"type": "hangoutsMeet"}}}:
            digest = hashlib.sha256(request.encode()).digest()
            letters = "".join(chr(ord("a") + byte % 26) for byte in digest[:10])
            code = f"{letters[:3]}-{letters[3:7]}-{letters[7:]}"
            link = f"https://meet.sandbox.example/{code}"
            key = {"type": "hangoutsMeet"}
            create = {"requestId": request, "conferenceSolutionKey": key, "status": {"statusCode": "success"}}
            made = {
                "createRequest": create,
                "entryPoints": [{"entryPointType": "video", "uri": link}],
                "conferenceSolution": {"key": key, "name": "Google Meet"},
                "conferenceId": code,
            }
            return {"hangoutLink": link, "conferenceData": made}
    raise invalid("Invalid conference type value.", "invalid")


def _merged(old: Event, changes: Event) -> Event:
    merged = dict(old)
    for name, value in changes.items():
        if value is None:
            merged.pop(name, None)
        elif isinstance(value, dict) and isinstance(old.get(name), dict):
            merged[name] = _merged(old[name], value)
        else:
            merged[name] = value
    return merged


def _timestamp() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
