"""`check_calendar_tool`: events and free time on given days, in the account's timezone."""

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime
from typing import Any
from zoneinfo import ZoneInfo

from pydantic import field_validator

from email_assistant.db.pool import Connection
from email_assistant.google.calendar import Calendar, Event
from email_assistant.google.errors import NotFound, Refused
from email_assistant.mail.prompt import delimited
from email_assistant.settings.values import WorkingHours
from email_assistant.tools.spec import Arguments, Call, StringList, Tool, ToolError, ToolSpec

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

    def __init__(self, working_hours: WorkingHours) -> None:
        self._working_hours = working_hours

    async def run(self, call: Call, arguments: dict[str, Any]) -> str:
        dates = CheckCalendar.model_validate(arguments).dates
        return await told_days(
            call.google.calendar, dates, call.account.zone, self._working_hours, call.run["invitation"]
        )


async def told_days(
    calendar: Calendar, dates: Sequence[str], zone: ZoneInfo, hours: WorkingHours, invitation: str | None
) -> str:
    """Events and free time on days, delimited for a prompt. `invitation`: what the calendar knows the event by to which
    the conversation invites. Raises ToolError: it can't be read; GoogleError."""
    days = sorted({_day(text) for text in dates})
    try:
        agendas = {day: await calendar.day(day, zone) for day in days}
    except (NotFound, Refused) as refusal:
        raise ToolError(f"the calendar can't be read: {refusal}") from refusal
    described = [_described(agenda.events, day, zone, hours, invitation) for day, agenda in agendas.items()]
    counted = f"Calendars that count: {', '.join(agendas[days[-1]].calendars)}"
    # Other people name the events that they invite to.
    return delimited("calendar", "\n".join([*described, counted]))


def _described(events: Sequence[Event], day: date, zone: ZoneInfo, hours: WorkingHours, invitation: str | None) -> str:
    lines = [f"{day:%A %d-%m-%Y} ({zone.key})"]
    lines += [f"{told(event, zone)}{_remark(event, invitation)}" for event in events]
    others = [event for event in events if not is_itself(event, invitation)]
    free = free_slots(day, others, zone, hours)
    lines.append("Free: " + (", ".join(f"{a:%H:%M}-{b:%H:%M}" for a, b in free) or "nothing"))
    return "\n".join(lines)


def free_slots(
    day: date, events: Iterable[Event], zone: ZoneInfo, hours: WorkingHours
) -> list[tuple[datetime, datetime]]:
    """The parts of the day's working hours that no busy event covers, in the account's timezone."""
    if day.weekday() not in hours.days:
        return []
    begins, ends = (datetime.combine(day, hour, zone).astimezone(UTC) for hour in (hours.begin, hours.end))
    free: list[tuple[datetime, datetime]] = []
    for start, end in sorted(event.span(zone) for event in events if event.busy):
        if start > begins:
            free.append((begins, min(start, ends)))
        begins = max(begins, end)
        if begins >= ends:
            break
    else:
        free.append((begins, ends))
    return [(start.astimezone(zone), end.astimezone(zone)) for start, end in free]


def is_itself(event: Event, invitation: str | None) -> bool:
    """Whether it is only there because Google puts an invitation into the calendar by itself. One that the person has
    said yes to takes their time, whatever a mail says."""
    return event.tentative and event.uid == invitation


def told(event: Event, zone: ZoneInfo) -> str:
    """An event in one line: when, with the date where it takes more than one day, and what."""
    what = event.summary or ("busy" if event.busy else "no title")
    return f"all day {what}" if event.all_day else in_line(*event.span(zone), what, zone)


def in_line(start: datetime, end: datetime, what: str, zone: ZoneInfo) -> str:
    start, end = start.astimezone(zone), end.astimezone(zone)
    form = "%H:%M" if start.date() == end.date() else "%d-%m %H:%M"
    return f"{start.strftime(form)}-{end.strftime(form)} {what}"


async def tell_once(conn: Connection, call: Call, why: str) -> None:
    """Raises ToolError: what the person decided is not as they were shown, and they were not asked again about that."""
    known = "select from inbox_items where run_id = %s and call_id = %s and asked_because = %s"
    if not (await conn.execute(known, (call.run_id, call.id, why))).rowcount:
        raise ToolError(why)


def _remark(event: Event, invitation: str | None) -> str:
    if is_itself(event, invitation):
        return " (this invitation)"
    if not event.busy:
        return " (takes no time)"
    return " (not answered yet)" if event.tentative else ""


def _day(text: str) -> date:
    match = re.fullmatch(r"(\d{1,2})-(\d{1,2})-(\d{4})", text.strip())
    try:
        if match:
            return date(int(match[3]), int(match[2]), int(match[1]))
        return date.fromisoformat(text.strip())
    except ValueError:
        raise ValueError(f"{text} is not a date as DD-MM-YYYY") from None
