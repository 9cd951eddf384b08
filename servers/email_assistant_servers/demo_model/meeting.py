"""Meetings: whether a mail asks for one, when, and what the calendar leaves free."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, timedelta

from .reading import Person, PromptMail
from .times import Proposal, duration, first_clock, named_dates, names_day, names_next_week, next_monday, proposals
from .wording import patterns

_SAYS = patterns("meeting")
_DEFAULT_MINUTES = 30
_OFFERS = 3
_FREE = re.compile(r"\bfree\b\s*:?(.*)$", re.IGNORECASE)
_SLOT = re.compile(r"(\d{1,2}):(\d\d)\s*[-–—]\s*(\d{1,2}):(\d\d)")
_WORKING_DAY = (9 * 60, 17 * 60)

FreeSlots = dict[date, list[tuple[int, int]]]


@dataclass(frozen=True)
class Wish:
    """When a meeting is wanted; `named` unless the days are our guess, `decided` if the person set the time."""

    proposals: tuple[Proposal, ...]
    minutes: int
    named: bool
    decided: bool = False

    @property
    def days(self) -> list[date]:
        """The days to look up."""
        return [proposal.day for proposal in self.proposals]


@dataclass(frozen=True)
class Plan:
    """What follows from a wish and the calendar: a moment to book, or moments to offer."""

    booked: Proposal | None
    offers: tuple[Proposal, ...] = ()


def wish(mail: PromptMail, person: Person, words: Sequence[str], *, asks: bool = False) -> Wish | None:
    """When the mail, or the person's `words` about it, want a meeting; `None` if neither asks for one.

    `asks`: the mail is known to.

    Of the person's words the newest count, and they need no free slot: the person decided."""
    today = person.today or mail.date
    if today is None or any(_SAYS["no_meeting"].search(word) for word in words):
        return None
    said = [found for word in words if (found := _upcoming(word, today, today))]
    if not asks and not _asks(mail) and not (said and any(_SAYS["meeting"].search(word) for word in words)):
        return None
    text = f"{mail.subject}\n{mail.new_text}"
    in_mail = _upcoming(text, mail.date or today, today)
    clock = _newest(first_clock(word) for word in words)
    minutes = _newest(duration(word) for word in words) or duration(text) or _usual_minutes(person)
    if said or (in_mail and clock is not None):
        chosen = said[-1][0] if said else in_mail[0]
        moment = Proposal(chosen.day, chosen.start if clock is None else clock)
        return Wish((moment,), minutes, named=True, decided=True)
    return Wish(in_mail or _likely_days(text, today), minutes, named=bool(in_mail))


def sets_time(words: str) -> bool:
    """Whether the person's words name a day, a time of day or a duration."""
    return names_day(words) or first_clock(words) is not None or duration(words) is not None


def _newest(values: Iterable[int | None]) -> int | None:
    return next((value for value in reversed(list(values)) if value is not None), None)


def _asks(mail: PromptMail) -> bool:
    def asks(sentence: str) -> bool:
        if not _SAYS["meeting"].search(sentence):
            return _SAYS["availability"].search(sentence) is not None
        asks_day = sentence.endswith("?") and names_day(sentence)
        return asks_day or any(_SAYS[name].search(sentence) for name in ("availability", "suggestion"))

    return not _SAYS["called_off"].search(mail.new_text) and any(map(asks, [mail.subject, *mail.sentences]))


def _usual_minutes(person: Person) -> int:
    found = [int(match[1]) for rule in person.rules if (match := _SAYS["minutes_rule"].search(rule))]
    return found[-1] if found else _DEFAULT_MINUTES


def _upcoming(text: str, base: date, today: date) -> tuple[Proposal, ...]:
    return tuple(proposal for proposal in proposals(text, base) if proposal.day >= today)


def _likely_days(text: str, today: date) -> tuple[Proposal, ...]:
    first, count = (next_monday(today), 5) if names_next_week(text) else (today + timedelta(days=1), 6)
    working = [day for n in range(count) if (day := first + timedelta(days=n)).weekday() < 5]
    return tuple(Proposal(day) for day in working[: count if count == 5 else 3])


def read_free(text: str, days: Sequence[date]) -> FreeSlots:
    """The free slots that a calendar's text gives, in minutes since midnight.

    A "Free: 09:00-11:30, …" line belongs to the day named last, else to the next of `days`."""
    free: FreeSlots = {}
    waiting = list(days)
    current: date | None = None
    for line in text.splitlines():
        if dates := named_dates(line, days[0] if days else None):
            current = dates[0]
        found = _FREE.search(line)
        day = current or next(iter(waiting), None)
        if not found or day is None:
            continue
        free[day] = free.get(day, []) + _slots(found[1])
        waiting = [other for other in waiting if other != day]
    return free


def _slots(text: str) -> list[tuple[int, int]]:
    if "all day" in text.lower():
        return [_WORKING_DAY]
    return [(int(h) * 60 + int(m), int(to_h) * 60 + int(to_m)) for h, m, to_h, to_m in _SLOT.findall(text)]


def plan(wanted: Wish, free: FreeSlots) -> Plan:
    """Book the first wanted moment that is free; offer others when it is taken or when no day was named."""
    for proposal in wanted.proposals if wanted.named else ():
        if (start := _start(proposal, wanted, free)) is not None:
            return Plan(Proposal(proposal.day, start))
    return Plan(None, _offers(wanted, free))


def _start(proposal: Proposal, wanted: Wish, free: FreeSlots) -> int | None:
    slots = free.get(proposal.day)
    if proposal.start is None:
        return next((start for start, end in slots or [] if end - start >= wanted.minutes), None)
    end = proposal.start + wanted.minutes
    if wanted.decided or slots is None or any(start <= proposal.start and end <= stop for start, stop in slots):
        return proposal.start
    return None


def _offers(wanted: Wish, free: FreeSlots) -> tuple[Proposal, ...]:
    """One moment a day if several days have one, else the moments of the only day; nearest to the wanted time first."""
    near = wanted.proposals[0].start or 0
    possible = []
    for day in wanted.days:
        starts = [start for start, end in free.get(day, []) if end - start >= wanted.minutes]
        if starts:
            possible.append([Proposal(day, start) for start in sorted(starts, key=lambda start: abs(start - near))])
    if len(possible) > 1:
        return tuple(moments[0] for moments in possible)[:_OFFERS]
    return tuple(possible[0][:_OFFERS]) if possible else ()
