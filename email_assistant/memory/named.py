"""What a text names that something could be sent to: addresses, links, phone and account numbers, however spelled."""

import re
import unicodedata
from collections.abc import Iterable, Iterator

_FEWEST_DIGITS = 6
"""Fewer are an hour, a year or a count."""
_BRACKETED = re.compile(r"\s*[\[({<]\s*(at|ät|dot|punkt|@|\.)\s*[\])}>]\s*")
_SPOKEN_DOT = re.compile(r"(?<=\w)\s+(?:dot|punkt)\s+(?=\w)")
_SPOKEN_AT = re.compile(r"(?<=\w)\s+(?:at|ät)\s+(?=[\w-]+(?:\.[\w-]+)*\.[^\W\d_]{2,}\b)")
_AROUND_AT = re.compile(r"([^\s<>()\[\]{},;:\"'@]*)\s*@\s*([^\s<>()\[\]{},;:\"'@]*)")
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*:/{1,}\S*|\b(?:mailto|tel|sms|callto|sip|xmpp|bitcoin|javascript|data):\S+")
_HOST = re.compile(r"(?<![\w.@-])(?:[\w-]+\.)+(?:xn--[\w-]+|[^\W\d_]{2,})(?![\w-])(?:[/?#]\S*)?")
_NUMBER = re.compile(r"[a-z]{0,2}\+?\d(?:[^\w:]{0,3}\d|[^\w:]{0,3}[a-z]{4}(?=[^\w:]{0,3}\d{4}))*")
_DOTS = str.maketrans(dict.fromkeys("。｡․•·", "."))
_PUNCTUATION = ".,;:!?…'\""


def named(text: str) -> set[str]:
    """All of that, each in one spelling, so that two texts can be compared."""
    plain = _unspelled(text)
    return {*_links(plain), *_addresses(plain), *_hosts(plain), *_numbers(plain)}


def strangers(text: str, typed: Iterable[str]) -> set[str]:
    """What a text names that none of what the person typed does."""
    known = {each for words in typed for each in named(words)}
    domains = {each.rpartition("@")[2] for each in known if "@" in each}
    return named(text) - known - domains


def _unspelled(text: str) -> str:
    """The text without what makes one address look like another: width, invisible characters, `at` and `dot`."""
    folded = unicodedata.normalize("NFKC", text).translate(_DOTS).casefold()
    seen = "".join(_digit(c) for c in folded if unicodedata.category(c) not in ("Cf", "Mn"))
    signs = {"at": "@", "ät": "@", "dot": ".", "punkt": "."}
    plain = _BRACKETED.sub(lambda found: signs.get(found[1], found[1]), seen)
    return _SPOKEN_AT.sub("@", _SPOKEN_DOT.sub(".", plain))


def _digit(character: str) -> str:
    """Any script's digit as ours."""
    value = unicodedata.digit(character, None)
    return character if value is None else str(value)


def _addresses(text: str) -> Iterator[str]:
    for found in _AROUND_AT.finditer(text):
        local, domain = found[1].strip(_PUNCTUATION), found[2].strip(_PUNCTUATION)
        yield f"{local}@{_ascii(domain)}"


def _links(text: str) -> Iterator[str]:
    for found in _SCHEME.finditer(text):
        yield found[0].strip(_PUNCTUATION)


def _hosts(text: str) -> Iterator[str]:
    for found in _HOST.finditer(text):
        host, slash, rest = found[0].strip(_PUNCTUATION).partition("/")
        yield f"{_ascii(host)}{slash}{rest}"


def _numbers(text: str) -> Iterator[str]:
    for found in _NUMBER.finditer(text):
        number = "".join(c for c in found[0] if c.isalnum())
        if sum(c.isdigit() for c in number) >= _FEWEST_DIGITS:
            yield number.lstrip("abcdefghijklmnopqrstuvwxyz") if not number[:2].isalpha() else number


def _ascii(domain: str) -> str:
    """A domain as the network knows it; what is none stands as it is."""
    try:
        return domain.encode("idna").decode()
    except UnicodeError:
        return domain
