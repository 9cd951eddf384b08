"""Google Calendar, as far as this product needs it: what stands in the person's calendars, new events and changes."""

import asyncio
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, tzinfo
from datetime import time as time_of_day
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from zoneinfo import ZoneInfo

from email_assistant.google.errors import Deleted, NotFound, Refused

if TYPE_CHECKING:
    from email_assistant.google.client import GoogleClient

PRIMARY: Final = "primary"
"""How Google calls the person's own calendar."""
_PAGE: Final = 2500  # Google's maximum
_MOST_LISTED: Final = 250  # Google's maximum
_LIST_SECONDS: Final = 600
"""How long the list of calendars is believed; people rarely change it."""
_MEET: Final = "hangoutsMeet"


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
    link: str | None
    meet_link: str | None
    """Where to join its video conference, if Google has made one."""
    location: str = ""
    description: str = ""
    calendar: str = PRIMARY
    """The id of the calendar that it was read from."""
    etag: str = ""
    """Tells what it is now from what it was."""

    def span(self, zone: tzinfo) -> tuple[datetime, datetime]:
        """When it begins and ends, in UTC, in which times can be compared across a change of the clocks; days without
        hours are those of `zone`."""
        return _instant(self.start, zone), _instant(self.end, zone)

    def overlaps(self, start: datetime, end: datetime, zone: tzinfo) -> bool:
        begins, ends = self.span(zone)
        return begins < end.astimezone(UTC) and start.astimezone(UTC) < ends


@dataclass(frozen=True, slots=True)
class CalendarEntry:
    """A calendar of the person's list. `shown` is whether they have it ticked, `writable` whether they may change what
    stands in it, `owned` whether it is theirs, `solutions` which conferences it may hold, None when Google does not
    tell."""

    id: str
    name: str
    timezone: str | None
    primary: bool
    shown: bool
    writable: bool
    owned: bool
    solutions: tuple[str, ...] | None


@dataclass(frozen=True, slots=True)
class Agenda:
    """The events in all calendars that count as the person's own time, by start, and the names of those calendars."""

    events: tuple[Event, ...]
    calendars: tuple[str, ...]


class Calendar:
    """One person's calendars. Every method raises the errors of `errors.py`."""

    def __init__(self, client: "GoogleClient", methods: Callable[..., Any], also_own: Collection[str] = ()) -> None:
        """`methods`: `client.methods` of Calendar; `also_own` are names or ids of other people's calendars that count
        as the person's time all the same."""
        self._client = client
        self._settings = methods("settings")
        self._list = methods("calendarList")
        self._events = methods("events")
        self._also_own = {name.lower() for name in also_own}
        self._listed: tuple[CalendarEntry, ...] = ()
        self._listed_at = float("-inf")

    async def timezone(self) -> str | None:
        """The person's timezone as an IANA name, None when Google does not tell."""
        sources = (
            (self._settings.get(setting="timezone"), "value"),
            (self._events.list(calendarId=PRIMARY, maxResults=1), "timeZone"),
        )
        for request, field in sources:
            try:
                answer = await self._client.read(request, dict)
            except (NotFound, Refused):
                continue
            if name := answer.get(field):
                return str(name)
        return None

    async def calendars(self) -> tuple[CalendarEntry, ...]:
        """The person's list of calendars; empty where it may not be read: people who logged in long ago were not asked
        for that."""
        if time.monotonic() - self._listed_at > _LIST_SECONDS:
            self._listed = await self._read_list()
            self._listed_at = time.monotonic()
        return self._listed

    async def events(self, start: datetime, end: datetime, calendar: str = PRIMARY) -> tuple[Event, ...]:
        """All events of a calendar that touch the time from `start` to `end`, by start.

        Days without hours are those of `start`'s timezone.

        Raises NotFound if there is no such calendar, and ValueError for a naive datetime.
        """
        return _touching([await self._events_of(calendar, _bounds(start, end))], start, end)

    async def agenda(self, start: datetime, end: datetime) -> Agenda:
        """What takes the person's time from `start` to `end`: in the calendars that they own, ticked or not, and in
        those that were named as counting too. An event that stands in several is told once.

        Days without hours are those of `start`'s timezone.

        Raises ValueError for a naive datetime.
        """
        bounds = _bounds(start, end)
        listed = await self.calendars()
        primary = next((entry.name for entry in listed if entry.primary and entry.name), "your own calendar")
        others = [entry for entry in listed if not entry.primary and self._counts(entry)]
        # Invitations come into the primary calendar, so it counts even where the person has it out of sight.
        ids = [PRIMARY, *(entry.id for entry in others)]
        found = await asyncio.gather(*(self._events_if_there(each, bounds) for each in ids))
        return Agenda(_touching(found, start, end), (primary, *(entry.name or entry.id for entry in others)))

    async def day(self, day: date, zone: tzinfo) -> Agenda:
        """`agenda` of a whole day of that timezone."""
        start, end = (datetime.combine(each, time_of_day(), zone) for each in (day, day + timedelta(days=1)))
        return await self.agenda(start, end)

    async def insert(
        self,
        event_id: str,
        *,
        summary: str,
        start: datetime | date,
        end: datetime | date,
        timezone: str,
        attendees: Iterable[str],
        description: str | None = None,
        location: str | None = None,
        calendar: str = PRIMARY,
        meet: bool = False,
    ) -> Event:
        """Create an event under an id of our choice: 5 to 1024 characters of a-v and 0-9.

        Args:
            start, end: datetimes, or days of which the last one is not part of the event.
            meet: ask for a Meet conference; where the calendar may have none, the event is made without.

        Raises Exists when the id is taken, Ambiguous, and ValueError for a naive datetime.
        """
        body: dict[str, Any] = {
            "id": event_id,
            "summary": summary,
            "start": _when(start, timezone),
            "end": _when(end, timezone),
            "attendees": [{"email": address} for address in attendees],
        }
        body |= _given(description=description, location=location)
        insert = partial(self._insert, calendar)
        if meet and await self._may_meet():
            # The same request id never makes a second conference.
            create = {"requestId": event_id, "conferenceSolutionKey": {"type": _MEET}}
            try:
                return await insert(body | {"conferenceData": {"createRequest": create}}, conferenceDataVersion=1)
            except Refused as refusal:
                if refusal.code != 400:
                    raise
        return await insert(body)

    async def patch(
        self,
        event_id: str,
        *,
        calendar: str = PRIMARY,
        summary: str | None = None,
        start: datetime | date | None = None,
        end: datetime | date | None = None,
        attendees: Iterable[str] | None = None,
        description: str | None = None,
        location: str | None = None,
        etag: str = "",
    ) -> Event:
        """Change those fields of an event that are given, and nothing else; who stays invited keeps their answer.

        Args:
            etag: change it only if it is still as it was read with that (Refused with status 412); empty: in any case.

        Raises NotFound when there is no such event, Ambiguous, and ValueError for a naive datetime.
        """
        body = _given(summary=summary, description=description, location=location)
        # A patch leaves what it does not name: the other kind of time has to be taken away by name.
        body |= {
            side: {"date": None, "dateTime": None} | _when(at)
            for side, at in (("start", start), ("end", end))
            if at is not None
        }
        if attendees is not None:
            request = self._events.get(calendarId=calendar, eventId=event_id)
            invited = await self._client.read(request, _attendees)
            body["attendees"] = [invited.get(address.lower(), {"email": address}) for address in attendees]
        request = self._events.patch(calendarId=calendar, eventId=event_id, body=body, sendUpdates="all")
        if etag:
            request.headers["If-Match"] = etag
        return await self._client.write(request, partial(_event, calendar=calendar))

    async def event(self, event_id: str, calendar: str = PRIMARY) -> Event:
        """Raises Deleted, and NotFound when there was none.

        Google keeps a deleted event as "cancelled", with nothing but its id guaranteed
        (https://developers.google.com/workspace/calendar/api/v3/reference/events#status).
        """
        request = self._events.get(calendarId=calendar, eventId=event_id)
        event = await self._client.read(
            request, lambda answer: None if _is_cancelled(answer) else _event(answer, calendar)
        )
        if event is None:
            raise Deleted(f"{request.methodId}: the event was deleted")
        return event

    def _counts(self, entry: CalendarEntry) -> bool:
        return entry.owned or not self._also_own.isdisjoint({entry.id.lower(), entry.name.lower()})

    async def _may_meet(self) -> bool:
        primary = next((entry for entry in await self.calendars() if entry.primary), None)
        return primary is None or primary.solutions is None or _MEET in primary.solutions

    async def _read_list(self) -> tuple[CalendarEntry, ...]:
        try:
            page = partial(self._list.list, maxResults=_MOST_LISTED)
            return tuple(await self._client.read_all(page, _entry_page))
        except (NotFound, Refused):
            return ()

    async def _events_if_there(self, calendar: str, bounds: dict[str, str]) -> list[Event]:
        try:
            return await self._events_of(calendar, bounds)
        except NotFound:
            if calendar == PRIMARY:
                raise
            self._listed_at = float("-inf")  # it was taken off the list since that was read
            return []

    async def _events_of(self, calendar: str, bounds: dict[str, str]) -> list[Event]:
        page = partial(
            self._events.list, calendarId=calendar, singleEvents=True, orderBy="startTime", maxResults=_PAGE, **bounds
        )
        return await self._client.read_all(page, partial(_event_page, calendar=calendar))

    async def _insert(self, calendar: str, body: dict[str, Any], **options: Any) -> Event:
        request = self._events.insert(calendarId=calendar, body=body, sendUpdates="all", **options)
        return await self._client.write(request, partial(_event, calendar=calendar))


def _bounds(start: datetime, end: datetime) -> dict[str, str]:
    return {"timeMin": _aware(start).isoformat(), "timeMax": _aware(end).isoformat()}


def _touching(found: Sequence[Sequence[Event]], start: datetime, end: datetime) -> tuple[Event, ...]:
    """The events of several calendars, the primary one first, that touch a time, by start."""
    zone = _zone_of(start)
    # Of several copies the primary calendar's stays, as that one tells the person's own answer.
    once = {(event.uid, event.start): event for events in reversed(found) for event in events}
    touching = (event for event in once.values() if event.overlaps(start, end, zone))
    return tuple(sorted(touching, key=lambda event: (event.span(zone), event.summary)))


def _aware(moment: datetime) -> datetime:
    if moment.tzinfo is None:
        raise ValueError("a time without a timezone")
    return moment


def _when(at: datetime | date, timezone: str | None = None) -> dict[str, str]:
    """A time as Google takes it, or a day."""
    if not isinstance(at, datetime):
        return {"date": at.isoformat()}
    return {"dateTime": _aware(at).isoformat(), **_given(timeZone=timezone)}


def _given(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _zone_of(moment: datetime) -> tzinfo:
    zone = _aware(moment).tzinfo
    assert zone is not None
    return zone


def _instant(at: datetime | date, zone: tzinfo) -> datetime:
    moment = at if isinstance(at, datetime) else datetime.combine(at, time_of_day(), zone)
    return moment.astimezone(UTC)


def _entry_page(answer: dict[str, Any]) -> tuple[list[CalendarEntry], str | None]:
    return [
        _entry(each) for each in answer.get("items", ()) if not (each.get("hidden") or each.get("deleted"))
    ], answer.get("nextPageToken")


def _entry(answer: dict[str, Any]) -> CalendarEntry:
    solutions = answer.get("conferenceProperties", {}).get("allowedConferenceSolutionTypes")
    return CalendarEntry(
        id=answer["id"],
        name=answer.get("summaryOverride") or answer.get("summary", ""),
        timezone=answer.get("timeZone"),
        primary=answer.get("primary", False),
        shown=answer.get("selected", False),
        writable=answer.get("accessRole") in ("owner", "writer"),
        owned=answer.get("accessRole") == "owner",
        solutions=None if solutions is None else tuple(solutions),
    )


def _event_page(answer: dict[str, Any], calendar: str) -> tuple[list[Event], str | None]:
    events = [_event(item, calendar) for item in answer.get("items", ()) if not _is_cancelled(item)]
    return events, answer.get("nextPageToken")


def _is_cancelled(answer: dict[str, Any]) -> bool:
    return answer.get("status") == "cancelled"


def _event(answer: dict[str, Any], calendar: str) -> Event:
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
        link=answer.get("htmlLink"),
        meet_link=_meet_link(answer),
        location=answer.get("location", ""),
        description=answer.get("description", ""),
        calendar=calendar,
        etag=answer.get("etag", ""),
    )


def _attendees(answer: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Who is invited, by address, each as Google tells it."""
    return {person["email"].lower(): person for person in answer.get("attendees", ()) if "email" in person}


def _meet_link(answer: dict[str, Any]) -> str | None:
    entries = answer.get("conferenceData", {}).get("entryPoints", ())
    links = [answer.get("hangoutLink"), *(e.get("uri") for e in entries if e.get("entryPointType") == "video")]
    return next((link for link in links if isinstance(link, str) and link.startswith("https://")), None)


def _time(value: dict[str, str]) -> datetime | date:
    if "date" in value:
        return date.fromisoformat(value["date"])
    moment = datetime.fromisoformat(value["dateTime"])
    return moment if moment.tzinfo else moment.replace(tzinfo=ZoneInfo(value["timeZone"]))


def skipped(at: datetime, zone: ZoneInfo) -> str | None:
    """Why a wall time without a timezone is none there: clocks that go forward leave some out. RFC 5545 (3.3.5) would
    take 02:30 for 03:30 then, so that 02:30 to 03:30 lasts no time."""
    try:
        real = at.replace(tzinfo=zone).astimezone(UTC).astimezone(zone).replace(tzinfo=None)
    except OverflowError:  # the first and the last day that there are
        return None
    if real == at.replace(tzinfo=None):
        return None
    return f"there is no {at:%H:%M} on {at:%Y-%m-%d} in {zone.key}: the clocks go forward then, past it"
