"""What a run of the mail agent is given, and what it asks for when triage is done."""

from collections.abc import Awaitable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, NotRequired, Protocol, TypedDict
from uuid import UUID

from email_assistant.agents.mail.prompts import Classification, Precedent
from email_assistant.db.lease import Lease

if TYPE_CHECKING:
    from email_assistant.bounces.undelivered import Undelivered
    from email_assistant.memory.rules import Rule


class ReplyNeeds(TypedDict):
    """What a reply in this run's thread needs."""

    to: str | None
    also_to: list[str]
    """Others that the mail asks to be answered at."""
    everyone: list[str]
    """Whom a reply to all reaches."""
    more: int
    """People beyond those, of a mail to very many."""
    addressed: list[str]
    """The person's own addresses that the mail names, the one to answer from first."""
    subject: str
    in_reply_to: str | None
    references: list[str]


class Run(TypedDict):
    """What a run's graph is started with; kept in the checkpoint, so plain JSON."""

    id: str
    account_id: str
    address: str
    thread: str
    """Gmail's thread id; empty: the letter that is sent again begins a conversation."""
    mail: str
    """Gmail's id of the mail that it answers."""
    mails: list[str]
    """Gmail ids of the whole thread."""
    text: str
    """That mail, delimited for a prompt."""
    sender: str
    """The address in its From; empty if that is forged."""
    reply: ReplyNeeds
    invitation: str | None
    """What calendars know the event by to which the conversation last invited; None if it did to none."""
    automatic: bool
    """That mail was sent by a program or in bulk."""
    given: Classification | None
    """The class, where it is known already."""
    triage_only: bool
    """Newer mail of the thread is to be read: the run ends after triage, and another one covers the mail."""
    undelivered: "NotRequired[Undelivered]"
    """The mail reports on a letter of ours, which is what the reply and the thread are of."""


@dataclass(frozen=True, slots=True)
class Triaged:
    """What triage came to for the whole conversation."""

    classification: Classification
    opening: str = ""
    """First message to the response agent."""


Stage = Literal["rules", "habits", "model", "fixed", "report"]
"""Who gives a mail its class, the cheapest first: the person's own rules, what they did with mail like it, the model;
fixed rules, on what may never be answered and for days on which the budget for the model is spent; and what becomes of
a letter of ours, on which it reports."""


@dataclass(frozen=True, slots=True)
class Thought:
    """What a mail needs, by what the person did with mail like it."""

    outcome: Classification
    confidence: float  # a probability
    version: datetime  # what was known by then is all that it rests on
    decides: bool  # it has been right often enough to give the class by itself
    checked: bool  # but the lot fell on this mail, and the model is asked all the same
    why: str  # for the person


@dataclass(frozen=True, slots=True)
class Sorted:
    """A mail's class, who gave it, and why."""

    classification: Classification
    reason: str = ""
    """Empty if it is known already."""
    stage: Stage | None = None
    """None if it is known already."""
    thought: Thought | None = None
    """What was thought of it by the stage that learns, whoever gave the class."""
    fired: "Sequence[Rule]" = ()
    """The person's rules that it came of."""


class Judge(Protocol):
    """A stage that has learned what the person does with their mail, and is asked before the model."""

    def __call__(self, run: Mapping[str, Any], lease: Lease, /) -> Awaitable[Thought | None]:
        """What it thinks of the run's mail; None if it knows too little, or is still learning."""
        ...

    def aclose(self) -> Awaitable[None]:
        """Learn no more."""
        ...


class KnownOutcomes(Protocol):
    """What mail turned out to need."""

    def note_known(self, account_id: UUID) -> Awaitable[None]:
        """Note what has become known of an account's mails: a judge and the model go by it."""
        ...

    def decided_alike(self, run: Mapping[str, Any], lease: Lease) -> Awaitable[Sequence[Precedent]]:
        """A few decisions of the person's own on mail like the run's; none where none is."""
        ...


class AfterTriage(Protocol):
    """What follows triage, in the database. Every part may be repeated."""

    def classified(self, run: Mapping[str, Any], lease: Lease) -> Sorted | None:
        """What triage came to before this run was interrupted; asking again might come to something else."""
        ...

    def __call__(self, run: Mapping[str, Any], triaged: Sorted, lease: Lease) -> Awaitable[Triaged]:
        """Store a mail's class and, if it is the one to be answered, let its run take the conversation over."""
        ...

    def covered(self, run: Mapping[str, Any]) -> Awaitable[Sequence[str]]:
        """Gmail's ids of the mails that the run has answered, now that it ends."""
        ...

    def is_overtaken(self, covered: Collection[str], lease: Lease) -> bool:
        """Whether somebody has written in the conversation since, beside the mails that the run has answered."""
        ...
