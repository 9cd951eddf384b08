"""Which of many tools a query may need, by their words: BM25 over what each tells of itself, and over its family.

The APIs of one tool are wanted together far more often than apart, so one that matches lifts the others of its tool.
"""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

_K: Final = 1.2
_B: Final = 0.75  # both as Robertson and Zaragoza recommend them (2009, "The Probabilistic Relevance Framework")
_FAMILY: Final = 1.0
"""Weight of what a tool's APIs tell together, beside what one of them tells."""
_STEM: Final = 4  # characters by which words are taken for forms of one: forecast, forecasting
_WORDS: Final = re.compile(r"[^\W_]+")
_HUMPS: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")


class Index:
    """`texts`: what each document tells; `families`: which belong together."""

    def __init__(self, texts: Sequence[str], families: Sequence[str]) -> None:
        self._own = _Bm25([list(_terms(text)) for text in texts])
        of_family: defaultdict[str, list[str]] = defaultdict(list)
        for text, family in zip(texts, families, strict=True):
            of_family[family] += _terms(text)
        self._numbers = {family: number for number, family in enumerate(of_family)}
        self._together = _Bm25(list(of_family.values()))
        self._families = families

    def best(self, query: str, most: int) -> list[int]:
        """The numbers of the documents that fit a query, the best first."""
        terms = Counter(_terms(query))
        own, together = self._own.scores(terms), self._together.scores(terms)
        total = {
            number: own.get(number, 0.0) + _FAMILY * together.get(self._numbers[family], 0.0)
            for number, family in enumerate(self._families)
        }
        return sorted(total, key=lambda number: (-total[number], number))[:most]


class _Bm25:
    def __init__(self, documents: Sequence[Sequence[str]]) -> None:
        self._lengths = [len(document) for document in documents]
        self._usual = sum(self._lengths) / max(1, len(documents)) or 1
        self._found: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
        for number, document in enumerate(documents):
            for term, times in Counter(document).items():
                self._found[term].append((number, times))

    def scores(self, terms: Mapping[str, int]) -> dict[int, float]:
        scores: defaultdict[int, float] = defaultdict(float)
        for term in terms:
            found = self._found.get(term, ())
            rare = math.log(1 + (len(self._lengths) - len(found) + 0.5) / (len(found) + 0.5))
            for number, times in found:
                long = 1 - _B + _B * self._lengths[number] / self._usual
                scores[number] += rare * times * (_K + 1) / (times + _K * long)
        return scores


def _terms(text: str) -> Iterator[str]:
    for word in _WORDS.findall(_HUMPS.sub(" ", text)):
        lower = word.casefold()
        yield lower
        if len(lower) > _STEM:
            yield lower[:_STEM]
