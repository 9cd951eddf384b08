"""Figures of judgements against what was right, each exact and in plain Python."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from email_assistant.features.rehearsal.habits.proof import interval

_BINS: Final = 5


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
