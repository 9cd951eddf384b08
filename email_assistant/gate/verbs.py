"""Whether the person has asked for what a call does, by the words that people use for it."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from email_assistant.gate.labels import Act

_STEMS: Final[Mapping[Act, str]] = {
    "delete": "delet remov eras trash discard clear purg wipe destroy unsubscrib kick drop losch entfern",
    "cancel": "cancel revok withdraw abort terminat declin storni absag",
    "pay": "pay paid transfer transact refund reimburs wire wiring send settl order buy purchas book reserv donat rent "
    "subscrib zahl uberweis buch bestell kauf",
    "share": "shar add post publish grant invit access permission expos teile einlad freigeb",
    "change": "chang updat edit modif set renam mov reschedul adjust correct replac reset switch rewrit postpon shift "
    "delay mark archiv enabl disabl increas decreas ander verschieb aktualisier",
    "send": "send email mail messag repl forward post notif tell answer ask contact schick antwort",
    "add": "add append creat insert schedul invit writ save draft upload hinzu erstell einlad lade",
}
"""How their words begin, in English and in German without accents. Of other languages nothing is known, so that is
asked."""
_NAMED: Final[Mapping[Act, str]] = {**_STEMS, "pay": f"{_STEMS['pay'].replace(' send', '')} money amount fund"}
"""The same of names of tools, which say what it is done to."""
_SAID: Final[Mapping[Act, str]] = {
    **_STEMS,
    "add": f"{_STEMS['add']} put set block pencil plan arrang organi book reserv trag eintrag buch ajout mets mett "
    "planifi pon agend anad agreg crea",
}
"""The same of what people say, who put, block and set up what programs create; of what is only added in French and
Spanish too."""
_GRAVE: Final[Sequence[Act]] = ("delete", "cancel", "pay")  # whatever else a name says
_IRREGULAR: Final = {"took": "take", "sent": "send", "wrote": "write", "made": "make", "told": "tell"}
_NOT: Final = frozenset(("not", "never", "no", "without", "dont", "don", "nicht", "kein", "keine", "nie"))
_REACH: Final = 3  # words behind a "not", or a verb, that it is about


def act_of(tool: str, act: Act | None) -> Act | None:
    """What a tool does; None: nothing that its name is known to mean."""
    if act is not None:
        return act
    meant = [known for word in _words(tool) for known, stems in _NAMED.items() if word.startswith(tuple(stems.split()))]
    return next((known for known in meant if known in _GRAVE), next(iter(meant), None))


def needs_word(act: Act | None) -> bool:
    """Whether the person must have given a word to it, beside what it is done to."""
    return act != "send"  # who may be told is what matters of it


def is_asked_for(tool: str, act: Act | None, said: Iterable[str]) -> bool:
    """`said`: the person's texts, in words between single blanks. "Don't delete it" asks for nothing."""
    return any(True for text in said for _ in _places(text.split(), tool, act))


def behind(tool: str, act: Act | None, said: Iterable[str]) -> frozenset[str]:
    """The words with which they say to what it is done."""
    texts = [text.split() for text in said]
    return frozenset(
        word for text in texts for at in _places(text, tool, act) for word in text[at + 1 : at + 1 + _REACH]
    )


def is_named(tool: str, said: Iterable[str]) -> bool:
    """Whether each word of a tool's name stands in one of the person's texts: "empty the trash" is empty_trash."""
    return any(set(_words(tool)) <= set(text.split()) for text in said)


def _places(text: list[str], tool: str, act: Act | None) -> Iterator[int]:
    stems = _SAID[act].split() if act else [word for word in _words(tool) if len(word) > 2]
    for at, word in enumerate(text):
        if _IRREGULAR.get(word, word).startswith(tuple(stems)) and not _NOT.intersection(
            text[max(0, at - _REACH) : at]
        ):
            yield at


def _words(tool: str) -> list[str]:
    return [word.casefold() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", tool)]
