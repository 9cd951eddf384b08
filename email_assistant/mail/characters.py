"""Characters that deceive: those that a person doesn't see, though a model reads them and a recipient's program may act
on them; and those by which addresses and names pass for others.

The idea is Unicode's skeleton: texts are confusable if they are equal once each character is put for the one that it
looks like (https://www.unicode.org/reports/tr39/#Confusable_Detection). Unicode's own table has thousands of rows; this
one holds what is drawn alike in names and domains: other scripts' letters, digits, and pairs that run into one letter.
"""

import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

# Control characters, zero-width and bidi marks, fillers without ink, variation selectors and tag characters.
_HIDDEN: Final = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e"
    "\u2060-\u206f\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U000e0fff\ud800-\udfff"
)
_LINE_BREAKS: Final = re.compile("\r\n?|[\x85\u2028\u2029]")
_INVISIBLE: Final = re.compile(f"[{_HIDDEN}]")

_EMOJI: Final = (
    "[\u00a9\u00ae\u203c\u2049\u2122\u2139\u2190-\u21ff\u2300-\u23ff\u24c2\u25a0-\u27bf\u2900-\u297f\u2b00-\u2bff"
    "\u3030\u303d\u3297\u3299\U0001f000-\U0001faff][\ufe0e\ufe0f]?[\U0001f3fb-\U0001f3ff]?"
)
_OF_BRITAIN: Final = (
    "\U0001f3f4\U000e0067\U000e0062"
    "(?:\U000e0065\U000e006e\U000e0067|\U000e0073\U000e0063\U000e0074|\U000e0077\U000e006c\U000e0073)\U000e007f"
)
_BELONGING: Final = (
    # The flags of England, Scotland and Wales; keycaps; emoji, one or several joined into one (UTS #51).
    _OF_BRITAIN,
    "[0-9#*]\ufe0f\u20e3",
    f"{_EMOJI}(?:\u200d{_EMOJI})*",
    # A single joiner, or its contrary, behind a letter of a script that has them: Arabic, Indic and their like.
    "(?<=[\u0620-\u08ff\u0900-\u109f\u1780-\u17b3\u17b6-\u180a\u1810-\u1cff\ua800-\uabff\ufb50-\ufdff\ufe70-\ufefc"
    f"\U00010a00-\U00011fff\U0001e900-\U0001e95f])[\u200c\u200d](?![{_HIDDEN}])",
    # A Mongolian letter's variant.
    f"(?<=[\u1820-\u18aa])[\u180b-\u180f](?![{_HIDDEN}])",
)
_KEPT: Final = re.compile(f"({'|'.join(_BELONGING)})|[{_HIDDEN}]")
_MARKS: Final = "[\u200e\u200f\u061c]"
_MARK: Final = f"(?<![{_HIDDEN}]){_MARKS}(?![{_HIDDEN}])"
_KEPT_AMONG_RIGHT_TO_LEFT: Final = re.compile(f"({'|'.join([*_BELONGING, _MARK])})|[{_HIDDEN}]")
_RIGHT_TO_LEFT: Final = re.compile(
    "[\u0590-\u061b\u061d-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\U00010800-\U00010fff\U0001e800-\U0001efff]"
)
_SET_APART: Final = "[./,:\u2019\u2013\u2212'-]"
_WITHIN_A_NUMBER: Final = re.compile(
    f"(?<=[0-9]){_MARKS}(?={_SET_APART}?{_MARKS}?[0-9])"
    f"|(?<=[0-9]{_SET_APART}){_MARKS}(?=[0-9])|(?<=[0-9]{_MARKS}{_SET_APART}){_MARKS}(?=[0-9])"
)
"""There a mark makes 03/12 be read as 12/03 by whoever's program heeds it."""
# A letter, and what is drawn like it. Case is folded first, so a letter stands for its capital too: Cyrillic's third
# one is drawn like B there.
_DRAWN_LIKE = (
    "aаαɑ bвьβ cсϲ dԁđ eеεєҽ gɡց hнһհ iіιıɩ jјϳյ kкκ lӏł mм nпηո oоοօø0 pрρ qԛզ rг sѕ$ tтτ uυμս vѵν wԝω xхχ yуγү zζ"
)
_LETTERS = str.maketrans({alike: row[0] for row in _DRAWN_LIKE.split() for alike in row[1:]})
_PAIRS = (("rn", "m"), ("vv", "w"), ("cl", "d"))
_STROKES = str.maketrans(dict.fromkeys("i1|!", "l"))
_PART = r"[^\s<>()\[\],;:\"'@"
_ADDRESS = re.compile(rf"(?<!{_PART}]){_PART}]++@{_PART}]+\.{_PART}.]+")
_DIGITS = re.compile(r"\d")
_COUNTRY = 2  # letters of a country's domain
_MOST_LABELS = 127  # of a domain, which has 255 octets at most (RFC 1035, 2.3.4)
_LEAST_WORDS = 2  # of a name: many people are called Bob
_LEAST_LETTERS = 6
"""Of a domain's own label that is a slip of another's: short ones, as gmail and ymail, are near each other anyway."""
_LEAST_LETTERS_OF_THEIRS = 4  # the same, where what stands before the @ is the same too


def clean(text: str) -> str:
    """Text without characters that a person doesn't see."""
    return _INVISIBLE.sub("", _LINE_BREAKS.sub("\n", text))


def as_seen(text: str) -> str:
    """`clean` text that reads as the person meant it: what is needed to write an emoji or a script is left, such as the
    joiners of Persian and Hindi, and a mark of direction in a line with Hebrew or Arabic, of which one alone may stand
    between letters. What was read so once stays as it is."""
    return "\n".join(map(_line_as_seen, _LINE_BREAKS.sub("\n", text).split("\n")))


def _line_as_seen(line: str) -> str:
    if not _RIGHT_TO_LEFT.search(line):
        return _KEPT.sub(_belonging, line)
    return _WITHIN_A_NUMBER.sub("", _KEPT_AMONG_RIGHT_TO_LEFT.sub(_belonging, line))


def _belonging(found: re.Match[str]) -> str:
    return found[1] or ""


@dataclass(frozen=True)
class People:
    """Whom somebody knows."""

    own: Collection[str]
    """Their own addresses; all addresses are in lower case."""
    called: Sequence[tuple[str, str]]
    """Whom they have written to, and they themselves, each with a name, or with none; what was first comes first."""

    @cached_property
    def addresses(self) -> Mapping[str, str]:
        """By skeleton."""
        return {skeleton(address): address for address, _ in self.called}

    @cached_property
    def domains(self) -> Mapping[str, str]:
        """By skeleton."""
        return {skeleton(domain): domain for domain in self.known_domains}

    @cached_property
    def known_domains(self) -> Collection[str]:
        return dict.fromkeys(_domain(address) for address, _ in self.called)

    @cached_property
    def local_parts(self) -> Mapping[str, list[str]]:
        """Addresses by what stands before their @."""
        found: dict[str, list[str]] = {}
        for address in dict.fromkeys(address for address, _ in self.called):
            found.setdefault(address.rpartition("@")[0], []).append(address)
        return found

    @cached_property
    def bearers(self) -> Mapping[str, str]:
        """Whose a name is: the address that bore it first, by the name's skeleton. So nobody takes it over later."""
        found: dict[str, str] = {}
        for address, name in self.called:
            if key := name_key(name):
                found.setdefault(key, address)
        return found


def skeleton(text: str) -> str:
    """What a text looks like: equal for texts that can be taken for each other."""
    apart = unicodedata.normalize("NFKD", readable_domain(text).casefold())
    seen = "".join(c for c in apart if unicodedata.category(c) not in ("Mn", "Cf")).translate(_LETTERS)
    for pair, letter in _PAIRS:
        seen = seen.replace(pair, letter)
    return seen.translate(_STROKES)


def address_inside(address: str, names: Iterable[str]) -> str | None:
    """What is to be said of an address whose name holds another one, as the end of a sentence about it."""
    inside = [found for name in names for found in _ADDRESS.findall(name)]
    other = next((found for found in inside if found.lower() != address), None)
    return f"its name holds another address, {other}" if other else None


def resemblance(address: str, names: Iterable[str], people: People) -> str | None:
    """Whom an address that was never written to passes for, as the end of a sentence about it; None: for nobody.
    `names`: what mail calls it."""
    if known := people.addresses.get(skeleton(address)) or _theirs_elsewhere(address, people):
        return f"looks like {known}, and is another address"
    if domain := _domain_alike(_domain(address), people):
        return f"its domain looks like {domain}, and is another"
    return next((found for name in names if (found := borrowed_name(address, name, people))), None)


def borrowed_name(address: str, name: str, people: People) -> str | None:
    """Whose name it is that an address bears, as the end of a sentence about it; None: its own, or of its own domain,
    where people may have several addresses."""
    bearer = people.bearers.get(name_key(name) or "")
    if bearer is None or _domain(bearer) == _domain(address):
        return None
    if bearer in people.own:
        return "bears your own name, from another domain"
    return f"bears the name of {bearer}, and is at another domain"


def _theirs_elsewhere(address: str, people: People) -> str | None:
    """An address that is the same before the @, and nearly so behind it: bob@friend.co of bob@friend.org. Of others at
    such a domain nothing is said: many a firm has it in several countries."""
    local, _, domain = address.rpartition("@")
    for known in people.local_parts.get(local, []):
        (label, ending), (other, its_ending) = _own_label(domain), _own_label(_domain(known))
        if label == other and ending != its_ending:
            return known
        if ending == its_ending and _is_slip(label, other, _LEAST_LETTERS_OF_THEIRS):
            return known
        if label == _domain(known).replace(".", "-"):
            return known
    return None


def _domain_alike(domain: str, people: People) -> str | None:
    for ending in _endings(domain):
        if ending in people.known_domains:
            return None
        if alike := people.domains.get(skeleton(ending)):
            return alike
    if begins := next((begins for begins in _beginnings(domain) if begins in people.known_domains), None):
        return begins
    label, ending = _own_label(domain)
    others = ((known, _own_label(known)) for known in people.known_domains)
    return next(
        (known for known, (other, its) in others if ending == its and _is_slip(label, other, _LEAST_LETTERS)), None
    )


def _own_label(domain: str) -> tuple[str, str]:
    """The label that its owner chose, and what stands behind: friend and co.uk of mail.friend.co.uk."""
    labels = domain.split(".")
    is_second = len(labels) > 2 and len(labels[-1]) == _COUNTRY and len(labels[-2]) <= _COUNTRY + 1
    end = len(labels) - (2 if is_second else 1)
    return labels[max(0, end - 1)], ".".join(labels[end:])


def _is_slip(one: str, other: str, least: int) -> bool:
    """Whether one letter was left out, added or changed, or two neighbours were swapped (a Damerau-Levenshtein distance
    of one, where most misspellings are: Damerau 1964). A number is none: firm1 and firm2 are two firms."""
    if min(len(one), len(other)) < least or _DIGITS.sub("", one) == _DIGITS.sub("", other):
        return False
    same = next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    one, other = one[same:], other[same:]
    is_swap = one[:2] == other[1::-1] and one[2:] == other[2:]
    return is_swap or one[1:] == other[1:] or one[1:] == other or one == other[1:]


def _endings(domain: str) -> Iterator[str]:
    labels = domain.split(".")[-_MOST_LABELS:]
    yield from (".".join(labels[start:]) for start in range(len(labels) - 1))


def _beginnings(domain: str) -> Iterator[str]:
    """As `example.org` of `example.org.evil.net`; what only adds a country, as `yahoo.com.au`, is none."""
    labels = domain.split(".")[:_MOST_LABELS]
    for end in range(2, len(labels)):
        if len(labels) - end > 1 or len(labels[end]) > _COUNTRY:
            yield ".".join(labels[:end])


def name_key(name: str) -> str | None:
    """A name by its words, in whatever order they stand; None if it says too little."""
    words = sorted(skeleton(word) for word in re.findall(r"\w+", _visible(name)))
    return " ".join(words) if len(words) >= _LEAST_WORDS else None


def _visible(text: str) -> str:
    return "".join(c for c in text if unicodedata.category(c) != "Cf")


def _domain(address: str) -> str:
    return address.rpartition("@")[2]


def readable_domain(text: str) -> str:
    """With the letters that `xn--` stands for (RFC 3492)."""
    return ".".join(map(_label, text.split("."))) if "xn--" in text else text


def _label(label: str) -> str:
    before, mark, code = label.rpartition("xn--")
    try:
        return before + code.encode("ascii").decode("punycode") if mark else label
    except UnicodeError:
        return label
