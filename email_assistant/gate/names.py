"""Names of people and things, told from other words by their capitals and by what stands beside them."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final, Self

from email_assistant.gate.plain import all_folded, called
from email_assistant.gate.vocabulary import (
    GERMAN,
    GREETINGS,
    MONTHS,
    NOT_GERMAN,
    NOUN_ENDINGS,
    ORDINARY,
    PARTICLES,
    THING_ENDINGS,
    TITLES,
    WEEKDAYS,
)

_WORD: Final = re.compile(r"(\w+)")
_QUOTED: Final = re.compile(r"\"([^\"\n]{2,80})\"|(?<!\w)'([^'\n]{2,80})'(?!\w)")
_BREAK: Final = re.compile(r"[.!?:\n]")
_NEVER_NAMES: Final = frozenset({"i", *WEEKDAYS, *MONTHS})
_CALLS: Final = TITLES | GREETINGS
_LEAST_WORDS: Final = 2
_JOINS: Final = frozenset({" ", "-", "'", ". ", " '"})
_SHORT: Final = 5
"""Letters of what is written in capitals throughout and is no name but a short form."""
_UMLAUTS: Final = (("ae", "a"), ("oe", "o"), ("ue", "u"), ("ß", "ss"))


@dataclass(frozen=True, slots=True)
class Words:
    """The words of a text, in lists side by side."""

    text: str
    said: Sequence[str]
    folded: Sequence[str]
    starts: Sequence[int]
    ends: Sequence[int]

    @classmethod
    def of(cls, text: str) -> Self:
        parts = _WORD.split(text)
        said = parts[1::2]
        borders = list(accumulate(map(len, parts)))
        return cls(text, said, all_folded(said), borders[0:-1:2], borders[1::2])

    def between(self, number: int) -> str:
        """What stands before the word of that number."""
        return self.text[self.ends[number - 1] if number else 0 : self.starts[number]]


def names(words: Words, is_free: Callable[[int, int], bool]) -> Iterator[tuple[int, int, str]]:
    """Start, end and key of each: two capitalised words in a row, or one beside a title or in a greeting."""
    german: bool | None = None
    done = 0
    for number in _capitals(words):
        end = _run(words, number, is_free) if number >= done else number
        if end <= number:
            continue
        done = end
        if not _is_called(words, number):
            if end - number < _LEAST_WORDS:
                continue
            german = is_german(words) if german is None else german
            if _is_thing(words.folded[number:end], german=german):
                continue
        yield words.starts[number], words.ends[end - 1], loose(" ".join(words.folded[number:end]))


def spoken(text: str) -> Iterator[str]:
    """What somebody writes as a name, of however few words: in quotes, or with a capital within a sentence."""
    for found in _QUOTED.finditer(text):
        yield called(found[1] or found[2])
    words = Words.of(text)
    no_names = ORDINARY if is_german(words) else _NEVER_NAMES
    for number, (word, said) in enumerate(zip(words.said, words.folded, strict=True)):
        if number and word[0].isupper() and said not in no_names and not _BREAK.search(words.between(number)):
            yield said


def _capitals(words: Words) -> list[int]:
    """Where a name may begin."""
    both = enumerate(zip(words.said, words.folded, strict=True))
    return [number for number, (word, said) in both if (said not in ORDINARY or len(word) == 1) and word[0].isupper()]


def loose(words: str) -> str:
    for pair, letter in _UMLAUTS:
        words = words.replace(pair, letter)
    return words


def is_german(words: Words) -> bool:
    """There every noun has a capital."""
    return sum(map(GERMAN.__contains__, words.folded)) > sum(map(NOT_GERMAN.__contains__, words.folded))


def _run(words: Words, first: int, is_free: Callable[[int, int], bool]) -> int:
    """Where the name ends that begins with a word: behind its last one."""
    end = first
    while end < len(words.said) and (end == first or _joined(words, end)):
        is_part = _is_name_word(words, end) and is_free(words.starts[end], words.ends[end])
        if not is_part and (end == first or not _leads_on(words, end)):
            break
        end += 1
    return end


def _is_name_word(words: Words, number: int) -> bool:
    word = words.said[number]
    if len(word) == 1:
        return word.isupper() and _is_initial(words.text[words.ends[number] : words.ends[number] + 2])
    if not word[0].isupper() or words.folded[number] in ORDINARY or not word.isalpha():
        return False
    return not (word.isupper() and len(word) <= _SHORT)


def _is_initial(after: str) -> bool:
    """As of Mary J. Blige and O'Brien."""
    return after == ". " or (after[:1] == "'" and after[1:].isupper())


def _leads_on(words: Words, number: int) -> bool:
    """Whether it is a part such as "von" or "de la" between those of a name."""
    if words.folded[number] not in PARTICLES:
        return False
    for following in range(number + 1, min(number + 3, len(words.said))):
        if not _joined(words, following):
            return False
        if _is_name_word(words, following):
            return True
        if words.folded[following] not in PARTICLES:
            return False
    return False


def _is_thing(run: Sequence[str], *, german: bool) -> bool:
    """As Budget Review Preparation: no name of somebody."""
    return run[-1].endswith(THING_ENDINGS) or (german and any(word.endswith(NOUN_ENDINGS) for word in run))


def _joined(words: Words, number: int) -> bool:
    between = words.between(number)
    return between in _JOINS and (between != ". " or len(words.said[number - 1]) == 1)


def _is_called(words: Words, number: int) -> bool:
    """Whether a title or greeting stands before it."""
    while number > 1 and words.folded[number - 1] in PARTICLES:
        number -= 1
    return number > 0 and words.folded[number - 1] in _CALLS and words.between(number) in (" ", ". ")
