"""The response agent's next step: what is still to be done about the mail, as tool calls.

Only the conversation's shape decides: nothing that stands inside a mail can add, remove or redirect a call.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from .letters import dictated, reply, rewritten
from .protocol import ModelCall, PromptMessage
from .reading import CLOSING, Person, PromptMail, Step, read_mails, read_person, read_rounds
from .wording import PATTERNS, PHRASES, at, canned, clocks, named_days, sentence, shorten, spoken

_SEND, _SCHEDULE, _CALENDAR = "send_email_tool", "schedule_meeting_tool", "check_calendar_tool"
_QUESTION, _DONE = "Question", "Done"
_FREE = re.compile(r"^Free: (.*)$", re.MULTILINE)
_SLOT = re.compile(r"(\d\d:\d\d)-(\d\d:\d\d)")
_DEFAULT_MINUTES = 30


@dataclass(frozen=True)
class MailCase:
    """Everything that the next step depends on."""

    mail: PromptMail
    known: Mapping[str, str]
    person: Person
    instruction: str
    steps: tuple[Step, ...]

    @property
    def newest(self) -> dict[str, Step]:
        """The newest call of each tool."""
        return {step.name: step for step in self.steps}

    def settled(self, name: str) -> bool:
        """Whether a tool's newest call needs nothing more."""
        return name in self.newest and self.newest[name].outcome in ("done", "ignored")

    @property
    def words(self) -> list[str]:
        """What the person said in this run, oldest first, without the letters that they changed themselves."""
        feedback = (step.result for step in self.steps if step.outcome == "feedback")
        return [PATTERNS["their_letter"].split(each, maxsplit=1)[0] for each in (self.instruction, *feedback)]


@dataclass(frozen=True)
class Wish:
    """When a meeting is wanted; `decided` if the person has set the time, free or not."""

    start: datetime
    minutes: int
    decided: bool


def next_calls(messages: Sequence[PromptMessage], tools: frozenset[str]) -> list[ModelCall]:
    """The tool calls that come next, out of `tools`; none if the conversation holds no mail."""
    case = _read_case(messages)
    if case is None:
        return []
    wish = _wish(case) if {_CALENDAR, _SCHEDULE} <= tools else None
    if _QUESTION in tools and (content := _question(case)):
        return [ModelCall(_QUESTION, {"content": content})]
    calls, meeting = [], ""
    if wish:
        day, looked = {"dates": [f"{wish.start:%d-%m-%Y}"]}, case.newest.get(_CALENDAR)
        if not looked or looked.arguments != day:
            return [ModelCall(_CALENDAR, day)]
        start, meeting = _settled_on(wish, looked.result)
        if start and not case.settled(_SCHEDULE):
            calls.append(_schedule(case, start, wish.minutes))
    if not case.settled(_SEND):
        calls.append(_send(case, meeting))
    return [call for call in [*calls, ModelCall(_DONE, {})] if call.name in tools]


def _read_case(messages: Sequence[PromptMessage]) -> MailCase | None:
    with_mail = [n for n, message in enumerate(messages) if message.role == "user" and read_mails(message.text)]
    if not with_mail:
        return None
    prompt, rounds = messages[with_mail[-1]].text, read_rounds(messages[with_mail[-1] + 1 :])
    mail = read_mails(prompt)[-1]
    steps = tuple(step for steps in rounds for step in steps if step.name != _DONE)
    told = prompt.rpartition(CLOSING)[2].partition("Instruction from the person:")[2].strip()
    return MailCase(mail, canned(mail.sender, mail.new_text), read_person(messages), told, steps)


def _question(case: MailCase) -> str:
    """What is to be asked: what only the person knows, before all else, or what to do about an error."""
    if not case.steps:
        return "" if case.instruction else case.known.get("question", "")
    failed = [step for step in case.newest.values() if step.name in (_SCHEDULE, _SEND) and step.outcome == "error"]
    is_asked = not failed or case.steps[-1].name == _QUESTION
    return "" if is_asked else f"{failed[0].name} failed: {failed[0].result}\nWhat should I do?"


def _wish(case: MailCase) -> Wish | None:
    """When the mail, and after it the person, want a meeting; None where a day or a time is lacking, where it is
    declined, and where the calendar can't be read."""
    mail, now = case.mail, case.person.now
    looked = case.newest.get(_CALENDAR)
    if (looked and looked.outcome == "error") or any(map(PATTERNS["declines"].match, case.words)):
        return None
    if case.known and "{meeting}" not in case.known.get("reply", ""):
        return None
    asking = [each for each in mail.questions if PATTERNS["meeting"].search(each)]
    text = f"{mail.subject}\n{mail.new_text}" if case.known else "\n".join(asking)
    days, times = named_days(text, mail.written or now.date())[:1], clocks(text)[:1]
    if not days or not times:
        return None
    said_days = [day for words in case.words for day in named_days(words, now.date())]
    said_times = [clock for words in case.words for clock in clocks(words)[-1:]]
    start = at([*days, *said_days][-1], [*times, *said_times][-1])
    rules = [int(found[1]) for rule in case.person.rules if (found := PATTERNS["rule_minutes"].search(rule))]
    wish = Wish(start, [_DEFAULT_MINUTES, *rules][-1], decided=bool(said_days or said_times))
    return wish if start >= now else None


def _settled_on(wish: Wish, looked: str) -> tuple[datetime | None, str]:
    """When the meeting is to be, if it can, and what a reply says about it."""
    lasts, day = timedelta(minutes=wish.minutes), f"{wish.start:%Y-%m-%d}"
    slots = [_SLOT.findall(free) for free in _FREE.findall(looked)[-1:]]
    free = [[datetime.fromisoformat(f"{day}T{clock}") for clock in slot] for found in slots for slot in found]
    if wish.decided or any(first <= wish.start and wish.start + lasts <= end for first, end in free):
        return wish.start, PHRASES["booked"].format(moment=spoken(wish.start))
    taken = PHRASES["taken"].format(moment=spoken(wish.start))
    others = [start for first, end in free for start in (first, end - lasts) if end - first >= lasts]
    if not others:
        return None, f"{taken}\n\n{PHRASES['nothing_free']}"
    nearest = min(others, key=lambda start: abs(start - wish.start))
    return None, f"{taken}\n\n{PHRASES['offer'].format(moment=spoken(nearest))}"


def _schedule(case: MailCase, start: datetime, minutes: int) -> ModelCall:
    return ModelCall(
        _SCHEDULE,
        {
            "attendees": [case.mail.sender],
            "title": case.known.get("title") or shorten(case.mail.subject, 80) or f"Meeting with {case.mail.sender}",
            "start_time": start.isoformat(),
            "end_time": (start + timedelta(minutes=minutes)).isoformat(),
            "organizer_email": case.person.address,
            "timezone": case.person.timezone,
        },
    )


def _send(case: MailCase, meeting: str) -> ModelCall:
    address = {"email_id": case.mail.id, "email_address": case.mail.reply_address}
    return ModelCall(_SEND, {**address, "response_text": _again(case, meeting) or _first(case, meeting)})


def _first(case: MailCase, meeting: str) -> str:
    said = [dictated(words) for words in case.words]
    if case.instruction:
        said[0] = said[0] or sentence(case.instruction)
    answer = next((sentence(step.result) for step in case.steps[:1] if step.name == _QUESTION), "")
    return reply(case.mail, case.person, list(filter(None, said)), meeting, answer, case.known)


def _again(case: MailCase, meeting: str) -> str:
    """The letter that stood there, changed as the person asked since; "": there is none, or of another meeting."""
    written = case.newest.get(_SEND)
    standing = str(written.arguments.get("response_text", "")) if written else ""
    if not written or meeting.partition(".")[0] not in standing:
        return ""
    said = [step.result for step in (written, case.steps[-1]) if step.outcome == "feedback"]
    return rewritten(
        standing, said[0] if said and case.steps[-1].name in (_SEND, _QUESTION) else "", case.mail, case.person
    )
