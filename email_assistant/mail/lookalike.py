"""Addresses and names that pass for others: the same to the eye, and not the same.

The idea is Unicode's skeleton: texts are confusable if they are equal once each character is put for the one that it
looks like (https://www.unicode.org/reports/tr39/#Confusable_Detection). Unicode's own table has thousands of rows; this
one holds what is drawn alike in names and domains: other scripts' letters, digits, and pairs that run into one letter.
"""

import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

# Case is folded first, so a letter stands for its capital too: Cyrillic's third one is drawn like B there.
_DRAWN_LIKE = {
    "a": "аαɑ",
    "b": "вьβ",
    "c": "сϲ",
    "d": "ԁđ",
    "e": "еεєҽ",
    "g": "ɡց",
    "h": "нһհ",
    "i": "іιıɩ",
    "j": "јϳյ",
    "k": "кκ",
    "l": "ӏł",
    "m": "м",
    "n": "пηո",
    "o": "оοօø0",
    "p": "рρ",
    "q": "ԛզ",
    "r": "г",
    "s": "ѕ$",
    "t": "тτ",
    "u": "υμս",
    "v": "ѵν",
    "w": "ԝω",
    "x": "хχ",
    "y": "уγү",
    "z": "ζ",
}
_LETTERS = str.maketrans({alike: letter for letter, others in _DRAWN_LIKE.items() for alike in others})
_PAIRS = (("rn", "m"), ("vv", "w"), ("cl", "d"))
_STROKES = str.maketrans(dict.fromkeys("i1|!", "l"))
_ADDRESS = re.compile(r"[^\s<>()\[\],;:\"'@]+@[^\s<>()\[\],;:\"'@]+\.[^\s<>()\[\],;:\"'@.]+")
_COUNTRY = 2
"""Letters of a country's domain."""
_LEAST_WORDS = 2
"""Of a name: many people are called Bob."""


@dataclass(frozen=True)
class People:
    """Whom somebody knows."""

    own: Collection[str]
    """Their own addresses; all addresses are in lower case."""
    names: Mapping[str, Collection[str]]
    """What those are called whom they have written to, and they themselves, by address."""

    @cached_property
    def domains(self) -> Mapping[str, str]:
        """By skeleton."""
        return {skeleton(domain): domain for domain in map(_domain, self.names)}

    @cached_property
    def addresses(self) -> Mapping[str, str]:
        """By skeleton."""
        return {skeleton(address): address for address in self.names}

    @cached_property
    def named(self) -> Mapping[str, list[str]]:
        """Addresses by the skeleton of a name."""
        found: dict[str, list[str]] = {}
        for address, names in self.names.items():
            for key in {key for name in names if (key := _name_key(name))}:
                found.setdefault(key, []).append(address)
        return found


def skeleton(text: str) -> str:
    """What a text looks like: equal for texts that can be taken for each other."""
    apart = unicodedata.normalize("NFKD", _readable_domain(text).casefold())
    seen = "".join(c for c in apart if unicodedata.category(c) not in ("Mn", "Cf")).translate(_LETTERS)
    for pair, letter in _PAIRS:
        seen = seen.replace(pair, letter)
    return seen.translate(_STROKES)


def resemblance(address: str, names: Iterable[str], people: People) -> str | None:
    """Whom an address that was never written to passes for, as the end of a sentence about it; None: for nobody.

    Args:
        names: what mail calls it.
    """
    names = list(names)
    inside = [found for name in names for found in _ADDRESS.findall(name)]
    if other := next((found for found in inside if found.lower() != address), None):
        return f"its name holds another address, {other}"
    if known := people.addresses.get(skeleton(address)):
        return f"looks like {known}, and is another address"
    if domain := _domain_alike(_domain(address), people):
        return f"its domain looks like {domain}, and is another"
    return next((found for name in names if (found := _name_alike(address, name, people))), None)


def _domain_alike(domain: str, people: People) -> str | None:
    known = set(map(_domain, people.names))
    for ending in _endings(domain):
        if ending in known:
            return None
        if alike := people.domains.get(skeleton(ending)):
            return alike
    return next((begins for begins in _beginnings(domain) if begins in known), None)


def _endings(domain: str) -> Iterator[str]:
    labels = domain.split(".")
    yield from (".".join(labels[start:]) for start in range(len(labels) - 1))


def _beginnings(domain: str) -> Iterator[str]:
    """As `example.org` of `example.org.evil.net`; what only adds a country, as `yahoo.com.au`, is none."""
    labels = domain.split(".")
    for end in range(2, len(labels)):
        if len(labels) - end > 1 or len(labels[end]) > _COUNTRY:
            yield ".".join(labels[:end])


def _name_alike(address: str, name: str, people: People) -> str | None:
    same = people.named.get(_name_key(name) or "", [])
    if not same or _domain(address) in map(_domain, same):
        return None
    if any(known in people.own for known in same):
        return "bears your own name, from another domain"
    return f"bears the name of {same[0]}, and is at another domain"


def _name_key(name: str) -> str | None:
    """A name by its words, in whatever order they stand; None if it says too little."""
    words = sorted(skeleton(word) for word in re.findall(r"\w+", _visible(name)))
    return " ".join(words) if len(words) >= _LEAST_WORDS else None


def _visible(text: str) -> str:
    return "".join(c for c in text if unicodedata.category(c) != "Cf")


def _domain(address: str) -> str:
    return address.rpartition("@")[2]


def _readable_domain(text: str) -> str:
    """With the letters that `xn--` stands for (RFC 3492)."""
    return ".".join(map(_label, text.split("."))) if "xn--" in text else text


def _label(label: str) -> str:
    before, mark, code = label.rpartition("xn--")
    try:
        return before + code.encode("ascii").decode("punycode") if mark else label
    except UnicodeError:
        return label
