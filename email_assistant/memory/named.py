"""What a text names that something could be sent to or opened with: addresses, links, numbers and codes.

Common spellings are seen through, not every one that there may be: `docs/threat-model.md` says what is left.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator

from email_assistant.mail.address import in_ascii

_FEWEST_DIGITS = 3  # fewer are a day, a length or a count
_BRACKETED = re.compile(r"(?:(?<!\s)\s++)?+[\[({<]\s*+(at|ät|dot|punkt|@|\.)\s*+[\])}>]\s*")
_SPOKEN_DOT = re.compile(r"(?<=\w)\s+(?:dot|punkt)\s+(?=\w)")
_SPOKEN_AT = re.compile(r"(?<=\w)\s+(?:at|ät)\s+(?=[\w-]+(?:\.[\w-]+)*\.[^\W\d_]{2,}\b)")
_AROBASE = re.compile(r"(?<!\s)\s++arobase\s+")
_PART = r"[^\s<>()\[\]{},;:\"'@]"
_AROUND_AT = re.compile(rf"(?:(?<!{_PART})({_PART}++)\s*+)?+@\s*({_PART}*)")
_SCHEME = re.compile(
    r"(?<![a-z0-9+.-])[0-9+.-]*+[a-z][a-z0-9+.-]*+:/\S*"
    r"|\b(?:mailto|tel|sms|callto|sip|xmpp|bitcoin|javascript|data):\S+"
)
_SPOKEN_SCHEME = re.compile(r"\bh(?:tt|xx)ps?\b(?!:)")
_HOST = re.compile(r"(?<![\w.@-])(?:[\w-]+\.)+(?:xn--[\w-]+|[^\W\d_]{2,})(?![\w-])(?:[/?#]\S*)?")
_HOUR = re.compile(r"(?<![\d.:])(?:[01]?\d|2[0-3])[:.][0-5]\d(?![.:]?\d)")
_NUMBER = re.compile(r"[a-z]{0,2}\+?\d(?:\W{0,3}\d|\W{0,3}[a-z]{4}(?=\W{0,3}\d{4}))*")
_RANGE = re.compile(r"\d{1,2}\s?[-–—/.,]\s?\d{1,2}")
_CODE = re.compile(r"(?<![^\W_])(?=[^\W\d_]*\d)(?=\d*[^\W\d_])[^\W_]{12,}")
_DIGITS_IN_WORDS = (
    "zero one two three four five six seven eight nine",
    "null eins zwei drei vier fünf sechs sieben acht neun",
    "zéro un deux trois quatre cinq six sept huit neuf",
    "oh",
)
_SPOKEN = {word: str(value) for words in _DIGITS_IN_WORDS for value, word in enumerate(words.split())}
_SPOKEN_NUMBER = re.compile(rf"\b(?:(?:{'|'.join(_SPOKEN)})\b\W{{0,3}}){{3,}}")
_DOTS = str.maketrans(dict.fromkeys("。｡․•·", "."))
_BEFORE_A_SCHEME = "0123456789+.-"
_PUNCTUATION = ".,;:!?…'\""


def named(text: str) -> set[str]:
    """All of that, each in one spelling, so that two texts can be compared."""
    plain = _unspelled(text)
    return {*_links(plain), *_addresses(plain), *_hosts(plain), *_numbers(plain), *_codes(plain)}


def strangers(text: str, typed: Iterable[str]) -> set[str]:
    """What a text names that none of what the person typed does."""
    known = {each for words in typed for each in named(words)}
    domains = {each.rpartition("@")[2] for each in known if "@" in each}
    return named(text) - known - domains


def _unspelled(text: str) -> str:
    """The text without what makes one address look like another: width, invisible characters, `at` and `dot`."""
    digits = "".join(map(_digit, text))
    folded = unicodedata.normalize("NFKC", digits).translate(_DOTS).casefold()
    seen = "".join(c for c in folded if unicodedata.category(c) not in ("Cf", "Mn"))
    signs = {"at": "@", "ät": "@", "dot": ".", "punkt": "."}
    plain = _AROBASE.sub("@", _BRACKETED.sub(lambda found: signs.get(found[1], found[1]), seen))
    return _SPOKEN_AT.sub("@", _SPOKEN_DOT.sub(".", plain))


def _digit(character: str) -> str:
    """Any script's digit as ours, circled and Roman ones too."""
    value = unicodedata.numeric(character, None)
    return str(int(value)) if value is not None and value in range(10) else character


def _addresses(text: str) -> Iterator[str]:
    for found in _AROUND_AT.finditer(text):
        local, domain = (found[1] or "").strip(_PUNCTUATION), found[2].strip(_PUNCTUATION)
        yield f"{local}@{in_ascii(domain)}"


def _links(text: str) -> Iterator[str]:
    for found in (*_SCHEME.finditer(text), *_SPOKEN_SCHEME.finditer(text)):
        yield found[0].lstrip(_BEFORE_A_SCHEME).strip(_PUNCTUATION)


def _hosts(text: str) -> Iterator[str]:
    for found in _HOST.finditer(text):
        host, slash, rest = found[0].strip(_PUNCTUATION).partition("/")
        yield f"{in_ascii(host)}{slash}{rest}"


def _numbers(text: str) -> Iterator[str]:
    written = _SPOKEN_NUMBER.sub(_in_digits, _HOUR.sub(" h ", text))
    for found in _NUMBER.finditer(written):
        number = "".join(c for c in found[0] if c.isalnum())
        if sum(c.isdigit() for c in number) >= _FEWEST_DIGITS and not _RANGE.fullmatch(found[0]):
            yield number.lstrip("abcdefghijklmnopqrstuvwxyz") if not number[:2].isalpha() else number


def _in_digits(found: re.Match[str]) -> str:
    return "".join(_SPOKEN[word] for word in re.findall(r"\w+", found[0])) + " "


def _codes(text: str) -> Iterator[str]:
    for found in _CODE.finditer(text):
        yield found[0]
