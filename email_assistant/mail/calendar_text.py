"""The lines of a calendar part (RFC 5545) as components with properties, and the moments that they name."""

import re
from bisect import bisect_right
from calendar import monthrange
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

from tzlocal.windows_tz import win_tz

from email_assistant.mail.charset import readable

MOST_READ = 200_000
"""Characters of a calendar part."""
_FOLD = re.compile(r"\n[ \t]")
_PROPERTY = re.compile(r"([A-Za-z-]+)((?:;(?:[^:\"]|\"[^\"]*\")*+)?):(.*)")
_MISPLACED_TIME = re.compile(r"(?:\d{8}(?:T\d{6}Z?)?)$")
_TIME = re.compile(r"(\d{4})(\d\d)(\d\d)(?:T(\d\d)(\d\d)(\d\d)?(Z?))?")
_ZONE = re.compile(r"TZID=(?:\"([^\"]*)\"|([^;\"]*))", re.IGNORECASE)
_OFFSET = re.compile(r"([+-])(\d\d)(\d\d)")
_NUMBERED_DAY = re.compile(r"([+-]?\d{1,2})?(MO|TU|WE|TH|FR|SA|SU)")
_WEEKDAYS = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
_TIMED = ("DTSTART", "DTEND", "RECURRENCE-ID", "RDATE", "EXDATE")
_UNIVERSAL = ("utc", "gmt", "etc/utc", "z")
_MOST_RULES = 50  # of one timezone
_NEVER = datetime(1, 1, 1)  # noqa: DTZ001 - of no place

Property = tuple[str, str]  # parameters and value


@dataclass(slots=True)
class Component:
    """What stands between BEGIN and END."""

    kind: str
    properties: defaultdict[str, list[Property]] = field(default_factory=lambda: defaultdict(list))
    inner: "list[Component]" = field(default_factory=list)

    def first(self, name: str) -> Property:
        """The parameters and the value of the first property of that name; empty if there is none."""
        return next(iter(self.properties.get(name, ())), ("", ""))

    def text(self, name: str) -> str:
        """The first property's value on one line."""
        return " ".join(unescaped(self.first(name)[1], new_line=" ").split())


def components(calendar: str) -> Component:
    """The components, however deep, as the parts of one: those that can hold others hold them."""
    root = Component("")
    stack = [root]
    for line in _FOLD.sub("", readable(calendar[:MOST_READ])).split("\n"):
        match = _PROPERTY.fullmatch(line.rstrip())
        if match is None:
            continue
        name, value = match[1].upper(), match[3].strip()
        if name == "BEGIN":
            component = Component(value.upper())
            holder = stack[-1] if stack[-1].kind in ("VTIMEZONE", "VEVENT") else root
            holder.inner.append(component)
            stack.append(component)
        elif name == "END":
            if len(stack) > 1 and value.upper() == stack[-1].kind:
                stack.pop()
        else:
            stack[-1].properties[name].append(_repaired(name, match[2], value))
    return root


def _repaired(name: str, parameters: str, value: str) -> Property:
    """A time before which a colon stands that its timezone's name has, and no quotes around that."""
    if name in _TIMED and not _TIME.match(value) and (time := _MISPLACED_TIME.search(value)):
        return f"{parameters}:{value[: time.start()].rstrip(':')}", time[0]
    return parameters, value


def unescaped(value: str, *, new_line: str) -> str:
    return re.sub(r"\\([nN,;:\\])", lambda match: new_line if match[1] in "nN" else match[1], value)


# --- moments


@dataclass(frozen=True, slots=True)
class Moment:
    """A time or a day that a calendar part names."""

    at: datetime | date  # aware where its timezone is known; of its timezone as it is written
    zone: str  # what to call its timezone; empty if it has none

    @property
    def known(self) -> datetime | None:
        """The time in UTC; None for days, and where the timezone is not known."""
        return self.at.astimezone(UTC) if isinstance(self.at, datetime) and self.at.tzinfo else None

    def day(self, zone: ZoneInfo | None) -> date:
        """The day that it is in a timezone; as it is written, if that or its own is not known."""
        if not isinstance(self.at, datetime):
            return self.at
        return self.at.astimezone(zone).date() if zone and self.at.tzinfo else self.at.date()

    def __str__(self) -> str:
        if not isinstance(self.at, datetime):
            return str(self.at)
        return f"{self.at.replace(tzinfo=None).isoformat(' ', 'minutes')} {self.zone}".strip()


class Zones:
    """The timezones that a calendar part may name: those of the IANA database, of Windows, and its own."""

    def __init__(self, root: Component) -> None:
        self._own = {
            _plain(each.text("TZID")): _OwnZone(each)
            for each in root.inner
            if each.kind == "VTIMEZONE" and each.text("TZID")
        }

    def moment(self, written: Property) -> Moment | None:
        """None if it is no time, or none that can be told in every timezone."""
        parameters, value = written
        match = _TIME.match(value)
        if match is None:
            return None
        year, month, day, hour, minute = (int(number or 0) for number in match.groups()[:5])
        try:
            local = datetime(year, month, day, hour, minute)  # noqa: DTZ001 - its timezone follows
            if match[4] is None:
                return Moment(local.date(), "")
            if match[7]:
                return _checked(local.replace(tzinfo=UTC), "UTC")
            found = _ZONE.search(parameters)
            return self._in(local, (found[1] or found[2] or "").strip() if found else "")
        except (ValueError, OverflowError):  # no such time
            return None

    def _in(self, local: datetime, name: str) -> Moment:
        if not name:
            return Moment(local, "")
        if known := _known(name):
            return _checked(local.replace(tzinfo=known[0]), known[1])
        if own := self._own.get(_plain(name)):
            offset = own.offset(local)
            return _checked(local.replace(tzinfo=timezone(offset)), f"UTC{_signed(offset)}")
        return Moment(local, " ".join(unescaped(name, new_line=" ").split()))


def _checked(at: datetime, zone: str) -> Moment:
    # As of mail's own dates: beyond lies what can't be told in every timezone.
    return Moment(at if 1970 <= at.year <= 9000 else at.replace(tzinfo=None), zone)


def _signed(offset: timedelta) -> str:
    minutes = round(offset.total_seconds() / 60)
    return f"{'-' if minutes < 0 else '+'}{abs(minutes) // 60:02}:{abs(minutes) % 60:02}"


def _plain(name: str) -> str:
    return " ".join(unescaped(name, new_line=" ").strip('"').split()).casefold()


def _known(name: str) -> tuple[ZoneInfo, str] | None:
    """The timezone and what to call it: by its name in the IANA database, or with Windows, as Exchange names them
    (https://unicode.org/reports/tr35/tr35-dates.html#Windows_Zones), or behind a program's prefix
    (`/freeassociation.sourceforge.net/Europe/Berlin`)."""
    if name.rpartition("/")[2].lower() in _UNIVERSAL:
        return ZoneInfo("UTC"), "UTC"
    pieces = name.split("/")
    prefixed = ["/".join(pieces[-count:]) for count in (3, 2) if len(pieces) > count]
    for key, called in ((win_tz.get(name, name), name), *((each, each) for each in prefixed)):
        try:
            return ZoneInfo(key), called
        except (ValueError, LookupError, OSError):  # no such timezone
            continue
    return None


class _OwnZone:
    """A timezone that the file defines itself: rules by which its clocks are set (RFC 5545, 3.6.5)."""

    def __init__(self, zone: Component) -> None:
        self._rules = [_Rule.of(each) for each in zone.inner[:_MOST_RULES] if each.kind in ("STANDARD", "DAYLIGHT")]
        self._starts: dict[int, list[tuple[datetime, timedelta]]] = {}

    def offset(self, local: datetime) -> timedelta:
        """How far it is from UTC: by the rule that began last before that time."""
        if not self._rules:
            return timedelta()
        if (starts := self._starts.get(local.year)) is None:
            starts = sorted((start, rule.to) for rule in self._rules for start in rule.starts(local.year))
            self._starts[local.year] = starts
        begun = bisect_right(starts, local, key=lambda start: start[0])
        return starts[begun - 1][1] if begun else min(self._rules, key=lambda rule: rule.start).before


@dataclass(frozen=True, slots=True)
class _Rule:
    """When a timezone's clocks are changed, and how far they are from UTC before and after it."""

    start: datetime
    before: timedelta
    to: timedelta
    dates: tuple[datetime, ...]
    is_yearly: bool
    until: datetime | None
    months: tuple[int, ...]
    days: frozenset[int]  # of the month, from its end if negative
    weekdays: frozenset[tuple[int, int]]  # as `numbered_days` gives them
    places: tuple[int, ...]  # of what the others leave

    @classmethod
    def of(cls, component: Component) -> "_Rule":
        start = _naive(component.first("DTSTART")[1]) or _NEVER
        parts = rule_parts(component.first("RRULE")[1])
        return cls(
            start,
            _told_offset(component.first("TZOFFSETFROM")[1]),
            _told_offset(component.first("TZOFFSETTO")[1]),
            tuple(_dates(component)),
            parts.get("FREQ") == "YEARLY",
            _naive(parts.get("UNTIL", "")),
            _numbers(parts.get("BYMONTH", "")) or (start.month,),
            frozenset(_numbers(parts.get("BYMONTHDAY", ""))),
            frozenset(numbered_days(parts.get("BYDAY", ""))),
            _numbers(parts.get("BYSETPOS", "")),
        )

    def starts(self, year: int) -> Iterator[datetime]:
        """When its clocks are set to it, of those times that may be the last before one in that year."""
        yield from (self.start, *self.dates)
        # The end of a rule is told in UTC; a day more lets its last year count.
        last = self.until + timedelta(days=1) if self.until else datetime(year, 12, 31, 23, 59)  # noqa: DTZ001
        for each in (min(year, last.year), min(year, last.year) - 1) if self.is_yearly else ():
            yield from (start for start in self._in_year(each) if self.start <= start <= last)

    def _in_year(self, year: int) -> Iterator[datetime]:
        for month in (month for month in self.months if 1 <= month <= 12 and year >= 1):
            length = monthrange(year, month)[1]
            days = [day for day in range(1, length + 1) if self._is_on(date(year, month, day), length)]
            if self.places and days:
                days = [days[p - 1 if p > 0 else p] for p in self.places if p and -len(days) <= p <= len(days)]
            yield from (datetime.combine(date(year, month, day), self.start.time()) for day in days)

    def _is_on(self, day: date, length: int) -> bool:
        if not self.days and not self.weekdays:
            return day.day == self.start.day
        if self.days and day.day not in self.days and day.day - length - 1 not in self.days:
            return False
        places = (0, (day.day + 6) // 7, -((length - day.day + 7) // 7))
        return not self.weekdays or any((place, day.weekday()) in self.weekdays for place in places)


def rule_parts(rule: str) -> dict[str, str]:
    """The parts of a recurrence rule: `FREQ=WEEKLY;INTERVAL=2` has two."""
    pairs = (part.partition("=") for part in rule[:500].upper().split(";"))
    return {name.strip(): value.strip() for name, _, value in pairs if value.strip()}


def numbered_days(days: str) -> list[tuple[int, int]]:
    """Of `BYDAY`: which of its kind in the month, 0 for each, and which day of the week, 0 for Monday."""
    found = (_NUMBERED_DAY.fullmatch(day.strip()) for day in days.split(","))
    return [(int(day[1] or 0), _WEEKDAYS.index(day[2])) for day in found if day]


def _numbers(written: str) -> tuple[int, ...]:
    return tuple(int(number) for number in written.split(",")[:31] if re.fullmatch(r"[+-]?\d{1,3}", number.strip()))


def _dates(component: Component) -> Iterator[datetime]:
    for _, value in component.properties.get("RDATE", ())[:_MOST_RULES]:
        yield from filter(None, map(_naive, value.split(",")[:_MOST_RULES]))


def _naive(value: str) -> datetime | None:
    match = _TIME.match(value)
    if match is None:
        return None
    year, month, day, hour, minute = (int(number or 0) for number in match.groups()[:5])
    try:
        return datetime(year, month, day, hour, minute)  # noqa: DTZ001
    except (ValueError, OverflowError):
        return None


def _told_offset(value: str) -> timedelta:
    match = _OFFSET.match(value)
    if match is None or int(match[2]) > 23:
        return timedelta()
    size = timedelta(hours=int(match[2]), minutes=int(match[3]))
    return min(size, timedelta(hours=23, minutes=59)) * (-1 if match[1] == "-" else 1)
