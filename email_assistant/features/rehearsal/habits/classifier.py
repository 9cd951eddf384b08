"""The classifier: from the facts and words of mails and what became of them, how probable each outcome is."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from email_assistant.errors import AssistantError

if TYPE_CHECKING:
    from numpy import ndarray
    from scipy.sparse import csr_matrix

OF_EACH: Final = 10
"""Examples of each of two outcomes, at least, for one to be trained at all."""

_STRENGTHS: Final = (0.3, 1.0, 3.0, 10.0, 30.0)
"""Inverse strengths of regularisation that are tried on the newest fifth of the examples."""
_STRENGTH_OF_FEW: Final = 10.0
_ENOUGH: Final = 500
"""Examples from which on the newest are kept apart to choose by, and trees are boosted; fewer are overfitted so, and
are given trees of chance."""
_FACTS_WEIGH: Final = 0.2
"""The size of a fact that is one standard deviation from its mean; the words of a mail together have length 1."""
_ROUNDS: Final = 150
_TREES: Final = 40
_LEAST: Final = 0.01  # probability that either model may give: neither overrules the other by being sure
_SEED: Final = 7


class TooFewOutcomes(AssistantError):
    """There is only one outcome among the examples, so there is nothing to tell apart."""


@dataclass(frozen=True, slots=True)
class Classifier:
    """A linear model of facts and words, averaged with trees of the facts alone, which see what those mean together."""

    outcomes: tuple[str, ...]
    names: tuple[str, ...]
    _means: Any
    _scales: Any
    _columns: Any  # of the words that the examples have
    _rarity: Any  # of those, the logarithm of how few examples have them
    _linear: Any
    _trees: Any

    def probabilities(self, facts: Sequence[Mapping[str, float]], words: "csr_matrix") -> "ndarray":
        """For each mail the probability of each outcome, in the order of `outcomes`."""
        return self.probabilities_of(table_of(facts, self.names), words)

    def probabilities_of(self, table: "ndarray", words: "csr_matrix") -> "ndarray":
        """Likewise, with the facts as rows, in the order of `names`."""
        import numpy

        given = _log(self._linear.predict_proba(self._inputs(table, words)))
        given = (given + _log(self._trees.predict_proba(table))) / 2
        odds = numpy.exp(given - given.max(axis=1, keepdims=True))
        return odds / odds.sum(axis=1, keepdims=True)  # type: ignore[no-any-return]

    def weights(self, outcome: str) -> dict[str, float]:
        """What one standard deviation of a fact adds to the logarithm of the odds of an outcome."""
        place = self.outcomes.index(outcome)
        rows = self._linear.coef_
        row = rows[place] if len(rows) > 1 else rows[0] * (1 if place else -1)
        return {name: float(row[column]) * _FACTS_WEIGH for column, name in enumerate(self.names)}

    def _inputs(self, table: "ndarray", words: "csr_matrix") -> Any:
        return _inputs((table - self._means) / self._scales, words[:, self._columns], self._rarity)


def train(facts: Sequence[Mapping[str, float]], words: "csr_matrix", outcomes: Sequence[str]) -> Classifier:
    """Learn from mails in the order of time. The same examples make the same classifier. Raises TooFewOutcomes."""
    names = tuple(facts[0])
    return train_on(names, table_of(facts, names), words, outcomes)


def train_on(names: tuple[str, ...], table: "ndarray", words: "csr_matrix", outcomes: Sequence[str]) -> Classifier:
    """Likewise, with the facts as rows, a column for each of `names`."""
    import numpy

    kinds = tuple(sorted(set(outcomes)))
    if len(kinds) < 2:
        raise TooFewOutcomes(
            "all the mails that could be learned from had the same outcome: there is nothing to tell apart"
        )
    wanted = numpy.array(outcomes)
    means, scales = table.mean(axis=0), table.std(axis=0)
    scales[scales < 1e-9] = 1.0
    columns, counts = numpy.unique(words.indices, return_counts=True)
    rarity = numpy.log((1 + words.shape[0]) / (1 + counts)) + 1
    inputs = _inputs((table - means) / scales, words[:, columns], rarity)
    with one_thread():  # more threads add up in another order, and the machine has other work
        linear = _linear(_strength(inputs, wanted)).fit(inputs, wanted)
        trees = _grow(table, wanted)
    return Classifier(kinds, names, means, scales, columns, rarity, linear, trees)


def one_thread() -> "AbstractContextManager[object]":
    """Within it the libraries use one thread."""
    return _libraries().limit(limits=1)  # type: ignore[no-any-return]


@cache
def _libraries() -> Any:
    """Those that have threads of their own, looked for once: that takes longer than to judge a mail."""
    import sklearn.ensemble  # noqa: F401 - brings them all
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def table_of(facts: Sequence[Mapping[str, float]], names: Sequence[str]) -> "ndarray":
    import numpy

    return numpy.array([[each[name] for name in names] for each in facts], dtype=float)


def _inputs(scaled: "ndarray", words: "csr_matrix", rarity: "ndarray") -> Any:
    """`words` is changed: a mailbox's take much memory."""
    from scipy.sparse import csr_matrix, hstack
    from sklearn.preprocessing import normalize

    words.data *= rarity[words.indices].astype(words.dtype)
    normalize(words, copy=False)
    return hstack([csr_matrix(scaled * _FACTS_WEIGH, dtype=words.dtype), words], format="csr")


def _linear(strength: float) -> Any:
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(C=strength, tol=1e-3, max_iter=300)


def _strength(inputs: Any, wanted: "ndarray") -> float:
    """The one with which the older four fifths predict the newest fifth best."""
    from sklearn.metrics import log_loss

    first = inputs.shape[0] * 4 // 5
    if inputs.shape[0] < _ENOUGH or set(wanted[:first]) != set(wanted):
        return _STRENGTH_OF_FEW
    fitted = [(each, _linear(each).fit(inputs[:first], wanted[:first])) for each in _STRENGTHS]
    return min(
        fitted,
        key=lambda each: log_loss(wanted[first:], each[1].predict_proba(inputs[first:]), labels=each[1].classes_),
    )[0]


def _grow(table: "ndarray", wanted: "ndarray") -> Any:
    from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier

    if len(wanted) < _ENOUGH:
        return ExtraTreesClassifier(_TREES, random_state=_SEED).fit(table, wanted)
    trees = HistGradientBoostingClassifier(
        learning_rate=0.05, max_iter=_ROUNDS, max_leaf_nodes=8, min_samples_leaf=20, l2_regularization=5.0,
        early_stopping=False, random_state=_SEED,
    )  # fmt: skip
    return trees.fit(table, wanted)


def _log(probabilities: "ndarray") -> "ndarray":
    import numpy

    return numpy.log(numpy.clip(probabilities, _LEAST, 1))  # type: ignore[no-any-return]
