"""What a letter holds beside its words: device lines, disclaimers and footers, and the marks of quoted lines."""

import re
from itertools import groupby, takewhile

from email_assistant.mail.introductions import attribution, bare, is_quote
from email_assistant.mail.phrases import (
    DEVICE_LINE,
    DISCLAIMER_MARKS,
    DISCLAIMER_START,
    FOOTER_LINK,
    FOOTER_START,
    NAMES_THE_MAIL,
)

_MAX_BOILERPLATE = 5  # device lines and disclaimers cut from the end
_MIN_DISCLAIMER = 120
_MIN_DISCLAIMER_MARKS = 2
_MIN_LINES_WITH_FOOTER = 8
_MAX_FOOTER_LINE = 250
_MAX_WORDS_BESIDE_LINKS = 3  # in a footer's line of links; a sentence has more

_RULE = re.compile(r"[-_*=]{5,}")
_WORD = re.compile(r"[^\W_]+")
_SENTENCE_END = re.compile(r"(?<=[.!:])\s+")
_MARKS = (*DISCLAIMER_MARKS, NAMES_THE_MAIL)
_DECORATION = " \t*_|-–—>[("


def without_rule(lines: list[str]) -> list[str]:
    """Without empty lines and drawn lines at the end."""
    end = len(lines)
    while end and (not lines[end - 1].strip() or _RULE.fullmatch(lines[end - 1].strip())):
        end -= 1
    return lines[:end]


def without_boilerplate(lines: list[str]) -> list[str]:
    """Without the device lines and legal disclaimers that end the mail."""
    for _ in range(_MAX_BOILERPLATE):
        lines = without_rule(lines)
        if lines and DEVICE_LINE.fullmatch(lines[-1].strip()):
            lines = lines[:-1]
        elif (said := _before_disclaimer(lines)) is not None and any(map(str.strip, said)):
            lines = said
        else:
            break
    return lines


def _before_disclaimer(lines: list[str]) -> list[str] | None:
    """The lines without the disclaimer that ends the last paragraph, which may begin with a person's words."""
    start = len(lines)
    while start and lines[start - 1].strip():
        start -= 1
    for index in range(start, len(lines)):
        if DISCLAIMER_START.match(lines[index].lstrip(_DECORATION)):
            paragraph = " ".join(lines[index:])
            return [*lines[:index], *_said_before(paragraph)] if _is_disclaimer(paragraph) else None
    return None


def _said_before(paragraph: str) -> list[str]:
    """The sentences before those that a disclaimer consists of, if they are more than its heading."""
    sentences = _SENTENCE_END.split(paragraph)
    said = list(takewhile(lambda sentence: not any(mark.search(sentence) for mark in _MARKS), sentences))
    return [" ".join(said)] if any(sentence.rstrip().endswith((".", "!")) for sentence in said) else []


def _is_disclaimer(paragraph: str) -> bool:
    marks = sum(mark.search(paragraph) is not None for mark in DISCLAIMER_MARKS)
    return (
        len(paragraph) >= _MIN_DISCLAIMER
        and "?" not in paragraph
        and marks >= _MIN_DISCLAIMER_MARKS
        and NAMES_THE_MAIL.search(paragraph) is not None
    )


def without_footer(lines: list[str]) -> list[str]:
    """Without the lines about the mailing itself, which stand at the top and in the lower half."""
    if sum(bool(line.strip()) for line in lines) < _MIN_LINES_WITH_FOOTER:
        return lines
    return [
        line
        for index, line in enumerate(lines)
        if _MIN_LINES_WITH_FOOTER // 2 <= index < len(lines) // 2 or not _is_footer(line)
    ]


def _is_footer(line: str) -> bool:
    if len(line) > _MAX_FOOTER_LINE or line.rstrip().endswith("?"):
        return False
    if FOOTER_START.match(line):
        return True
    beside, links = FOOTER_LINK.subn(" ", line)
    return links > 0 and len(_WORD.findall(beside)) <= _MAX_WORDS_BESIDE_LINKS


_BAR = re.compile(r" ?([|¦│┃‖])(?: |$)")
_OTHER = re.compile(r" ?([:}»›＞%#])(?: |$)")
_ESCAPED = re.compile(r"(?:&gt; ?)+")
_BROKEN = 60  # characters of a line that a program may have broken
_QUOTED_END = (".", "!", "?", ":", ";", ",")


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
            and not above.rstrip().endswith(_QUOTED_END[:3])
            and line[:1].islower()
            and len(line) < len(above)
            and len(above) + len(line.split()[0]) >= _BROKEN + 10
        ):
            kept[index] = f"> {line}"
    return kept
