"""A mail's text part and its HTML part, or several of a kind: one reading for all, where they say the same; where they
don't, all of them."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Literal
from unicodedata import normalize

from email_assistant.mail.html_text import Beside
from email_assistant.mail.links import bare_urls
from email_assistant.mail.phrases import DEVICE_LINE, FOOTER_LINK

DIFFER = "say different things; both are given here"

Part = tuple[Literal["text", "HTML"], str]
"""One of the parts of which a program shows the last that it can, and its text."""

_NOTHING = Beside()
_MAX_READ = 200_000  # characters of each
_RUN = 4  # words
_MOST_LINES = 40  # of what only another part says
_MOST_SPLIT = 20  # sentences that are looked for without their blanks: each takes a walk through the other text
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
_LINK = re.compile(r"(?:https?://|mailto:|tel:|www\.)\S+", re.IGNORECASE)
_PICTURE = re.compile(r"\[(?:image|cid|bild|imagen|immagine):[^\]\n]{0,300}\]", re.IGNORECASE)
_UNSEEN = re.compile("[\u00ad\u034f\u200b-\u200f\u2060\ufeff^]")
_MARKS = re.compile(r"^[ \t]*(?:[>*•-] ?)+", re.MULTILINE)
_LISTED = re.compile(r"^[ \t]*+(?:\d{1,2}|[a-z])[.)](?=[ \t])", re.MULTILINE)
_LONGEST_FOOTER = 250
_FOOTER_WORDS = 8


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


def together(parts: Sequence[Part], beside: Beside = _NOTHING) -> tuple[str, str]:
    """The first part's text, and above it, where no history can take them for its own, the lines of the others that say
    something else; and in words, whether they differ in a number, an address, a link or a sentence.

    Args:
        beside: what the HTML holds beside its words, which a text part leaves out or writes out.
    """
    (kind, text), *others = parts
    first, beyond, is_alone = _Said.of(text, beside if kind == "HTML" else _NOTHING), [], False
    for count, (kind_of_other, other) in enumerate(dict.fromkeys(others)):
        second = _Said.of(other, beside if kind_of_other == "HTML" else _NOTHING)
        more = list(islice(_strange(second, first), _MOST_LINES))
        if more:
            beyond += [f"[Its {'other ' * (kind_of_other == kind)}{kind_of_other} part says besides:]", *more, ""]
        elif count < _MOST_COMPARED:
            is_alone = is_alone or next(_strange(first, second), None) is not None
    if beyond:
        return "\n".join([*beyond, f"[Its {kind} part:]", text]), _differ(parts)
    return text, _differ(parts) if is_alone else ""


def besides(text: str, other: str) -> str:
    """The lines of another text of a mail that say what this one does not."""
    return "\n".join(islice(_strange(_Said.of(other, _NOTHING), _Said.of(text, _NOTHING)), _MOST_LINES))


def _differ(parts: Sequence[Part]) -> str:
    kinds = list(dict.fromkeys(kind for kind, _ in parts))
    named = " and ".join(f"its {kind} part" for kind in kinds)
    return f"{named if len(kinds) > 1 else f'{named}s'} {DIFFER}"


@dataclass(frozen=True, slots=True)
class _Said:
    """What a text says, to be asked for."""

    text: str
    letters: str
    runs: Counter[tuple[str, ...]]
    numbers: frozenset[str]
    addresses: frozenset[str]
    hosts: frozenset[str]
    pictures: frozenset[tuple[str, ...]]

    @classmethod
    def of(cls, text: str, beside: Beside) -> "_Said":
        text = text[:_MAX_READ]
        words = _words(_bare(text))
        runs = (zip(*(words[start:] for start in range(length)), strict=False) for length in range(1, _RUN + 1))
        return cls(
            text,
            "".join(words),
            Counter(chain.from_iterable(runs)),
            frozenset(_numbers(text)),
            frozenset(_addresses(text)),
            frozenset(chain(_hosts(text), beside.hosts)),
            frozenset(tuple(_words(said)) for said in beside.pictures),
        )


def _strange(own: _Said, other: _Said) -> Iterator[str]:
    """The lines of a text that say what another does not."""
    tries = iter(range(_MOST_SPLIT))
    for line in own.text.split("\n"):
        if _is_footer(line):
            continue
        differs = (
            any(number not in other.numbers for number in _numbers(line))
            or any(address not in other.addresses for address in _addresses(line))
            or any(host not in other.hosts for host in _hosts(line))
            or any(_is_strange(each, own, other, tries) for each in _sentences(line))
        )
        if differs:
            yield line


def _sentences(line: str) -> list[str]:
    return _SENTENCE.findall(_bare(line))


def _is_strange(sentence: str, own: _Said, other: _Said, tries: Iterator[int]) -> bool:
    """Whether a sentence stands nowhere in the other text, word for word; one of a few words, as often."""
    words = _words(sentence)
    if len(words) < _RUN:
        run = tuple(words)
        return bool(run) and other.runs[run] < own.runs[run] and run not in own.pictures
    if all(run in other.runs for run in zip(*(words[start:] for start in range(_RUN)), strict=False)):
        return False
    is_split_otherwise = next(tries, None) is not None and "".join(words) in other.letters
    return not is_split_otherwise


def _is_footer(line: str) -> bool:
    """Whether a line is what a program or a mass sender adds to one part, and nothing besides."""
    line = line.strip()
    if DEVICE_LINE.fullmatch(line):
        return True
    return FOOTER_LINK.search(line[:_LONGEST_FOOTER]) is not None and len(_words(_bare(line))) <= _FOOTER_WORDS


def _bare(text: str) -> str:
    """The text without what the parts of a mail write each in its own way: links, which are looked at by themselves,
    pictures, marks, and numbers of a list."""
    text = _UNSEEN.sub("", normalize("NFKC", text))
    return _LISTED.sub("", _MARKS.sub("", _HOST.sub(" ", _ADDRESS.sub(" ", _PICTURE.sub(" ", _LINK.sub(" ", text))))))


def _words(text: str) -> list[str]:
    return [found[0].casefold() for found in _WORD.finditer(text)]


def _numbers(text: str) -> Iterator[str]:
    text = _ADDRESS.sub(" ", _PICTURE.sub(" ", _LINK.sub(" ", text)))
    return (re.sub(r"\D", "", found[0]) for found in _NUMBER.finditer(text) if len(found[0]) > 1)


def _addresses(text: str) -> Iterator[str]:
    text = _PICTURE.sub(" ", text)
    return (found[0].lower().rstrip(".").removeprefix("mailto:") for found in _ADDRESS.finditer(text))


def _hosts(text: str) -> Iterator[str]:
    return ((found[1] or found[2]).lower().removeprefix("www.") for found in _HOST.finditer(bare_urls(text)))
