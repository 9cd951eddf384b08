"""What a run of the mail agent is given, and what it asks for when triage is done."""

from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypedDict

from email_assistant.agents.mail.prompts import Classification, Triage
from email_assistant.db.lease import Lease
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
    """Gmail's thread id."""
    mail: str
    """Gmail's id of the mail that it answers."""
    mails: list[str]
    """Gmail ids of the whole thread."""
    text: str
    """That mail, delimited for a prompt."""
    sender: str
    """The address in its From; empty if that is forged. Runs of an earlier version have none."""
    reply: ReplyNeeds
    invitation: str | None
    """What calendars know the event by to which the conversation last invited; None if it did to none."""
    automatic: bool
    """That mail was sent by a program or in bulk."""
    given: Classification | None
    """The class, where it is known already."""
    triage_only: bool
    """Newer mail of the thread is to be read: the run ends after triage, and another one covers the mail."""


@dataclass(frozen=True, slots=True)
class Settled:
    """What triage came to for the whole conversation."""

    classification: Classification
    opening: str = ""
    """First message to the response agent."""
    covers: tuple[str, ...] = ()
    """Gmail ids of the unanswered mails that the run answers."""


class Settle(Protocol):
    """What follows triage, in the database. Every part may be repeated."""

    def classified(self, run: Mapping[str, Any], lease: Lease) -> Triage | None:
        """What triage came to before this run was interrupted; asking again might come to something else."""
        ...

    def __call__(
        self,
        run: Mapping[str, Any],
        classification: Classification,
        reason: str,
        lease: Lease,
        *,
        fired: Sequence[Rule] = (),
    ) -> Awaitable[Settled]:
        """Store a mail's class and, if it is the one to be answered, let its run take the conversation over.

        Args:
            fired: the rules that its class came of.
        """
        ...

    def covered(self, run: Mapping[str, Any]) -> Awaitable[Sequence[str]]:
        """Gmail's ids of the mails that the run has answered, now that it ends."""
        ...
