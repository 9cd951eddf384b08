"""What was learned of a person beside simple ways of telling what they answer, on the same mails; and figures of
such judgements against what was right, each exact and in plain Python."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from math import sqrt
from typing import Final

from email_assistant.features.rehearsal.habits.proof import RISK, interval, lower_bound
from email_assistant.features.rehearsal.walk import ENOUGH, Prediction, Progress, addressed_to_few, walk
from email_assistant.sync.past_mails import NoHistory, Recorded

_BINS: Final = 5
FIRST_PART: Final = 0.6
"""The share of the received mails, the oldest, that is learned from; the rest is judged."""
_FEW: Final = 0.5 / sqrt(1 + 2)
"""To the person, and to two others at most."""


@dataclass(frozen=True, slots=True)
class Bin:
    """Of the judgements with a probability between `low` and `high`: what was expected, and what was so."""

    low: float
    high: float
    cases: int
    expected: float
    observed: float
    interval: tuple[float, float]  # 95 %, Clopper-Pearson


def roc_auc(right: Sequence[bool], probabilities: Sequence[float]) -> float | None:
    """The probability that one that was so was given more than one that was not; None where one side is missing."""
    ranked = sorted(range(len(right)), key=lambda each: probabilities[each])
    ranks = [0.0] * len(right)
    start = 0
    while start < len(ranked):
        end = start
        while end < len(ranked) and probabilities[ranked[end]] == probabilities[ranked[start]]:
            end += 1
        for place in ranked[start:end]:
            ranks[place] = (start + end + 1) / 2
        start = end
    positive = sum(right)
    negative = len(right) - positive
    if not positive or not negative:
        return None
    above = sum(rank for rank, is_so in zip(ranks, right, strict=True) if is_so) - positive * (positive + 1) / 2
    return above / positive / negative


def calibration(right: Sequence[bool], probabilities: Sequence[float]) -> list[Bin]:
    """Judgements in bins of equal width, the empty ones left out."""
    found = []
    for number in range(_BINS):
        low, high = number / _BINS, (number + 1) / _BINS
        inside = [
            (probability, is_so)
            for probability, is_so in zip(probabilities, right, strict=True)
            if low <= probability < high or (probability == 1 and number == _BINS - 1)
        ]
        if inside:
            hits, cases = sum(is_so for _, is_so in inside), len(inside)
            expected = sum(probability for probability, _ in inside) / cases
            found.append(Bin(low, high, cases, expected, hits / cases, interval(hits, cases)))
    return found


@dataclass(frozen=True, slots=True)
class Way:
    """What one way would have shown, and how many of the answered mails were among that."""

    name: str
    shown: int
    caught: int
    interval: tuple[float, float]  # of the share of the answered that is caught, 95 %, Clopper-Pearson
    auc: float | None  # how often it puts an answered mail before another; None where nothing or all was answered

    def in_words(self, answered: int) -> str:
        """What it caught, such as 352: 95% (92% to 97%)."""
        if answered < ENOUGH:
            return f"{self.caught:,}, too few to tell a share"
        return f"{self.caught:,}: {self.caught / answered:.0%} ({self.interval[0]:.0%} to {self.interval[1]:.0%})"


@dataclass(frozen=True, slots=True)
class Ways:
    """By short names, and in a sentence which of them to go by."""

    ways: dict[str, Way]
    go_by: str


def way(name: str, right: Sequence[bool], shown: Sequence[bool], given: Sequence[float]) -> Way:
    """`right`: whether each mail was answered; `given`: how probable an answer to it is, in whatever unit."""
    caught = sum(is_shown and is_so for is_shown, is_so in zip(shown, right, strict=True))
    return Way(name, sum(shown), caught, interval(caught, sum(right)), roc_auc(right, given))


def first(given: Sequence[float], many: int) -> list[bool]:
    """So many of the mails, the most probable ones."""
    chosen = set(sorted(range(len(given)), key=lambda place: -given[place])[:many])
    return [place in chosen for place in range(len(given))]


def by_each_way(judged: Sequence[Prediction], own: Collection[str]) -> Ways:
    """`judged`: mails that came later than what was learned from."""
    right = [each.answered for each in judged]
    few = [addressed_to_few(each.entry.mail, own) for each in judged]
    shown = {
        "everything": [True] * len(judged),
        "addressed_to_few": [each >= _FEW for each in few],
        "written_to": [each.written_to for each in judged],
    }
    given = [each.probability for each in judged]
    ours = [each.shown for each in judged]
    ways = {
        "everything": way("everything", right, shown["everything"], [0.0] * len(judged)),
        "addressed_to_few": way("to you, among few", right, shown["addressed_to_few"], few),
        "written_to": way("from people whom you had written to", right, shown["written_to"], shown["written_to"]),
        "ours": way("by what I learned of you", right, ours, given),
    }
    best = _best(right, ways)
    return Ways(ways, _go_by(right, ways, best, first(given, ways[best].shown), shown[best]))


def _best(right: Sequence[bool], ways: dict[str, Way]) -> str:
    """The simple way that shows most of the answered and least of the others."""
    answered, others = sum(right), len(right) - sum(right)

    def tells(name: str) -> float:
        one = ways[name]
        return one.caught / answered - (one.shown - one.caught) / others

    able = [each for each in ("addressed_to_few", "written_to") if _tells(ways[each], len(right))]
    return max(able, key=tells) if answered and others and able else "everything"


def _tells(one: Way, mails: int) -> bool:
    """Whether it catches more than as many mails drawn by lot would."""
    return one.interval[0] > one.shown / mails


def _go_by(right: Sequence[bool], ways: dict[str, Way], best: str, ours: Sequence[bool], simple: Sequence[bool]) -> str:
    """`ours`: as many as the best simple way shows, by what was learned."""
    answered, learned, other = sum(right), ways["ours"], ways[best]
    if answered < ENOUGH:
        return f"Look at everything: you answered {answered:,} of these mails, too few to say which way is better."
    if best == "everything":
        if _tells(learned, len(right)):
            return f'Go "{learned.name}": the simple ways do no better than mails drawn by lot.'
        return "Look at everything: no way does better than mails drawn by lot."
    gained = sum(a and not b and is_so for a, b, is_so in zip(ours, simple, right, strict=True))
    lost = sum(b and not a and is_so for a, b, is_so in zip(ours, simple, right, strict=True))
    by_ours = other.caught + gained - lost
    # A sign test: of the answered mails that only one of the two shows.
    if _tells(learned, len(right)) and lower_bound(gained, gained + lost, RISK / 2) > 1 / 2:
        return (
            f'Go "{learned.name}": {other.shown:,} mails so chosen hold {by_ours:,} of the {answered:,} that you '
            f'answered, and as many "{other.name}" {other.caught:,}.'
        )
    return (
        f'Go by "{other.name}": these {other.shown:,} mails hold {other.caught:,} of the {answered:,} that you '
        f'answered, and as many "{learned.name}" {by_ours:,}, which does not prove that learning helps.'
    )


@dataclass(frozen=True, slots=True)
class Compared:
    learned_from: int
    judged: int
    answered: int  # of those judged
    until: datetime
    ways: dict[str, Way]
    go_by: str


def compare(entries: Sequence[Recorded], own: Collection[str], progress: Progress = lambda _: None) -> Compared:
    """Raises NoHistory where there is too little to learn from or to judge."""
    received = [entry for entry in entries if not entry.own]
    if not received:
        raise NoHistory("there is no received mail in the file, so there is nothing to compare")
    until = received[int(len(received) * FIRST_PART)].at
    everything = walk(entries, own, until, progress)
    older = walk([entry for entry in entries if entry.at <= until], own).judged
    judged = everything.judged
    right = [each.answered for each in judged]
    if not any(right) or all(right) or len({each.answered for each in older}) == 1:
        raise NoHistory("all mails of the older or of the newer part had the same outcome: nothing can be compared")
    compared = by_each_way(judged, own)
    words = _by_words(older, judged)
    as_many = first(words, compared.ways["ours"].shown)
    return Compared(
        learned_from=len(older),
        judged=len(judged),
        answered=sum(right),
        until=until,
        ways=compared.ways | {"words": way("by words alone, as many", right, as_many, words)},
        go_by=compared.go_by,
    )


def _by_words(older: Sequence[Prediction], judged: Sequence[Prediction]) -> list[float]:
    """TF-IDF of the words of subject and text, and logistic regression, as their library has them."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    def texts(each: Sequence[Prediction]) -> list[str]:
        return [f"{one.entry.mail.subject}\n{one.entry.mail.body}" for one in each]

    words = make_pipeline(TfidfVectorizer(sublinear_tf=True), LogisticRegression(max_iter=500))
    words.fit(texts(older), [each.answered for each in older])
    return [float(given) for given in words.predict_proba(texts(judged))[:, 1]]
