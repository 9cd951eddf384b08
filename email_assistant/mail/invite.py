"""A calendar part (RFC 5545) in words."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from itertools import islice
from zoneinfo import ZoneInfo

from email_assistant.mail.calendar_text import (
    Component,
    Moment,
    Zones,
    components,
    numbered_days,
    rule_parts,
    unescaped,
)
from email_assistant.mail.message import CalendarEvent

_MAX_VALUE = 300
_MOST_DATES = 6  # named of a series; of more the number is told
_MOST_DATES_READ = 50
_DURATION = re.compile(r"P(?:(\d{1,3})W)?(?:(\d{1,3})D)?(?:T(?:(\d{1,3})H)?(?:(\d{1,4})M)?(?:\d+S)?)?")

_METHODS = {
    "REQUEST": "Calendar invitation",
    "CANCEL": "Calendar cancellation",
    "REPLY": "Calendar reply",
    "COUNTER": "Calendar counter-proposal",
    "DECLINECOUNTER": "Calendar counter-proposal declined",
}
_REPEATS = {"DAILY": "daily", "WEEKLY": "weekly", "MONTHLY": "monthly", "YEARLY": "yearly"}
_UNITS = {"DAILY": "days", "WEEKLY": "weeks", "MONTHLY": "months", "YEARLY": "years"}
_TOLD_PARTS = {"FREQ", "INTERVAL", "COUNT", "UNTIL", "BYDAY", "BYMONTHDAY", "BYMONTH", "WKST"}
_OF_ITS_OWN = "in a way of its own"
_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_PLACES = {1: "first ", 2: "second ", 3: "third ", 4: "fourth ", 5: "fifth ", -1: "last ", -2: "last but one "}


@dataclass(frozen=True, slots=True)
class Series:
    """How an event repeats, or which days of a series it is about."""

    rule: str  # "weekly", "every 2 weeks, 4 times"; empty if it does not
    until: Moment | None
    also: tuple[Moment, ...]  # further days, which no rule gives
    but_not: tuple[Moment, ...]
    only: str  # "only one day of a series"; empty if it is about the whole
    instead_of: Moment | None  # the day of the series that is moved
    year: int  # of the first day: that of others is told where it is another

    def in_words(self, zone: ZoneInfo | None) -> str:
        """In the days of a timezone, or of the event's own; empty if there is but one day."""
        rule = ", ".join(
            filter(
                None,
                [
                    self.rule,
                    f"until {_day(self.until.day(zone), 0)}" if self.until else "",
                    f"also {self._days(self.also, zone)}" if self.also else "",
                    f"but not {self._days(self.but_not, zone)}" if self.but_not else "",
                ],
            )
        )
        moved = f"{self.only}, instead of {_day(self.instead_of.day(zone), 0)}" if self.instead_of else self.only
        return "; ".join(filter(None, [rule, moved]))

    def _days(self, moments: Sequence[Moment], zone: ZoneInfo | None) -> str:
        days = [_day(moment.day(zone), self.year) for moment in moments[:_MOST_DATES]]
        if more := len(moments) - len(days):
            days.append(f"{more:,} more days")
        return " and ".join(filter(None, [", ".join(days[:-1]), days[-1]]))


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
    series: Series
    answer: str  # of who was invited: "accepted", "declined by Ann"; empty if it is no reply
    comment: str
    others: int  # events of the same part that are not told

    def when(self, zone: ZoneInfo) -> str:
        """Its time in words, in the person's timezone."""
        if self.start is None:
            return self.written
        start, end = self.start.astimezone(zone), (self.end or self.start).astimezone(zone)
        till = f"{end:%H:%M}" if end.date() == start.date() else f"{end:%A %-d %B %Y, %H:%M}"
        return f"{start:%A %-d %B %Y, %H:%M}{f' to {till}' if end > start else ''} ({zone.key})"

    def repeating(self, zone: ZoneInfo) -> str:
        """How it repeats, or which days of a series it is about, in the person's timezone."""
        return self.series.in_words(zone)

    @property
    def more_events(self) -> str:
        """How many events more there are; empty if none."""
        return f"and {self.others:,} more event{'s' if self.others > 1 else ''}" if self.others else ""

    def in_words(self, zone: ZoneInfo) -> str:
        facts = [
            f"{self.kind}: {self.title or '(no title)'}",
            f"answer {self.answer}" if self.answer else "",
            self.when(zone),
            f"repeats {self.repeating(zone)}" if self.repeats else self.repeating(zone),
            f"at {self.place}" if self.place else "",
            f"organised by {self.organiser}, as it says" if self.organiser else "",
            f"comment: {self.comment}" if self.comment else "",
            self.more_events,
        ]
        return "; ".join(filter(None, facts))


def invitation(calendar: str) -> Invitation | None:
    """The event of a calendar part, of a series the whole; None if it has none."""
    read = _Read.of(calendar)
    if read is None:
        return None
    start, end = (moment.known if moment else None for moment in (read.start, read.end))
    series = read.series()
    return Invitation(
        uid=read.value("UID"),
        kind=_METHODS.get(read.method, "Calendar event"),
        title=read.value("SUMMARY"),
        start=start,
        end=end or (start + _lasting(read.value("DURATION")) if start else None),
        written=read.times(),
        place=read.value("LOCATION"),
        organiser=read.organiser(),
        repeats=series.rule,
        series=series,
        answer=read.answer(with_name=True),
        comment=read.value("COMMENT") if read.method in ("REPLY", "COUNTER", "DECLINECOUNTER") else "",
        others=read.others,
    )


def summarise(calendar: str) -> str:
    """What a calendar part says: kind, title, times as written, place and organiser; empty if it has no event.

    Of several events the first is told, of a series the whole, and the others are counted."""
    read = _Read.of(calendar)
    if read is None:
        return ""
    series = read.series()
    told = series.in_words(None)
    facts = [
        read.value("SUMMARY"),
        read.times(),
        f"repeats {told}" if series.rule else told,
        f"at {read.value('LOCATION')}" if read.value("LOCATION") else "",
        f"organiser {read.organiser()}" if read.organiser() else "",
        f"answer {read.answer()}" if read.answer() else "",
        f"comment: {read.value('COMMENT')}" if read.value("COMMENT") else "",
        f"and {read.others} more event{'s' if read.others > 1 else ''}" if read.others else "",
    ]
    return f"[{_METHODS.get(read.method, 'Calendar event')}: {'; '.join(fact for fact in facts if fact)}]"


def description(calendar: str) -> str:
    """The event's own text, such as an agenda; empty if it has none."""
    read = _Read.of(calendar)
    return unescaped(read.event.first("DESCRIPTION")[1], new_line="\n").strip() if read else ""


def event(calendar: str) -> CalendarEvent | None:
    """The event as calendars know it; None if there is none, or it does not say which it is."""
    read = _Read.of(calendar)
    if read is None or not read.value("UID"):
        return None
    start, end = (moment.known if moment else None for moment in (read.start, read.end))
    return CalendarEvent(read.value("UID"), start, end)


@dataclass(frozen=True, slots=True)
class _Read:
    """A calendar part's method, and the event of it that is told."""

    method: str
    event: Component
    zones: Zones
    others: int

    @classmethod
    def of(cls, calendar: str) -> "_Read | None":
        root = components(calendar)
        events = [each for each in root.inner if each.kind == "VEVENT"]
        if not events:
            return None
        uid = events[0].first("UID")[1]
        whole = (each for each in events if each.first("UID")[1] == uid and not each.properties.get("RECURRENCE-ID"))
        told = next(whole, events[0])
        calendars = (each for each in (*root.inner, root) if each.kind in ("VCALENDAR", ""))
        method = next(filter(None, (each.first("METHOD")[1].upper() for each in calendars)), "")
        is_cancelled = told.text("STATUS").upper() == "CANCELLED"
        return cls("CANCEL" if is_cancelled else method, told, Zones(root), len(events) - 1)

    def value(self, name: str) -> str:
        return self.event.text(name)[:_MAX_VALUE]

    @property
    def start(self) -> Moment | None:
        return self.zones.moment(self.event.first("DTSTART"))

    @property
    def end(self) -> Moment | None:
        return self.zones.moment(self.event.first("DTEND"))

    def times(self) -> str:
        start, end = self.start, self.end
        if start is None:
            return self.value("DTSTART")
        if end and not isinstance(end.at, datetime) and not isinstance(start.at, datetime):
            end = Moment(_day_before(end.at), "")  # RFC 5545, 3.6.1: the end is exclusive
        if end and str(end) != str(start):
            return f"{start} to {end}"
        lasting = self.value("DURATION")
        return f"{start} for {lasting}" if lasting else str(start)

    def organiser(self) -> str:
        return re.sub(r"^mailto:", "", self.value("ORGANIZER"), flags=re.IGNORECASE)

    def answer(self, *, with_name: bool = False) -> str:
        """Of a reply: what the one that it is from said."""
        if self.method != "REPLY":
            return ""
        for parameters, value in self.event.properties.get("ATTENDEE", ()):
            status = re.search(r"PARTSTAT=\"?([A-Za-z-]+)", parameters, re.IGNORECASE)
            if status and status[1].upper() != "NEEDS-ACTION":
                name = re.search(r"CN=(?:\"([^\"]*)\"|([^;:\"]*))", parameters, re.IGNORECASE)
                who = (name[1] or name[2]) if name else re.sub(r"(?i)^mailto:", "", value)
                return f"{status[1].lower()} by {who}"[:_MAX_VALUE] if with_name and who else status[1].lower()
        return ""

    def series(self) -> Series:
        start = self.start
        first = start.day(None) if start else None
        parts = rule_parts(self.event.first("RRULE")[1])
        recurrence = self.event.first("RECURRENCE-ID")
        of = self.zones.moment(recurrence)
        is_moved = of is not None and start is not None and of.at != start.at
        later = "THISANDFUTURE" in recurrence[0].upper()
        only = "only this and the later days of a series" if later else "only one day of a series"
        until = self.zones.moment(("", parts.get("UNTIL", "")))
        return Series(
            rule=_rule_in_words(parts, first) if parts else "",
            until=_beside(until, start),
            also=tuple(self._dates("RDATE")),
            but_not=tuple(self._dates("EXDATE")),
            only=only if recurrence[1] else "",
            instead_of=of if is_moved else None,
            year=first.year if first else 0,
        )

    def _dates(self, name: str) -> Iterable[Moment]:
        times = (
            self.zones.moment((parameters, time.partition("/")[0]))
            for parameters, value in self.event.properties.get(name, ())
            for time in value.split(",")
        )
        return filter(None, islice(times, _MOST_DATES_READ))


def _beside(until: Moment | None, start: Moment | None) -> Moment | None:
    """The end of a series, which is told in UTC, in the timezone of its first day."""
    if until and start and until.known and isinstance(start.at, datetime) and start.at.tzinfo:
        return Moment(until.known.astimezone(start.at.tzinfo), start.zone)
    return until


def _rule_in_words(parts: dict[str, str], first: date | None) -> str:
    frequency, every = parts.get("FREQ", ""), parts.get("INTERVAL", "1")
    if frequency not in _REPEATS or not every.isascii() or not every.isdecimal():
        return _OF_ITS_OWN
    words = _REPEATS[frequency] if int(every[:4]) <= 1 else f"every {int(every[:4])} {_UNITS[frequency]}"
    words += _on_days(parts, first)
    if set(parts) - _TOLD_PARTS:
        words += f", {_OF_ITS_OWN}"
    if count := re.fullmatch(r"\d{1,5}", parts.get("COUNT", "")):
        words += f", {int(count[0])} time{'s' if int(count[0]) != 1 else ''}"
    return words


def _on_days(parts: dict[str, str], first: date | None) -> str:
    """The days of a rule; empty where the first day says them."""
    days = numbered_days(parts.get("BYDAY", ""))
    if days and not (first and days == [(0, first.weekday())] and parts["FREQ"] == "WEEKLY"):
        named = [f"{'the ' if place else ''}{_PLACES.get(place, f'{place}. ' if place else '')}{_WEEKDAYS[day]}"
                 for place, day in days]  # fmt: skip
        return f" on {' and '.join(filter(None, [', '.join(named[:-1]), named[-1]]))}"
    numbers = parts.get("BYMONTHDAY", "")
    if numbers and not (first and numbers == str(first.day)):
        return " on the last day" if numbers == "-1" else f" on day {numbers[:_MAX_VALUE].replace(',', ', ')}"
    return ""


def _day(day: date, year: int) -> str:
    return f"{day:%-d %B}" if day.year == year else f"{day:%-d %B} {day.year}"


def _day_before(day: date) -> date:
    return day - timedelta(days=1) if day > date.min else day


def _lasting(duration: str) -> timedelta:
    match = _DURATION.fullmatch(duration.upper())
    weeks, days, hours, minutes = (int(number or 0) for number in match.groups()) if match else (0, 0, 0, 0)
    return timedelta(weeks=weeks, days=days, hours=hours, minutes=minutes)
