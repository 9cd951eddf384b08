"""A proven bound on how often a stage that decides alone is wrong: learn, then test.

The bound holds for a person whose mail and judgement stay as they are, over the whole life of the stage, with
probability 1 - RISK for all claims together: thresholds are fixed beforehand, every case is judged before it is learned
from, the exact binomial bound (Clopper & Pearson, Biometrika 26, 1934) is looked at only at fixed counts, and the risk
is spent over looks, thresholds and claims (Angelopoulos et al., Learn then Test, arXiv 2110.01052). About a person who
changes a bound on the past promises nothing: then RECENT cases take the permission back.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from math import exp, lgamma, log, log1p
from typing import Final

THRESHOLDS: Final = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98)
"""Of confidence, fixed before anything is seen."""
FIRST_LOOK: Final = 150
"""Cases of a threshold at the first look that there can be; each later one comes at twice as many. Looks at so few that
not even clean ones could prove the limit are left out, and spend nothing."""
RISK: Final = 0.05
RECENT: Final = 100
"""Cases of a threshold among which a change shows."""
_HALVINGS: Final = 50


@lru_cache(maxsize=100_000)
def upper_bound(wrong: int, of: int, risk: float = RISK) -> float:
    """The share of wrong cases that so many wrong ones speak against: the truth is above it with probability `risk` at
    most. 1 where there is no case."""
    if wrong >= of:
        return 1.0
    low, high = wrong / of, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if _at_most(wrong, of, middle) > risk else (low, middle)
    return high


def lower_bound(wrong: int, of: int, risk: float = RISK) -> float:
    """The truth is below it with probability `risk` at most."""
    return 1 - upper_bound(of - wrong, of, risk) if of else 0.0


def interval(hits: int, of: int, risk: float = RISK) -> tuple[float, float]:
    """The exact interval of a share, which holds the truth with probability 1 - `risk` at least."""
    return lower_bound(hits, of, risk / 2), upper_bound(hits, of, risk / 2)


def _at_most(wrong: int, of: int, share: float) -> float:
    """The probability of so many wrong cases or fewer."""
    if share in (0.0, 1.0):
        return 1.0 - share
    odds, rest = log(share), log1p(-share)
    every = lgamma(of + 1)
    return sum(exp(every - lgamma(k + 1) - lgamma(of - k + 1) + k * odds + (of - k) * rest) for k in range(wrong + 1))


@dataclass(slots=True)
class _Trial:
    """The cases of one claim at one threshold, and what their last look said."""

    next_look: int
    cases: int = 0
    wrong: int = 0
    looks: int = 0  # over the whole life: what a look has spent is never given back
    bound: float = 1.0
    recent: deque[bool] = field(default_factory=lambda: deque(maxlen=RECENT))


class Proof:
    """What a stage may decide alone: for each claim, the lowest confidence at which its error rate is proven."""

    def __init__(self, limits: Mapping[str, float], shares: Mapping[str, float] | None = None) -> None:
        """
        Args:
            limits: for each claim, the share of wrong cases that it must stay under.
            shares: for each claim, its part of the risk; without it they have the same.
        """
        self._limits = dict(limits)
        parts = shares or dict.fromkeys(limits, 1 / len(limits))
        self._risks = {claim: RISK * parts[claim] / len(THRESHOLDS) for claim in limits}
        self._first = {claim: self._first_look(claim) for claim in limits}
        self._trials = {claim: {threshold: _Trial(self._first[claim]) for threshold in THRESHOLDS} for claim in limits}

    def record(self, claim: str, confidence: float, *, wrong: bool) -> None:
        """A case that was judged before it was learned from, once it is known what was right. Of the cases that the
        stage decided alone, those that are checked; they must be chosen by lot."""
        for threshold, trial in self._trials[claim].items():
            if confidence < threshold:
                return
            self._take(trial, claim, wrong)

    def threshold(self, claim: str) -> float | None:
        """The confidence from which on it may decide; None: it must ask about everything."""
        limit = self._limits[claim]
        return next((each for each, trial in self._trials[claim].items() if trial.bound < limit), None)

    def bound(self, claim: str) -> float:
        """The least share of wrong cases that is proven at any threshold, as its last look found it; 1 before one."""
        return min(trial.bound for trial in self._trials[claim].values())

    def _first_look(self, claim: str) -> int:
        """At the first count of the fixed ones at which cases without an error prove the limit."""
        cases = FIRST_LOOK
        while upper_bound(0, cases, self._risks[claim] / 2) >= self._limits[claim]:
            cases *= 2
        return cases

    def _take(self, trial: _Trial, claim: str, wrong: bool) -> None:
        limit = self._limits[claim]
        trial.cases += 1
        trial.wrong += wrong
        trial.recent.append(wrong)
        if trial.cases == trial.next_look:
            trial.looks += 1
            # Half of what is left for this claim and threshold is spent at each look.
            trial.bound = upper_bound(trial.wrong, trial.cases, self._risks[claim] / 2**trial.looks)
            trial.next_look *= 2
        if trial.bound < limit and lower_bound(sum(trial.recent), len(trial.recent)) > limit:
            # Every look from here on has cases of its own, so beginning again spends no more than going on.
            trial.cases, trial.wrong, trial.next_look, trial.bound = 0, 0, self._first[claim], 1.0
            trial.recent.clear()
