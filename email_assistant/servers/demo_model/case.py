"""What an agent's conversation says so far: the mail, the person's words, and what each earlier tool call came to."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from email_assistant.servers.demo_model.protocol import Message
from email_assistant.servers.demo_model.reading import Mail, Person, read_instruction, read_mails, read_person

SEND, SCHEDULE, CALENDAR = "send_email_tool", "schedule_meeting_tool", "check_calendar_tool"
QUESTION, DONE = "Question", "Done"

_SUCCESS = re.compile(
    r"^\W*(?:(?:the|your|a) )?(?:(?:e-?mail|mail|message|reply|draft|meeting|event|invitation) )?"
    r"(?:(?:was|has been|is) )?(?:already )?(?:sent|delivered|scheduled|booked|created|saved)\b"
    r"(?:$|\s*[.:,!(\"“']|\s+(?:to|as|for|with|at|on|in|successfully|meeting|event|mail|reply|invitation)\b)",
    re.IGNORECASE,
)
_ERROR = re.compile(
    r"^\W*(?:(?:\w+ ){0,2}error\s*[:\n]|error\b|invalid\b|unknown\b|failed\b|refused\b"
    r"|not allowed\b|denied\b|rejected\b|could ?n[o'’]t\b|cannot\b|the calendar could not)",
    re.IGNORECASE,
)
_IGNORED = re.compile(r"\b(?:ignored this|nothing was done)\b", re.IGNORECASE)
_FRAME = re.compile(r"^(?:feedback|(?:the )?(?:person|user))\b[^:\n]{0,60}:\s*", re.IGNORECASE)


@dataclass(frozen=True)
class Step:
    """One earlier tool call of this run and what it came to."""

    name: str
    arguments: dict[str, Any]
    result: str
    outcome: Literal["done", "feedback", "error", "ignored"]


@dataclass(frozen=True)
class Case:
    """Everything that the next step depends on."""

    mail: Mail
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
        """Whether a tool's newest call failed."""
        step = self.last(name)
        return step is not None and step.outcome == "error"

    @property
    def since_last_answer(self) -> Sequence[Step]:
        """The steps behind the person's newest answer to a question."""
        answered = [number for number, step in enumerate(self.steps) if step.name == QUESTION]
        return self.steps[answered[-1] + 1 :] if answered else self.steps

    @property
    def words(self) -> list[str]:
        """What the person said in this run, oldest first."""
        said = [step.result for step in self.steps if step.outcome == "feedback"]
        return [self.instruction, *said] if self.instruction else said

    @property
    def answer(self) -> str:
        """The person's answer to our question about the mail; an answer about an error is no such answer."""
        answers = [
            step.result
            for before, step in zip((None, *self.steps), self.steps, strict=False)
            if step.name == QUESTION and step.outcome == "feedback" and not (before and before.outcome == "error")
        ]
        return answers[-1] if answers else ""


def read_case(messages: Sequence[Message]) -> Case | None:
    """The case that a conversation is about, or `None` if it holds no mail."""
    with_mail = [
        number for number, message in enumerate(messages) if message.role == "user" and read_mails(message.text)
    ]
    if not with_mail:
        return None
    start = with_mail[-1]
    prompt = messages[start].text
    return Case(
        mail=read_mails(prompt)[-1],
        person=read_person(messages),
        instruction=read_instruction(prompt),
        steps=tuple(_read_steps(messages[start + 1 :])),
    )


def _read_steps(messages: Sequence[Message]) -> list[Step]:
    results = {message.tool_call_id: message.text for message in messages if message.role == "tool"}
    return [
        _read_step(call.function.name, call.function.arguments, results.get(call.id, ""))
        for message in messages
        for call in message.tool_calls or []
        if call.function.name in (SEND, SCHEDULE, CALENDAR, QUESTION)
    ]


def _read_step(name: str, arguments: str, result: str) -> Step:
    try:
        parsed = json.loads(arguments)
    except ValueError:
        parsed = {}
    return Step(
        name, parsed if isinstance(parsed, dict) else {}, _FRAME.sub("", result.strip()), _outcome(name, result)
    )


def _outcome(name: str, result: str) -> Literal["done", "feedback", "error", "ignored"]:
    if _IGNORED.search(result):
        return "ignored"
    if name == QUESTION:
        return "feedback"
    if _ERROR.match(result):
        return "error"
    return "done" if name == CALENDAR or _is_success(result) else "feedback"


def _is_success(result: str) -> bool:
    return not result.strip() or result.lstrip().startswith("{") or bool(_SUCCESS.match(result))
