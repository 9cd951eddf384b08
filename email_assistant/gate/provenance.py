"""Where every fact of a proposal comes from: which texts hold it, who wrote them, and who may read them.

Pure, local and deterministic: no model is asked. One index of spans serves three questions: who sent me this (the
policy), who may know this (leaks), and is it so (grounding). Facts are compared exactly, since what only looks like an
address is another one; the look for leaks alone also matches letters that look alike.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from functools import lru_cache
from itertools import chain, pairwise, product
from typing import Final, Literal

from email_assistant.gate import amounts, dates
from email_assistant.gate.names import Words, folded, plain, spoken
from email_assistant.gate.spans import Kind, Span, scan, words_of
from email_assistant.gate.spoken import Sayings, called_by, is_called
from email_assistant.gate.vocabulary import ORDINARY
from email_assistant.mail.address import address_of, is_recipient, untagged
from email_assistant.mail.characters import skeleton

__all__ = [
    "By",
    "Fact",
    "Kind",
    "Source",
    "Span",
    "facts",
    "leaks",
    "read",
    "recipients_without_it",
    "sources_of",
    "spans",
    "title",
    "unfounded",
]

By = Literal["person", "own", "example", "stranger"]
"""Who stands behind a text: the person's own words; their own records, such as contacts and what they sent; what they
wrote in another matter, which says nothing of this one; others."""

_GRAM: Final = 4
"""Words in a row by which a copied sentence is known, though some of it was changed."""
_COPIED: Final = 0.5
"""Of a sentence's rows of words."""
_LEAST_RARE: Final = 4
"""Letters of a word of a title that not everybody uses."""
_PARTED_KINDS: Final = frozenset({"code", "account", "phone"})
_LEAST_PARTED: Final = 6
"""Letters of a code that is none by chance with other signs between them; of digits alone two more."""
_PIECES: Final = re.compile(r"(?:[^\W_]{1,5}[\W_]{1,3})+[^\W_]{1,5}")
_BETWEEN: Final = re.compile(r"[\W_]+")
_NO_SPAN: Final = Span("name", "", "", 0, 0)
_RUN: Final = re.compile(r"\w+(?:(?:[-._:/@+'?=&#%~]+|(?<=\d),(?=\d))\w+)*")
_ID: Final = re.compile(r"[\d@_]")
_WORD: Final = re.compile(r"\w")
_PARTED: Final = re.compile(r"[-._:/@+'?=&#%~]+")
_EXACT: Final = frozenset({"address", "link", "phone", "account", "file"})
_NUMBER: Final = re.compile(r"\d+(?:\.\d+)?")
_NUMBERS: Final[tuple[Kind, ...]] = ("amount", "code", "account")
_FREE_MINUTES: Final = 15
_QUARTERS: Final = ("00", "15", "30", "45")
_USUAL: Final = frozenset({"% 100", "% 50", "% 0"})
_SIGNATURE: Final = 200
"""Characters at a letter's end, such as an address and a number."""
_LEAST_NEW_WORDS: Final = 3
"""That a copied sentence must hold beyond what anybody writes."""


@dataclass(frozen=True, slots=True)
class Source:
    """A text that facts may come from, read once when it is stored."""

    label: str
    """What the person knows it as, such as "Bob's mail of 3 May"."""
    by: By
    writer: str
    """The address that wrote it; empty: nobody's in particular."""
    readers: frozenset[str] | None
    """Addresses that have seen it; None: anybody may."""
    keys: frozenset[tuple[Kind, str]]
    words: str
    """All of it as words between single blanks, for values that are no span; what has a digit, as an id, is one."""
    grams: frozenset[str] = frozenset()
    """All of its words in rows, for sentences."""
    titles: frozenset[tuple[str, ...]] = frozenset()
    """What is told of an event by its title: the words of it that not everybody uses."""


@dataclass(frozen=True, slots=True)
class Fact:
    span: Span
    sources: tuple[Source, ...]
    """Those that hold it; none: nobody has said it."""


def read(
    text: str,
    *,
    label: str,
    by: By,
    writer: str = "",
    readers: Collection[str] | None = None,
    day: date | None = None,
) -> Source:
    """Index a text. `day`: that on which it was written, by which weekdays, "tomorrow" and dates without year are
    days."""
    found = scan(text, day)
    keys = {(span.kind, key) for span in found if span.kind != "sentence" for key in _said(span, day)}
    if day:
        keys |= {("date", key) for key in _of_day(day)}
    for number in amounts.numbers(plain(_without(text, found)).text):
        keys |= {("amount", f"{number}?"), ("code", number), ("account", number)}
    if by == "person":
        keys |= {("name", key) for key in spoken(plain(text).text)}
    if by == "own":
        keys |= {("time", key) for key in _within(found)}
    return Source(
        label,
        by,
        address_of(writer),
        None if readers is None else frozenset(map(address_of, readers)),
        frozenset(keys),
        _words(text),
        frozenset(_grams(words_of(plain(text).text))),
    )


def spans(text: str, day: date | None = None) -> list[Span]:
    """Those that matter, in the order in which they stand; no two overlap, but for a sentence and what it says."""
    return list(scan(text, day))


def facts(text: str, sources: Sequence[Source], day: date | None = None) -> list[Fact]:
    """The spans of a text, each with the sources that hold it. `day`: that of the text."""
    return list(_facts(text, tuple(sources), day))


def sources_of(value: str, sources: Iterable[Source]) -> list[Source]:
    """The sources that hold a value, such as an argument of a call, as a whole: its one span, or all its words in a
    row; a number not as a part of a date or time. Of a name with an address only the address counts, since it says
    where a letter goes."""
    value = address_of(value) if is_recipient(value) else value.strip()
    if _NUMBER.fullmatch(value):
        number = {value, amounts.numbers(value)[0]}
        return [source for source in sources if not source.keys.isdisjoint(product(_NUMBERS, number))]
    found = [span for span in scan(value, None) if span.kind != "sentence"]
    exact = [span for span in found if span.kind in _EXACT]
    if len(found) == 1 and found[0].text == value and found[0].kind != "name":
        return _holding(found[0], list(sources))
    row = _row(value)
    return [
        source for source in sources if row.search(source.words) and all(_holding(span, [source]) for span in exact)
    ]


def leaks(text: str, recipients: Collection[str], sources: Sequence[Source], day: date | None = None) -> list[Fact]:
    """What a text would tell its recipients of sources that not all of them have seen, and that the person did not
    say themselves. Nothing is told by weekdays, usual times, days that the person's own calendar holds, and names of
    those who read it. `day`: that of the text."""
    to = frozenset(untagged(address_of(recipient)) for recipient in recipients)
    theirs = called_by(to | _always_there(sources))
    found = [_with_alikes(fact, sources) for fact in _facts(text, tuple(sources), day)]
    knows_person = any(source.by != "stranger" for source in sources)
    told = [
        fact
        for fact in found
        if fact.sources
        and not _is_usual(fact.span, theirs)
        and not _may_be_told(fact.span, fact.sources, to)
        and not (
            fact.span.kind == "name"
            and (not knows_person or any(source.by != "stranger" for source in fact.sources))
            and _signs(text, fact.span, fact.sources)
        )
    ]
    hidden = [source for source in sources if not _may_be_told(_NO_SPAN, [source], to)]
    seen = [source for source in sources if source not in hidden] if hidden else []
    return [*told, *_titles(text, theirs, hidden, seen), *_in_pieces(text, told, hidden, seen)]


def unfounded(text: str, sources: Sequence[Source], day: date | None = None) -> list[Fact]:
    """The facts in a text that no source contains. `day`: that of the text."""
    today = _of_day(day) if day else frozenset()
    known = Sayings(sources)
    return [
        fact
        for fact in _facts(text, tuple(sources), day)
        if not fact.sources
        and fact.span.kind != "sentence"
        and not (fact.span.kind == "date" and today & set(_asked(fact.span)))
        and not (fact.span.kind == "address" and known.writes_or_reads(fact.span.key))
        and not (fact.span.kind == "link" and known.domain(fact.span.key))
        and not (fact.span.kind == "name" and known.name(text, fact.span))
        and not (fact.span.kind == "name" and not known.person and _signs(text, fact.span, ()))
    ]


def recipients_without_it(recipients: Iterable[str], held: Iterable[Source]) -> list[str]:
    """Those of the recipients who have seen none of the sources."""
    seen = {untagged(reader) for source in held for reader in (source.writer, *(source.readers or ()))}
    return [each for each in recipients if untagged(address_of(each)) not in seen]


@lru_cache(maxsize=8)
def _facts(text: str, sources: tuple[Source, ...], day: date | None) -> tuple[Fact, ...]:
    """Kept, since a draft is asked several questions."""
    found = scan(text, day)
    rows = {span: _grams(span.key.split(" ")) for span in found if span.kind == "sentence"}
    every = frozenset().union(*rows.values())
    copied = [(source, every & source.grams) for source in sources]
    quoted = [(source, grams) for source, grams in copied if grams]
    return tuple(
        Fact(span, tuple(_quoting(rows[span], quoted) if span.kind == "sentence" else _holding(span, sources)))
        for span in found
    )


def _quoting(grams: frozenset[str], quoted: Sequence[tuple[Source, frozenset[str]]]) -> list[Source]:
    least = max(1, _COPIED * len(grams))
    return [source for source, theirs in quoted if len(grams & theirs) >= least]


def _holding(span: Span, sources: Sequence[Source]) -> list[Source]:
    asked = [(span.kind, key) for key in _asked(span)]
    if span.key.isdigit() and span.kind in ("amount", "code"):  # alone, or spelled, a number may be any of these
        asked += [("code", span.key), ("amount", span.key), ("account", span.key), ("phone", amounts.last(span.key))]
    if len(asked) == 1:
        held = [source for source in sources if asked[0] in source.keys]
    else:
        held = [source for source in sources if not source.keys.isdisjoint(asked)]
    if span.kind in ("name", "code") and len(held) < len(sources):
        row = _words(span.text)
        return [source for source in sources if source in held or row in source.words]
    return held


def _said(span: Span, day: date | None) -> Iterator[str]:
    """Keys by which a source says a span: those of less precise tellings too, and with a mark what it leaves open."""
    yield span.key
    match span.kind:
        case "date":
            yield "*"
            yield from _said_of_date(span.key, day)
        case "time":
            if other := dates.later(span.key, span.text):
                yield other
        case "amount":
            yield span.key.rpartition(" ")[2] + ("" if " " in span.key else "?")
        case "phone":
            yield amounts.international(span.text) or f"{span.key}?"
        case "link":
            yield span.key.partition("/")[0].partition("?")[0].partition("#")[0]
        case _:
            pass


def _said_of_date(key: str, day: date | None) -> Iterator[str]:
    near = list(dates.dates_near(key, day))
    for found in near:
        yield from _of_day(found)
    for reading in key.split("|"):
        yield reading
        if not near and len(reading) == 5:
            yield f"{reading}?"
            yield "day ?"
            yield f"-{reading[3:]}"


def title(text: str) -> tuple[str, ...]:
    """The words of a title that not everybody uses."""
    return tuple(word for word in words_of(plain(text).text) if len(word) >= _LEAST_RARE and word not in ORDINARY)


def _of_day(day: date) -> frozenset[str]:
    told = day.isoformat()
    return frozenset({told, told[5:], told[:7], told[7:], f"day {day.isoweekday()}"})


def _asked(span: Span) -> Iterator[str]:
    """Keys any of which a source must say to hold a span."""
    match span.kind:
        case "date":
            for reading in span.key.split("|"):
                yield reading
                if len(reading) == 10:
                    yield f"{reading[5:]}?"
                elif reading.startswith("day "):
                    yield "day ?"
                elif reading[0] in "+-" and len(reading) == 2:
                    yield "*"
        case "time":
            yield span.key
            if other := dates.later(span.key, span.text):
                yield other
        case "amount":
            yield span.key
            yield f"{span.key.rpartition(' ')[2]}?"
        case "phone":
            whole = amounts.international(span.text)
            yield whole or span.key
            if whole:
                yield f"{span.key}?"
        case _:
            yield span.key


def _without(text: str, found: Sequence[Span]) -> str:
    """What stands between spans."""
    rest, end = [], 0
    for span in found:
        if span.kind != "sentence":
            rest.append(text[end : span.start])
            end = span.end
    return " ; ".join([*rest, text[end:]])


def _within(found: Sequence[Span]) -> Iterator[str]:
    """The quarters of an hour within each range of times, as of a calendar's free time."""
    times = [span for span in found if span.kind == "time"]
    for start, end in pairwise(times):
        if 0 <= end.start - start.end <= 3:
            minutes = [int(span.key[:2]) * 60 + int(span.key[3:]) for span in (start, end)]
            for minute in range(minutes[0], minutes[1] + 1, _FREE_MINUTES):
                yield f"{minute // 60:02}:{minute % 60:02}"


def _is_usual(span: Span, theirs: frozenset[str]) -> bool:
    match span.kind:
        case "date":
            return span.key.startswith(("day ", "+", "-"))
        case "time":
            return span.key[3:] in _QUARTERS
        case "amount":
            return span.key in _USUAL
        case "name":
            words = span.key.split()
            return len(words) == 1 or all(is_called(word, theirs) for word in words)
        case "sentence":
            return len({word for word in span.key.split() if word not in ORDINARY}) < _LEAST_NEW_WORDS
        case "address":
            return untagged(span.key) in theirs
        case _:
            return False


def _may_be_told(span: Span, held: Sequence[Source], to: frozenset[str]) -> bool:
    if any(source.by == "person" or source.readers is None for source in held):
        return True
    if span.kind in ("date", "time") and _is_own(held):
        return True
    # Whom else a stranger's mail went to, only they say. Nobody is led where they like by that, behind their back.
    leads = span.kind in ("link", "account")
    seen = [s.readers or () for s in held if not leads or s.by != "stranger" or untagged(s.writer) in to]
    return to <= {untagged(reader) for reader in chain((s.writer for s in held), *seen)}


def _titles(text: str, theirs: frozenset[str], hidden: Sequence[Source], seen: Sequence[Source]) -> Iterator[Fact]:
    """The titles of events that a text tells, whatever else it says of them."""
    titles = {title: source for source in hidden for title in source.titles}
    if not titles:
        return
    shown = plain(text)
    words = Words.of(shown.text)
    for title, source in titles.items():
        told = [word for word in title if word in words.folded and not is_called(word, theirs)]
        if len(told) == len(title) and not all(any(f" {word} " in other.words for other in seen) for word in told):
            at = words.folded.index(told[0])
            begin, end = shown.original(words.starts[at], words.ends[at])
            yield Fact(Span("name", text[begin:end], told[0], begin, end), (source,))


def _in_pieces(text: str, told: Sequence[Fact], hidden: Sequence[Source], seen: Sequence[Source]) -> Iterator[Fact]:
    """Codes and accounts that a text tells with other signs between their letters."""
    told_keys = {fact.span.key for fact in told}
    pieces = [run for run in _PIECES.findall(plain(text).text.casefold()) if _ID.search(run)] if hidden else []
    joined = " ".join(_BETWEEN.sub("", run) for run in pieces)
    for source in hidden:
        for kind, key in source.keys:
            if kind not in _PARTED_KINDS or not _is_long(key) or key.casefold() not in joined or key in told_keys:
                continue
            told_keys.add(key)
            found = re.search(r"[\W_]*".join(key), text, re.IGNORECASE)
            if found and not any((kind, key) in other.keys for other in seen):
                yield Fact(Span(kind, found[0], key, *found.span()), (source,))


def _is_long(code: str) -> bool:
    return len(code) >= _LEAST_PARTED + 2 * code.isdecimal()


def _signs(text: str, span: Span, held: Sequence[Source]) -> bool:
    """Whether a name ends a letter: alone on its line, or among the person's own records."""
    is_last = not _WORD.search(text, span.end)
    if len(text) - span.end >= _SIGNATURE:
        return is_last and _is_own(held)
    begins, rest = text.rfind("\n", 0, span.start) + 1, text[span.end :].partition("\n")[0]
    is_alone = begins > 0 and not _WORD.search(text[begins : span.start] + rest)
    return is_alone or (is_last and _is_own(held))


def _is_own(held: Sequence[Source]) -> bool:
    return any(source.by == "own" for source in held)


def _with_alikes(fact: Fact, sources: Sequence[Source]) -> Fact:
    """Held by those too that hold what it only looks like."""
    span = fact.span
    if fact.sources or span.key.isascii() or span.kind == "sentence":
        return fact
    look = skeleton(span.key)
    alike = (s for s in sources if any(kind == span.kind and skeleton(key) == look for kind, key in s.keys))
    return Fact(span, tuple(alike))


def _always_there(sources: Sequence[Source]) -> frozenset[str]:
    """The person: who wrote what is theirs, and has seen every source."""
    seen = [source.readers | {source.writer} for source in sources if source.readers is not None]
    own = {source.writer for source in sources if source.by != "stranger" and source.writer}
    return frozenset.intersection(*seen) | own if seen else frozenset(own)


def _grams(words: Sequence[str]) -> frozenset[str]:
    return frozenset(map(" ".join, zip(*(words[more:] for more in range(_GRAM)), strict=False)))


def _words(text: str) -> str:
    runs = (run if _ID.search(run) else _PARTED.sub(" ", run) for run in _RUN.findall(folded(plain(text).text)))
    return f" {' '.join(runs)} "


def _row(value: str) -> re.Pattern[str]:
    """All words of a value in a row; what it joins by hyphens may stand apart, and the other way round."""
    parts = re.split(r"[ -]", _words(value).strip())
    return re.compile(f" {'[ -]'.join(map(re.escape, parts))} " if any(parts) else "(?!)")
