"""What programs, lawyers and mass senders add to a mail: device lines, disclaimers, footers."""

import re
from itertools import takewhile

from .phrases import DEVICE_LINE, DISCLAIMER_MARKS, DISCLAIMER_START, FOOTER_LINK, FOOTER_START, NAMES_THE_MAIL

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
