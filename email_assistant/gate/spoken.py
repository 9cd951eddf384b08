"""What words say of things and people, and whether the person has asked for what a call does. Nothing that others wrote
may count as named by chance."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Final, Self

from email_assistant.gate.call import Act
from email_assistant.gate.names import loose, words
from email_assistant.gate.spans import Span, words_of
from email_assistant.gate.vocabulary import (
    ARTICLES,
    GERMAN,
    NOT_GERMAN,
    PARTICLES,
    PEOPLE,
    PLACES,
    THINGS,
    TITLES,
)

if TYPE_CHECKING:
    from email_assistant.gate.provenance import Source


_SAYS_LITTLE: Final = THINGS | GERMAN | NOT_GERMAN | PARTICLES
_LEAST_LETTERS: Final = 3
_MOST_APART: Final = 2  # words between a name and what it is the name of
_PARTED: Final = re.compile(r"[\W\d_]+")
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


@dataclass(frozen=True)
class Spoken:
    texts: Sequence[str]
    """In words between single blanks."""
    names: frozenset[str]
    """What stands there in quotes, or with a capital that begins no sentence."""

    @classmethod
    def of(cls, sources: "Iterable[Source]") -> Self:
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


class Sayings:
    """Words that sources hold anywhere, and those of the addresses that wrote or read them."""

    def __init__(self, sources: "Sequence[Source]") -> None:
        self.person = any(source.by != "stranger" for source in sources)
        self._addresses = {
            address for source in sources for address in (source.writer, *(source.readers or ())) if address
        }
        self._called = called_by(self._addresses)
        self._texts = [source.words for source in sources]
        self._loose: list[str] | None = None

    def writes_or_reads(self, address: str) -> bool:
        return address in self._addresses

    def domain(self, link: str) -> bool:
        return any(address.endswith(f"@{link}") for address in self._addresses)

    def name(self, text: str, span: Span) -> bool:
        """Whether each of its words is known; of one that begins a sentence only the others need be."""
        words = [word for word in span.key.split() if len(word) > 1 and word not in PARTICLES and word not in TITLES]
        unknown = [word for word in words if not self._word(word)]
        begins = re.search(r"(?:^|[.!?:\n]|[-*•]) *$", text[max(0, span.start - 4) : span.start]) is not None
        return not unknown or (begins and len(words) > 1 and unknown == words[:1])

    def _word(self, word: str) -> bool:
        if self._loose is None:
            self._loose = [loose(text) for text in self._texts]
        return is_called(word, self._called) or any(f" {word} " in text for text in self._loose)


def called_by(addresses: Iterable[str]) -> frozenset[str]:
    """Addresses, and what stands before their @ in words."""
    addresses = list(addresses)
    return frozenset({*addresses, *(word for address in addresses for word in words_of(loose(_local_part(address))))})


def parts_of(addresses: Iterable[str]) -> frozenset[str]:
    """What somebody may be called by what stands before the @ of their address: hugo.berger_7 is Hugo Berger."""
    return frozenset(part for each in addresses for part in _PARTED.split(loose(each.partition("@")[0])) if part)


def _local_part(address: str) -> str:
    return address.partition("@")[0].replace("_", " ")


def is_called(word: str, called: frozenset[str]) -> bool:
    return word in called or (len(word) > 2 and any(word in part for part in called))


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
