"""What the stage that has learned from a person may decide by itself: which of its judgements count, and for what."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from email_assistant.features.rehearsal.habits.proof import Proof
from email_assistant.features.rehearsal.habits.words import IGNORE, NOTIFY, RESPOND

WRONG: Final = "of another class"
MISSED: Final = "ignored, and an answer was needed"
LIMITS: Final[Mapping[str, Mapping[str, float]]] = {
    IGNORE: {WRONG: 0.02, MISSED: 0.005}, NOTIFY: {WRONG: 0.02}, RESPOND: {WRONG: 0.02},
}  # fmt: skip
"""Of the mails that it gives a class by itself, the share that may be wrong; of those that it ignores, the share that
needed an answer has a limit of its own."""
_SHARES: Final[Mapping[str, float]] = {IGNORE: 0.7, NOTIFY: 0.15, RESPOND: 0.15}
"""Of the risk. The strictest limit takes the most evidence."""
ONE_IN: Final = 10
"""Of the mails that it may decide, the model is asked about one in so many all the same."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """A mail that was judged before anything was learned from it, and what it turned out to need."""

    thought: str
    confidence: float  # the probability that it was given
    truth: str
    decided: bool  # by itself
    checked: bool  # the lot fell on it
    past: bool = False  # it came before anything was sorted, and labels and letters tell what it needed

    @property
    def counts(self) -> bool:
        """Whether it is evidence. Of what was decided with nobody else asked, silence is none: it would prove itself
        right. What the person contradicts counts all the same, so such a case can only ever count against. That a mail
        of the past was opened and not answered does not say that it was to be shown."""
        if self.past:
            return self.thought != NOTIFY
        return self.checked or not self.decided or self.truth != self.thought

    @property
    def against(self) -> tuple[str, ...]:
        """The claims that it speaks against."""
        if self.truth == self.thought:
            return ()
        return (WRONG, MISSED) if (self.thought, self.truth) == (IGNORE, RESPOND) else (WRONG,)


def prove(cases: Iterable[Judgement]) -> Proof:
    """What cases prove, in the order in which it became known what was right."""
    proof = nothing_proven()
    for case in cases:
        take(proof, case)
    return proof


def nothing_proven() -> Proof:
    """Of a stage that has judged nothing yet."""
    return Proof(LIMITS, _SHARES)


def take(proof: Proof, case: Judgement) -> None:
    """The next case, for what it is evidence of."""
    if case.counts:
        proof.record(case.thought, case.confidence, case.against)


def may_decide(proof: Proof, thought: str, confidence: float) -> bool:
    threshold = proof.threshold(thought)
    return threshold is not None and confidence >= threshold


def is_checked(mail_id: str) -> bool:
    """Whether the lot falls on a mail. It is drawn from Gmail's id, so that a repeat draws the same."""
    return int.from_bytes(sha256(mail_id.encode()).digest()[:8]) % ONE_IN == 0
