"""Meetings: whether a mail asks for one, when, and what the calendar leaves free."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, timedelta

from email_assistant_servers.demo_model.reading import Mail, Person
from email_assistant_servers.demo_model.times import (
    Proposal,
    duration,
    first_clock,
    named_dates,
    names_next_week,
    proposals,
)
from email_assistant_servers.demo_model.wording import any_of

_DEFAULT_MINUTES = 30
_ANY_DAY = date(2000, 1, 1)  # from where to count when only the presence of a day matters
_OFFERS = 3
_MEETING = any_of(
    r"(?<!the )(?<!['’]s )(?:meet(?:ing)?|call|appointment|catch[ -]?up|coffee|lunch|dinner|sync|get together)",
    r"interview|reschedule|move (?:the|our) (?:meeting|call)",
    r"treffen|termin|besprechung|telefonat|telefonieren|mittagessen|kaffee|gespräch|verschieben",
    r"réunion|rendez-vous|rencontrer|se voir|déjeuner|café|appel",
)
_AVAILABILITY = any_of(
    r"are you (?:free|available)|(?:what|which) (?:times?|days?) (?:work|suit)s?|your availability",
    r"when (?:are|would) you|find (?:a|some) time",
    r"hast du zeit|haben sie zeit|passt (?:dir|ihnen|es)|wann (?:hast|haben|passt)",
    r"êtes-vous (?:libre|disponible)|es-tu (?:libre|dispo)|vos disponibilités",
)
_SUGGESTION = any_of(
    r"(?:can|could|shall|should|may|might) (?:we|i)|(?:can|could|would) you|let['’]s|would like|i (?:propose|suggest)",
    r"i['’]d like|please (?:schedule|book)|how about|what about",
    r"lass uns|(?:wollen|können|sollen) wir|möchten?|schlage",
    r"(?:pouvons|pourrions)-nous|on pourrait|je propose|voudrais",
)
_CALLED_OFF = any_of(r"cancel(?:led|ed|ling)?|called off|abgesagt|absagen|fällt aus|annulée?|annuler")
_MINUTES_RULE = re.compile(r"\bmeetings last (\d+) minutes\b", re.IGNORECASE)
_NO_MEETING = any_of(
    r"decline|no meeting|without a meeting|(?:do not|don['’]t) (?:schedule|book|meet)|just reply|absagen"
)
_FREE = re.compile(r"\bfree\b\s*:?(.*)$", re.IGNORECASE)
_SLOT = re.compile(r"(\d{1,2}):(\d\d)\s*[-–—]\s*(\d{1,2}):(\d\d)")
_WORKING_DAY = (9 * 60, 17 * 60)


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


FreeSlots = dict[date, list[tuple[int, int]]]


def wish(mail: Mail, person: Person, words: Sequence[str]) -> Wish | None:
    """When the mail, or the person's `words` about it, want a meeting; `None` if neither asks for one.

    Of the person's words the newest count, and they need no free slot: the person decided.
    """
    today = person.today or mail.date
    if today is None or any(_NO_MEETING.search(word) for word in words):
        return None
    said = [found for word in words if (found := _upcoming(proposals(word, today), today))]
    if not _asks(mail) and not (said and any(_MEETING.search(word) for word in words)):
        return None
    text = f"{mail.subject}\n{mail.new_text}"
    in_mail = _upcoming(proposals(text, mail.date or today), today)
    clock = _newest(first_clock(word) for word in words)
    minutes = _newest(duration(word) for word in words) or duration(text) or _usual_minutes(person)
    if said or (in_mail and clock is not None):
        chosen = said[-1][0] if said else in_mail[0]
        moment = Proposal(chosen.day, chosen.start if clock is None else clock)
        return Wish((moment,), minutes, named=True, decided=True)
    if in_mail:
        return Wish(in_mail, minutes, named=True)
    return Wish(_likely_days(text, today), minutes, named=False)


def sets_time(words: str, person: Person) -> bool:
    """Whether the person's words name a day, a time of day or a duration."""
    days = proposals(words, person.today) if person.today else []
    return bool(days) or first_clock(words) is not None or duration(words) is not None


def _newest(values: Iterable[int | None]) -> int | None:
    return next((value for value in reversed(list(values)) if value is not None), None)


def _asks(mail: Mail) -> bool:
    if _CALLED_OFF.search(mail.new_text):
        return False
    return any(
        _AVAILABILITY.search(sentence)
        or (_MEETING.search(sentence) and (_SUGGESTION.search(sentence) or _names_day_in_question(sentence)))
        for sentence in [mail.subject, *mail.sentences]
    )


def _names_day_in_question(sentence: str) -> bool:
    return sentence.endswith("?") and bool(proposals(sentence, _ANY_DAY))


def _usual_minutes(person: Person) -> int:
    found = [int(match[1]) for rule in person.rules if (match := _MINUTES_RULE.search(rule))]
    return found[-1] if found else _DEFAULT_MINUTES


def _upcoming(found: Sequence[Proposal], today: date) -> tuple[Proposal, ...]:
    return tuple(proposal for proposal in found if proposal.day >= today)


def _likely_days(text: str, today: date) -> tuple[Proposal, ...]:
    if names_next_week(text):
        monday = today + timedelta(days=7 - today.weekday())
        return tuple(Proposal(monday + timedelta(days=offset), None) for offset in range(5))
    following = (today + timedelta(days=offset) for offset in range(1, 7))
    return tuple(Proposal(day, None) for day in following if day.weekday() < 5)[:3]


def read_free(text: str, days: Sequence[date]) -> FreeSlots:
    """The free slots that a calendar's text gives, in minutes since midnight.

    A "Free: 09:00-11:30, …" line belongs to the day named last, else to the next of `days`.
    """
    free: FreeSlots = {}
    waiting = list(days)
    current: date | None = None
    for line in text.splitlines():
        if dates := named_dates(line, days[0] if days else None):
            current = dates[0]
        if not (found := _FREE.search(line)):
            continue
        day = current or next(iter(waiting), None)
        if day is None:
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
    if wanted.named:
        for proposal in wanted.proposals:
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
    by_day = [
        sorted(
            (Proposal(day, start) for start, end in free.get(day, []) if end - start >= wanted.minutes),
            key=lambda moment: abs((moment.start or 0) - near),
        )
        for day in wanted.days
    ]
    possible = [moments for moments in by_day if moments]
    if len(possible) > 1:
        return tuple(moments[0] for moments in possible)[:_OFFERS]
    return tuple(possible[0][:_OFFERS]) if possible else ()
