"""A mail's text part and its HTML part, or several of a kind: one reading for all, where they say the same; where they
don't, all of them."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Literal

DIFFER = "say different things; both are given here"

Part = tuple[Literal["text", "HTML"], str]
"""One of the parts of which a program shows the last that it can, and its text."""

_MAX_READ = 200_000  # characters of each
_RUN = 4  # words
_MOST_LINES = 40  # of what only another part says
_MOST_COMPARED = 4  # parts beside the one that is read
_MAX_STUB = 400
_STUB = re.compile(
    r"\bhtml\b|\bhtml-|(?:e-?mail|mail|message|correo|courriel|nachricht|bericht|messaggio)[ -]?"
    r"(?:client|program|programm|reader|logiciel|app)\w*|view (?:it|this)\b.{0,40}browser|im browser|dans (?:un|votre)"
    r" navigateur|en (?:el|su) navegador|no (?:seu )?navegador|web ?browser",
    re.IGNORECASE,
)
_BROWSER = re.compile(r"\bbrowser\b", re.IGNORECASE)
_URL = re.compile(r"https?://\S+")
_SENTENCE = re.compile(r"[^.!?…。！？\n]+[.!?…。！？]*")
_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]|[^\W_\u3040-\u30ff\u3400-\u9fff]+")
_NUMBER = re.compile(r"\d[\d.,:/-]*\d|\d")
_ADDRESS = re.compile(r"(?<![^\s<>()\[\]@,;:\"'])[^\s<>()\[\]@,;:\"']+@[^\s<>()\[\]@,;:\"']+\.\w+")
_HOST = re.compile(r"https?://([^\s/<>\"')?#]+)|\((?:https?://)?((?:[a-z0-9-]+\.)+[a-z]{2,})\)", re.IGNORECASE)
_MARKS = re.compile(r"^[ \t]*(?:[>*•-] ?)+", re.MULTILINE)
_LEAST_WORDS = 4  # of a sentence that counts as one


def is_stub(plain: str, rich: str) -> bool:
    """Whether the plain alternative only stands in for the HTML one."""
    words = len(_URL.sub("", plain).split())
    if not words:
        return True
    if len(plain) > _MAX_STUB:
        return False
    sentences = [each for each in _SENTENCE.findall(_URL.sub("", plain)) if each.strip()]
    if all(_STUB.search(each) or _BROWSER.search(each) for each in sentences):
        return True
    return words * 7 < len(rich.split()) or (bool(_STUB.search(plain)) and len(plain) < len(rich))


def together(parts: Sequence[Part]) -> tuple[str, str]:
    """The first part's text, and above it, where no history can take them for its own, the lines of the others that say
    something else; and in words, whether they differ in a number, an address, a link or a sentence."""
    (kind, text), *others = parts
    first, beyond = _Said.of(text[:_MAX_READ]), []
    for kind_of_other, other in dict.fromkeys(others):
        more = list(islice(_strange(other[:_MAX_READ], first), _MOST_LINES))
        if more:
            beyond += [f"[Its {'other ' * (kind_of_other == kind)}{kind_of_other} part says besides:]", *more, ""]
    if beyond:
        return "\n".join([*beyond, f"[Its {kind} part:]", text]), _differ(parts)
    seconds = (_Said.of(other[:_MAX_READ]) for _, other in others[:_MOST_COMPARED])
    is_alone = any(next(_strange(text[:_MAX_READ], second), None) is not None for second in seconds)
    return text, _differ(parts) if is_alone else ""


def _differ(parts: Sequence[Part]) -> str:
    kinds = list(dict.fromkeys(kind for kind, _ in parts))
    named = " and ".join(f"its {kind} part" for kind in kinds)
    return f"{named if len(kinds) > 1 else f'{named}s'} {DIFFER}"


@dataclass(frozen=True, slots=True)
class _Said:
    """What a text says, to be asked for."""

    runs: frozenset[tuple[str, ...]]
    numbers: frozenset[str]
    addresses: frozenset[str]
    hosts: frozenset[str]

    @classmethod
    def of(cls, text: str) -> "_Said":
        words = _words(_URL.sub(" ", _MARKS.sub("", text)))
        return cls(
            frozenset(zip(*(words[start:] for start in range(_RUN)), strict=False)),
            frozenset(_numbers(text)),
            frozenset(_addresses(text)),
            frozenset(_hosts(text)),
        )


def _strange(text: str, other: _Said) -> Iterator[str]:
    """The lines of a text that say what another does not."""
    for line in text.split("\n"):
        plain = _MARKS.sub("", line)
        differs = (
            any(number not in other.numbers for number in _numbers(plain))
            or any(address not in other.addresses for address in _addresses(plain))
            or any(host not in other.hosts for host in _hosts(plain))
            or any(_is_strange(each, other) for each in _SENTENCE.findall(_URL.sub(" ", plain)))
        )
        if differs:
            yield line


def _is_strange(sentence: str, other: _Said) -> bool:
    """Whether most of a sentence stands nowhere in the other text."""
    words = _words(sentence)
    if len(words) < _LEAST_WORDS:
        return False
    runs = list(zip(*(words[start:] for start in range(_RUN)), strict=False))
    return 2 * sum(run in other.runs for run in runs) < len(runs)


def _words(text: str) -> list[str]:
    return [found[0].casefold() for found in _WORD.finditer(text)]


def _numbers(text: str) -> Iterator[str]:
    text = _ADDRESS.sub(" ", _URL.sub(" ", text))
    return (re.sub(r"\D", "", found[0]) for found in _NUMBER.finditer(text) if len(found[0]) > 1)


def _addresses(text: str) -> Iterator[str]:
    return (found[0].lower().rstrip(".") for found in _ADDRESS.finditer(text))


def _hosts(text: str) -> Iterator[str]:
    return ((found[1] or found[2]).lower().removeprefix("www.") for found in _HOST.finditer(text))
