"""The times that a letter speaks of: on which days they are, and whether they are still free when it goes out."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from itertools import pairwise
from typing import Final
from zoneinfo import ZoneInfo

from email_assistant.db.pool import Pool, fetched
from email_assistant.gate.moments import dates_near, later
from email_assistant.gate.spans import Span, scan
from email_assistant.google.calendar import Event
from email_assistant.tools.check_calendar import is_itself, tell_once, told
from email_assistant.tools.spec import Call
from email_assistant.tools.spoken_times import spoken_times

_DAY: Final = re.compile(r"^\w+ (\d\d)-(\d\d)-(\d{4}) \(.*\)\n(?:.*\n)*?Free: (.*)$", re.MULTILINE)
_RANGE: Final = re.compile(r"(\d\d:\d\d)-(\d\d:\d\d)")
_APART: Final = 5  # letters between the two times of "from 2 to 4"
_MOST_DAYS: Final = 3
_A_MOMENT: Final = timedelta(minutes=1)
Times = tuple[time, time]


@dataclass(frozen=True, slots=True)
class OfferedTimes:
    pool: Pool

    async def check(self, call: Call, text: str) -> None:
        """Look again at the days of which the calendar told in this conversation. Raises ToolError: something stands
        now where the letter says that the person is free, and they do not know that yet; GoogleError."""
        zone = call.account.zone
        [row] = await fetched(
            self.pool,
            """select array(select answer from gate_calls g where g.thread_id = r.thread_id and g.server is null
                            and g.tool = 'check_calendar_tool' and g.answer is not null order by g.id) as told,
                      array(select external_id from effects e where e.thread_id = r.thread_id) as made
               from runs r where r.id = %s""",
            (call.run_id,),
        )
        taken = [
            f"{day:%A} {told(event, zone)}"
            for day, times in offered(text, free_days(row["told"]), datetime.now(zone).date()).items()
            for event in (await call.google.calendar.day(day, zone)).events
            if event.busy and event.id not in row["made"] and not is_itself(event, call.run["invitation"])
            if any(_meets(event, day, claimed, zone) for claimed in times)
        ]
        if taken:
            why = f"your calendar has changed since this was written, and what it offers is taken: {', '.join(taken)}"
            async with self.pool.connection() as conn:
                await tell_once(conn, call, why)


def free_days(answers: Sequence[str]) -> dict[date, list[Times]]:
    """What the calendar was last told to be free, by day."""
    return {
        date(int(year), int(month), int(day)): [(_clock(a), _clock(b)) for a, b in _RANGE.findall(free)]
        for answer in answers
        for day, month, year, free in _DAY.findall(answer)
    }


def offered(text: str, free: Mapping[date, Sequence[Times]], today: date) -> dict[date, list[Times]]:
    """The times of a letter that were free, by day. One that names no day is about the one that was looked at."""
    found = scan(text, today)
    named = {day for span in found if span.kind == "date" for day in dates_near(span.key, today)}
    days = named & free.keys() if named else free.keys() if len(free) == 1 else set[date]()
    times = [*_times([span for span in found if span.kind == "time"]), *((at, at) for at in spoken_times(text))]
    claims = {day: [each for each in times if _was_free(each, free[day])] for day in sorted(days)}
    return {day: claimed for day, claimed in claims.items() if claimed}


def days_named(letter: str, mail: str, today: date) -> list[date]:
    """The days, from today on, of the times that a letter offers or declines; where it names no day, those of the mail
    that it answers. None if neither names a time."""
    own, theirs = scan(letter, today), scan(mail, today)
    if not any(span.kind == "time" for span in (*own, *theirs)):
        return []
    return _to_come(own, today) or _to_come(theirs, today)


def _to_come(spans: Sequence[Span], today: date) -> list[date]:
    meant = (next(iter(dates_near(span.key, today)), None) for span in spans if span.kind == "date")
    return sorted({day for day in meant if day and day >= today})[:_MOST_DAYS]


def _times(spans: Sequence[Span]) -> Iterator[Times]:
    for span in spans:
        for key in filter(None, (span.key, later(span.key, span.text))):
            yield _clock(key), _clock(key)
    for begin, end in pairwise(spans):
        if 0 <= end.start - begin.end <= _APART and begin.key < end.key:
            yield _clock(begin.key), _clock(end.key)


def _was_free(claimed: Times, free: Sequence[Times]) -> bool:
    return any(begin <= claimed[0] < end and claimed[1] <= end for begin, end in free)


def _meets(event: Event, day: date, claimed: Times, zone: ZoneInfo) -> bool:
    begin, end = (datetime.combine(day, each, zone) for each in claimed)
    return event.overlaps(begin, max(end, begin + _A_MOMENT), zone)


def _clock(key: str) -> time:
    return time.fromisoformat(key)
