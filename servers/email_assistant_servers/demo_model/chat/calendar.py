"""The calendar's tasks: tell what stands in it, make an event, move one."""

import re
from collections.abc import Generator, Sequence
from datetime import date, datetime, time, timedelta

from .. import times
from ..protocol import ModelCall
from ..reading import Step
from ..wording import patterns
from .draft import EventDraft, iso, read_draft, without_refused_times
from .results import ListedEvent, read_events
from .script import CREATE, LIST, UPDATE, GiveUp, Script, ask, look, not_done, propose

_SAID = patterns("chat")
_WEEK = timedelta(days=7)
_MOST_QUESTIONS = 3


def agenda(words: str, now: datetime) -> Script:
    """Tell what stands in the calendar on the days that the words name, else in the next seven."""
    days = _days(words, now.date(), whole_week=True)
    events = yield from _events(days)
    if not events:
        return f"Nothing stands in your calendar for {_span(days)}."
    return "\n".join([f"In your calendar for {_span(days)}:", *(f"- {event}" for event in events)])


def create(draft: EventDraft, request: str, now: datetime) -> Script:
    """Make an event, asking for what the draft lacks; what the person says against it corrects it."""
    for _ in range(_MOST_QUESTIONS):
        if draft.question:
            answer = yield from ask(draft.question, f"You asked: “{request}”")
            draft = draft.completed(read_draft(answer, now.date()))
    if draft.question:
        return "I still don't know what to schedule, so I have left that alone."
    step = yield from propose(
        draft,
        lambda wanted: ModelCall(CREATE, wanted.arguments(now)),
        lambda wanted, words: wanted.corrected(words, now.date()),
    )
    return _told(step, "created", draft.title)


def move(words: str, now: datetime) -> Script:
    """Move an event, keeping how long it lasts."""
    wish = _SAID["move_parts"].match(words)
    assert wish is not None  # all its parts may be empty
    event = yield from _find(wish["source"], now)
    start = _moved(event, event.start, wish["target"] or "", now)
    if start == event.start:
        answer = yield from ask(f"When should “{event.title}” be?", f"It is now: {event}.")
        start = _moved(event, event.start, answer, now)
    if start == event.start:
        return f"I still don't know when “{event.title}” should be, so nothing was moved."
    step = yield from propose(
        start, lambda moment: _update(event, moment), lambda moment, said: _moved(event, moment, said, now)
    )
    return _told(step, "moved", event.title)


def _find(words: str, now: datetime) -> Generator[ModelCall, Step, ListedEvent]:
    """The one event that the words mean, if need be by the person's answer."""
    clock = times.first_clock(words)
    days = _days(words, now.date(), whole_week=clock is None)
    events = yield from _events(days)
    fits = _fitting(words, events)
    if len(fits) != 1:
        at = "" if clock is None else f" at {times.clock_face(clock)}"
        problem = "are several events" if fits else "is no such event"
        context = "\n".join(map(str, fits or events)) or f"Nothing stands in your calendar for {_span(days)}."
        answer = yield from ask(f"There {problem}{at} ({_span(days)}). Which one do you mean?", context)
        fits = _fitting(answer, fits) or _fitting(answer, events)
    if len(fits) != 1:
        raise GiveUp("I can't tell which event you mean, so nothing was moved.")
    return fits[0]


def _fitting(words: str, events: Sequence[ListedEvent]) -> list[ListedEvent]:
    """The events that begin when the words say, and among these the ones with their words in the title, if any."""
    clock = times.meant_clock(words)
    fits = [event for event in events if clock is None or event.clock == clock]
    names = {
        word for word in re.findall(r"\w+", times.without_times(words).lower()) if not _SAID["no_name"].match(word)
    }
    named = [event for event in fits if names and names <= set(re.findall(r"\w+", event.title.lower()))]
    return named or (fits if clock is not None or not names else [])


def _moved(event: ListedEvent, start: datetime, words: str, now: datetime) -> datetime:
    """A start with the day and the time of day that the words name."""
    words = without_refused_times(words)
    named = times.proposals(words, now.date())
    clock = None if event.whole_days else times.meant_clock(words)
    return times.at_minute(
        named[0].day if named else start.date(), start.hour * 60 + start.minute if clock is None else clock
    )


def _update(event: ListedEvent, start: datetime) -> ModelCall:
    written = iso if not event.whole_days else lambda moment: f"{moment:%Y-%m-%d}"
    where = {"calendar_id": event.calendar} if event.calendar else {}
    end = start + (event.end - event.start)
    return ModelCall(UPDATE, {"event_id": event.id, "start": written(start), "end": written(end), **where})


def _told(step: Step, done: str, title: str) -> str:
    if step.outcome != "done":
        return not_done(step, f"“{title}” was not {done}")
    events = read_events(step.result)
    return f"{done.capitalize()}: {events[0] if events else f'“{title}”'}."


def _events(days: tuple[date, date]) -> Generator[ModelCall, Step, list[ListedEvent]]:
    start, end = (iso(datetime.combine(day, time())) for day in days)
    return read_events((yield from look(LIST, start=start, end=end)))


def _days(words: str, today: date, *, whole_week: bool) -> tuple[date, date]:
    """The days that the words name, the last not included; else the coming week, or only today."""
    if named := [proposal.day for proposal in times.proposals(words, today)]:
        return min(named), max(named) + timedelta(days=1)
    first = times.next_monday(today) if times.names_next_week(words) else today
    return first, first + (_WEEK if whole_week or first != today else timedelta(days=1))


def _span(days: tuple[date, date]) -> str:
    first, last = days[0], days[1] - timedelta(days=1)
    return times.spoken(first) if first == last else f"{times.spoken(first)} to {times.spoken(last)}"
