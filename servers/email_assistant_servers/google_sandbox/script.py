"""What `script.yaml` tells, and the days that it speaks of. No behaviour."""

from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from pathlib import Path

import yaml
from pydantic import TypeAdapter

ME = "me"


@dataclass(frozen=True)
class ScriptedAttachment:
    name: str
    csv: str


@dataclass(frozen=True)
class ScriptedMail:
    """One mail. `key` names it; `sender` is a From header, or ME; `reply_to` is the key of the mail it answers."""

    key: str
    sender: str
    text: str
    subject: str | None = None
    ago: timedelta = timedelta()
    html: str | None = None
    to: str | None = None  # whom it goes to; None: the person
    reply_to: str | None = None
    unread: bool = True
    labels: tuple[str, ...] = ()
    headers: dict[str, str] | None = None
    charset: str = "utf-8"
    attachment: ScriptedAttachment | None = None
    answer: str | None = None  # what the sender writes back, once, when the person replies


@dataclass(frozen=True)
class Appointment:
    """One event: `after` so many days after a day of `days`, from when to when (None: the whole of that and the next).

    A private one stands in the calendar beside the one for work."""

    summary: str
    day: str
    after: int = 0
    hours: tuple[time, time] | None = None
    location: str = ""
    tentative: bool = False
    private: bool = False

    def moments(self, days: dict[str, date]) -> tuple[datetime, datetime] | tuple[date, date]:
        """When it begins and ends, without a timezone; dates for whole days."""
        day = days[self.day] + timedelta(days=self.after)
        if self.hours is None:
            return day, day + timedelta(days=2)
        start, end = self.hours
        return datetime.combine(day, start), datetime.combine(day, end)


@dataclass(frozen=True)
class Script:
    person: str
    private_calendar: str  # the name of the person's second calendar
    initial: tuple[ScriptedMail, ...]
    later: tuple[ScriptedMail, ...]
    appointments: tuple[Appointment, ...]


SCRIPT = TypeAdapter(Script).validate_python(yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text()))


def days(today: date) -> dict[str, date]:
    """The days that the script speaks of, seen from the day on which it begins."""
    monday = today - timedelta(days=today.weekday())
    meeting = _working_day(today + timedelta(days=2))
    return {
        "today": today,
        "monday": monday,
        "meeting": meeting,
        "lunch": _working_day(meeting + timedelta(days=1)),
        "workshop": monday + timedelta(days=9),
        "board": _working_day(today + timedelta(days=4)),
        "due": today + timedelta(days=6),
    }


def spoken(day: date) -> str:
    """A day as people write it: "Thursday 7 May"."""
    return f"{day:%A} {day.day} {day:%B}"


def _working_day(day: date) -> date:
    return day + timedelta(days=max(0, 7 - day.weekday())) if day.weekday() > 4 else day
