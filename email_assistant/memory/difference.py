"""What a person made of a proposal, in their own words alone.

What was proposed may be an attacker's, so none of it is told. Of what they took out it is told only how much that was
and where it stood. Words of the proposal or of the conversation that stand in what they wrote, as a quotation or moved
to another place, are left out of it too.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

from email_assistant.mail.diff import compare

_WORD = re.compile(r"\w+")
_WHITE = re.compile(r"\s+")
_LINE = re.compile(r"[^\n]*\n?")
_QUOTED = 4  # so many words in a row that stand elsewhere are a quotation
_LAST_LINES = 5
LEFT_OUT = "[…]"

Words = tuple[str, ...]
Span = tuple[int, int]


def own_words(text: str, others: Iterable[str]) -> str:
    """A person's text without what it quotes from other texts."""
    return _without(_quotations(text, _quoted([text], others)), text, 0, len(text))


def difference(proposed: Mapping[str, Any], final: Mapping[str, Any], others: Iterable[str]) -> list[str]:
    """What an edit changed, one line each: lengths, times, and what was put in."""
    texts = texts_in(proposed)
    quoted = _quoted(texts_in(final), [*others, *texts])
    lines = {_folded(line) for text in texts for line in text.splitlines()} - {()}
    before, after = _minutes(proposed), _minutes(final)
    lasts = [f"lasts: {before} minutes became {after} minutes"] if before != after else []
    return lasts + [
        line
        for name in dict.fromkeys([*proposed, *final])
        if name != "email_id" and proposed.get(name) != final.get(name)
        for line in _changed(name, proposed.get(name), final.get(name), quoted, lines)
    ]


def texts_in(args: Mapping[str, Any]) -> list[str]:
    """The arguments as texts."""
    return [_plain(value) for value in args.values()]


def _changed(name: str, before: Any, after: Any, quoted: Collection[Words], lines: Collection[Words]) -> Iterator[str]:
    """`lines`: those that were proposed."""
    if _is_time(before) and _is_time(after):
        yield f"{name}: {before} became {after}"
        return
    old, new = _plain(before), _plain(after)
    pieces = compare(old, new)
    yield f"{name}: {_count(old)} became {_count(new)}"
    # Of the text as a whole: cut into what was kept and put in, a quotation may be pieces of a word or two.
    quotations = _quotations(new, quoted)
    at = 0
    for piece in pieces:
        place = _place(new, at)
        if piece.kind == "gone" and _WORD.search(piece.text):
            yield f"{name}, taken out {place}: {_count(piece.text)}"
        elif piece.kind == "new":
            unmoved = _unmoved(new, at, at + len(piece.text), lines)
            if ours := "".join(_without(quotations, new, *span) for span in unmoved).strip():
                yield f"{name}, put in {place}: {_WHITE.sub(' ', ours)}"
        at += len(piece.text) if piece.kind != "gone" else 0


def _unmoved(text: str, begin: int, end: int, lines: Collection[Words]) -> Iterator[Span]:
    """The parts of a piece of a text that stand in no line that was proposed as a whole, however short: that was
    moved."""
    for line in _LINE.finditer(text):
        if line.start() < end and begin < line.end() and _folded(line[0]) not in lines:
            yield max(line.start(), begin), min(line.end(), end)


def _place(text: str, at: int) -> str:
    if "\n" not in text[:at].strip():
        return "in the first line"
    return "in the last lines" if text.count("\n", at, len(text.rstrip())) < _LAST_LINES else "in between"


def _count(text: str) -> str:
    count = len(_WORD.findall(text))
    return f"{count} word{'s' * (count != 1)}"


def _minutes(args: Mapping[str, Any]) -> int | None:
    """How long a meeting lasts; None if it is none."""
    start, end = args.get("start_time"), args.get("end_time")
    if not _is_time(start) or not _is_time(end):
        return None
    begins, ends = datetime.fromisoformat(str(start)), datetime.fromisoformat(str(end))
    if (begins.tzinfo is None) != (ends.tzinfo is None):
        return None
    return round((ends - begins).total_seconds() / 60)


def _is_time(value: Any) -> bool:
    try:
        return isinstance(value, str) and "T" in value and bool(datetime.fromisoformat(value))
    except ValueError:
        return False


def _plain(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else "" if value is None else str(value)


def _quoted(texts: Iterable[str], others: Iterable[str]) -> set[Words]:
    """The runs of words in a person's texts that stand in other texts, which may be far longer."""
    theirs = {run for text in texts for _, run in _runs(text)}
    return theirs.intersection(run for other in others for _, run in _runs(other))


def _quotations(text: str, quoted: Collection[Words]) -> list[Span]:
    """Where the quotations stand in a text, in order; none touches another."""
    words = list(_WORD.finditer(text))
    found: list[Span] = []
    for start, run in _runs(text):
        if run in quoted:
            begin, end = words[start].start(), words[start + _QUOTED - 1].end()
            found.append((found.pop()[0] if found and begin < found[-1][1] else begin, end))
    return found


def _without(quotations: Iterable[Span], text: str, begin: int, end: int) -> str:
    """A part of a text without what of it is quoted."""
    ours, at = "", begin
    for first, last in quotations:
        if first < end and at < last:
            ours += text[at:first] + LEFT_OUT
            at = min(last, end)
    return ours + text[at:end]


def _runs(text: str) -> Iterator[tuple[int, Words]]:
    """Each place where so many words in a row begin, by the number of its first word, and those words."""
    words = _folded(text)
    for start in range(len(words) - _QUOTED + 1):
        yield start, words[start : start + _QUOTED]


def _folded(text: str) -> Words:
    return tuple(word.casefold() for word in _WORD.findall(text))
