"""A calendar part (RFC 5545) in words."""

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

from tzlocal.windows_tz import win_tz

from .charset import readable
from .message import CalendarEvent

_MAX_READ = 200_000
_MAX_VALUE = 300
_FOLD = re.compile(r"\n[ \t]")
_EVENT = re.compile(r"^BEGIN:VEVENT[ \t]*$", re.MULTILINE | re.IGNORECASE)
_PROPERTY = re.compile(r"^([A-Za-z-]+)((?:;[^:\n\"]*(?:\"[^\"\n]*\"[^:\n\"]*)*)?):(.*)$", re.MULTILINE)
_TIME = re.compile(r"(\d{4})(\d\d)(\d\d)(?:T(\d\d)(\d\d)\d\d(Z?))?")
_ZONE = re.compile(r"TZID=\"?([^;:\"]+)", re.IGNORECASE)

_METHODS = {
    "REQUEST": "Calendar invitation",
    "CANCEL": "Calendar cancellation",
    "REPLY": "Calendar reply",
    "COUNTER": "Calendar counter-proposal",
    "DECLINECOUNTER": "Calendar counter-proposal declined",
}


_DURATION = re.compile(r"P(?:(\d{1,3})W)?(?:(\d{1,3})D)?(?:T(?:(\d{1,3})H)?(?:(\d{1,4})M)?(?:\d+S)?)?")
_REPEATS = {"DAILY": "daily", "WEEKLY": "weekly", "MONTHLY": "monthly", "YEARLY": "yearly"}


@dataclass(frozen=True, slots=True)
class Invitation:
    """What a calendar part asks of the person, or tells them."""

    uid: str
    kind: str  # such as "Calendar invitation"
    title: str
    start: datetime | None  # aware; None for days without hours, and where the timezone is not known
    end: datetime | None
    written: str  # its time as the sender wrote it
    place: str
    organiser: str
    repeats: str  # "weekly"; empty if it does not
    others: int  # events of the same part that are not told

    def when(self, zone: ZoneInfo) -> str:
        """Its time in words, in the person's timezone."""
        if self.start is None:
            return self.written
        start, end = self.start.astimezone(zone), (self.end or self.start).astimezone(zone)
        till = f"{end:%H:%M}" if end.date() == start.date() else f"{end:%A %-d %B %Y, %H:%M}"
        return f"{start:%A %-d %B %Y, %H:%M}{f' to {till}' if end > start else ''} ({zone.key})"

    @property
    def beside(self) -> str:
        """How many events more there are; empty if none."""
        return f"and {self.others:,} more event{'s' if self.others > 1 else ''}" if self.others else ""

    def in_words(self, zone: ZoneInfo) -> str:
        facts = [
            f"{self.kind}: {self.title or '(no title)'}",
            self.when(zone),
            f"repeats {self.repeats}" if self.repeats else "",
            f"at {self.place}" if self.place else "",
            f"organised by {self.organiser}, as it says" if self.organiser else "",
            self.beside,
        ]
        return "; ".join(filter(None, facts))


def invitation(calendar: str) -> Invitation | None:
    """The first event of a calendar part; None if it has none."""
    if (read := _read(calendar)) is None:
        return None
    method, found = read
    start, end = (_moment(*found.get(name, ("", ""))) for name in ("DTSTART", "DTEND"))
    rule = re.search(r"FREQ=([A-Z]+)", _value(found, "RRULE").upper())
    return Invitation(
        uid=_value(found, "UID"),
        kind=_METHODS.get(method, "Calendar event"),
        title=_value(found, "SUMMARY"),
        start=start,
        end=end or (start + _lasting(_value(found, "DURATION")) if start else None),
        written=_times(found),
        place=_value(found, "LOCATION"),
        organiser=_organiser(found) if "ORGANIZER" in found else "",
        repeats=_REPEATS.get(rule[1], "in a way of its own") if rule else "",
        others=len(_EVENT.findall(_unfolded(calendar))) - 1,
    )


def summarise(calendar: str) -> str:
    """What a calendar part says: kind, title, times as written, place and organiser; empty if it has no event.

    Of several events, such as those of a series, the first is told and the others are counted."""
    if (read := _read(calendar)) is None:
        return ""
    method, found = read
    others = len(_EVENT.findall(_unfolded(calendar))) - 1
    facts = [
        _value(found, "SUMMARY"),
        _times(found),
        f"repeats {_value(found, 'RRULE')}" if "RRULE" in found else "",
        f"at {_value(found, 'LOCATION')}" if _value(found, "LOCATION") else "",
        f"organiser {_organiser(found)}" if "ORGANIZER" in found else "",
        f"answer {_answer(found)}" if method == "REPLY" and _answer(found) else "",
        f"comment: {_value(found, 'COMMENT')}" if _value(found, "COMMENT") else "",
        f"and {others} more event{'s' if others > 1 else ''}" if others else "",
    ]
    return f"[{_METHODS.get(method, 'Calendar event')}: {'; '.join(fact for fact in facts if fact)}]"


def description(calendar: str) -> str:
    """The first event's own text, such as an agenda; empty if it has none."""
    return _unescaped(_first_event(calendar).get("DESCRIPTION", ("", ""))[1], new_line="\n").strip()


def event(calendar: str) -> CalendarEvent | None:
    """The first event as calendars know it; None if there is none, or it does not say which it is."""
    found = _first_event(calendar)
    uid = _value(found, "UID")
    start, end = (_moment(*found.get(name, ("", ""))) for name in ("DTSTART", "DTEND"))
    return CalendarEvent(uid, start, end) if uid else None


def _first_event(calendar: str) -> dict[str, tuple[str, str]]:
    return read[1] if (read := _read(calendar)) else {}


def _read(calendar: str) -> tuple[str, dict[str, tuple[str, str]]] | None:
    """What the calendar part is for, and the properties of its first event; None if it has none."""
    text = _unfolded(calendar)
    event = _EVENT.search(text)
    if event is None:
        return None
    found = _properties(text[event.end() :])
    if _value(found, "STATUS").upper() == "CANCELLED":
        return "CANCEL", found
    return _properties(text[: event.start()]).get("METHOD", ("", ""))[1].upper(), found


def _unfolded(calendar: str) -> str:
    return _FOLD.sub("", readable(calendar[:_MAX_READ]))


def _lasting(duration: str) -> timedelta:
    match = _DURATION.fullmatch(duration.upper())
    weeks, days, hours, minutes = (int(number or 0) for number in match.groups()) if match else (0, 0, 0, 0)
    return timedelta(weeks=weeks, days=days, hours=hours, minutes=minutes)


def _properties(text: str) -> dict[str, tuple[str, str]]:
    """Name to (parameters, value), the first of each name up to the end of the event or an inner component."""
    end = re.search(r"^(?:END:VEVENT|BEGIN:VALARM)", text, re.MULTILINE | re.IGNORECASE)
    found: dict[str, tuple[str, str]] = {}
    for match in _PROPERTY.finditer(text[: end.start()] if end else text):
        found.setdefault(match[1].upper(), (match[2], match[3].strip()))
    return found


def _value(found: dict[str, tuple[str, str]], name: str) -> str:
    return " ".join(_unescaped(found.get(name, ("", ""))[1], new_line=" ").split())[:_MAX_VALUE]


def _unescaped(value: str, *, new_line: str) -> str:
    return re.sub(r"\\([nN,;\\])", lambda match: new_line if match[1] in "nN" else match[1], value)


def _times(found: dict[str, tuple[str, str]]) -> str:
    start, end = (_time(*found.get(name, ("", ""))) for name in ("DTSTART", "DTEND"))
    if _is_day(start) and _is_day(end):
        end = _day_before(end)  # RFC 5545, 3.6.1: the end is exclusive
    if end and end != start:
        return f"{start} to {end}"
    lasting = _value(found, "DURATION")
    return f"{start} for {lasting}" if start and lasting else start


def _is_day(time: str) -> bool:
    return len(time) == len("2026-05-05")


def _day_before(day: str) -> str:
    try:
        return str(date.fromisoformat(day) - timedelta(days=1))
    except (ValueError, OverflowError):  # no such day
        return day


def _time(parameters: str, value: str) -> str:
    match = _TIME.match(value)
    if match is None:
        return ""
    year, month, day, hour, minute, utc = match.groups()
    if hour is None:
        return f"{year}-{month}-{day}"
    zone = _ZONE.search(parameters)
    suffix = " UTC" if utc else f" {zone[1]}" if zone else ""
    return f"{year}-{month}-{day} {hour}:{minute}{suffix}"


def _moment(parameters: str, value: str) -> datetime | None:
    """The time if it is known where it is meant: in UTC, or in a timezone of the IANA database or of Windows, by
    whose names Exchange calls them (https://unicode.org/reports/tr35/tr35-dates.html#Windows_Zones)."""
    match = _TIME.match(value)
    zone = _ZONE.search(parameters)
    if match is None or match[4] is None or not (match[6] or zone):
        return None
    year, month, day, hour, minute = (int(number) for number in match.groups()[:5])
    try:
        known = ZoneInfo(win_tz.get(zone[1], zone[1])) if zone and not match[6] else UTC
        # As of mail's own dates: beyond lies what can't be told in every timezone.
        return datetime(year, month, day, hour, minute, tzinfo=known).astimezone(UTC) if 1970 <= year <= 9000 else None
    except (ValueError, OverflowError, LookupError, OSError):  # no such time, no such timezone
        return None


def _organiser(found: dict[str, tuple[str, str]]) -> str:
    return re.sub(r"^mailto:", "", _value(found, "ORGANIZER"), flags=re.IGNORECASE)


def _answer(found: dict[str, tuple[str, str]]) -> str:
    status = re.search(r"PARTSTAT=([A-Za-z-]+)", found.get("ATTENDEE", ("", ""))[0], re.IGNORECASE)
    return status[1].lower() if status else ""
