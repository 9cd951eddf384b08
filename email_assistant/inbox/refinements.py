"""What a person wants different about a proposal, said by one key or in their own words, with what they had typed."""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from email_assistant.core_yaml import load

_ALL: Mapping[str, Any] = load(files("email_assistant.inbox").joinpath("refinements.yaml").read_text())
_THEIR_TEXT = f"\n\n{_ALL['their text']}\n\n"


@dataclass(frozen=True, slots=True)
class Refinement:
    """A change of a letter that is asked for by one key."""

    name: str
    key: str
    words: str
    """For the model."""
    beside: str
    """What is said of the other parts of the same proposal."""
    of_blank: bool = False
    """It is asked for where no letter was proposed."""


BESIDE: str = _ALL["beside"]
"""What is said of the other parts where a person says in their own words what should be different about one."""
REFINEMENTS = {each["name"].lower(): Refinement(**{"beside": BESIDE, **each}) for each in _ALL["asked by a key"]}
_SAID_FOR_THEM = {each.words: each.name for each in REFINEMENTS.values()}
_ASIDE = {BESIDE, *(each.beside for each in REFINEMENTS.values())}


@dataclass(frozen=True, slots=True)
class Refined:
    """What a person has said to a proposal."""

    words: str
    letter: str | None = None
    """Their own version of it, if they had changed it before they said so."""

    @classmethod
    def of(cls, response: str) -> "Refined":
        words, with_letter, letter = response.partition(_THEIR_TEXT)
        return cls(words, letter if with_letter else None)

    def __str__(self) -> str:
        """As it is answered."""
        return self.words if self.letter is None else f"{self.words}{_THEIR_TEXT}{self.letter}"

    @property
    def by_key(self) -> bool:
        """Whether nobody typed the words. They are about this one letter, so nothing general follows from them."""
        return self.words in _SAID_FOR_THEM or self.words in _ASIDE

    @property
    def told(self) -> str:
        """As the person said it; empty: they said it of another part of the proposal."""
        return "" if self.words in _ASIDE else _SAID_FOR_THEM.get(self.words, self.words)


def spelled_out(text: str) -> str:
    """What a person says, where that may be no more than the name of a refinement."""
    named = REFINEMENTS.get(text.strip().lower())
    return named.words if named else text
