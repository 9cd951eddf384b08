"""Quoted lines that begin with another mark than `>`, and such as a program has broken, as lines that begin with it."""

import re
from itertools import groupby

from .introductions import attribution, bare, is_quote

_BAR = re.compile(r" ?([|¦│┃‖])(?: |$)")
_OTHER = re.compile(r" ?([:}»›＞%#])(?: |$)")
_ESCAPED = re.compile(r"(?:&gt; ?)+")
_BROKEN = 60  # characters of a line that a program may have broken
_SENTENCE_END = (".", "!", "?", ":", ";", ",")


def with_quote_marks(lines: list[str]) -> list[str]:
    """The lines, of which each that is quoted begins with `>`."""
    marked = [
        f"{'>' * found[0].count('&gt;')} {line[found.end() :]}" if (found := _ESCAPED.match(line)) else line
        for line in lines
    ]
    return _joined(_of_other_marks(marked))


def _of_other_marks(lines: list[str]) -> list[str]:
    if not any(_BAR.match(line) or _OTHER.match(line) for line in lines):
        return lines
    plain = [bare(line) for line in lines]
    runs = [(mark, list(group)) for mark, group in groupby(lines, _mark)]
    quoting: set[str] = set()
    start = 0
    for mark, run in runs:
        if mark and mark not in quoting and _quotes(plain, start, run, mark):
            quoting.add(mark)
        start += len(run)
    kept: list[str] = []
    for mark, run in runs:
        quotes = mark in quoting and not _is_table(run, mark)
        kept += [f"> {_without(line)}".rstrip() for line in run] if quotes else run
    return kept


def _mark(line: str) -> str:
    found = _BAR.match(line) or _OTHER.match(line)
    return found[1] if found else ""


def _without(line: str) -> str:
    return line.lstrip(" ")[1:].removeprefix(" ")


def _quotes(plain: list[str], start: int, run: list[str], mark: str) -> bool:
    """Whether lines with a mark in common are a quotation: where one is introduced, or they are no table."""
    if _is_introduced(plain, start):
        return True
    return _BAR.match(run[0]) is not None and len(run) > 1 and not _is_table(run, mark)


def _is_table(run: list[str], mark: str) -> bool:
    return any(mark in _without(line) for line in run)


def _is_introduced(plain: list[str], start: int) -> bool:
    above = next((index for index in range(start - 1, max(-1, start - 3), -1) if plain[index]), None)
    if above is None or not plain[above].endswith((":", "：")):
        return False
    # As if the lines below began with `>`: they are what is to be found out.
    for first in range(above, max(-1, above - 4), -1):
        found = attribution([*plain[max(0, first - 1) : above + 1], ">"], min(1, first))
        if found is not None:
            return True
    return False


def _joined(lines: list[str]) -> list[str]:
    """With the ends of quoted lines quoted, which stand alone where a program has broken a line and not marked them."""
    kept = list(lines)
    for index in range(1, len(lines) - 1):
        line, above, below = lines[index], lines[index - 1], lines[index + 1]
        if (
            line.strip()
            and not is_quote(line)
            and is_quote(above)
            and is_quote(below)
            and len(above) >= _BROKEN
            and not above.rstrip().endswith(_SENTENCE_END[:3])
            and line[:1].islower()
            and len(line) < len(above)
            and len(above) + len(line.split()[0]) >= _BROKEN + 10
        ):
            kept[index] = f"> {line}"
    return kept
