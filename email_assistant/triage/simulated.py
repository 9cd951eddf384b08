"""The cascade on labelled mails in their order: each is judged by what those before it have taught and proven."""

from collections.abc import Callable, Sequence
from math import ceil

from email_assistant.triage.cascade import Judgement, is_checked, may_decide, nothing_proven, take
from email_assistant.triage.classifier import TooFewOutcomes
from email_assistant.triage.labelled import Labelled
from email_assistant.triage.measure import judge
from email_assistant.triage.proof import Proof
from email_assistant.triage.versions import FIRST, GROWS

Thoughts = list[tuple[str, float] | None]


def decided_alone(mails: Sequence[Labelled], progress: Callable[[int], None] = lambda _: None) -> Thoughts:
    """What each mail is said to need, and how probable that is, where the stage that learns may decide by itself; None
    where the model is asked. What a mail needed is known before the next one comes, and every new version is taken: in
    a mailbox it takes up to two weeks, and a version that is worse is left out."""
    proof, found = nothing_proven(), Thoughts()
    upto = min(FIRST, len(mails))
    found += [None] * upto
    while upto < len(mails):
        learned, new = mails[:upto], mails[upto : ceil(upto * GROWS)]
        for mail, thought in zip(new, _thoughts(learned, new), strict=True):
            found.append(_weighed(proof, mail, *thought, identity=str(len(found))) if thought else None)
        upto += len(new)
        progress(upto)
    return found


def _thoughts(learned: Sequence[Labelled], new: Sequence[Labelled]) -> Thoughts:
    try:
        return list(judge(learned, new))
    except TooFewOutcomes:
        return [None] * len(new)


def _weighed(proof: Proof, mail: Labelled, outcome: str, confidence: float, identity: str) -> tuple[str, float] | None:
    """The thought, if it decides. What it turns out to be worth counts for the mails after it."""
    decides = may_decide(proof, outcome, confidence)
    checked = decides and is_checked(mail.mail.message_id or identity)
    take(proof, Judgement(outcome, confidence, mail.label, decided=decides, checked=checked))
    return (outcome, confidence) if decides and not checked else None
