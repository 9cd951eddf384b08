"""What the person decided on their mail: by a correction of its class, or by their answer to what it was given."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from email_assistant.db.pool import Pool, fetched
from email_assistant.db.statements import statements
from email_assistant.inbox.mails import CLASSES, Class

MOST: Final = 200
"""Decisions that a change to the rules is tried on, the newest."""
_RIGHT: Final[Mapping[str, frozenset[Class]]] = {
    **{name: frozenset({name}) for name in CLASSES},
    "no answer": frozenset({"ignore", "notify"}),  # a draft was dismissed
}
_SQL = statements("memory", "decisions.sql")


@dataclass(frozen=True, slots=True)
class PastDecision:
    mail: str  # Gmail's id
    sender: str  # empty if it is forged
    subject: str
    given: Class  # what triage had come to before the person said anything
    right: frozenset[Class]  # what it may be, by their word
    at: datetime


async def decisions(pool: Pool, account_id: UUID) -> Sequence[PastDecision]:
    """The newest decisions of an account, of each mail the last, newest first."""
    return [
        PastDecision(
            row["mail"],
            "" if row["forged"] else row["sender"].lower(),
            row["subject"],
            row["given"],
            _RIGHT[row["said"]],
            row["at"],
        )
        for row in await fetched(pool, _SQL["newest"], {"account": account_id, "most": MOST})
    ]
