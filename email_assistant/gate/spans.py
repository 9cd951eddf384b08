"""The parts of a text that say something which can be wrong, secret or dangerous."""

import re
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from functools import lru_cache
from itertools import pairwise
from typing import Final, Literal
from urllib.parse import urlsplit

from email_assistant.gate import amounts, dates, names
from email_assistant.gate.names import Words, folded, plain
from email_assistant.gate.vocabulary import (
    CLOCK,
    CURRENCIES,
    DAY_PARTS,
    DIGITS,
    ENDINGS,
    FURTHER,
    NO_TOMORROW,
    RELATIVE,
    SECRETS,
    SHORT_WEEKDAYS,
    WEEKDAYS,
)
from email_assistant.mail.characters import readable_domain

Kind = Literal["address", "link", "amount", "date", "time", "phone", "account", "code", "name", "file", "sentence"]

LEAST_WORDS: Final = 8
"""Of a sentence: fewer are said by anybody."""
_AROUND: Final = re.compile(r"[.@:](?=[\w/])")
_EDGE: Final = frozenset(" \n<>()[]{}\"',;|*`")
_OF_A_TOKEN: Final = re.compile(r"[^\s<>()\[\]{}\"',;|*`]*")
_OF_A_URL: Final = re.compile(r"[^\s<>\"'`|]*")
_ADDRESS: Final = re.compile(
    r"(?<![\w.!#$%&+/=?^-])[_.!#$%&+/=?^-]*+([^\W_][\w.!#$%&+/=?^-]*+@(?:[\w-]+\.)+[^\W\d_][\w-]*)"
)
_DOMAIN: Final = re.compile(r"(?:[\w-]{1,63}\.)+([^\W\d_]{2,24}|xn--[\w-]+)(?::\d{2,5})?(?:[/?#][^\s<>\"'`]*)?")
_FILE: Final = re.compile(
    r"[\w+-][\w.+-]*\.(?:pdf|docx?|xlsx?|pptx?|csv|tsv|txt|md|rtf|odt|ods|zip|gz|tar|7z|png|jpe?g|gif|svg|heic|mp[34]|mov"
    r"|wav|ics|eml|json|ya?ml|xml|html?|py|js|sh|exe|sql|key|pem|log|ini|toml|epub|dwg|psd)",
    re.IGNORECASE,
)
_TRAILING: Final = ".,;:!?)]}'\""
_LEAD: Final = re.compile(r"(?:\w{1,16}[:=]){0,3}/{0,2}(?=\w)")
_DIGITS: Final = re.compile(r"\d+")
_WORD: Final = re.compile(r"\w+")
_TOKEN_BEGINS: Final = re.compile(r"\d[\d_-]{0,63}[A-Za-z][A-Za-z0-9_-]{0,63}\d")
_LEAST_SPELLED: Final = 4
"""Digits: three in a row are counted by many."""
_SPELLING: Final = frozenset({" ", "-", ".", ", ", " - "})
_END: Final = re.compile(r"(?<![.!?\"')\]])[\"')\]]*+([.!?])[.!?\"')\]]*+\s|(\n)\s*\n")


_GERMAN_DAYS: Final = tuple(day for day in WEEKDAYS if day.endswith(("tag", "woch", "abend")))
_LONG: Final = 9
"""Letters of a weekday, but for a German one with a part of the day."""
_TELLING: Final = frozenset({*WEEKDAYS, *SHORT_WEEKDAYS, *RELATIVE, *CLOCK, *SECRETS})


@dataclass(frozen=True, slots=True)
class Span:
    """A part of a text that says something which can be wrong, secret or dangerous."""

    kind: Kind
    text: str
    """As it stands."""
    key: str
    """Equal for spans that say the same, however they are spelled."""
    start: int
    end: int


@lru_cache(maxsize=32)
def scan(text: str, day: date | None) -> tuple[Span, ...]:
    """Spans in their order; no two overlap, but for a sentence and what it says. `day`: that of the text, by which
    "tomorrow" is a date."""
    shown = plain(text)
    finder = _Finder(shown.text, day)
    finder.find()
    spans = []
    for start, end, kind, key in sorted(finder.found, key=lambda found: (found[0], -found[1])):
        begin, stop = shown.original(start, end)
        spans.append(Span(kind, text[begin:stop], key, begin, stop))
    return tuple(spans)


def words_of(text: str) -> list[str]:
    return _WORD.findall(folded(text))


class _Finder:
    """One look at a text; what is found first takes its place."""

    def __init__(self, text: str, day: date | None) -> None:
        self.text = text
        self.day = day
        self.found: list[tuple[int, int, Kind, str]] = []
        self._taken = bytearray(len(text))

    def find(self) -> None:
        self._dotted()
        words = Words.of(self.text)
        self._spelled(words)
        self._figures()
        self._telling(words)
        for start, end, key in names.names(words, self._free):
            self._take(start, end, "name", key)
        self._sentences(words)

    def _take(self, start: int, end: int, kind: Kind, key: str) -> bool:
        if start >= end or not self._free(start, end):
            return False
        self._taken[start:end] = b"\1" * (end - start)
        self.found.append((start, end, kind, key))
        return True

    def _free(self, start: int, end: int) -> bool:
        return self._taken.find(1, start, end) < 0

    def _dotted(self) -> None:
        """Addresses, links and files."""
        done = 0
        for mark in _AROUND.finditer(self.text):
            if mark.start() < done:
                continue
            start = mark.start()
            while start > done and self.text[start - 1] not in _EDGE:
                start -= 1
            token = _OF_A_TOKEN.match(self.text, start)
            assert token
            done = self._token(start, token[0])

    def _token(self, start: int, token: str) -> int:
        """Where the next one may begin."""
        if (scheme := token.find("://")) >= 0 or token[:4].lower() == "www.":
            begin = start + len(re.match(r"[^\w]*", token)[0])  # type: ignore[index]
            url = _OF_A_URL.match(self.text, begin)
            assert url
            whole = _untrailed(url[0])
            if (key := link_key(whole)) and scheme != 0:
                self._take(begin, begin + len(whole), "link", key)
            return max(begin + len(whole), start + 1)
        shown = token.rstrip(_TRAILING)
        if before := _LEAD.match(shown):  # such as of mailto:, src=// and Link:
            start, shown, token = start + before.end(), shown[before.end() :], token[before.end() :]
        if address := _ADDRESS.search(shown):
            self._take(start + address.start(1), start + address.end(), "address", address_key(address[1]))
            return start + len(shown)
        lead = len(shown) - len(shown.lstrip("#./-:"))
        if _FILE.fullmatch(shown, lead):
            self._take(start + lead, start + len(shown), "file", folded(shown[lead:]))
        elif (domain := _DOMAIN.fullmatch(shown, lead)) and _is_domain(domain):
            self._take(start + lead, start + len(shown), "link", link_key(shown[lead:]) or "")
        return start + len(token)

    def _spelled(self, words: Words) -> None:
        """Codes that are told digit by digit, in figures or words."""
        runs: list[list[int]] = []
        for number in [number for number, said in enumerate(words.folded) if said in DIGITS]:
            if runs and runs[-1][-1] == number - 1 and words.between(number) in _SPELLING:
                runs[-1].append(number)
            else:
                runs.append([number])
        for run in runs:
            if len(run) >= _LEAST_SPELLED:
                key = "".join(DIGITS[words.folded[number]] for number in run)
                self._take(words.starts[run[0]], words.ends[run[-1]], "code", key)

    def _figure(self, figure: amounts.Figure) -> bool:
        return self._take(figure.start, figure.end, figure.kind, figure.key)

    def _figures(self) -> None:
        done = 0
        for digits in _DIGITS.finditer(self.text):
            at = digits.start()
            if at < done or self._taken[at]:
                continue
            found = self._token_around(done, at) or self._moment(at) or self._other_figure(at)
            done = self.found[-1][1] if found else digits.end()

    def _token_around(self, done: int, at: int) -> bool:
        """Whether it is a part of letters and digits in one."""
        head = at
        while head > done and (self.text[head - 1].isalnum() or self._is_hyphen(head - 1)):
            head -= 1
        if head == at and not _TOKEN_BEGINS.match(self.text, at):
            return False
        token = amounts.token_at(self.text, head) if folded(self.text[head:at]) not in CURRENCIES else None
        return token is not None and self._figure(token)

    def _is_hyphen(self, at: int) -> bool:
        return self.text[at] in "-_" and self.text[at - 1 : at].isalnum()

    def _moment(self, at: int) -> bool:
        if (found := dates.date_at(self.text, at)) and self._take(found.start, found.end, "date", found.key):
            return True
        if (phone := amounts.phone_at(self.text, at)) and self._figure(phone):
            return True
        clock = dates.time_at(self.text, at)
        return clock is not None and self._take(clock.start, clock.end, "time", clock.key)

    def _other_figure(self, at: int) -> bool:
        figure = amounts.figure_at(self.text, at)
        return figure is not None and self._figure(figure)

    def _telling(self, words: Words) -> None:
        """Weekdays, tomorrow, noon, and what stands behind "password"."""
        for number, said in enumerate(words.folded):
            if said not in _TELLING and not (len(said) > _LONG and said.startswith(_GERMAN_DAYS)):
                continue
            start, end = words.starts[number], words.ends[number]
            before = words.folded[max(0, number - 1) : number]
            if said in SECRETS and (code := amounts.code_after(self.text, end)):
                self._figure(code)
            elif key := _weekday(said):
                self._take(start, end, "date", key)
            elif said in RELATIVE and _is_relative(words.said[number], said, before):
                self._take(start, end, "date", self._relative(RELATIVE[said] + any(word in FURTHER for word in before)))
            elif said in CLOCK:
                self._take(start, end, "time", CLOCK[said])
            elif said in SHORT_WEEKDAYS and words.said[number][0].isupper() and self._before_a_number(end):
                self._take(start, end, "date", f"day {SHORT_WEEKDAYS[said]}")

    def _before_a_number(self, end: int) -> bool:
        return bool(re.match(r"[.,]{0,2} (?:the )?(?:\d|[A-Z][a-z]{2,8}\.? \d)", self.text[end : end + 24]))

    def _relative(self, more: int) -> str:
        return (self.day + timedelta(days=more)).isoformat() if self.day else f"{more:+}"

    def _sentences(self, words: Words) -> None:
        ends = [match.start(match.lastindex or 0) for match in _END.finditer(self.text)]
        borders = [0, *(bisect_left(words.starts, end) for end in ends), len(words.said)]
        for first, last in pairwise(borders):
            if last - first >= LEAST_WORDS:
                key = " ".join(words.folded[first:last])
                self.found.append((words.starts[first], words.ends[last - 1], "sentence", key))


def address_key(address: str) -> str:
    """Exactly the address, whatever its case and its domain's spelling: `bob+news@` is another than `bob@`, since
    only the server knows whether both are one mailbox, and a letter that looks like another is another."""
    local, _, domain = address.rpartition("@")
    return f"{local.lower()}@{_domain(domain)}"


def link_key(url: str) -> str | None:
    """Without scheme, `www.` and a last slash; None: it names no host."""
    try:
        parts = urlsplit(url if "://" in url else f"//{url}")
        host, port = _domain(parts.hostname or ""), parts.port
    except ValueError:
        return None
    if not host:
        return None
    place = (
        parts.path.rstrip("/")
        + (f"?{parts.query}" if parts.query else "")
        + (f"#{parts.fragment}" if parts.fragment else "")
    )
    user = f"{parts.username}@" if parts.username else ""
    return f"{user}{host.removeprefix('www.')}{f':{port}' if port and port not in (80, 443) else ''}{place}"


def _domain(domain: str) -> str:
    return readable_domain(domain.lower().rstrip("."))


def _is_domain(found: re.Match[str]) -> bool:
    """In capitals throughout, or its ending in none: otherwise a sentence begins there. Of those endings that few know
    with a path behind."""
    ending = found[1]
    if ending.islower() and found.end() > found.end(1) and re.search(r"[^\W\d_]", found[0][: found.start(1)]):
        return True
    is_shouted = re.split(r"[/?#:]", found[0])[0].isupper()
    return ending.startswith("xn--") or ending in ENDINGS or (is_shouted and ending.lower() in ENDINGS)


def _untrailed(url: str) -> str:
    end, unopened = len(url), url.count(")") - url.count("(")
    while end and url[end - 1] in _TRAILING and not (url[end - 1] == ")" and unopened <= 0):
        end -= 1
        unopened -= url[end] == ")"
    return url[:end]


def _weekday(word: str) -> str | None:
    """Of Dienstagnachmittag too."""
    part = next((part for part in DAY_PARTS if word.endswith(part)), "")
    number = WEEKDAYS.get(word) or WEEKDAYS.get(word.removesuffix(part))
    return f"day {number}" if number else None


def _is_relative(word: str, said: str, before: Sequence[str]) -> bool:
    """Not the morning of "guten Morgen" or "por la mañana"."""
    is_noun = said == "morgen" and word != said
    return not is_noun and not any(earlier in NO_TOMORROW.get(said, ()) for earlier in before)
