"""An event as the person's words describe it, complete or not."""

from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta

from email_assistant_servers.demo_model.protocol import JsonObject
from email_assistant_servers.demo_model.times import at_minute, duration, meant_clock, proposals, without_times
from email_assistant_servers.demo_model.wording import ADDRESS, capital, patterns, shorten

_SAID = patterns("event")
_SHORT, _LONG = 30, 60  # minutes


@dataclass(frozen=True)
class EventDraft:
    """What is known of an event; `clock` is its start in minutes since midnight, `minutes` how long it lasts."""

    title: str = ""
    day: date | None = None
    clock: int | None = None
    minutes: int | None = None
    attendees: tuple[str, ...] = ()

    @property
    def question(self) -> str:
        """What is to be asked before it can be made, or ""."""
        if self.clock is None:
            return f"When should “{self.title}” be?" if self.title else "What would you like to schedule?"
        return "" if self.title else "What should the event be called?"

    def completed(self, other: "EventDraft") -> "EventDraft":
        """What this one lacks, from another."""
        return EventDraft(
            self.title or other.title,
            self.day or other.day,
            other.clock if self.clock is None else self.clock,
            self.minutes or other.minutes,
            self.attendees or other.attendees,
        )

    def corrected(self, words: str, today: date) -> "EventDraft":
        """With what the person's words about it change; "I have other plans at 1 pm" changes nothing."""
        if _SAID["own_plans"].match(words):
            return self
        change = read_draft(without_refused_times(words), today)
        return replace(change, title=change.title if _SAID["called"].search(words) else "").completed(self)

    def arguments(self, now: datetime) -> JsonObject:
        """Those of `create_event`; without a day it is the next time that the clock shows this."""
        start = at_minute(self.day or now.date(), self.clock or 0)
        if self.day is None and start < now:
            start += timedelta(days=1)
        minutes = self.minutes or (_LONG if _SAID["long"].search(self.title) else _SHORT)
        found = {"title": self.title, "start": iso(start), "end": iso(start + timedelta(minutes=minutes))}
        return found | ({"attendees": list(self.attendees)} if self.attendees else {})


def read_draft(words: str, today: date) -> EventDraft:
    """The event that the words describe."""
    named = proposals(words, today)
    return EventDraft(
        title=_title(words),
        day=named[0].day if named else None,
        clock=meant_clock(words),
        minutes=duration(words),
        attendees=tuple(address.lower() for address in ADDRESS.findall(words)),
    )


def iso(moment: datetime) -> str:
    """Without an offset: the calendar takes it in the person's timezone."""
    return moment.isoformat(timespec="minutes")


def without_refused_times(words: str) -> str:
    """The words without the times that they turn down: "10 instead of 9"."""
    return _SAID["refused_time"].sub("", words)


def _title(words: str) -> str:
    if quoted := _SAID["quoted"].search(words):
        return shorten(quoted[1], 100)
    called = _SAID["called"].search(words)
    text = without_times(_SAID["with_addresses"].sub("", called["title"] if called else words))
    text = _SAID["whose"].sub("", text)
    if not called:
        text = _SAID["command"].sub("", text)
    while (tidy := _SAID["loose_end"].sub("", text)) != text:
        text = tidy
    return "" if text.isdigit() else shorten(capital(text), 100)
