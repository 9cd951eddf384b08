"""A text as it is compared: blanks, dashes and digits in one spelling, nothing unseen, and where it all stood."""

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

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


_WORD: Final = re.compile(r"[^\W_]+")
_ENDING: Final = re.compile(r"\.\w{1,5}$")


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
    return f" {' '.join(_WORD.findall(folded(plain(text).text)))} "


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
