"""The walk through a history: each mail is judged by what was known on its day, and learned from 14 days later."""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from email_assistant.mail.message import Mail
from email_assistant.rehearsal.pairing import WITHIN, Pairing
from email_assistant.rehearsal.recorded import Recorded
from email_assistant.triage.correspondence import Correspondence

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

    from email_assistant.triage.classifier import Classifier

ANSWERED: Final = "answered"
LEFT: Final = "left"

RECALL: Final = 0.95
"""So many of the mails that one answered must have been shown in the past for a threshold to be taken."""
FIRST: Final = 100
"""Mails whose outcome is known before the classifier is trained at all; of each outcome at least `OF_EACH`."""
OF_EACH: Final = 10
_GROWS: Final = 1.25
"""It is trained again when it knows so many times more."""
_REMEMBERED: Final = 200
"""Answered mails, the latest, by which the threshold is set."""

Progress = Callable[[int], None]
"""Told how many entries have been walked."""


@dataclass(slots=True)
class Judged:
    """A received mail, what was thought of it when it came, and what the person did."""

    entry: Recorded
    probability: float = 0.0  # that the person answers
    shown: bool = True
    learned: bool = False  # judged by a trained classifier, and not by whom it is addressed to alone
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

    judged: Sequence[Judged]  # in the order of time; with `until`, those after it
    classifier: "Classifier | None"  # the last one; None if there was too little to learn from
    deleted: int  # answers whose mail is gone; their quotations have counted


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

    from email_assistant.triage.words import rows

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
        self.all: list[Judged] = []  # in the order of time, as the rows of `words`
        self.classifier: Classifier | None = None
        self.deleted = 0
        self._own = own
        self._words = words
        self._until = until
        self._facts: list[Mapping[str, float]] = []
        self._by_id: dict[str, int] = {}
        self._correspondence = Correspondence(own)
        self._pairing = Pairing(own)
        self._unjudged: list[int] = []
        self._settled = 0  # so many, from the first on, came long enough ago for their outcome to be known
        self._next_training = FIRST
        self._threshold = 0.0
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
        side = self.classifier.outcomes.index(ANSWERED)
        given = self.classifier.probabilities([self._facts[each] for each in places], self._words[places])[:, side]
        for place, probability in zip(places, given, strict=True):
            judged = self.all[place]
            judged.probability, judged.learned = float(probability), True
            judged.shown = judged.probability >= self._threshold

    def _receive(self, entry: Recorded) -> None:
        self._by_id |= dict.fromkeys((entry.id, *entry.copies), len(self.all))
        self._unjudged.append(len(self.all))
        self.all.append(Judged(entry, addressed_to_few(entry.mail, self._own)))
        self._facts.append(self._correspondence.facts(entry.mail, entry.at))
        self._correspondence.received(entry.mail, entry.at)
        self._pairing.received(entry)

    def _write(self, entry: Recorded) -> None:
        evidence = self._pairing.wrote(entry)
        self.deleted += evidence.of_deleted
        for each in evidence.answered:
            judged = self.all[self._by_id[each]]
            if judged.answer is None:
                judged.answer = entry
                self._correspondence.answered(judged.entry.mail, entry.at, entry.at - judged.entry.at)
        for each in evidence.forwarded:
            self.all[self._by_id[each]].forwarded = True
        if evidence.of_deleted:
            self._correspondence.answered_deleted(entry.mail, entry.at)
        self._correspondence.wrote(entry.mail, entry.at)

    def _settle(self, now: datetime) -> None:
        """Learn from what came so long ago that it is known whether it was answered. Mails that were answered sooner
        wait too: else those of the last days would all be answered ones."""
        while self._settled < len(self.all) and now - self.all[self._settled].entry.at > WITHIN:
            self._settled += 1
            if self._settled >= self._next_training:
                self._train()

    def _train(self) -> None:
        from email_assistant.triage.classifier import train

        outcomes = [ANSWERED if each.answered else LEFT for each in self.all[: self._settled]]
        if min(outcomes.count(ANSWERED), outcomes.count(LEFT)) < OF_EACH:
            return
        self.judge()
        self.classifier = train(self._facts[: self._settled], self._words[: self._settled], outcomes)
        self._next_training = math.ceil(self._settled * _GROWS)
        answered = [each.probability for each in self.all[: self._settled] if each.answered and each.learned]
        past = sorted(answered[-_REMEMBERED:])
        self._threshold = past[math.floor(len(past) * (1 - RECALL))] if past else 0.0
