"""Names of people and things, told from other words by their capitals and by what stands beside them; and a text as
it is compared: blanks, dashes and digits in one spelling, nothing unseen, and where it all stood."""

import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from typing import Final, Self

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

_OWN: Final = {
    **dict.fromkeys("’‘‚‹›ʼ`´", "'"),
    **dict.fromkeys("“”„«»", '"'),
    **dict.fromkeys("—―", ";"),
    **dict.fromkeys("…。｡", "."),  # names of hosts may have any of the dots
    "™": "",
    "\r": "\n",
    "\t": " ",
}
"""What compatibility (NFKC) would draw out, or leave as several spellings of one mark."""


_PLAIN_WORD: Final = re.compile(r"[^\W_]+")
_ENDING: Final = re.compile(r"\.\w{1,5}$")
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
class Plain:
    text: str
    places: Sequence[int] | None
    """Where each of its characters begins in the original, and the original's length; None: at the same place."""

    def original(self, start: int, end: int) -> tuple[int, int]:
        """The place in the original of a part of the plain text."""
        return (start, end) if self.places is None else (self.places[start], self.places[end])


def plain(text: str) -> Plain:
    if text.isascii() and "\r" not in text and "\t" not in text:
        return Plain(text, None)
    spelled = {ord(character): _plain(character) for character in set(text)}
    if all(len(character) == 1 for character in spelled.values()):
        return Plain(text.translate(spelled), None)
    return _moved(text)


def folded(word: str) -> str:
    """A word whatever its case and accents. Letters of other scripts stay what they are, however alike they look."""
    word = word.casefold()
    return word if word.isascii() else _without_marks(word)


def all_folded(words: Sequence[str]) -> list[str]:
    """Each of them `folded`."""
    together = "\n".join(words).casefold()
    if together.isascii():
        return together.split("\n") if words else []
    return [word if word.isascii() else _without_marks(word) for word in together.split("\n")]


@lru_cache(maxsize=4096)
def _without_marks(word: str) -> str:
    apart = unicodedata.normalize("NFKD", word)
    return "".join(character for character in apart if unicodedata.category(character) != "Mn")


def words(text: str) -> str:
    """Whatever their case and accents, each between single blanks."""
    return f" {' '.join(_PLAIN_WORD.findall(folded(plain(text).text)))} "


def called(name: str) -> str:
    """A name as people say it: "the grocery list" is grocery-list.docx."""
    return words(_ENDING.sub("", name)).strip()


def _moved(text: str) -> Plain:
    letters: list[str] = []
    places: list[int] = []
    start = 0
    while start < len(text):
        end = start + 1
        while end < len(text) and unicodedata.combining(text[end]):
            end += 1
        composed = _plain(text[start]) if end == start + 1 else unicodedata.normalize("NFKC", text[start:end])
        letters.append(composed)
        places += [start] * len(composed)
        start = end
    return Plain("".join(letters), [*places, len(text)])


@lru_cache(maxsize=4096)
def _plain(character: str) -> str:
    if character in _OWN:
        return _OWN[character]
    kind = unicodedata.category(character)
    if kind == "Nd":
        return str(unicodedata.decimal(character))
    if kind == "Pd":
        return "-"
    if kind == "Zs":
        return " "
    if kind in ("Cf", "Cs", "Mn"):  # a mark that could be composed with its letter was
        return ""
    return unicodedata.normalize("NFKC", character)


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
