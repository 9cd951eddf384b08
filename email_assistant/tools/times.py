"""When a proposed meeting is. It is read here alone."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import MAXYEAR, MINYEAR, datetime, time, timedelta
from typing import Any, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import TypeAdapter, ValidationError

from email_assistant.settings.values import WorkingHours

_TIME: Final = TypeAdapter(datetime)
_DAY: Final = "%a %d %b %Y"
_NIGHT_BEGINS: Final = time(22)
_NIGHT_ENDS: Final = time(6)
_A_DATE: Final = len("2026-05-04")


@dataclass(frozen=True, slots=True)
class MeetingTime:
    """`start` and `end` are aware, and in `zone`, which the proposal names or leaves to the account."""

    start: datetime
    end: datetime
    zone: ZoneInfo

    @classmethod
    def of(cls, start: datetime, end: datetime, timezone: str | None, home: ZoneInfo) -> "MeetingTime":
        """Raises ValueError: there is no such timezone."""
        zone = zone_of(timezone) if timezone else home
        if zone is None:
            raise ValueError(f"{timezone} is no IANA timezone, such as Europe/Amsterdam")
        return cls(in_zone(start, zone), in_zone(end, zone), zone)

    @classmethod
    def read(cls, args: Mapping[str, Any], home: ZoneInfo) -> "MeetingTime | None":
        """None: these arguments say no time."""
        start, end = read_time(args.get("start_time")), read_time(args.get("end_time"))
        try:
            return cls.of(start, end, args.get("timezone"), home) if start and end else None
        except ValueError:
            return None

    @property
    def minutes(self) -> int:
        """How long it lasts, whatever the clocks do meanwhile."""
        return round((self.end.timestamp() - self.start.timestamp()) / 60)

    def told(self, home: ZoneInfo) -> str:
        """From when to when, for a person at home in `home`."""
        start, end = self.start.astimezone(home), self.end.astimezone(home)
        if (start.date(), start.tzname()) == (end.date(), end.tzname()) and not as_written(self.start, home):
            return f"{start:{_DAY}, %H:%M} to {end:%H:%M %Z}"
        return f"{moment(self.start, home)} to {moment(self.end, home)}"


def times_of(args: Mapping[str, Any]) -> list[str]:
    """From when to when a call is about, as its arguments have it; of one that names only one time, that alone."""
    names = ("start_time", "end_time") if "start_time" in args else ("start", "end")
    return [str(args[name]) for name in names if args.get(name)]


def time_warnings(args: Mapping[str, Any], home: ZoneInfo, hours: WorkingHours, now: datetime) -> Iterator[str]:
    """What a person at home in `home` should know of the time of a call before they agree to it; `hours`: when they
    work."""
    times = times_of(args)
    when = MeetingTime.read({**args, "start_time": times[0], "end_time": times[-1]}, home) if times else None
    if when is None:
        return
    start, end = when.start.astimezone(home), when.end.astimezone(home)
    if start <= now:
        yield "it is over already" if end <= now else "it has begun already"
    if len(times[0]) == _A_DATE:  # whole days
        return
    if end - start > timedelta(days=1):
        yield "it lasts more than a day"
        return
    if start.weekday() not in hours.days:
        yield f"it is on a day off, {start:%A}"
    elif hours.begin <= start.time() and end <= datetime.combine(start, hours.end, home):
        return
    if start.time() < _NIGHT_ENDS or end > datetime.combine(start, _NIGHT_BEGINS, home):
        yield f"it is at night, {start:%H:%M} to {end:%H:%M}"


def moment(at: datetime, home: ZoneInfo) -> str:
    """An aware time to the minute by the clock at home, and by that of its own timezone if they differ."""
    shown = f"{at.astimezone(home):{_DAY}, %H:%M %Z}"
    return f"{shown} ({own})" if (own := as_written(at, home)) else shown


def as_written(at: datetime, home: ZoneInfo) -> str:
    """An aware time as it is in its own timezone; empty where the clocks at home show the same."""
    local = at.astimezone(home)
    if local.utcoffset() == at.utcoffset():
        return ""
    own = f"{at:%H:%M}" if at.date() == local.date() else f"{at:{_DAY}, %H:%M}"
    return f"{own} in {at.tzinfo}"  # no abbreviation: Algiers has CET in summer, when Berlin has not


def in_zone(at: datetime, zone: ZoneInfo) -> datetime:
    """A time in `zone`, in which it is meant if it names no offset."""
    return at.replace(tzinfo=zone) if at.tzinfo is None else at.astimezone(zone)


def read_time(value: object) -> datetime | None:
    """The time that an argument stands for; None if it stands for none that every timezone has."""
    try:
        time = _TIME.validate_python(value)
    except ValidationError:
        return None
    return time if MINYEAR < time.year < MAXYEAR else None


def zone_of(name: object) -> ZoneInfo | None:
    """The timezone of an IANA name; None if it is none."""
    try:
        return ZoneInfo(name) if isinstance(name, str) and name else None
    except (ZoneInfoNotFoundError, ValueError):
        return None
