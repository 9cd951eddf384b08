"""The walk through a history: each mail is judged by what was known on its day, and learned from 14 days later, or kept
to choose by which mail is to be shown."""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from email_assistant.features.rehearsal.habits.classifier import OF_EACH
from email_assistant.features.rehearsal.habits.correspondence import Correspondence
from email_assistant.features.rehearsal.habits.learned import FIRST, GROWS
from email_assistant.features.rehearsal.habits.pairing import WITHIN
from email_assistant.mail.message import Mail
from email_assistant.mail.phrases import subject_of_conversation
from email_assistant.sync.past_mails import Recorded

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

    from email_assistant.features.rehearsal.habits.classifier import Classifier

ANSWERED: Final = "answered"
LEFT: Final = "left"
AIM: Final = 0.95
"""The share of the answered mails that is to be shown. What is shown in the end is measured on mail that came later
still, and only that is told."""
ENOUGH: Final = 20
"""Answered mails: among fewer, one that is missed is more than the aim leaves."""
_BETTER: Final = 3 * ENOUGH
"""With so many the threshold no longer hangs on the least probable one."""
_LEARNED: Final = (0.75, 0.6, 0.5)
"""The older share of the mails that is learned from: less where the newer ones hold too few answered ones."""


Progress = Callable[[int], None]
"""Told how many entries have been walked."""


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


@dataclass(slots=True)
class Prediction:
    """A received mail, what was thought of it when it came, and what the person did."""

    entry: Recorded
    probability: float = 0.0  # that the person answers
    shown: bool = True
    learned: bool = False  # judged by a trained classifier, and not by whom it is addressed to alone
    by_threshold: bool = False  # might have been left aside; False: all are shown, for want of a threshold
    written_to: bool = False  # the person had written to its sender before it came
    answer: Recorded | None = None  # the first letter of the person's own that answers it
    forwarded: bool = False

    @property
    def answered(self) -> bool:
        return self.answer is not None

    @property
    def answered_after(self) -> timedelta | None:
        return self.answer.at - self.entry.at if self.answer else None


@dataclass(frozen=True, slots=True)
class Walked:
    """A history that has been walked to its end."""

    judged: Sequence[Prediction]  # in the order of time; with `until`, those after it
    classifier: "Classifier | None"  # the last one; None if there was too little to learn from
    deleted: int  # answers whose mail is gone; their quotations have counted

    @property
    def counted(self) -> Sequence[Prediction]:
        """Those that figures are of: judged by a threshold, or where there never was one, by a trained classifier."""
        return [each for each in self.judged if each.by_threshold] or [each for each in self.judged if each.learned]


def addressed_to_few(mail: Mail, own: Collection[str]) -> float:
    """The rule that needs no training: the fewer others a mail is addressed to, the rather it is answered."""
    to = [each.email.lower() for each in mail.to]
    others = len({*to, *(each.email.lower() for each in mail.cc)} - set(own))
    if any(each in own for each in to):
        return 0.5 / math.sqrt(1 + others)
    return 0.1 / math.sqrt(1 + others)


def walk(
    entries: Sequence[Recorded],
    own: Collection[str],
    until: datetime | None = None,
    progress: Progress = lambda _: None,
) -> Walked:
    """Judge every received mail. `until`: what is learned after it counts for nothing, and only what came after it is
    given back; how people write to each other is known on each day up to that day all the same."""
    from threadpoolctl import threadpool_limits

    from email_assistant.features.rehearsal.habits.words import rows

    mails = [entry.mail for entry in entries if not entry.own]
    walker = _Walker(own, rows(mails) if mails else None, until)
    with threadpool_limits(1):  # more threads add up in another order
        for number, entry in enumerate(entries, 1):
            walker.take(entry)
            progress(number)
        walker.judge()
    judged = [each for each in walker.all if until is None or each.entry.at > until]
    return Walked(judged, walker.classifier, walker.deleted)


class _Walker:
    def __init__(self, own: Collection[str], words: "csr_matrix", until: datetime | None) -> None:
        self.all: list[Prediction] = []  # in the order of time, as the rows of `words`
        self.classifier: Classifier | None = None
        self.deleted = 0
        self._own = own
        self._words = words
        self._until = until
        self._facts: list[Mapping[str, float]] = []
        self._by_id: dict[str, int] = {}
        self._correspondence = Correspondence(own)
        self._unjudged: list[int] = []
        self._settled = 0  # so many, from the first on, came long enough ago for their outcome to be known
        self._next_training = FIRST
        self._threshold: float | None = None
        self._frozen = False

    def take(self, entry: Recorded) -> None:
        if self._until is None or entry.at <= self._until:
            self._settle(entry.at)
        elif not self._frozen:
            self._frozen = True
            self._settle(self._until)
            self._train()
        if entry.own:
            self._write(entry)
        else:
            self._receive(entry)

    def judge(self) -> None:
        """Judge what has come since the classifier was trained; nothing that came after it is known to it."""
        places, self._unjudged = self._unjudged, []
        if self.classifier is None or not places:
            return
        for place, probability in zip(places, self._given(self.classifier, places), strict=True):
            judged = self.all[place]
            judged.probability, judged.learned = probability, True
            judged.by_threshold = self._threshold is not None
            judged.shown = self._threshold is None or probability >= self._threshold

    def _given(self, classifier: "Classifier", places: list[int]) -> list[float]:
        side = classifier.outcomes.index(ANSWERED)
        given = classifier.probabilities([self._facts[each] for each in places], self._words[places])[:, side]
        return list(map(float, given))

    def _receive(self, entry: Recorded) -> None:
        self._by_id |= dict.fromkeys((entry.id, *entry.copies), len(self.all))
        self._unjudged.append(len(self.all))
        facts = self._correspondence.facts(entry.mail, entry.at)
        written_to = bool(facts["you have written to the sender"])
        self.all.append(Prediction(entry, addressed_to_few(entry.mail, self._own), written_to=written_to))
        self._facts.append(facts)
        self._correspondence.received(entry)

    def _write(self, entry: Recorded) -> None:
        shows = self._correspondence.wrote(entry)
        self.deleted += shows.of_deleted
        for each in shows.answered:
            judged = self.all[self._by_id[each]]
            judged.answer = judged.answer or entry
        for each in shows.forwarded:
            self.all[self._by_id[each]].forwarded = True

    def _settle(self, now: datetime) -> None:
        """Learn from what came so long ago that it is known whether it was answered. Mails that were answered sooner
        wait too: else those of the last days would all be answered ones."""
        while self._settled < len(self.all) and now - self.all[self._settled].entry.at > WITHIN:
            self._settled += 1
            if self._settled >= self._next_training:
                self._train()

    def _train(self) -> None:
        from email_assistant.features.rehearsal.habits.classifier import train

        known = self.all[: self._settled]
        outcomes = [ANSWERED if each.answered else LEFT for each in known]
        if min(outcomes.count(ANSWERED), outcomes.count(LEFT)) < OF_EACH:
            return
        self.judge()
        self._next_training = math.ceil(self._settled * GROWS)
        held = held_out([each.entry for each in known], [each.answered for each in known])
        learned = held.learned if held else self._settled
        self.classifier = train(self._facts[:learned], self._words[:learned], outcomes[:learned])
        self._threshold = threshold(self._given(self.classifier, held.answered)) if held else None
