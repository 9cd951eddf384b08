"""What a rehearsal found, in figures: what would have been shown, against what the person answered."""

import csv
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median
from typing import Final

from email_assistant.features.rehearsal.habits.classifier import OF_EACH
from email_assistant.features.rehearsal.habits.learned import FIRST
from email_assistant.features.rehearsal.walk import ANSWERED, Prediction, Progress, Walked, walk
from email_assistant.features.rehearsal.ways import Bin, Way, by_each_way, calibration
from email_assistant.sync.past_mails import NoHistory, Recorded

MONTH: Final = timedelta(days=30.4)
USUAL_MONTHS: Final = 6
_TEACH: Final = 6 * MONTH
"""Of what is older than the mails that are judged, so much is read and learned from."""
_TO_DO: Final = "as far as your sent mail tells"
_FACTS: Final = 12
_SENDERS: Final = 10
_FATES: Final = ("starred", "important", "unread", "trash", "spam")
_OF_A_FILE: Final = "as far as the file tells: export the sent mail too, and name each of your addresses with --address"

SHOWN: Final = "show"
LEFT_ASIDE: Final = "leave"


@dataclass(frozen=True, slots=True)
class Missed:
    """A mail that one answered and would not have been shown."""

    id: str
    at: datetime
    sender: str
    subject: str
    probability: float


@dataclass(frozen=True, slots=True)
class OfSender:
    """What came from one address."""

    sender: str
    mails: int
    answered: int
    shown: int


@dataclass(frozen=True, slots=True)
class Rehearsed:
    """Figures of mails that came later than what was learned from, and than what the threshold was chosen on."""

    mails: int
    answered: int
    forwarded: int
    hours_to_answer: float | None  # the median
    shown: int
    shown_answered: int
    by_threshold: bool  # False: too few answered mails were known to choose one, and all were shown
    missed: list[Missed]
    ways: dict[str, Way]  # what was learned, as "ours", and the simple ways on the same mails
    go_by: str  # which of them, in a sentence
    calibration: list[Bin]
    facts: dict[
        str, float
    ]  # what one standard deviation adds to the logarithm of the odds of an answer, the most first
    senders: list[OfSender]
    by_label: dict[str, tuple[int, int]]  # of Gmail's labels that say what was done: mails, and those shown
    only_learned_from: int
    answers_to_deleted: int

    @property
    def sentence(self) -> str:
        if not self.answered:
            return f"Of {self.mails:,} later mails you answered none, so there is nothing to be measured by."
        if not self.by_threshold:
            return (
                f"I would have shown you all {self.mails:,} mails, of which you answered {self.answered:,}: before "
                "them you had answered too few to choose by what may be left aside."
            )
        return (
            f"Of {self.answered:,} later mails that you answered, I would have shown you "
            f"{self.ways['ours'].in_words(self.answered)}. In all I would have shown {self.shown:,} of "
            f"{self.mails:,} mails."
        )

    @property
    def missed_sentence(self) -> str:
        one = len(self.missed) == 1
        return "This one I would have missed:" if one else f"These {len(self.missed):,} I would have missed:"


def report(walked: Walked, own: Collection[str], to_do: str = _OF_A_FILE) -> Rehearsed:
    """Raises NoHistory where too little was answered, or left, to learn anything. `to_do`: what is said then where
    nothing was answered at all."""
    judged = walked.counted
    if walked.classifier is None or not judged:
        raise NoHistory(_too_little(walked.judged, to_do))
    right = [each.answered for each in judged]
    compared = by_each_way(judged, own)
    hours = [each.answered_after / timedelta(hours=1) for each in judged if each.answered_after is not None]
    weights = walked.classifier.weights(ANSWERED)
    return Rehearsed(
        mails=len(judged),
        answered=sum(right),
        forwarded=sum(each.forwarded for each in judged),
        hours_to_answer=round(median(hours), 1) if hours else None,
        shown=sum(each.shown for each in judged),
        shown_answered=sum(each.shown and each.answered for each in judged),
        by_threshold=judged[0].by_threshold,
        missed=[_missed(each) for each in judged if each.answered and not each.shown],
        ways=compared.ways,
        go_by=compared.go_by,
        calibration=calibration(right, [each.probability for each in judged]),
        facts={name: weights[name] for name in sorted(weights, key=lambda name: -abs(weights[name]))[:_FACTS]},
        senders=_senders(judged),
        by_label=_by_label(judged),
        only_learned_from=len(walked.judged) - len(judged),
        answers_to_deleted=walked.deleted,
    )


def write_scores(path: Path, judged: Sequence[Prediction]) -> None:
    """Raises OSError."""
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows(rows_of_scores(judged))


def rows_of_scores(judged: Sequence[Prediction]) -> Iterator[Sequence[str]]:
    """Under a head a row for each mail: its Message-ID, the probability that the person answers it, and what would be
    done."""
    yield "message_id", "probability", "action"
    for each in judged:
        action = SHOWN if each.shown else LEFT_ASIDE
        for identity in (each.entry.id, *each.entry.copies):
            yield identity, f"{each.probability:.6f}", action


def _too_little(judged: Sequence[Prediction], to_do: str) -> str:
    answered = sum(each.answered for each in judged)
    needed = f"it takes {FIRST} mails that are more than two weeks old, {OF_EACH} of them answered and {OF_EACH} not"
    if not judged:
        return "there is no received mail in the time that is to be judged: give an earlier --until, or more mail"
    if not answered:
        return f"none of the {len(judged):,} received mails was answered, {to_do}; {needed}"
    return f"there is too little to learn from: {answered:,} of {len(judged):,} received mails were answered; {needed}"


def _missed(each: Prediction) -> Missed:
    return Missed(each.entry.id, each.entry.at, _address(each.entry), each.entry.mail.subject, each.probability)


def _address(entry: Recorded) -> str:
    return entry.mail.sender.email.lower() if entry.mail.sender else ""


def _senders(judged: Sequence[Prediction]) -> list[OfSender]:
    mails = Counter(_address(each.entry) for each in judged)
    answered = Counter(_address(each.entry) for each in judged if each.answered)
    shown = Counter(_address(each.entry) for each in judged if each.shown)
    first = sorted(mails, key=lambda each: (-answered[each], -mails[each], each))[:_SENDERS]
    return [OfSender(each, mails[each], answered[each], shown[each]) for each in first]


def _by_label(judged: Sequence[Prediction]) -> dict[str, tuple[int, int]]:
    found = {}
    for label in _FATES:
        having = [each for each in judged if label in each.entry.labels]
        if having:
            found[label] = (len(having), sum(each.shown for each in having))
    return found


@dataclass(frozen=True, slots=True)
class Period:
    """The mails that are judged: those after a day, or of the last months; None and None: of the usual ones, or all if
    what is older teaches too little."""

    months: int | None = None
    until: datetime | None = None

    def since(self, now: datetime) -> datetime:
        """From when on mail is read: the same throughout a day."""
        judged_from = self.until or now - (self.months or USUAL_MONTHS) * MONTH
        return (judged_from.astimezone(UTC) - _TEACH).replace(hour=0, minute=0, second=0, microsecond=0)

    def begins(self, entries: Sequence[Recorded]) -> datetime:
        """After this time mails are judged. The months are those before the last mail, as of a file."""
        return self.until or entries[-1].at - (self.months or USUAL_MONTHS) * MONTH


def rehearsed(
    entries: Sequence[Recorded], own: frozenset[str], period: Period, progress: Progress = lambda _: None
) -> tuple[Walked, Rehearsed]:
    """Walk what was read of a mailbox. Raises NoHistory."""
    if not entries:
        raise NoHistory("there is no mail in the mailbox from that time: give more --months, or wait until there is")
    if not any(entry.own for entry in entries):
        raise NoHistory(
            f"of the {len(entries):,} mails from that time none was sent by you: without your own answers there is "
            "nothing to rehearse; give more --months, or the address that you write from with --account"
        )
    walked = walk(entries, own, period.begins(entries), progress)
    if period == Period() and not any(each.by_threshold for each in walked.judged):
        whole = walk(entries, own, None, progress)
        if walked.classifier is None or any(each.by_threshold for each in whole.judged):
            walked = whole
    return walked, report(walked, own, _TO_DO)
