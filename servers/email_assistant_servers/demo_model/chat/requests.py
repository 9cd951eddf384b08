"""Take the person's words apart into tasks: of which type of tool each is, and the scripts that do it."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime
from typing import Literal

from email_assistant_servers.demo_model.chat import calendar, inbox, mail
from email_assistant_servers.demo_model.chat.draft import Draft, read_draft
from email_assistant_servers.demo_model.chat.script import Script
from email_assistant_servers.demo_model.reading import Person
from email_assistant_servers.demo_model.times import proposals
from email_assistant_servers.demo_model.wording import any_of

ToolType = Literal["calendar", "mail", "inbox"]

_ANY_DAY = date(2000, 1, 1)  # from where to count when only the presence of a day matters
_COURTESY = re.compile(
    r"^(?:(?:please|hi|hello|hey|ok(?:ay)?|and|also|then|(?:can|could|would|will) you|i want you to"
    r"|i['’]d like you to)\b[, ]*)+",
    re.IGNORECASE,
)
_CUT = re.compile(r"\s*[,;.!?]\s+(?:(?:and|then|also)\s+)*|\s+(?:and|then)\s+(?:(?:then|also)\s+)*", re.IGNORECASE)
_WHO = r"(?:the\s+|my\s+)?(?P<who>.+?)(?:['’]s?\s+(?:e?-?mail|message|question|letter))?"
_WHAT = r"(?:\s*:\s*|,?\s+(?:that|saying(?: that)?|and say(?: that)?)\s+)(?P<text>.+)"
_ANSWER = re.compile(
    rf"^(?:reply|answer|respond)\s+(?:to\s+)?(?:(?:the\s+)?(?:e?-?mail|message|letter)\s+(?:from|by|of)\s+)?"
    rf"{_WHO}(?:{_WHAT})?$",
    re.IGNORECASE,
)
_TELL = re.compile(rf"^tell\s+{_WHO}{_WHAT}$", re.IGNORECASE)
_WRITE = re.compile(
    r"^(?:(?:write|send)(?:\s+(?:an?\s+)?(?:new\s+)?(?:e?-?mail|message|note|letter))?\s+to|e?-?mail(?=\s+\S+@))\s+"
    rf"(?P<who>.+?)(?:\s+about\s+(?P<subject>.+?))?(?:{_WHAT})?$",
    re.IGNORECASE,
)
_NOBODY = "me us him her them it this that"
_DICTATED = re.compile(r"^(?:reply|answer|respond|tell|write|send|e?-?mail)\b[^:]*:\s", re.IGNORECASE)
_WHY = any_of(r"^(?:why|what (?:happened (?:to|with)|became of)|explain)")
_ABOUT_MAIL = any_of(r"e?-?mails?|messages?|newsletters?|letters?|ignor\w+|writ\w+|wrote")
_IGNORED = any_of(r"ignor\w+")
_NO_SEARCH_WORDS = (
    "why what did do does was were is are has have been had not happened became explain you i it that this the a an my "
    "mail mails email emails e message messages from by about of to with on in for and ignore ignored ignoring answer "
    "answered sort sorted newsletter newsletters"
)
_WAITING = any_of(
    r"(?:what|anything|something)(?:['’]s)?\b.*\b(?:wait(?:s|ing)?|pending|to (?:approve|decide|review)|needs me)",
    r"(?:my|the) inbox",
)
_MOVE = re.compile(r"^(?:move|reschedule|shift|push|postpone|change)\b", re.IGNORECASE)
_CREATE = re.compile(r"^(?:create|schedule|add|book|set up|plan|make|put|arrange|block)\b", re.IGNORECASE)
_LOOK = any_of(r"^(?:what(?:['’]s)?|which|when|show|list|tell me|is there|are there|do i|am i|have i|how|give me|look)")
_IN_CALENDAR = any_of(
    r"calendar|agenda|schedule|diary|meetings?|events?|appointments?|free|busy|my (?:day|week)|(?:this|next) week"
)
_LISTED = re.compile(r"^(?P<head>[^:]*\b(?:events?|meetings?|appointments?)\b[^:]*):\s+(?P<events>.+)$", re.IGNORECASE)
_BETWEEN = re.compile(r"\s*[;,]\s*(?:and\s+)?|\s+and\s+", re.IGNORECASE)


@dataclass(frozen=True)
class Circumstances:
    """For whom and when a task is done; `now` is the person's local time."""

    person: Person
    now: datetime


@dataclass(frozen=True)
class Task:
    """One thing that the person wants; `scripts` begins it."""

    tool_type: ToolType
    scripts: Callable[[Circumstances], list[Script]]


def read_tasks(request: str) -> list[Task]:
    """What the words ask for, in order; nothing where they are not understood."""
    return [task for clause in _clauses(request) if (task := _task(clause))]


def _clauses(request: str) -> list[str]:
    """The request, cut before each part that is a task of its own; but not within what the person dictates."""
    clauses, start = [], 0
    for cut in _CUT.finditer(request):
        if not _DICTATED.match(_bare(request[start : cut.start()])) and _task(request[cut.end() :]):
            clauses.append(request[start : cut.start()])
            start = cut.end()
    return [*clauses, request[start:]]


def _bare(clause: str) -> str:
    return _COURTESY.sub("", clause.strip())


def _task(clause: str) -> Task | None:
    words = _bare(clause)
    readers = (_mail_task, _event_task, _inbox_task, _agenda_task)
    return next((task for read in readers if (task := read(words))), None)


def _mail_task(words: str) -> Task | None:
    found = _WRITE.match(words) or _TELL.match(words) or _ANSWER.match(words)
    if found is None or found["who"].lower() in _NOBODY.split():
        return None
    who, text = found["who"], found["text"] or ""
    if found.re is _WRITE:
        subject = found["subject"] or ""
        return Task("mail", lambda at: [mail.write(who, subject, text, at.person)])
    return Task("mail", lambda at: [mail.answer(who, text, at.person)])


def _event_task(words: str) -> Task | None:
    if _MOVE.match(words):
        return Task("calendar", lambda at: [calendar.move(words, at.now)])
    if _CREATE.match(words):
        return Task("calendar", lambda at: [calendar.create(draft, words, at.now) for draft in _drafts(words, at.now)])
    return None


def _drafts(words: str, now: datetime) -> list[Draft]:
    """The events that the words describe: several if each has its own name and time. A day named once is for all."""
    listed = _LISTED.match(words)
    events = listed["events"] if listed else words
    parts = [read_draft(part, now.date()) for part in _BETWEEN.split(events)]
    drafts = parts if not any(part.question for part in parts) else [read_draft(events, now.date())]
    days = [day for draft in (read_draft(listed["head"] if listed else "", now.date()), *drafts) if (day := draft.day)]
    return [draft.completed(Draft(day=days[0])) for draft in drafts] if days else drafts


def _inbox_task(words: str) -> Task | None:
    if _WHY.match(words) and _ABOUT_MAIL.search(words):
        about = _search_words(words)
        wanted_class = "ignore" if _IGNORED.search(words) else ""
        return Task("inbox", lambda _: [inbox.explain(about, wanted_class)]) if about else None
    return Task("inbox", lambda _: [inbox.waiting()]) if _WAITING.search(words) else None


def _search_words(words: str) -> str:
    found = re.findall(r"[\w.@-]*\w", re.sub(r"['’]s\b", "", words))
    return " ".join(word for word in found if word.lower() not in _NO_SEARCH_WORDS.split())


def _agenda_task(words: str) -> Task | None:
    if not _LOOK.match(words) or _ABOUT_MAIL.search(words):
        return None
    if _IN_CALENDAR.search(words) or proposals(words, _ANY_DAY):
        return Task("calendar", lambda at: [calendar.agenda(words, at.now)])
    return None
