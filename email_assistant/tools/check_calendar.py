"""`check_calendar_tool`: events and free time on given days, in the account's timezone."""

import re
from collections.abc import Iterable
from datetime import date, datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from pydantic import field_validator

from email_assistant.google.calendar import Event
from email_assistant.google.errors import NotFound, Refused
from email_assistant.mail.prompt import delimited
from email_assistant.tools.spec import Arguments, Call, StringList, Tool, ToolError, ToolSpec

WORKING_HOURS = (time(9), time(18))
_MOST_DAYS = 14


class CheckCalendar(Arguments):
    dates: StringList

    @field_validator("dates")
    @classmethod
    def _days(cls, dates: list[str]) -> list[str]:
        if not 1 <= len(dates) <= _MOST_DAYS:
            raise ValueError(f"give 1 to {_MOST_DAYS} dates")
        for text in dates:
            _day(text)
        return dates


SPEC = ToolSpec(
    name="check_calendar_tool",
    description="Events and free time on days. Look before a time is proposed or agreed to.",
    parameters={
        "properties": {"dates": {"type": "array", "items": {"type": "string"}, "description": "DD-MM-YYYY"}},
        "required": ["dates"],
    },
    arguments=CheckCalendar,
    review=None,
)


class CheckCalendarTool(Tool):
    spec = SPEC

    async def run(self, call: Call, arguments: dict[str, Any]) -> str:
        days = [_day(text) for text in CheckCalendar.model_validate(arguments).dates]
        zone = call.account.zone
        described = [await self._describe(call, day, zone) for day in sorted(set(days))]
        return delimited("calendar", "\n".join(described))  # other people name the events that they invite to

    async def _describe(self, call: Call, day: date, zone: ZoneInfo) -> str:
        start = datetime.combine(day, time(), zone)
        end = datetime.combine(day + timedelta(days=1), time(), zone)
        try:
            events = await call.google.calendar.events(start, end)
        except (NotFound, Refused) as refusal:
            raise ToolError(f"the calendar can't be read: {refusal}") from refusal
        lines = [f"{day:%A %d-%m-%Y} ({zone.key})"]
        lines += [f"{_span(event, zone)} {event.summary}" for event in events if event.status != "cancelled"]
        free = free_slots(day, events, zone)
        lines.append("Free: " + (", ".join(f"{a:%H:%M}-{b:%H:%M}" for a, b in free) or "nothing"))
        return "\n".join(lines)


def free_slots(day: date, events: Iterable[Event], zone: ZoneInfo) -> list[tuple[datetime, datetime]]:
    """The parts of the day's working hours that no busy event covers, in the account's timezone."""
    begins, ends = (datetime.combine(day, hour, zone) for hour in WORKING_HOURS)
    busy = sorted(_interval(e, zone) for e in events if e.busy and e.status != "cancelled")
    free: list[tuple[datetime, datetime]] = []
    for start, end in busy:
        if start > begins:
            free.append((begins, min(start, ends)))
        begins = max(begins, end)
        if begins >= ends:
            return free
    return [*free, (begins, ends)]


def _interval(event: Event, zone: ZoneInfo) -> tuple[datetime, datetime]:
    return _moment(event.start, zone), _moment(event.end, zone)


def _moment(at: datetime | date, zone: ZoneInfo) -> datetime:
    return at.astimezone(zone) if isinstance(at, datetime) else datetime.combine(at, time(), zone)


def _span(event: Event, zone: ZoneInfo) -> str:
    if event.all_day:
        return "all day"
    start, end = _interval(event, zone)
    return f"{start:%H:%M}-{end:%H:%M}"


def _day(text: str) -> date:
    match = re.fullmatch(r"(\d{1,2})-(\d{1,2})-(\d{4})", text.strip())
    try:
        if match:
            return date(int(match[3]), int(match[2]), int(match[1]))
        return date.fromisoformat(text.strip())
    except ValueError:
        raise ValueError(f"{text} is not a date as DD-MM-YYYY") from None
