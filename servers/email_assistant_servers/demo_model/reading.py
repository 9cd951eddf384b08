"""Read what stands in a prompt: mails, the person, what was called. Mail text is only read as data."""

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from email.utils import parseaddr
from functools import cached_property
from typing import Any, Literal

from .protocol import Function, PromptMessage
from .wording import ADDRESS, PATTERNS, at, clocks, named_days, shorten

_OPENING = re.compile(r'^<mail\b(?: id="([^"\n]*)")?[^>\n]*>[ \t]*$', re.MULTILINE)
CLOSING = "</mail>"
_HEADER = re.compile(r"^([A-Za-z-]+):[ \t]*(.*)$", re.MULTILINE)
_RULE = re.compile(r"^[ \t]*(?:-|\d+[.)])[ \t]+(.+)$", re.MULTILINE)
_QUOTED_TAIL = re.compile(r"^On .{0,200}?\bwrote:$", re.MULTILINE | re.DOTALL)
_QUOTED_LINE = re.compile(r"^>.*$\n?", re.MULTILINE)
_SENTENCE_END = re.compile(r"(?<=[.!?…])\s+|\n\s*\n")
_PERSON = re.compile(rf"\b(?:for|of) (?P<name>[^<>\n]{{0,80}}?) ?<?(?P<address>{ADDRESS.pattern})")
_NOW = re.compile(r"\b(?:Today|It) is (\w+ \d{1,2} \w+ \d{4}(?:, \d\d:\d\d)?)")

_ASKING = frozenset({"Question", "request_clarification"})
_REVIEWED = frozenset({"send_email_tool", "schedule_meeting_tool", "create_event", "update_event"})
_FAILED = re.compile(r"Error:|Not done:")
_DONE = re.compile(r"Sent to|Meeting scheduled|<|$")  # how a reviewed call's result begins; else the person speaks
_IGNORED = "The person ignored this"
StepOutcome = Literal["done", "feedback", "error", "ignored"]


@dataclass(frozen=True)
class PromptMail:
    """One mail as it stands in a prompt; `headers` by lower-case name."""

    id: str
    headers: dict[str, str]
    text: str

    @property
    def sender(self) -> str:
        """The sender's address in lower case, or ""."""
        return parseaddr(self.headers.get("from", ""))[1].lower()

    @property
    def reply_address(self) -> str:
        """Where a reply goes: Reply-To if given, else the sender."""
        return parseaddr(self.headers.get("reply-to", ""))[1] or self.sender

    @property
    def sender_name(self) -> str:
        """The sender's full name; "" if it is no person's."""
        name = parseaddr(self.headers.get("from", ""))[0].strip(" \"'")
        return "" if PATTERNS["no_person"].search(name) else name

    @property
    def subject(self) -> str:
        """The subject without its reply and forward prefixes."""
        return PATTERNS["reply_prefix"].sub("", self.headers.get("subject", "")).strip()

    @property
    def written(self) -> date | None:
        return next(iter(named_days(self.headers.get("date", ""), date.min)), None)

    @cached_property
    def new_text(self) -> str:
        """The text without quoted history."""
        quoted = _QUOTED_TAIL.search(self.text)
        return _QUOTED_LINE.sub("", self.text[: quoted.start()] if quoted else self.text).strip()

    @cached_property
    def questions(self) -> list[str]:
        """What the new text asks, each shortened."""
        text = PATTERNS["salutation"].sub("", self.new_text, count=1)
        return [shorten(each, 200) for each in _SENTENCE_END.split(text) if each.rstrip().endswith("?")]


@dataclass(frozen=True)
class Person:
    """For whom is written, and when it is for them: what the system message says."""

    name: str
    address: str
    timezone: str
    now: datetime
    rules: tuple[str, ...]


@dataclass(frozen=True)
class Step:
    """One earlier tool call and what it came to."""

    name: str
    arguments: dict[str, Any]
    result: str
    outcome: StepOutcome


def read_mails(text: str) -> list[PromptMail]:
    """The mails in a prompt, in order. A block ends at the last closing line before the next one opens."""
    openings = list(_OPENING.finditer(text))
    ends = [*(opening.start() for opening in openings[1:]), len(text)]
    return [_read_mail(found[1] or "", text[found.end() : end]) for found, end in zip(openings, ends, strict=False)]


def _read_mail(mail_id: str, block: str) -> PromptMail:
    head, _, body = (block.rpartition(CLOSING)[0] or block).partition("\n\n")
    return PromptMail(mail_id, {name.lower(): value.strip() for name, value in _HEADER.findall(head)}, body.strip())


def read_person(messages: Iterable[PromptMessage]) -> Person:
    """The person and their rules, from the system messages alone."""
    text = "\n".join(message.text for message in messages if message.role in ("system", "developer"))
    who, zone = _PERSON.search(text), re.search(r"\bTimezone: ([\w+/-]+)", text)
    now = _NOW.findall(text)[-1:]  # what changes most stands last
    days = named_days(now[0], date.min) if now else []
    return Person(
        name=who["name"].strip() if who else "",
        address=who["address"].lower() if who else "",
        timezone=zone[1] if zone else "UTC",
        now=at(days[0], [0, *clocks(now[0])][-1]) if days else at(date.min, 0),
        rules=tuple(rule.strip() for rule in _RULE.findall(text)),
    )


def read_rounds(messages: Sequence[PromptMessage]) -> list[list[Step]]:
    """The tool calls of each message that has any, in order."""
    results = {message.tool_call_id: message.text.strip() for message in messages if message.role == "tool"}
    return [
        [_read_step(call.function, results.get(call.id, "")) for call in message.tool_calls]
        for message in messages
        if message.tool_calls
    ]


def _read_step(called: Function, result: str) -> Step:
    try:
        read = json.loads(called.arguments)
    except (ValueError, RecursionError):
        read = None
    return Step(called.name, read if isinstance(read, dict) else {}, result, _outcome(called.name, result))


def _outcome(name: str, result: str) -> StepOutcome:
    if name in _ASKING | _REVIEWED and result.startswith(_IGNORED):
        return "ignored"
    if name not in _ASKING and _FAILED.match(result):
        return "error"
    return "feedback" if name in _ASKING or (name in _REVIEWED and not _DONE.match(result)) else "done"
