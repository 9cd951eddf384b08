"""The person's calendars: the primary one and those that they made besides."""

import secrets
import sqlite3
from typing import Any
from zoneinfo import ZoneInfo

from .errors import invalid
from .events import SandboxCalendar

Entry = dict[str, Any]

_CONFERENCES = {"allowedConferenceSolutionTypes": ["hangoutsMeet"]}


class Calendars:
    """All calendars of one person; each holds events of its own."""

    def __init__(self, primary: SandboxCalendar) -> None:
        self.primary = primary
        self._store = primary.store

    def find(self, calendar_id: str) -> SandboxCalendar:
        """Raises ApiError (404)."""
        if calendar_id.lower() in {"primary", self.primary.id}:
            return self.primary
        return self._calendar(self._row(calendar_id))

    def create(self, body: Entry) -> SandboxCalendar:
        """Make a secondary calendar; it stands in the list, and is not ticked there. Raises ApiError (400)."""
        summary = body.get("summary")
        if not isinstance(summary, str) or not summary:
            raise invalid("Missing summary.", "required")
        zone = _zone(body.get("timeZone"), self.primary.zone)
        calendar_id = f"{secrets.token_hex(16)}@group.calendar.sandbox.example"
        with self._store.transaction() as db:
            db.execute("INSERT INTO calendars VALUES (?, ?, ?, 0, 0)", (calendar_id, summary, zone.key))
        return self.find(calendar_id)

    def entries(self, *, hidden: bool) -> list[Entry]:
        """The list as the person has it, the primary calendar first."""
        rows = self._store.rows("SELECT * FROM calendars ORDER BY rowid")
        own = _entry(self.primary) | {"primary": True, "selected": True}
        return [own, *(self._listed(row) for row in rows if hidden or not row["hidden"])]

    def change_entry(self, calendar_id: str, body: Entry) -> Entry:
        """Tick a secondary calendar in the list, or hide it. Raises ApiError (400, 404)."""
        if set(body) - {"selected", "hidden"}:
            raise invalid("The sandbox changes only 'selected' and 'hidden' of an entry.")
        row = self._row(calendar_id)
        with self._store.transaction() as db:
            db.execute(
                "UPDATE calendars SET selected = ?, hidden = ? WHERE id = ?",
                (bool(body.get("selected", row["selected"])), bool(body.get("hidden", row["hidden"])), calendar_id),
            )
        return self._listed(self._row(calendar_id))

    def _row(self, calendar_id: str) -> sqlite3.Row:
        return self._store.one("SELECT * FROM calendars WHERE id = ?", calendar_id, refusal="Not Found")

    def _calendar(self, row: sqlite3.Row) -> SandboxCalendar:
        return SandboxCalendar(
            self._store, self.primary.address, ZoneInfo(row["zone"]), secondary=row["id"], summary=row["summary"]
        )

    def _listed(self, row: sqlite3.Row) -> Entry:
        # Google leaves out what is false.
        flags = {name: True for name in ("selected", "hidden") if row[name]}
        return _entry(self._calendar(row)) | flags


def _entry(calendar: SandboxCalendar) -> Entry:
    return {
        "kind": "calendar#calendarListEntry",
        "id": calendar.id,
        "summary": calendar.summary,
        "timeZone": calendar.zone.key,
        "accessRole": "owner",
        "conferenceProperties": _CONFERENCES,
    }


def _zone(name: object, default: ZoneInfo) -> ZoneInfo:
    try:
        return ZoneInfo(str(name)) if name else default
    except (ValueError, KeyError, OSError):
        raise invalid(f"Invalid time zone: {name}") from None
