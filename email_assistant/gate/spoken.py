"""What the person's words say of things and people: nothing that others wrote may count as named by chance."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Final, Self

from email_assistant.gate.names import loose
from email_assistant.gate.plain import words
from email_assistant.gate.provenance import Source
from email_assistant.gate.vocabulary import (
    ARTICLES,
    GERMAN,
    NOT_GERMAN,
    PARTICLES,
    PEOPLE,
    PLACES,
    THINGS,
)

_SAYS_LITTLE: Final = THINGS | GERMAN | NOT_GERMAN | PARTICLES
_LEAST_LETTERS: Final = 3
_MOST_APART: Final = 2  # words between a name and what it is the name of


@dataclass(frozen=True)
class Spoken:
    texts: Sequence[str]
    """In words between single blanks."""
    names: frozenset[str]
    """What stands there in quotes, or with a capital that begins no sentence."""

    @classmethod
    def of(cls, sources: Iterable[Source]) -> Self:
        said = [source for source in sources if source.by == "person"]
        return cls(
            [words(source.words) for source in said],
            frozenset(key for source in said for kind, key in source.keys if kind == "name"),
        )

    def says(self, name: str) -> bool:
        return any(f" {name} " in text for text in self.texts)

    def means(self, name: str) -> bool:
        """Whether they say it as a name, and not as words that anybody uses."""
        return self.says(name) and (loose(name) in self.names or name in self.names or self._beside_a_thing(name))

    def means_any(self, names: str) -> bool:
        return any(self.means(name) for name in words(names).split())

    def means_people(self) -> bool:
        return not self._all_words.isdisjoint(PEOPLE)

    def described(self, thing: Iterable[str]) -> int:
        """How many words they say of those that a thing bears."""
        borne = {word for text in thing for word in words(text).split() if len(word) >= _LEAST_LETTERS}
        return len((borne & self._all_words) - _SAYS_LITTLE)

    @cached_property
    def _all_words(self) -> frozenset[str]:
        return frozenset(word for text in self.texts for word in text.split())

    def _beside_a_thing(self, name: str) -> bool:
        beside = THINGS if " " in name else PLACES
        for text in self.texts:
            for found in re.finditer(f" {re.escape(name)} ", text):
                after = text[found.end() : text.find(" ", found.end())]
                apart = (word for word in _words_before(text, found.start()) if word not in ARTICLES)
                if beside.intersection([*islice(apart, 1), after]):
                    return True
        return False


def _words_before(text: str, at: int) -> Iterator[str]:
    """The last few words before a place in a text, the nearest first."""
    for _ in range(_MOST_APART + 1):
        begins = text.rfind(" ", 0, at) + 1
        yield text[begins:at]
        at = max(0, begins - 1)
