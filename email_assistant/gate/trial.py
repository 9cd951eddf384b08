"""A call on trial: what would become of it, and why, by a person's own description of what came before."""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import date
from typing import Annotated, Any, Final

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, JsonValue, ValidationError

from email_assistant.errors import AssistantError, in_plain_words
from email_assistant.gate.answers import answer
from email_assistant.gate.call import Proposed, Subject
from email_assistant.gate.doubt import Doubt
from email_assistant.gate.doubts import doubts
from email_assistant.gate.policy import GateSession, Trifecta, Verdict, decide, entry
from email_assistant.gate.provenance import Source, read, spans
from email_assistant.mail.address import address_of, is_recipient, parse_addresses
from email_assistant.mail.charset import cut, plain

EXAMPLE: Final = """\
{
  "request": "Tell Bob that Thursday is fine, and forward his offer.",
  "tool": "send_email_tool",
  "arguments": {
    "email_address": "bob@friend.example",
    "additional_recipients": ["books@ledger.example"],
    "response_text": "Thursday is fine. The offer of €4,000 is attached, and valid until 15 June."
  },
  "before": [
    {"tool": "check_calendar_tool", "arguments": {"dates": ["07-05-2026"]}, "answer": "2026-05-07: free all day"}
  ],
  "mails": [
    {
      "from": "Bob <bob@friend.example>",
      "to": ["ada@example.com"],
      "cc": [],
      "date": "2026-05-04",
      "text": "Does Thursday suit you? Our offer is €4,000. Please copy our accountant, books@ledger.example."
    }
  ],
  "own": ["Bob Berg <bob@friend.example>"],
  "written": ["bob@friend.example"],
  "scope": ["mail", "calendar"],
  "date": "2026-05-05"
}
"""
"""A whole description."""

_LONGEST_TOLD: Final = 80  # characters of a name in a description that is wrong


class BadTrial(AssistantError):
    """A description can't be used; the message names the place and what it takes."""


def _listed(given: Any) -> Any:
    return [given] if isinstance(given, str) else given


def _recipient(given: str) -> str:
    if not is_recipient(given):
        raise ValueError("takes one address, such as bob@example.org or Bob <bob@example.org>")
    return given


_Texts = Annotated[list[str], BeforeValidator(_listed)]
_Somebody = Annotated[str, AfterValidator(_recipient)]
_Day = Annotated[date, Field(ge=date(1970, 1, 1), lt=date(2200, 1, 1))]  # "tomorrow" is a day of it too


class _Described(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class _EarlierMail(_Described):
    sender: _Somebody = Field(alias="from")
    to: list[_Somebody] = []
    cc: list[_Somebody] = []
    day: _Day | None = Field(None, alias="date")
    text: str

    @property
    def readers(self) -> frozenset[str]:
        return frozenset(map(address_of, [self.sender, *self.to, *self.cc]))

    @property
    def source(self) -> Source:
        [writer] = parse_addresses(self.sender)
        label = f"{writer.name or writer.email}'s mail" + (f" of {self.day:%-d %B %Y}" if self.day else "")
        text = "\n".join([self.sender, *self.to, *self.cc, self.text])
        return read(text, label=label, by="stranger", writer=writer.email, readers=self.readers, day=self.day)


class _EarlierCall(_Described):
    tool: str
    arguments: dict[str, JsonValue] = {}
    answer: JsonValue = None  # None: none yet, as of a call that stands before this one in its message

    @property
    def told(self) -> str:
        return self.answer if isinstance(self.answer, str) else json.dumps(self.answer, ensure_ascii=False)


class Trial(_Described):
    tool: str
    arguments: dict[str, JsonValue]
    request: _Texts = []
    """The person's own words."""
    before: list[_EarlierCall] = []
    """The calls that ran before."""
    mails: list[_EarlierMail] = []
    """Of the conversation that it began with, as others wrote them; none: it began with the request."""
    own: _Texts = []
    """Texts of the person's own, such as their address book."""
    written: list[_Somebody] | None = None
    """Whom the person has written to before; None: not known, where the assistant looks it up."""
    scope: list[str] | None = None
    """The types of tools that the request was given; None: all."""
    day: _Day | None = Field(None, alias="date")
    """That on which it is proposed, by which "tomorrow" is a day; None: today."""


@dataclass(frozen=True, slots=True)
class Tried:
    subject: Subject
    verdict: Verdict
    before: Trifecta
    """What had come together before the call."""
    recipients: tuple[str, ...]
    marks: tuple[Doubt, ...]
    """Of its text, if it has recipients."""
    unknown: tuple[str, ...]
    """Tools that it names, and of which nobody has said what they touch."""
    unsure: tuple[str, ...]
    """Whom it goes to and who would be known, had the person written to them; none: that was told."""


def parse(content: bytes, name: str) -> Trial:
    """Raises BadTrial. `name`: what the description is known as."""
    try:
        return Trial.model_validate_json(content)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = f"{_place(first['loc'])}: " if first["loc"] else ""
        raise BadTrial(f"{name}: {place}{_reason(first)}") from None


def judge(trial: Trial, subject: Callable[[str], Subject], today: date) -> Tried:
    """`subject`: a tool as the gate sees it, by its name."""
    day = trial.day or today
    session = _session(trial, subject, day)
    call = Proposed(trial.tool, subject(trial.tool), trial.arguments)
    verdict = decide(session, call, scope=trial.scope)
    reached = (mark.value for mark in verdict.marks if mark.what == "goes to")
    recipients = tuple(dict.fromkeys(value for value in reached if _is_address(value)))
    tools = dict.fromkeys([trial.tool, *(earlier.tool for earlier in trial.before)])
    return Tried(
        call.subject,
        verdict,
        session.flags,
        recipients,
        tuple(doubts(trial.arguments, recipients, session.texts, day)) if recipients else (),
        tuple(tool for tool in tools if subject(tool).labels is None),
        tuple(address for address in _strangers(verdict) if trial.written is None and _would_count(trial, address)),
    )


def _strangers(verdict: Verdict) -> Iterator[str]:
    return (address_of(mark.value) for mark in verdict.marks if mark.what == "goes to" and not mark.grounded)


def _would_count(trial: Trial, address: str) -> bool:
    """Whether it says anything that they were written to: of a conversation's answer only if they have a part in it."""
    return not trial.mails or any(address in mail.readers for mail in trial.mails)


def _session(trial: Trial, subject: Callable[[str], Subject], day: date) -> GateSession:
    sources = [read(text, label="your request", by="person", day=day) for text in trial.request]
    sources += [read(text, label="your own texts", by="own", day=day) for text in trial.own]
    written = [address for each in trial.written or () if _would_count(trial, address := address_of(each))]
    sources += [read(address, label="whom you have written to", by="own") for address in written]
    sources += [mail.source for mail in trial.mails]
    writers = frozenset(address_of(mail.sender) for mail in trial.mails)
    session = GateSession(sources, thread=writers if trial.mails else None, answered=writers)
    everywhere = frozenset.intersection(*(mail.readers for mail in trial.mails)) if trial.mails else frozenset[str]()
    ran = Counter[str]()
    for earlier in trial.before:
        ran[earlier.tool] += 1
        call = Proposed(earlier.tool, subject(earlier.tool), earlier.arguments)
        labels, answers = call.subject.labels, [*session.answers]
        if earlier.answer is not None:
            label = f"what {earlier.tool} told" + (f" ({ran[earlier.tool]})" if ran[earlier.tool] > 1 else "")
            readers = everywhere if labels is None or labels.read_private_data else None
            answers.append(answer(earlier.told, label, labels, readers=readers, day=day))
        session = replace(session.then(entry(session, call)), answers=answers)
    return session


def _is_address(value: str) -> bool:
    return [span.kind for span in spans(value)] == ["address"]


def _place(parts: tuple[int | str, ...]) -> str:
    told = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in parts)
    return cut(plain(told.removeprefix(".")), _LONGEST_TOLD)


def _reason(fault: Mapping[str, Any]) -> str:
    is_json = fault["type"] != "json_invalid"
    return in_plain_words(fault) if is_json else str(fault["msg"]).replace("Invalid JSON", "no JSON", 1)
