"""From which probability on mail is shown: chosen on mail that came later than all that the classifier learned from."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from email_assistant.rehearsal.recorded import Recorded
from email_assistant.triage.correspondence import subject_of_conversation
from email_assistant.triage.versions import OF_EACH

AIM: Final = 0.95
"""The share of the answered mails that is to be shown. What is shown in the end is measured on mail that came later
still, and only that is told."""
ENOUGH: Final = 20
"""Answered mails: among fewer, one that is missed is more than the aim leaves."""
_BETTER: Final = 3 * ENOUGH
"""With so many the threshold no longer hangs on the least probable one."""
_LEARNED: Final = (0.75, 0.6, 0.5)
"""The older share of the mails that is learned from: less where the newer ones hold too few answered ones."""


@dataclass(frozen=True, slots=True)
class HeldOut:
    """How mails in the order of time are parted."""

    learned: int  # so many, the oldest, are learned from
    answered: list[int]  # places of later ones to choose a threshold on, of no conversation that is learned from


def held_out(mails: Sequence[Recorded], answered: Sequence[bool]) -> HeldOut | None:
    """None where there are too few answered ones."""
    conversations = [_conversation(each) for each in mails]
    found = None
    for share in _LEARNED:
        first = int(len(mails) * share)
        learned = set(conversations[:first])
        places = [
            place for place in range(first, len(mails)) if answered[place] and conversations[place] not in learned
        ]
        of_older = sum(answered[:first])
        if len(places) >= ENOUGH and min(of_older, first - of_older) >= OF_EACH:
            found = HeldOut(first, places)
            if len(places) >= _BETTER:
                break
    return found


def threshold(probabilities: Sequence[float]) -> float:
    """The highest at which a later answered mail like these is shown with the probability that is aimed at: it may fall
    into any place among them (split conformal prediction, Papadopoulos et al., ECML 2002)."""
    missed = math.floor((len(probabilities) + 1) * (1 - AIM))
    return sorted(probabilities)[missed - 1]


def _conversation(entry: Recorded) -> str:
    return entry.conversation or subject_of_conversation(entry.mail.subject) or entry.id
