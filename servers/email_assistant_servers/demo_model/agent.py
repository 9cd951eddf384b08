"""The response agent's next step: what is still to be done about the mail, as tool calls.

Only the conversation's shape decides: nothing that stands inside a mail can add, remove or redirect a call.
"""

import json
import re
from collections.abc import Sequence
from datetime import date, datetime, time, timedelta

from email_assistant_servers.demo_model.case import (
    CALENDAR,
    DONE,
    QUESTION,
    SCHEDULE,
    SEND,
    Case,
    read_case,
)
from email_assistant_servers.demo_model.meeting import FreeSlots, Plan, Wish, plan, read_free, sets_time, wish
from email_assistant_servers.demo_model.protocol import Call, Message
from email_assistant_servers.demo_model.reading import shorten
from email_assistant_servers.demo_model.reply import is_message, meeting_sentences, reply
from email_assistant_servers.demo_model.steps import Step
from email_assistant_servers.demo_model.times import Proposal, named_dates
from email_assistant_servers.demo_model.wording import any_of

_CHOICE = any_of(
    r"which (?:of|one|option|version|colou?r|size|do you|would you)|(?:do|would) you (?:prefer|rather)|option a",
    r"your (?:preference|choice|favou?rite)|what would you like",
    r"welche[rsn]?\b.*\b(?:lieber|bevorzug\w*|möcht\w*|soll\w*)|was (?:ist|wäre) (?:dir|ihnen) lieber",
    r"préfér\w+|lequel|laquelle",
)
_ANSWER_YES = re.compile(r"^\W*(?:yes|yeah|sure|ok(?:ay)?|go ahead|ja|oui)\b", re.IGNORECASE)


def next_calls(messages: Sequence[Message], tools: frozenset[str]) -> list[Call]:
    """The tool calls that come next, out of `tools`; none if the conversation holds no mail."""
    case = read_case(messages)
    if case is None:
        return []
    wanted = _wanted_meeting(case) if {CALENDAR, SCHEDULE} <= tools else None
    if QUESTION in tools and (content := _question(case, wanted)):
        return [Call(QUESTION, {"content": content})]
    if wanted and (unknown := [day for day in wanted.days if day not in _days_asked(case)]):
        return [Call(CALENDAR, {"dates": [f"{day:%d-%m-%Y}" for day in unknown]})]
    result = _meeting_result(case, wanted) if wanted else None
    calls = []
    if result and result.booked and wanted and not case.settled(SCHEDULE):
        calls.append(_schedule(case, result.booked, wanted.minutes))
    if not case.settled(SEND):
        calls.append(_send(case, wanted, result))
    return [call for call in [*calls, Call(DONE, {})] if call.name in tools]


def _question(case: Case, wanted: Wish | None) -> str:
    """What only the person can answer: an error that a second try can't mend, or a choice that the mail asks for."""
    for name, tries in ((CALENDAR, 1), (SCHEDULE, 2), (SEND, 2)):
        errors = [step for step in case.since_last_answer if step.name == name and step.outcome == "error"]
        if len(errors) >= tries and not case.settled(name):
            return f"{name} failed: {errors[-1].result}\nWhat should I do?"
    if case.steps or case.instruction or wanted:
        return ""
    choice = next((s for s in case.mail.sentences if s.endswith("?") and _CHOICE.search(s)), "")
    who = case.mail.sender_name or case.mail.sender
    return f"{who} asks: “{shorten(choice, 300)}” What should I answer?" if choice else ""


def _wanted_meeting(case: Case) -> Wish | None:
    if case.failed(CALENDAR) and case.words and not _ANSWER_YES.match(case.words[-1]):
        return None  # the calendar could not be read, and the person wants something else
    return wish(case.mail, case.person, case.words)


def _days_asked(case: Case) -> list[date]:
    return [day for step in case.steps if step.name == CALENDAR for day in _days_of(step)]


def _days_of(calendar: Step) -> list[date]:
    return named_dates(json.dumps(calendar.arguments), None)


def _meeting_result(case: Case, wanted: Wish) -> Plan:
    scheduled = case.last(SCHEDULE)
    if scheduled and scheduled.outcome == "done" and (start := _start_of(scheduled)):
        return Plan(Proposal(start.date(), start.hour * 60 + start.minute))
    free: FreeSlots = {}
    for step in case.steps:
        if step.name == CALENDAR and step.outcome == "done":
            free |= read_free(step.result, _days_of(step))
    return plan(wanted, free)


def _start_of(scheduled: Step) -> datetime | None:
    """When it was booked: the person may have edited the call."""
    try:
        return datetime.fromisoformat(str(scheduled.arguments.get("start_time")))
    except ValueError:
        return None


def _schedule(case: Case, moment: Proposal, minutes: int) -> Call:
    start = datetime.combine(moment.day, time()) + timedelta(minutes=moment.start or 0)
    own = case.person.address
    others = [address.lower() for address in case.mail.others if own and address.lower() != own]
    if case.failed(SCHEDULE):
        others = []
    return Call(
        SCHEDULE,
        {
            "attendees": list(dict.fromkeys([case.mail.sender, *others])),
            "title": shorten(case.mail.subject, 80) or f"Meeting with {case.mail.sender_name or case.mail.sender}",
            "start_time": start.isoformat(),
            "end_time": (start + timedelta(minutes=minutes)).isoformat(),
            "organizer_email": own,
            "timezone": case.person.timezone,
        },
    )


def _send(case: Case, wanted: Wish | None, result: Plan | None) -> Call:
    about_meeting = meeting_sentences(case.mail, wanted, result) if wanted and result else []
    text = reply(case.mail, case.person, _words_for_reply(case, wanted), about_meeting, case.answer)
    arguments = {"email_id": case.mail.id, "response_text": text}
    if not case.failed(SEND):  # without an address the mail goes to the thread's own
        arguments["email_address"] = case.mail.reply_address
    return Call(SEND, arguments)


def _words_for_reply(case: Case, wanted: Wish | None) -> list[str]:
    """The person's words that belong in the mail or change how it is written; those that set a time are kept out."""
    about_call = [step.result for step in case.steps if step.name == SCHEDULE]
    words = [word for word in case.words if word != case.answer and word not in about_call]
    if case.failed(CALENDAR):  # the answer to whether to go on all the same
        words = [word for word in words if not _ANSWER_YES.match(word)]
    if wanted is None or not wanted.decided:
        return words
    return [word for word in words if is_message(word) or not sets_time(word, case.person)]
