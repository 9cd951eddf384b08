"""Read what stands in a prompt: the mails, the person, what was called. Mail text is only ever read as data."""

import json
import re
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass
from datetime import date, datetime
from email.utils import getaddresses, parseaddr
from functools import cached_property
from typing import Any, Literal

from .protocol import JsonObject, PromptMessage
from .times import at_minute, named_dates
from .wording import ADDRESS, patterns, shorten

_MAIL = patterns("mail")
_STEPS = patterns("steps")
_OPENING = re.compile(r"^<mail\b([^>]*)>[ \t]*$", re.MULTILINE)
_CLOSING = "</mail>"
_HEADER = re.compile(r"^([A-Za-z][A-Za-z-]*):[ \t]*(.*)$")
_INSTRUCTION = re.compile(r"^Instruction from the person:\s*(.+)", re.MULTILINE | re.DOTALL)
_BULLET = re.compile(r"^[ \t]*(?:[-*•]|\d+[.)])[ \t]+(.+)$", re.MULTILINE)
_QUOTED_TAIL = re.compile(r"^On .{0,200}wrote\b.{0,80}:\s*$.*", re.MULTILINE | re.DOTALL)
_QUOTED_LINE = re.compile(r"^>.*$\n?", re.MULTILINE)
_SENTENCE_END = re.compile(r"(?<=[.!?…])\s+|\n+")
_WRAPPED = re.compile(r"(?<=[^\n]{60})\n(?!\n)")  # a short line ends where its writer ended it
_PERSON = re.compile(rf"\b(?:for|of) (?P<name>[^<>\n]{{0,80}}?) ?<?(?P<address>{ADDRESS.pattern})")
_NOW_CLOCK = re.compile(r"(?<![+\d-])\b([01]?\d|2[0-3]):([0-5]\d)\b")

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
        return parseaddr(self.headers.get("reply-to", ""))[1] or parseaddr(self.headers.get("from", ""))[1]

    @property
    def others(self) -> list[str]:
        """The addresses in To and Cc."""
        fields = [self.headers[name] for name in ("to", "cc") if name in self.headers]
        return [address for _, address in getaddresses(fields) if "@" in address]

    @property
    def sender_name(self) -> str:
        """The sender's full name, guessed from the address if none is given; "" if it is no person's."""
        name, address = parseaddr(self.headers.get("from", ""))
        name = name.strip(" \"'") or " ".join(re.findall(r"[^\W\d_]{2,}", address.partition("@")[0])).title()
        if _MAIL["no_person"].search(name):
            return ""
        last, comma, first = name.partition(",")
        return f"{first.strip()} {last.strip()}" if comma else name

    @property
    def subject(self) -> str:
        """The subject without its reply and forward prefixes."""
        return _MAIL["reply_prefix"].sub("", self.headers.get("subject", "")).strip()

    @property
    def new_text(self) -> str:
        """The text without quoted history."""
        return _QUOTED_LINE.sub("", _QUOTED_TAIL.sub("", self.text)).strip()

    @cached_property
    def sentences(self) -> list[str]:
        """The sentences of the new text, without the salutation."""
        flowing = _MAIL["salutation"].sub("", _WRAPPED.sub(" ", self.new_text))
        return [sentence.strip() for sentence in _SENTENCE_END.split(flowing) if sentence.strip()]

    @property
    def question(self) -> str:
        """The first question of the new text, shortened, or ""."""
        return shorten(next((sentence for sentence in self.sentences if sentence.endswith("?")), ""), 200)

    @property
    def date(self) -> date | None:
        """The day it was written."""
        return next(iter(named_dates(self.headers.get("date", ""), None)), None)


@dataclass(frozen=True)
class Person:
    """For whom is written, and when it is for them: what the system message says."""

    name: str
    address: str
    timezone: str
    now: datetime | None
    rules: tuple[str, ...]

    @property
    def today(self) -> date | None:
        return self.now.date() if self.now else None


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
    return [_read_mail(opening[1], text[opening.end() : end]) for opening, end in zip(openings, ends, strict=False)]


def _read_mail(attributes: str, block: str) -> PromptMail:
    headers: dict[str, str] = {}
    lines = (block.rpartition(_CLOSING)[0] or block).lstrip("\n").split("\n")
    while lines and (header := _HEADER.match(lines[0])):
        headers[header[1].lower()] = header[2].strip()
        lines.pop(0)
    found = re.search(r'\bid="([^"]*)"', attributes)
    return PromptMail(found[1] if found else "", headers, "\n".join(lines).strip())


def read_instruction(text: str) -> str:
    """The person's instruction, which stands behind the last mail, or ""."""
    found = _INSTRUCTION.search(text.rpartition(_CLOSING)[2])
    return found[1].strip() if found else ""


def read_person(messages: Iterable[PromptMessage]) -> Person:
    """The person and their rules, from the system messages alone."""
    text = "\n".join(message.text for message in messages if message.role in ("system", "developer"))
    who = _PERSON.search(text)
    zone = re.search(r"\bTimezone: ([\w+/-]+)", text)
    return Person(
        name=who["name"].strip() if who else "",
        address=who["address"].lower() if who else "",
        timezone=zone[1] if zone else "UTC",
        now=_now(text),
        rules=tuple(bullet.strip() for bullet in _BULLET.findall(text)),
    )


def _now(system: str) -> datetime | None:
    """What changes most stands last in a prompt, behind what is told about the person."""
    days, clocks = named_dates(system, None), _NOW_CLOCK.findall(system)
    hour, minute = clocks[-1] if clocks else (0, 0)
    return at_minute(days[-1], int(hour) * 60 + int(minute)) if days else None


def read_rounds(messages: Sequence[PromptMessage], *, questions: Set[str], looks: Set[str]) -> list[list[Step]]:
    """The tool calls of each message that has any, in order.

    What answers a tool in `questions` is always the person's words, what answers one in `looks` never."""
    results = {message.tool_call_id: message.text for message in messages if message.role == "tool"}
    return [
        [_read_step(call["function"], results.get(call["id"], ""), questions, looks) for call in message.tool_calls]
        for message in messages
        if message.tool_calls
    ]


def _read_step(call: JsonObject, result: str, questions: Set[str], looks: Set[str]) -> Step:
    try:
        parsed = json.loads(call["arguments"])
    except ValueError:
        parsed = {}
    name = call["name"]
    outcome = _outcome(result, is_question=name in questions, is_look=name in looks)
    frameless = _STEPS["frame"].sub("", result.strip())
    return Step(name, parsed if isinstance(parsed, dict) else {}, frameless, outcome)


def _outcome(result: str, *, is_question: bool, is_look: bool) -> StepOutcome:
    is_data = not result.strip() or result.lstrip().startswith(("{", "<"))  # a program wrote it
    is_error = bool(_STEPS["error"].match(result))
    if is_look:
        return "error" if is_error else "done"
    if _STEPS["ignored"].search(result) and not is_data:
        return "ignored"
    if is_question or _STEPS["frame"].match(result):
        return "feedback"
    if is_error:
        return "error"
    return "done" if is_data or _STEPS["success"].match(result) else "feedback"
