"""An event as the person's words describe it, complete or not."""

import re
from dataclasses import dataclass, replace
from datetime import date, datetime, time, timedelta
from typing import Any

from email_assistant_servers.demo_model.reading import shorten
from email_assistant_servers.demo_model.times import duration, meant_clock, proposals, without_times
from email_assistant_servers.demo_model.wording import ADDRESS, any_of

_SHORT, _LONG = 30, 60  # minutes
_LONG_EVENTS = any_of(
    r"lunch|dinner|breakfast|brunch|workshop|interview|mittagessen|abendessen|frühstück|déjeuner|dîner"
)
_WITH_ADDRESSES = re.compile(rf"(?:\b(?:with|and|invite|mit|und|avec|et)\s+|,\s*)*{ADDRESS.pattern}", re.IGNORECASE)
_CALLED = re.compile(
    r"\b(?:called|named|titled|genannt|namens|appelée?|call it|title:?)\s+(?P<title>.+)", re.IGNORECASE
)
_QUOTED = re.compile(r"[“\"„«]\s*([^”\"“»]+?)\s*[”\"“»]")
_COMMAND = re.compile(
    r"^(?:(?:create|schedule|add|book|set up|plan|make|put|arrange|block)\b\s*)?(?:me\s+|us\s+)?"
    r"(?:an?\s+|the\s+|my\s+|eine?n?\s+|une?\s+)?(?:new\s+)?(?:(?:calendar\s+)?(?:events?|appointment|entry)\b\s*)?"
    r"(?:(?:something|anything)\b\s*)?(?:for\s+)?",
    re.IGNORECASE,
)
_WHOSE = re.compile(
    r"\s*\b(?:for (?:me|us)|(?:on|in|into|to) (?:my|the|our) (?:calendar|agenda|diary)|please)\b", re.IGNORECASE
)
_LOOSE_END = re.compile(
    r"(?:\s+(?:at|on|from|to|with|for|and|in|instead))+$|^(?:with|and)\s+|[\s,.;:!?]+$", re.IGNORECASE
)
_NOT_THIS = re.compile(
    r"\b(?:instead of|rather than|not|statt|nicht|au lieu de|pas)\s+(?:at |on |um |am |à )?\d\S*(?:\s?[ap]\.?m\b)?",
    re.IGNORECASE,
)
_OWN_PLANS = re.compile(
    r"^\W*(?:no\W+)?(?:sorry\W+)?I(?: have|['’]ve|['’]m| am)\b(?!.*\b(?:instead|rather|better)\b)", re.IGNORECASE
)


@dataclass(frozen=True)
class Draft:
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

    def completed(self, other: "Draft") -> "Draft":
        """What this one lacks, from another."""
        return Draft(
            self.title or other.title,
            self.day or other.day,
            other.clock if self.clock is None else self.clock,
            self.minutes or other.minutes,
            self.attendees or other.attendees,
        )

    def arguments(self, now: datetime) -> dict[str, Any]:
        """Those of `create_event`; without a day it is the next time that the clock shows this."""
        assert self.clock is not None
        start = datetime.combine(self.day or now.date(), time()) + timedelta(minutes=self.clock)
        if self.day is None and start < now:
            start += timedelta(days=1)
        minutes = self.minutes or (_LONG if _LONG_EVENTS.search(self.title) else _SHORT)
        found = {"title": self.title, "start": iso(start), "end": iso(start + timedelta(minutes=minutes))}
        return found | ({"attendees": list(self.attendees)} if self.attendees else {})


def read_draft(words: str, today: date) -> Draft:
    """The event that the words describe."""
    named = proposals(words, today)
    return Draft(
        title=_title(words),
        day=named[0].day if named else None,
        clock=meant_clock(words),
        minutes=duration(words),
        attendees=tuple(address.lower() for address in ADDRESS.findall(words)),
    )


def iso(moment: datetime) -> str:
    """Without an offset: the calendar takes it in the person's timezone."""
    return moment.isoformat(timespec="minutes")


def corrected(draft: Draft, words: str, today: date) -> Draft:
    """The draft with what the person's words about it change; "I have other plans at 1 pm" changes nothing."""
    if _OWN_PLANS.match(words):
        return draft
    words = without_refused_times(words)
    change = read_draft(words, today)
    title = change.title if _CALLED.search(words) else ""
    return replace(change, title=title).completed(draft)


def without_refused_times(words: str) -> str:
    """The words without the times that they turn down: "10 instead of 9"."""
    return _NOT_THIS.sub("", words)


def _title(words: str) -> str:
    called = _CALLED.search(words)
    if quoted := _QUOTED.search(words):
        return shorten(quoted[1], 100)
    text = without_times(_WITH_ADDRESSES.sub("", called["title"] if called else words))
    text = _WHOSE.sub("", text)
    if not called:
        text = _COMMAND.sub("", text)
    while (tidy := _LOOSE_END.sub("", text)) != text:
        text = tidy
    text = "" if text.isdigit() else text
    return shorten(text[:1].upper() + text[1:], 100)
