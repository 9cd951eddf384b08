"""What the person decided on their mail, by a correction of its class or by their answer to what it was given; and what
other rules would have made of it, as far as code can tell without a model."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal
from uuid import UUID

from email_assistant.db.pool import Pool, fetched
from email_assistant.db.statements import statements
from email_assistant.inbox.mails import CLASSES, Class
from email_assistant.memory.rules import Rule, with_rule
from email_assistant.memory.senders import deciding

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


Outcome = Class | Literal["read"]
"""`read`: no rule decides, and the model would read it."""


@dataclass(frozen=True, slots=True)
class Otherwise:
    """A mail that other rules sort otherwise."""

    decision: PastDecision
    was: Outcome
    becomes: Outcome

    @property
    def wanted(self) -> Outcome:
        """What the person decided; where several classes would do, what it was."""
        right = tuple(self.decision.right)
        return right[0] if len(right) == 1 else self.was

    @property
    def is_broken(self) -> bool:
        """It was as the person wants it, and would no longer be, or not for certain."""
        return self.was in self.decision.right and self.becomes not in self.decision.right


def otherwise(before: Sequence[Rule], after: Sequence[Rule], decided: Iterable[PastDecision]) -> list[Otherwise]:
    """The mails that change class with the rules, in their order. Where no rule decides now, the class that triage gave
    a mail is what it has."""
    found = []
    for decision in decided:
        old, new = _class(before, decision), _class(after, decision)
        if old != new:
            found.append(Otherwise(decision, old or decision.given, new or "read"))
    return [each for each in found if each.was != each.becomes]


def undone(before: Sequence[Rule], stated: Rule, decided: Iterable[PastDecision]) -> list[Otherwise]:
    """The decisions that a rule would undo, were it to say this."""
    return [each for each in otherwise(before, with_rule(before, stated), decided) if each.is_broken]


def _class(rules: Sequence[Rule], decision: PastDecision) -> Class | None:
    found = deciding(rules, decision.sender)
    return found[0].classification if found else None
