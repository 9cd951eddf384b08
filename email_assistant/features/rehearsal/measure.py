"""How well a stage of the triage does on mails of which it is known what they need."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from math import ceil
from random import Random
from typing import Final, Literal

from email_assistant.features.rehearsal.habits.classifier import TooFewOutcomes
from email_assistant.features.rehearsal.habits.correspondence import Correspondence
from email_assistant.features.rehearsal.habits.learned import FIRST, GROWS
from email_assistant.features.rehearsal.habits.proof import (
    THRESHOLDS,
    Judgement,
    Proof,
    interval,
    is_checked,
    may_decide,
    nothing_proven,
    take,
    upper_bound,
)
from email_assistant.features.rehearsal.habits.words import IGNORE, OUTCOMES, RESPOND, by_rules
from email_assistant.features.rehearsal.labelled import Labelled, NoLabelledMail
from email_assistant.features.rehearsal.ways import Bin, calibration

Stage = Literal["rules", "classifier", "model", "cascade"]
STAGES: Final[tuple[Stage, ...]] = ("rules", "classifier", "model", "cascade")
FOLDS: Final = 10
LIMIT: Final = 0.05
"""The share of wrong ones, among the mails that a stage decides alone, that it must stay under."""
_INNER: Final = 5
_SEED: Final = 11
_KIND: Final = "decided"
_WRONG: Final = "wrong"
_FRAUD: Final = "fraud"
_MAY_BE_FRAUD: Final = 0.12  # a probability
_ANY_DAY: Final = datetime(2026, 1, 5, 12, tzinfo=UTC)  # when a mail came says something only within one's history

Progress = Callable[[int], None]
"""Told how many folds are done."""


@dataclass(frozen=True, slots=True)
class OfClass:
    n: int
    precision: float | None  # None where nothing was judged so
    recall: float


@dataclass(frozen=True, slots=True)
class Measured:
    """Figures of a stage. What is decided alone is set by a threshold that was chosen on the training mails."""

    stage: Stage
    folds: int | None  # None with training mails of their own
    n: int
    accuracy: float
    interval: tuple[float, float]  # of the accuracy, 95 %, Clopper-Pearson
    coverage: float  # the share of mails that it is sure enough of
    error_in_coverage: float | None
    bound: float  # above which the error in coverage lies with probability 5 % at most
    proven: bool  # whether it could decide alone by these mails: see `proof`
    per_class: dict[str, OfClass]
    confusion: dict[str, dict[str, int]]  # by what was right, and then by what was judged
    calibration: list[Bin]  # of the confidence in what was judged
    phishing: dict[str, int]  # how many there are, and how many were judged to need an answer without being labelled so


@dataclass(frozen=True, slots=True)
class _Judged:
    right: str
    outcome: str
    confidence: float
    is_sure: bool
    is_phishing: bool

    @property
    def wrong(self) -> bool:
        return self.right != self.outcome


def measure(
    stage: Stage,
    data: Sequence[Labelled],
    training: Sequence[Labelled] | None = None,
    progress: Progress = lambda _: None,
    *,
    said: Sequence[str] = (),
    alone: Sequence[float | None] = (),
) -> Measured:
    """Measure on `data`, trained on `training`, or else in ten folds of the data itself. The same mails give the same
    figures. `said`: of the stages that ask a model, what each mail was said to need; `alone`: of the cascade, how sure
    it was where no model was asked. Raises NoLabelledMail, TooFewOutcomes."""
    if stage == "cascade":
        return _measured(stage, None, list(map(_of_cascade, data, said, alone)))
    if stage != "classifier":
        outcomes = said if stage == "model" else [by_rules(_facts(each)) for each in data]
        return _measured(stage, None, [_sure(each, outcome) for each, outcome in zip(data, outcomes, strict=True)])
    if training is not None:
        return _measured(stage, None, _trained(training, data))
    parts = _folds(data, FOLDS)
    judged = []
    for number, part in enumerate(parts):
        rest = [data[each] for other in parts if other is not part for each in other]
        judged += _trained(rest, [data[each] for each in part])
        progress(number + 1)
    return _measured(stage, len(parts), judged)


def _sure(each: Labelled, outcome: str) -> _Judged:
    """By a stage that says nothing of how sure it is."""
    return _Judged(each.label, outcome, 1.0, True, each.is_phishing)


def _of_cascade(each: Labelled, outcome: str, confidence: float | None) -> _Judged:
    return _Judged(each.label, outcome, confidence or 0.0, confidence is not None, each.is_phishing)


def _trained(training: Sequence[Labelled], data: Sequence[Labelled]) -> list[_Judged]:
    sure_from = _threshold(training)
    return [
        _Judged(each.label, outcome, confidence, confidence >= sure_from, each.is_phishing)
        for each, (outcome, confidence) in zip(data, judge(training, data), strict=True)
    ]


def judge(training: Sequence[Labelled], data: Sequence[Labelled]) -> list[tuple[str, float]]:
    """What a classifier of the training mails says that each of the others needs, and how probable that is. Raises
    TooFewOutcomes."""
    from email_assistant.features.rehearsal.habits.classifier import train
    from email_assistant.features.rehearsal.habits.words import rows

    classifier = train(
        [_facts(each) for each in training],
        rows([each.mail for each in training]),
        [_taught(each) for each in training],
    )
    given = classifier.probabilities([_facts(each) for each in data], rows([each.mail for each in data]))
    return [_outcome(dict(zip(classifier.outcomes, map(float, row), strict=True))) for row in given]


def _taught(each: Labelled) -> str:
    """Fraud is another kind of mail than what one merely ignores, and is learned as one."""
    return _FRAUD if each.is_phishing and each.label != RESPOND else each.label


def _outcome(given: dict[str, float]) -> tuple[str, float]:
    """The most probable outcome and its probability; what may be fraud is never answered."""
    fraud = given.pop(_FRAUD, 0.0)
    given[IGNORE] = given.get(IGNORE, 0.0) + fraud
    if fraud > _MAY_BE_FRAUD:
        given.pop(RESPOND, None)
    return max(((outcome, probability) for outcome, probability in given.items()), key=lambda each: each[1])


def _threshold(training: Sequence[Labelled]) -> float:
    """The lowest confidence at which mails of the training set, judged by the others of it, were wrong rarely enough;
    above 1 where there is none."""
    parts = _folds(training, _INNER)
    seen = [
        (confidence, outcome != training[place].label)
        for part in parts
        for place, (outcome, confidence) in zip(
            part,
            judge(
                [training[each] for other in parts if other is not part for each in other],
                [training[each] for each in part],
            ),
            strict=True,
        )
    ]
    for threshold in THRESHOLDS:
        wrong = [is_wrong for confidence, is_wrong in seen if confidence >= threshold]
        if wrong and sum(wrong) / len(wrong) <= LIMIT:
            return threshold
    return 2.0


def _folds(data: Sequence[Labelled], most: int) -> list[list[int]]:
    """The places of the mails in parts of about the same size, each with about the same share of every label."""
    counts = Counter(each.label for each in data)
    if len(counts) < 2 or min(counts.values()) < 2:
        raise NoLabelledMail("there are too few mails with different labels to train on some and judge others")
    random = Random(_SEED)  # noqa: S311 - repeatable, not secret
    parts: list[list[int]] = [[] for _ in range(min(most, *counts.values()))]
    dealt = 0
    for label in sorted(counts):
        places = [place for place, each in enumerate(data) if each.label == label]
        random.shuffle(places)
        for place in places:
            parts[dealt % len(parts)].append(place)
            dealt += 1
    return [sorted(part) for part in parts]


def _facts(each: Labelled) -> dict[str, float]:
    """Of a mail with no history around it, whose first recipient is the person."""
    own = [address.email.lower() for address in each.mail.to[:1]]
    return Correspondence(own).facts(each.mail, _ANY_DAY)


def _measured(stage: Stage, folds: int | None, judged: Sequence[_Judged]) -> Measured:
    right = sum(not each.wrong for each in judged)
    sure = [each for each in judged if each.is_sure]
    wrong = sum(each.wrong for each in sure)
    proof = Proof({_KIND: {_WRONG: LIMIT}})
    for each in judged:
        proof.record(_KIND, each.confidence, [_WRONG] if each.wrong else [])
    given = sure if stage == "cascade" else judged  # what the model decided has no confidence
    phishing = [each for each in judged if each.is_phishing]
    return Measured(
        stage,
        folds,
        len(judged),
        right / len(judged),
        interval(right, len(judged)),
        len(sure) / len(judged),
        wrong / len(sure) if sure else None,
        upper_bound(wrong, len(sure)),
        bool(sure) if stage == "cascade" else proof.threshold(_KIND) is not None,
        {label: found for label in OUTCOMES if (found := _of_class(label, judged))},
        {
            label: dict(sorted(Counter(each.outcome for each in judged if each.right == label).items()))
            for label in OUTCOMES
        },
        calibration([not each.wrong for each in given], [each.confidence for each in given]),
        {
            "n": len(phishing),
            "judged_respond": sum(each.outcome == RESPOND and each.right != RESPOND for each in phishing),
        },
    )


def _of_class(label: str, judged: Sequence[_Judged]) -> OfClass | None:
    there = [each for each in judged if each.right == label]
    said = [each for each in judged if each.outcome == label]
    both = sum(each.outcome == label for each in there)
    return OfClass(len(there), both / len(said) if said else None, both / len(there)) if there else None


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
