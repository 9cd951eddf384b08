"""The response agent's next step: what is still to be done about the mail, as tool calls.

Only the conversation's shape decides: nothing that stands inside a mail can add, remove or redirect a call.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta

from .answers import Canned, canned
from .meeting import FreeSlots, Plan, Wish, plan, read_free, sets_time, wish
from .protocol import ModelCall, PromptMessage
from .reading import Person, PromptMail, Step, read_instruction, read_mails, read_person, read_rounds
from .reply import is_message, meeting_sentences, reply
from .rewrite import declines, rewritten, told
from .times import Proposal, at_minute, named_dates
from .wording import patterns, shorten

_SEND, _SCHEDULE, _CALENDAR = "send_email_tool", "schedule_meeting_tool", "check_calendar_tool"
_QUESTION, _DONE = "Question", "Done"
_CHOICE = patterns("mail")["choice"]
_GO_ON = patterns("steps")["go_on"]


@dataclass(frozen=True)
class MailCase:
    """Everything that the next step depends on."""

    mail: PromptMail
    canned: Canned | None
    person: Person
    instruction: str
    steps: tuple[Step, ...]

    def last(self, name: str) -> Step | None:
        """The newest call of a tool."""
        return next((step for step in reversed(self.steps) if step.name == name), None)

    def settled(self, name: str) -> bool:
        """Whether a tool's newest call needs nothing more."""
        step = self.last(name)
        return step is not None and step.outcome in ("done", "ignored")

    def failed(self, name: str) -> bool:
        step = self.last(name)
        return step is not None and step.outcome == "error"

    @property
    def words(self) -> list[str]:
        """What the person said in this run, oldest first."""
        said = [self.instruction, *(told(step.result) for step in self.steps if step.outcome == "feedback")]
        return [words for words in said if words]

    @property
    def answer(self) -> str:
        """The person's answer to our question about the mail; an answer about an error is no such answer."""
        before = (None, *self.steps)
        answers = [
            step.result
            for earlier, step in zip(before, self.steps, strict=False)
            if step.name == _QUESTION and step.outcome == "feedback" and not (earlier and earlier.outcome == "error")
        ]
        return answers[-1] if answers else ""


def next_calls(messages: Sequence[PromptMessage], tools: frozenset[str]) -> list[ModelCall]:
    """The tool calls that come next, out of `tools`; none if the conversation holds no mail."""
    case = _read_case(messages)
    if case is None:
        return []
    wanted = _wanted_meeting(case) if {_CALENDAR, _SCHEDULE} <= tools else None
    if _QUESTION in tools and (content := _question(case, wanted)):
        return [ModelCall(_QUESTION, {"content": content})]
    asked = [day for step in case.steps if step.name == _CALENDAR for day in _days_of(step)]
    if wanted and (unknown := [day for day in wanted.days if day not in asked]):
        return [ModelCall(_CALENDAR, {"dates": [f"{day:%d-%m-%Y}" for day in unknown]})]
    result = _meeting_result(case, wanted) if wanted else None
    calls = []
    if wanted and result and result.booked and not case.settled(_SCHEDULE):
        calls.append(_schedule(case, result.booked, wanted.minutes))
    if not case.settled(_SEND):
        calls.append(_send(case, wanted, result))
    return [call for call in [*calls, ModelCall(_DONE, {})] if call.name in tools]


def _read_case(messages: Sequence[PromptMessage]) -> MailCase | None:
    with_mail = [n for n, message in enumerate(messages) if message.role == "user" and read_mails(message.text)]
    if not with_mail:
        return None
    prompt = messages[with_mail[-1]].text
    rounds = read_rounds(messages[with_mail[-1] + 1 :], questions={_QUESTION}, looks={_CALENDAR})
    steps = tuple(step for steps in rounds for step in steps if step.name != _DONE)
    mail = read_mails(prompt)[-1]
    return MailCase(mail, canned(mail), read_person(messages), read_instruction(prompt), steps)


def _question(case: MailCase, wanted: Wish | None) -> str:
    """What only the person can answer: an error that a second try can't mend, or a choice that the mail asks for."""
    answered = [number for number, step in enumerate(case.steps, 1) if step.name == _QUESTION]
    for name, tries in ((_CALENDAR, 1), (_SCHEDULE, 2), (_SEND, 2)):
        since = case.steps[answered[-1] :] if answered else case.steps
        errors = [step for step in since if step.name == name and step.outcome == "error"]
        if len(errors) >= tries and not case.settled(name):
            return f"{name} failed: {errors[-1].result}\nWhat should I do?"
    if case.steps or case.instruction or wanted:
        return ""
    if case.canned:
        return case.canned.question
    choice = next((s for s in case.mail.sentences if s.endswith("?") and _CHOICE.search(s)), "")
    who = case.mail.sender_name or case.mail.sender
    return f"{who} asks: “{shorten(choice, 300)}” What should I answer?" if choice else ""


def _wanted_meeting(case: MailCase) -> Wish | None:
    if any(declines(step.result) for step in case.steps if step.outcome == "feedback"):
        return None
    if case.failed(_CALENDAR) and case.words and not _GO_ON.match(case.words[-1]):
        return None  # the calendar could not be read, and the person wants something else
    if case.canned and not case.canned.plans_meeting and not case.words:
        return None
    return wish(case.mail, case.person, case.words, asks=case.canned is not None and case.canned.plans_meeting)


def _days_of(step: Step) -> list[date]:
    return named_dates(json.dumps(step.arguments), None)


def _meeting_result(case: MailCase, wanted: Wish) -> Plan:
    scheduled = case.last(_SCHEDULE)
    if scheduled and scheduled.outcome == "done" and (start := _start_of(scheduled)):
        return Plan(Proposal(start.date(), start.hour * 60 + start.minute))
    free: FreeSlots = {}
    for step in case.steps:
        if step.name == _CALENDAR and step.outcome == "done":
            free |= read_free(step.result, _days_of(step))
    return plan(wanted, free)


def _start_of(scheduled: Step) -> datetime | None:
    """When it was booked: the person may have edited the call."""
    try:
        return datetime.fromisoformat(str(scheduled.arguments.get("start_time")))
    except ValueError:
        return None


def _schedule(case: MailCase, moment: Proposal, minutes: int) -> ModelCall:
    start = at_minute(moment.day, moment.start or 0)
    own = case.person.address
    others = [address.lower() for address in case.mail.others if own and address.lower() != own]
    attendees = [case.mail.sender, *([] if case.failed(_SCHEDULE) else others)]
    return ModelCall(
        _SCHEDULE,
        {
            "attendees": list(dict.fromkeys(attendees)),
            "title": (case.canned and case.canned.entry.title)
            or shorten(case.mail.subject, 80)
            or f"Meeting with {case.mail.sender_name or case.mail.sender}",
            "start_time": start.isoformat(),
            "end_time": (start + timedelta(minutes=minutes)).isoformat(),
            "organizer_email": own,
            "timezone": case.person.timezone,
        },
    )


def _send(case: MailCase, wanted: Wish | None, result: Plan | None) -> ModelCall:
    about_meeting = meeting_sentences(wanted, result) if wanted and result else []
    text = _again(case, wanted) or reply(
        case.mail, case.person, _words_for_reply(case, wanted), about_meeting, case.answer, case.canned
    )
    arguments = {"email_id": case.mail.id, "response_text": text}
    if not case.failed(_SEND):  # without an address the mail goes to the thread's own
        arguments["email_address"] = case.mail.reply_address
    return ModelCall(_SEND, arguments)


def _again(case: MailCase, wanted: Wish | None) -> str | None:
    """The letter that stood there, as the person wants it changed; None where another is to be written."""
    last = case.last(_SEND)
    if last is None or last.outcome != "feedback" or (wanted and sets_time(told(last.result))):
        return None
    return rewritten(str(last.arguments.get("response_text", "")), last.result, case.mail, case.person)


def _words_for_reply(case: MailCase, wanted: Wish | None) -> list[str]:
    """The person's words that belong in the mail or change how it is written; those that set a time are kept out."""
    about_call = [told(step.result) for step in case.steps if step.name == _SCHEDULE]
    words = [word for word in case.words if word != case.answer and word not in about_call]
    if case.failed(_CALENDAR):  # the answer to whether to go on all the same
        words = [word for word in words if not _GO_ON.match(word)]
    if wanted is None or not wanted.decided:
        return words
    return [word for word in words if is_message(word) or not sets_time(word)]
