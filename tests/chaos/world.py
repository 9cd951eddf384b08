"""The mail that comes in, and what the model makes of it."""

import itertools
import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Literal

from email_assistant_servers.google_sandbox.errors import ApiError
from tests.doubles.google import Google
from tests.doubles.mail import Message, reported
from tests.doubles.model import Answer, Model, ModelRequest, ToolCall, tool

Kind = Literal["reply", "meeting", "question", "both", "notify", "ignore", "report"]

FEEDBACK = "Please say it differently."
"""How the person's feedback on a draft begins, by which the model tells it from a result."""

_KINDS: dict[Kind, int] = {"reply": 35, "meeting": 15, "question": 10, "both": 12, "notify": 12, "ignore": 16}
_STAGES: dict[Kind, list[list[str]]] = {
    "reply": [["send_email_tool"]],
    "meeting": [["check_calendar_tool"], ["schedule_meeting_tool"], ["send_email_tool"]],
    "question": [["Question"], ["send_email_tool"]],
    "both": [["schedule_meeting_tool", "send_email_tool"]],
    "notify": [["send_email_tool"]],
    "ignore": [["send_email_tool"]],
}
"""What the model calls for a mail, one message after the other."""
_FOLLOW_UPS = 0.25
"""Share of the mail that comes in a conversation that is there already, often while its draft waits."""
_OTHERS = 0.3
"""Share of the follow-ups that come from somebody else, who is in the conversation by then."""
_PAIRS = 0.3
"""Share of the follow-ups that come two at once."""
ALIAS = "info@example.com"
"""Another address of the person's, which they may send from."""
_REPORTS = 0.08
"""Share of the mail that reports a letter as not delivered."""
TYPED = "Typed in Gmail"
_TYPED = 0.2
_TWICE = 7
"""Of so many proposals one is made twice in its message."""
_TO_ALIAS = 0.3
"""Share of the conversations that came to it."""
_FIRST_MEETING = datetime.now(UTC).replace(hour=9, minute=0, second=0, microsecond=0) + timedelta(days=30)


@dataclass(frozen=True)
class Delivered:
    """A mail that came in."""

    id: str
    thread: str
    kind: Kind
    sender: str
    to: str
    """Which of the person's addresses."""


class World:
    """Everybody who writes to the person. What comes depends on the seed alone."""

    def __init__(self, google: Google, seed: int) -> None:
        self.mails: list[Delivered] = []
        self.triaged: set[str] = set()
        self._google = google
        self._random = Random(f"{seed}/mail")
        self._reported: set[str] = set()

    @property
    def untriaged(self) -> int:
        """Mails that the model has not been asked about yet."""
        return len(self.mails) - len(self.triaged)

    def deliver(self) -> None:
        """A mail comes in, or two in one conversation."""
        random = self._random
        sent = [letter for letter in self._google.sent if letter.message_id not in self._reported]
        if sent and random.random() < _REPORTS:
            self._report(random.choice(sent))
        elif self.mails and random.random() < _FOLLOW_UPS:
            last = random.choice([mail for mail in self.mails[-20:] if mail.kind != "report"] or self.mails[:1])
            sender = f"other{len(self.mails)}@example.org" if random.random() < _OTHERS else last.sender
            for _ in range(2 if random.random() < _PAIRS else 1):
                self._add(sender, last.to, last.thread)
        else:
            to = ALIAS if random.random() < _TO_ALIAS else self._google.address
            self._add(f"person{len(self.mails)}@example.org", to, None)

    def type_into_a_draft(self) -> None:
        """Now and then the person changes a draft of ours that is about to be sent; it goes out as it was approved."""
        for draft_id in self._google.draft_ids[:1] if self._random.random() < _TYPED else []:
            with suppress(ApiError):  # it was sent meanwhile
                thread = self._google.draft(draft_id).thread_id
                self._google.person_drafts(thread, f"{TYPED} {self._random.random()}.", draft_id)

    def _add(self, sender: str, to: str, thread: str | None) -> None:
        kind = self._random.choices(list(_KINDS), list(_KINDS.values()))[0]
        subject = f"{'Re: ' if thread else ''}{kind} about matter {len(self.mails)}"
        text = f"Please see to matter {len(self.mails)}."
        mail_id = self._google.deliver(sender, subject, text, thread=thread, headers={"To": to})
        self.mails.append(Delivered(mail_id, thread or mail_id, kind, sender, to))

    def _report(self, letter: Message) -> None:
        """It is put to the person by code; the model is asked nothing."""
        self._reported.add(letter.message_id)
        status = self._random.choice(["5.1.1", "4.4.7"])
        raw = reported(letter.message_id, (letter.recipients[0], "failed", status))
        mail_id = self._google.deliver_raw(raw, letter.thread_id)
        to = next(mail.to for mail in self.mails if mail.thread == letter.thread_id)
        self.mails.append(Delivered(mail_id, letter.thread_id, "report", "", to))
        self.triaged.add(mail_id)


def teach(model: Model, world: World) -> None:
    """Let the model go by the subject of the newest mail; every proposal that it makes is unlike every other."""

    def triage(request: ModelRequest) -> str:
        world.triaged.add(request.mail.id)
        return _class_of(_kind(request))

    model.on_triage(triage)
    model.script(_proposals())


def _class_of(kind: Kind) -> str:
    return kind if kind in ("notify", "ignore") else "respond"


def _kind(request: ModelRequest) -> Kind:
    word = request.mail.subject.removeprefix("Re: ").split()[0]
    return next(kind for kind in _KINDS if kind == word)


def _proposals() -> Callable[[ModelRequest], Answer]:
    numbers = itertools.count(1)

    def propose(request: ModelRequest) -> Answer:
        succeeded = _succeeded(request)
        for stage in _STAGES[_kind(request)]:
            if missing := [name for name in stage if name not in succeeded]:
                number = next(numbers)
                calls = [_call(name, number, request) for name in missing]
                calls += calls[-1:] if number % _TWICE == 0 else []
                ends = "send_email_tool" in missing and number % 2 == 0
                return [*calls, tool("Done", done=True)] if ends else calls
        return [tool("Done", done=True)]

    return propose


def _succeeded(request: ModelRequest) -> set[str]:
    """Names of the tools whose result is more than feedback."""
    called = {call["id"]: call["function"]["name"] for m in request.messages for call in m.get("tool_calls") or []}
    results = [m for m in request.messages if m["role"] == "tool"]
    return {called[m["tool_call_id"]] for m in results if FEEDBACK not in json.dumps(m["content"])}


def _call(name: str, number: int, request: ModelRequest) -> ToolCall:
    sender = request.mail.headers["from"].split()[-1].strip("<>")
    match name:
        case "send_email_tool":
            return tool(name, response_text=f"Answer {number}.", email_address=sender)
        case "schedule_meeting_tool":
            start = _FIRST_MEETING + timedelta(hours=number)
            end = start + timedelta(minutes=30)
            return tool(
                name,
                attendees=[sender],
                title=f"Meeting {number}",
                start_time=start.isoformat(),
                end_time=end.isoformat(),
            )
        case "check_calendar_tool":
            return tool(name, dates=[f"{_FIRST_MEETING:%d-%m-%Y}"])
        case _:
            return tool(name, content=f"What about {number}?")


def latest_to_answer(mails: Sequence[Delivered]) -> dict[str, Delivered]:
    """By thread, the newest of the mails that ask most of the person. One from somebody else that asks less may wait
    with it."""
    asking = [mail for mail in mails if mail.kind not in ("ignore", "report")]
    most = {mail.thread for mail in asking if _class_of(mail.kind) == "respond"}
    return {mail.thread: mail for mail in asking if mail.thread not in most or _class_of(mail.kind) == "respond"}
