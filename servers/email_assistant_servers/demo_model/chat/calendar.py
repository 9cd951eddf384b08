"""The calendar's tasks: tell what stands in it, make an event, move one."""

import re
from collections.abc import Generator, Sequence
from datetime import date, datetime, time, timedelta

from email_assistant_servers.demo_model.chat.conversation import CREATE, LIST, UPDATE
from email_assistant_servers.demo_model.chat.draft import Draft, corrected, iso, read_draft, without_refused_times
from email_assistant_servers.demo_model.chat.results import Event, read_events
from email_assistant_servers.demo_model.chat.script import GiveUp, Script, ask, look, not_done, propose
from email_assistant_servers.demo_model.language import PHRASES
from email_assistant_servers.demo_model.protocol import Call
from email_assistant_servers.demo_model.steps import Step
from email_assistant_servers.demo_model.times import (
    first_clock,
    meant_clock,
    names_next_week,
    proposals,
    without_times,
)

_WEEK = timedelta(days=7)
_MOST_QUESTIONS = 3
_MOVE = re.compile(
    r"^(?:(?:move|reschedule|shift|push|postpone|change)\s+)?(?P<source>.*?)(?:\s*\bto\s+(?P<target>.+))?$",
    re.IGNORECASE,
)
_NO_NAME = (
    "a an the my our this that one it meeting meetings event events appointment appointments at on from of in for with"
)


def agenda(words: str, now: datetime) -> Script:
    """Tell what stands in the calendar on the days that the words name, else in the next seven."""
    first, end = _days(words, now.date(), whole_week=True)
    events = yield from _events(first, end)
    span = _span(first, end)
    if not events:
        return f"Nothing stands in your calendar for {span}."
    return "\n".join([f"In your calendar for {span}:", *(f"- {event}" for event in events)])


def create(draft: Draft, request: str, now: datetime) -> Script:
    """Make an event, asking for what the draft lacks; what the person says against it corrects it."""
    draft = yield from _complete(draft, request, now)
    step = yield from propose(
        draft,
        lambda wanted: Call(CREATE, wanted.arguments(now)),
        lambda wanted, words: corrected(wanted, words, now.date()),
    )
    return _told(step, "created", draft.title)


def move(words: str, now: datetime) -> Script:
    """Move an event, keeping how long it lasts."""
    wish = _MOVE.match(words)
    assert wish is not None  # all its parts may be empty
    event = yield from _find(wish["source"], now)
    start = yield from _new_start(event, wish["target"] or "", now)
    step = yield from propose(
        start,
        lambda moment: _update(event, moment),
        lambda moment, said: _moved(event, moment, said, now),
    )
    return _told(step, "moved", event.title)


def _complete(draft: Draft, request: str, now: datetime) -> Generator[Call, Step, Draft]:
    for _ in range(_MOST_QUESTIONS):
        if not draft.question:
            return draft
        answer = yield from ask(draft.question, f"You asked: “{request}”")
        draft = draft.completed(read_draft(answer, now.date()))
    raise GiveUp("I still don't know what to schedule, so I have left that alone.")


def _find(words: str, now: datetime) -> Generator[Call, Step, Event]:
    """The one event that the words mean, if need be by the person's answer."""
    first, end = _days(words, now.date(), whole_week=first_clock(words) is None)
    events = yield from _events(first, end)
    fits = _fitting(words, events)
    if len(fits) != 1:
        context = "\n".join(map(str, fits or events)) or f"Nothing stands in your calendar for {_span(first, end)}."
        answer = yield from ask(_which(words, fits, _span(first, end)), context)
        fits = _fitting(answer, fits) or _fitting(answer, events)
    if len(fits) != 1:
        raise GiveUp("I can't tell which event you mean, so nothing was moved.")
    return fits[0]


def _which(words: str, fits: Sequence[Event], span: str) -> str:
    clock = first_clock(words)
    at = "" if clock is None else f" at {_time(clock)}"
    return f"There {'are several events' if fits else 'is no such event'}{at} ({span}). Which one do you mean?"


def _fitting(words: str, events: Sequence[Event]) -> list[Event]:
    """The events that begin when the words say, and among these the ones with their words in the title, if any."""
    clock = meant_clock(words)
    fits = [event for event in events if clock is None or event.clock == clock]
    names = set(re.findall(r"\w+", without_times(words).lower())) - set(_NO_NAME.split())
    named = [event for event in fits if names and names <= set(re.findall(r"\w+", event.title.lower()))]
    return named or (fits if clock is not None or not names else [])


def _new_start(event: Event, words: str, now: datetime) -> Generator[Call, Step, datetime]:
    start = _moved(event, event.start, words, now)
    if start == event.start:
        answer = yield from ask(f"When should “{event.title}” be?", f"It is now: {event}.")
        start = _moved(event, event.start, answer, now)
    if start == event.start:
        raise GiveUp(f"I still don't know when “{event.title}” should be, so nothing was moved.")
    return start


def _moved(event: Event, start: datetime, words: str, now: datetime) -> datetime:
    """A start with the day and the time of day that the words name."""
    words = without_refused_times(words)
    named = proposals(words, now.date())
    clock = None if event.whole_days else meant_clock(words)
    day = named[0].day if named else start.date()
    return datetime.combine(day, start.time() if clock is None else time(clock // 60, clock % 60))


def _update(event: Event, start: datetime) -> Call:
    start_and_end = (start, start + (event.end - event.start))
    if event.whole_days:
        written = [f"{moment:%Y-%m-%d}" for moment in start_and_end]
    else:
        written = [iso(moment) for moment in start_and_end]
    where = {"calendar_id": event.calendar} if event.calendar else {}
    return Call(UPDATE, {"event_id": event.id, "start": written[0], "end": written[1], **where})


def _told(step: Step, done: str, title: str) -> str:
    if step.outcome != "done":
        return not_done(step, f"“{title}” was not {done}")
    events = read_events(step.result)
    return f"{done.capitalize()}: {events[0] if events else f'“{title}”'}."


def _events(first: date, end: date) -> Generator[Call, Step, list[Event]]:
    start, until = (datetime.combine(day, time()) for day in (first, end))
    return read_events((yield from look(LIST, start=iso(start), end=iso(until))))


def _days(words: str, today: date, *, whole_week: bool) -> tuple[date, date]:
    """The days that the words name, the last not included; else the coming week, or only today."""
    if named := [proposal.day for proposal in proposals(words, today)]:
        return min(named), max(named) + timedelta(days=1)
    if names_next_week(words):
        monday = today + _WEEK - timedelta(days=today.weekday())
        return monday, monday + _WEEK
    return today, today + (_WEEK if whole_week else timedelta(days=1))


def _span(first: date, end: date) -> str:
    last = end - timedelta(days=1)
    day = PHRASES["en"].day
    return day(first) if first == last else f"{day(first)} to {day(last)}"


def _time(clock: int) -> str:
    return f"{clock // 60:02}:{clock % 60:02}"
