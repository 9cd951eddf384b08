"""What other rules would have made of mail that the person has decided on, as far as code can tell without a model."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from email_assistant.inbox.mails import Class
from email_assistant.memory.decisions import PastDecision
from email_assistant.memory.rules import Rule, with_rule
from email_assistant.memory.senders import deciding

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
