"""Google Calendar, as far as this product needs it: what stands in the person's calendars, and new events in theirs."""

import asyncio
import time
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime, tzinfo
from datetime import time as time_of_day
from typing import Any, Final, Literal
from zoneinfo import ZoneInfo

from email_assistant.google.client import Client
from email_assistant.google.errors import NotFound, Refused

_PRIMARY: Final = "primary"
_PAGE: Final = 2500  # Google's maximum
_MOST_LISTED: Final = 250  # Google's maximum
_LIST_SECONDS: Final = 600
"""How long the list of calendars is believed; people rarely change it."""
_MEET: Final = "hangoutsMeet"

SendUpdates = Literal["all", "externalOnly", "none"]


@dataclass(frozen=True, slots=True)
class Event:
    """One event, or one instance of a recurring one.

    `uid` is what every calendar that it stands in knows it by (RFC 5545), the same for all instances of a series.
    `start` and `end` are aware datetimes, or dates of which `end` is the first day after, when `all_day`. `summary` is
    empty where it has none, or where the person may see no more of its calendar than when it is busy. `busy` is whether
    it takes the person's time: neither marked as free nor declined by them. `tentative` is whether that may change: it
    is an invitation that they have not said yes or no to.
    """

    id: str
    uid: str
    summary: str
    start: datetime | date
    end: datetime | date
    all_day: bool
    attendees: tuple[str, ...]
    busy: bool
    tentative: bool
    status: str
    link: str | None
    meet_link: str | None
    """Where to join its video conference, if Google has made one."""

    def span(self, zone: tzinfo) -> tuple[datetime, datetime]:
        """When it begins and ends, in UTC, in which times can be compared across a change of the clocks; days without
        hours are those of `zone`."""
        return _instant(self.start, zone), _instant(self.end, zone)

    def overlaps(self, start: datetime, end: datetime, zone: tzinfo) -> bool:
        begins, ends = self.span(zone)
        return begins < end.astimezone(UTC) and start.astimezone(UTC) < ends


@dataclass(frozen=True, slots=True)
class _Entry:
    """A calendar of the person's list. `shown` is whether they have it ticked, `solutions` which conferences it may
    hold, None when Google does not tell."""

    id: str
    primary: bool
    shown: bool
    solutions: tuple[str, ...] | None


class Calendar:
    """One person's calendars. Every method raises the errors of `errors.py`."""

    def __init__(self, client: Client, service: Any) -> None:
        self._client = client
        self._settings = service.settings()
        self._list = service.calendarList()
        self._events = service.events()
        self._listed: tuple[_Entry, ...] = ()
        self._listed_at = float("-inf")

    async def timezone(self) -> str | None:
        """The person's timezone as an IANA name, None when Google does not tell."""
        sources = (
            (self._settings.get(setting="timezone"), "value"),
            (self._events.list(calendarId=_PRIMARY, maxResults=1), "timeZone"),
        )
        for request, field in sources:
            try:
                answer = await self._client.read(request, dict)
            except (NotFound, Refused):
                continue
            if name := answer.get(field):
                return str(name)
        return None

    async def events(self, start: datetime, end: datetime) -> tuple[Event, ...]:
        """All events that touch the time from `start` to `end`, by start: those of the primary calendar, and of all
        others that the person has ticked in Google Calendar. One that stands in several of them is told once.

        Days without hours are those of `start`'s timezone. Raises ValueError for a naive datetime.
        """
        zone = _zone_of(start)
        bounds = {"timeMin": start.isoformat(), "timeMax": _aware(end).isoformat()}
        # Invitations come into the primary calendar, so it counts even where the person has it out of sight.
        ids = [_PRIMARY, *(entry.id for entry in await self._list_of_calendars() if entry.shown and not entry.primary)]
        found = await asyncio.gather(*(self._events_of(calendar, bounds) for calendar in ids))
        # Of several copies the primary calendar's stays, as that one tells the person's own answer.
        once = {(event.uid, event.start): event for calendar in reversed(found) for event in calendar}
        touching = (event for event in once.values() if event.overlaps(start, end, zone))
        return tuple(sorted(touching, key=lambda event: (event.span(zone), event.summary)))

    async def insert(
        self,
        event_id: str,
        *,
        summary: str,
        start: datetime,
        end: datetime,
        timezone: str,
        attendees: Iterable[str],
        description: str | None = None,
        send_updates: SendUpdates = "all",
        meet: bool = False,
    ) -> Event:
        """Create an event under an id of our choice: 5 to 1024 characters of a-v and 0-9.

        Args:
            meet: ask for a Meet conference; where the calendar may have none, the event is made without.

        Raises Exists when the id is taken, Ambiguous, and ValueError for a naive datetime.
        """
        body: dict[str, Any] = {
            "id": event_id,
            "summary": summary,
            "start": {"dateTime": _aware(start).isoformat(), "timeZone": timezone},
            "end": {"dateTime": _aware(end).isoformat(), "timeZone": timezone},
            "attendees": [{"email": address} for address in attendees],
        }
        if description is not None:
            body["description"] = description
        if meet and await self._may_meet():
            # The same request id never makes a second conference.
            create = {"requestId": event_id, "conferenceSolutionKey": {"type": _MEET}}
            try:
                return await self._insert(
                    body | {"conferenceData": {"createRequest": create}}, send_updates, conferenceDataVersion=1
                )
            except Refused as refusal:
                if refusal.status != 400:
                    raise
        return await self._insert(body, send_updates)

    async def event(self, event_id: str) -> Event:
        """Raises NotFound when there is no such event, or it was deleted.

        Google keeps a deleted event as "cancelled", with nothing but its id guaranteed
        (https://developers.google.com/workspace/calendar/api/v3/reference/events#status).
        """
        request = self._events.get(calendarId=_PRIMARY, eventId=event_id)
        event = await self._client.read(request, lambda answer: None if _is_cancelled(answer) else _event(answer))
        if event is None:
            raise NotFound(f"{request.methodId}: the event was deleted")
        return event

    async def _may_meet(self) -> bool:
        primary = next((entry for entry in await self._list_of_calendars() if entry.primary), None)
        return primary is None or primary.solutions is None or _MEET in primary.solutions

    async def _list_of_calendars(self) -> tuple[_Entry, ...]:
        if time.monotonic() - self._listed_at > _LIST_SECONDS:
            self._listed = await self._read_list()
            self._listed_at = time.monotonic()
        return self._listed

    async def _read_list(self) -> tuple[_Entry, ...]:
        """Empty where it may not be read: people who logged in long ago were not asked for that."""
        entries: list[_Entry] = []
        token: str | None = None
        try:
            while True:
                request = self._list.list(maxResults=_MOST_LISTED, pageToken=token)
                found, token = await self._client.read(request, _entry_page)
                entries += found
                if token is None:
                    return tuple(entries)
        except (NotFound, Refused):
            return ()

    async def _events_of(self, calendar: str, bounds: dict[str, str]) -> list[Event]:
        found: list[Event] = []
        token: str | None = None
        while True:
            request = self._events.list(
                calendarId=calendar,
                singleEvents=True,
                orderBy="startTime",
                maxResults=_PAGE,
                pageToken=token,
                **bounds,
            )
            try:
                events, token = await self._client.read(request, _event_page)
            except NotFound:
                if calendar == _PRIMARY:
                    raise
                self._listed_at = float("-inf")  # it was taken off the list since that was read
                return []
            found += events
            if token is None:
                return found

    async def _insert(self, body: dict[str, Any], send_updates: SendUpdates, **options: Any) -> Event:
        request = self._events.insert(calendarId=_PRIMARY, body=body, sendUpdates=send_updates, **options)
        return await self._client.write(request, _event)


def _aware(moment: datetime) -> datetime:
    if moment.tzinfo is None:
        raise ValueError("a time without a timezone")
    return moment


def _zone_of(moment: datetime) -> tzinfo:
    zone = _aware(moment).tzinfo
    assert zone is not None
    return zone


def _instant(at: datetime | date, zone: tzinfo) -> datetime:
    moment = at if isinstance(at, datetime) else datetime.combine(at, time_of_day(), zone)
    return moment.astimezone(UTC)


def _entry_page(answer: dict[str, Any]) -> tuple[list[_Entry], str | None]:
    return [_entry(entry) for entry in answer.get("items", ())], answer.get("nextPageToken")


def _entry(answer: dict[str, Any]) -> _Entry:
    solutions = answer.get("conferenceProperties", {}).get("allowedConferenceSolutionTypes")
    return _Entry(
        id=answer["id"],
        primary=answer.get("primary", False),
        shown=answer.get("selected", False) and not answer.get("hidden") and not answer.get("deleted"),
        solutions=None if solutions is None else tuple(solutions),
    )


def _event_page(answer: dict[str, Any]) -> tuple[list[Event], str | None]:
    events = [_event(item) for item in answer.get("items", ()) if not _is_cancelled(item)]
    return events, answer.get("nextPageToken")


def _is_cancelled(answer: dict[str, Any]) -> bool:
    return answer.get("status") == "cancelled"


def _event(answer: dict[str, Any]) -> Event:
    attendees = answer.get("attendees", ())
    own = next((str(person.get("responseStatus")) for person in attendees if person.get("self")), "accepted")
    return Event(
        id=answer["id"],
        uid=answer.get("iCalUID", answer["id"]),
        summary=answer.get("summary", ""),
        start=_time(answer["start"]),
        end=_time(answer["end"]),
        all_day="date" in answer["start"],
        attendees=tuple(person["email"] for person in attendees if "email" in person),
        busy=answer.get("transparency") != "transparent" and own != "declined",
        tentative=own in ("needsAction", "tentative") or answer.get("status") == "tentative",
        status=answer.get("status", "confirmed"),
        link=answer.get("htmlLink"),
        meet_link=_meet_link(answer),
    )


def _meet_link(answer: dict[str, Any]) -> str | None:
    entries = answer.get("conferenceData", {}).get("entryPoints", ())
    links = [answer.get("hangoutLink"), *(e.get("uri") for e in entries if e.get("entryPointType") == "video")]
    return next((link for link in links if isinstance(link, str) and link.startswith("https://")), None)


def _time(value: dict[str, str]) -> datetime | date:
    if "date" in value:
        return date.fromisoformat(value["date"])
    moment = datetime.fromisoformat(value["dateTime"])
    return moment if moment.tzinfo else moment.replace(tzinfo=ZoneInfo(value["timeZone"]))
