"""A proven bound on how often a stage that decides alone is wrong: learn, then test.

The bound holds for a person whose mail and judgement stay as they are, over the whole life of the stage, with
probability 1 - RISK for all claims together: thresholds are fixed beforehand, every case is judged before it is learned
from, the exact binomial bound (Clopper & Pearson, Biometrika 26, 1934) is looked at only at fixed counts, and the risk
is spent over looks, thresholds and kinds (Angelopoulos et al., Learn then Test, arXiv 2110.01052). About a person who
changes a bound on the past promises nothing: then RECENT cases take the permission back.

- *Kinds* share the risk. The claims about one kind need not: it is decided only where all of them are proven, so a
  false one among them is tested at the whole (intersection-union test, Berger, Technometrics 24, 1982).
- *Thresholds* are tested in a fixed order, from the highest on, each at its own part of the risk, and while the one
  before is proven, at what that was tested at besides (fallback procedure, Wiens & Dmitrienko, J. Biopharm. Stat. 15,
  2005). The first false one in the order is tested at the parts up to its own and after it at those that follow, so all
  errors together have no more than the whole.
- *Looks* have parts of a threshold's risk that sum to one, whatever that risk is: the least of their p-values, each
  divided by its part, is a p-value at any time, and what is proven by the last look is proven by the least. So a risk
  that grows later, because the threshold before came to be proven, may be held against a look that was before."""

from collections import Counter, deque
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import sha256
from math import exp, lgamma, log, log1p
from typing import Final

from email_assistant.features.rehearsal.habits.words import IGNORE, NOTIFY, RESPOND

PARTS: Final[Mapping[float, float]] = {0.98: 0.1, 0.95: 0.0, 0.9: 0.2, 0.8: 0.0, 0.7: 0.0, 0.6: 0.7, 0.5: 0.0}
"""By threshold of confidence, in the order of testing, its own part of the risk: fixed before anything is seen."""
THRESHOLDS: Final = tuple(sorted(PARTS))
FIRST_LOOK: Final = 150
"""Cases of a threshold at the first look that there can be; each later one comes at twice as many. Looks at so few that
not even clean ones could prove the limit are left out, and spend nothing."""
_LATER: Final = 1 / 4
"""Of what is left of a threshold's risk, what a look leaves for those after it: most goes to the first."""
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
    """The cases of one kind at one threshold, and what their last look said."""

    claims: Collection[str]
    first_look: int
    next_look: int
    cases: int = 0
    wrong: Counter[str] = field(default_factory=Counter)  # by the claim that is spoken against
    looks: int = 0  # over the whole life: what a look has spent is never given back
    seen: dict[str, tuple[int, int]] = field(default_factory=dict)  # at the last look: how many were wrong, of how many
    recent: deque[Collection[str]] = field(default_factory=lambda: deque(maxlen=RECENT))

    def take(self, against: Collection[str]) -> bool:
        """Whether that was a look."""
        self.cases += 1
        for claim in against:
            self.wrong[claim] += 1
        self.recent.append(against)
        if self.cases < self.next_look:
            return False
        self.looks += 1
        self.next_look *= 2
        self.seen = {claim: (self.wrong[claim], self.cases) for claim in self.claims}
        return True

    def bound(self, claim: str, risk: float) -> float:
        """What the last look proves with its part of the risk."""
        return upper_bound(*self.seen[claim], risk * _part(self.looks)) if self.seen and risk else 1.0

    def has_changed(self, limits: Mapping[str, float]) -> bool:
        wrong = Counter(claim for against in self.recent for claim in against)
        return any(lower_bound(wrong[claim], len(self.recent)) > limit for claim, limit in limits.items())

    def begin_again(self) -> None:
        """Every look from here on has cases of its own, so that spends no more than going on."""
        self.cases, self.next_look, self.seen = 0, self.first_look, {}
        self.wrong.clear()
        self.recent.clear()


class Proof:
    """What a stage may decide alone: for each kind, the lowest confidence at which its error rates are proven."""

    def __init__(self, limits: Mapping[str, Mapping[str, float]], shares: Mapping[str, float] | None = None) -> None:
        """
        Args:
            limits: for each kind of decision, and each claim about it, the share of cases against it that it must stay
                under.
            shares: for each kind, its part of the risk; without it they have the same.
        """
        self._limits = limits
        parts = shares or dict.fromkeys(limits, 1 / len(limits))
        self._risks = {kind: RISK * parts[kind] for kind in limits}
        self._trials = {kind: self._untried(kind) for kind in limits}
        self._proven: dict[str, list[float]] = {kind: [] for kind in limits}

    def record(self, kind: str, confidence: float, against: Collection[str] = ()) -> None:
        """A case that was judged before it was learned from, once it is known what was right, and the claims that it
        speaks against. Of the cases that the stage decided alone, those that are checked; the lot must choose them."""
        trials = self._trials[kind]
        looks = [trials[threshold].take(against) for threshold in PARTS if confidence >= threshold]
        if any(looks):
            self._proven[kind] = self._now_proven(kind)
        elif not against:
            return
        changed = [each for each in self._proven[kind] if trials[each].has_changed(self._limits[kind])]
        for threshold in changed:
            trials[threshold].begin_again()
        if changed:
            self._proven[kind] = self._now_proven(kind)

    def threshold(self, kind: str) -> float | None:
        """The confidence from which on it may decide; None: it must ask about everything."""
        return min(self._proven[kind], default=None)

    def bound(self, kind: str, claim: str) -> float:
        """The least share of cases against a claim that is proven at any threshold, as its last look found it; 1 before
        one."""
        return min(bounds[claim] for _, bounds in self._bounds(kind))

    def _now_proven(self, kind: str) -> list[float]:
        return [threshold for threshold, bounds in self._bounds(kind) if self._is_under(kind, bounds)]

    def _bounds(self, kind: str) -> Iterator[tuple[float, Mapping[str, float]]]:
        """By threshold, in the order of testing, what is proven of each claim."""
        before = 0.0
        for threshold, part in PARTS.items():
            risk = before + part * self._risks[kind]
            bounds = {claim: self._trials[kind][threshold].bound(claim, risk) for claim in self._limits[kind]}
            yield threshold, bounds
            before = risk if self._is_under(kind, bounds) else 0.0

    def _is_under(self, kind: str, bounds: Mapping[str, float]) -> bool:
        return all(bounds[claim] < limit for claim, limit in self._limits[kind].items())

    def _untried(self, kind: str) -> dict[float, _Trial]:
        found: dict[float, _Trial] = {}
        most = 0.0
        for threshold, part in PARTS.items():
            most += part * self._risks[kind]
            first = _first_look(min(self._limits[kind].values()), most)
            found[threshold] = _Trial(self._limits[kind], first, first)
        return found


def _part(look: int) -> float:
    """Of the risk of a threshold, what is spent at a look; the first is 1."""
    return (1 - _LATER) * _LATER ** (look - 1)


def _first_look(limit: float, risk: float) -> int:
    """The first of the fixed counts at which cases without an error prove a limit."""
    cases = FIRST_LOOK
    while upper_bound(0, cases, risk * _part(1)) >= limit:
        cases *= 2
    return cases


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
