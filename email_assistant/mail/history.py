"""What is new in a mail: its text without quoted history, signature, tracking and boilerplate.

Every rule here needs a clear mark; what has none is kept.
"""

import re

from .charset import readable
from .html_text import html_to_text
from .links import bare_urls
from .phrases import (
    ATTRIBUTION,
    DEVICE_LINE,
    DISCLAIMER,
    FOOTER_LINE,
    FORWARD_MARK,
    FORWARD_SUBJECT,
    HEADERS,
    ORIGINAL_MARK,
    REFERS_TO_HISTORY,
)

_MAX_READ = 500_000
"""Characters; more is no letter, and only `Mail.text` has it."""
_MAX_ATTRIBUTION = 400
"""Characters of "On … wrote:" over its lines."""
_MAX_ATTRIBUTION_LINES = 4
_MAX_SIGNATURE_LINES = 15
_MAX_UNSURE_SIGNATURE_LINES = 8
_MAX_BOILERPLATE = 5
"""Device lines and disclaimers cut from the end."""
_MIN_LINES_WITH_FOOTER = 8
_MAX_QUOTE_BEFORE_ANSWER = 10
"""Quoted lines kept before each inline answer."""

_ATTRIBUTION_START = re.compile(r"[^\W\d_]|\d{4}")
_HEADER_LINE = re.compile(r"[*_ \t]{0,3}([^\W\d_]{1,12})\s?[*_]{0,2}\s?[:：][*_]{0,2}[ \t]*(.*)")
_RULE = re.compile(r"[-_*=]{5,}")

_LIST_FOOTER = re.compile(r"_{20,}\s*")
_MIN_DISCLAIMER = 120
_MAX_FOOTER_LINE = 250
_PGP_HEADER = re.compile(r"-----BEGIN PGP SIGNED MESSAGE-----\n(?:[^\n]+\n)*\n?")
_IMAGE_MARK = re.compile(
    r"\[(?:cid:[^\]\n]{0,200}|image: [^\]\n]{0,200}\.(?:png|jpe?g|gif)|inline image)\]", re.IGNORECASE
)
_LONG_RUN = re.compile(r"([-=_*~#.+•])\1{7,}")


def new_text(text: str, *, subject: str = "", bulk: bool = False) -> str:
    """What a mail's sender wrote in this mail; `text` itself when nothing would be left.

    `subject` tells a forwarded mail, which is kept whole; `bulk` allows footers of mass mail to be dropped.
    """
    text = text[:_MAX_READ]
    start = text[:200].lstrip().lower()
    if start.startswith(("<!doctype html", "<html")):
        text = html_to_text(text) or text
    lines = _without_signature(_without_armour(readable(text)).split("\n"))
    if not FORWARD_SUBJECT.match(subject):
        lines = _without_history(lines)
        lines = _without_signature(lines)
    lines = _without_boilerplate(lines)
    if bulk:
        lines = _without_footer(lines)
    body = _compact(lines)
    return body or _compact(text.split("\n")) or text


def _compact(lines: list[str]) -> str:
    text = bare_urls(_IMAGE_MARK.sub("", "\n".join(line.rstrip() for line in lines)))
    text = _LONG_RUN.sub(r"\1\1\1", text)
    return re.sub(r"\n(?:[ \t]*\n){2,}", "\n\n", text).strip()


def _without_armour(text: str) -> str:
    """Without OpenPGP's frame around a signed text, and without encrypted blocks."""
    for kind, replacement in (("SIGNATURE", ""), ("MESSAGE", "[encrypted OpenPGP message]"), ("PUBLIC KEY BLOCK", "")):
        begin, end = f"-----BEGIN PGP {kind}-----", f"-----END PGP {kind}-----"
        before, found, after = text.partition(begin)
        if found and end in after:
            text = before + replacement + after.partition(end)[2]
    return _PGP_HEADER.sub("", text, count=1)


def _is_quote(line: str) -> bool:
    return line.startswith(">")


def _without_signature(lines: list[str]) -> list[str]:
    for index in range(len(lines) - 1, max(0, len(lines) - 2 * _MAX_SIGNATURE_LINES), -1):
        signature = [line for line in lines[index + 1 :] if line.strip()]
        if len(signature) > _signature_lines_after(lines, index):
            continue
        return lines[:index] if _has_text(lines[:index]) else lines
    return lines


def _signature_lines_after(lines: list[str], index: int) -> int:
    """How many lines the mark at `index` may cut; -1 if there is no mark."""
    line = lines[index]
    if line == "-- ":
        return _MAX_SIGNATURE_LINES
    # Without its blank, "--" may as well underline a heading.
    if line == "--" and not lines[index - 1].strip():
        return _MAX_UNSURE_SIGNATURE_LINES
    if _LIST_FOOTER.fullmatch(line) and "mailing list" in " ".join(lines[index + 1 : index + 3]).lower():
        return _MAX_UNSURE_SIGNATURE_LINES
    return -1


def _has_text(lines: list[str]) -> bool:
    return any(line.strip() for line in lines)


def _without_history(lines: list[str]) -> list[str]:
    for index, line in enumerate(lines):
        if FORWARD_MARK.fullmatch(line.strip()):
            return lines
        after = _history_after(lines, index)
        if after is None:
            continue
        if _answers_inline(lines[after:]):
            break
        top = lines[:index]
        if not _has_text(top) or REFERS_TO_HISTORY.search("\n".join(top)):
            return lines
        return _without_rule(top)
    return _shorten_quotes(_without_trailing_quote(lines))


def _history_after(lines: list[str], index: int) -> int | None:
    """If another mail's text is introduced at this line: the line after the introduction."""
    line = lines[index].strip()
    if ORIGINAL_MARK.fullmatch(line):
        return index + 1
    if _starts_header_block(lines, index):
        return index + 1
    return _attribution_end(lines, index)


def _attribution_end(lines: list[str], index: int) -> int | None:
    """The line after "On … wrote:", which mailers wrap over several lines."""
    if not _ATTRIBUTION_START.match(lines[index].lstrip()) or (index and _continues_prose(lines, index)):
        return None
    joined = ""
    for end in range(index, min(index + _MAX_ATTRIBUTION_LINES, len(lines))):
        line = lines[end].strip()
        joined = f"{joined} {line}".strip()
        if not line or len(joined) > _MAX_ATTRIBUTION:
            return None
        if line.endswith((":", "：")):
            dated = any(map(str.isdigit, joined)) or "@" in joined
            return end + 1 if dated and ATTRIBUTION.fullmatch(joined) else None
    return None


def _continues_prose(lines: list[str], index: int) -> bool:
    """An attribution without `>` below it needs an empty line above it to be told from prose."""
    if not lines[index - 1].strip() or _is_quote(lines[index - 1]):
        return False
    return not any(_is_quote(line) for line in lines[index + 1 : index + 2 + _MAX_ATTRIBUTION_LINES])


def _starts_header_block(lines: list[str], index: int) -> bool:
    """Outlook's "From: … Sent: … To: … Subject: …", in the languages of `HEADERS`."""
    if _header_kind(lines[index]) != "from":
        return False
    kinds = {_header_kind(line) for line in lines[index + 1 : index + 9]}
    return "date" in kinds and bool(kinds & {"to", "subject"})


def _header_kind(line: str) -> str:
    match = _HEADER_LINE.match(line[:_MAX_ATTRIBUTION])
    kind = HEADERS.get(match[1].lower(), "") if match else ""
    if match and kind == "date" and not any(map(str.isdigit, match[2])):
        return ""
    return kind


def _answers_inline(lines: list[str]) -> bool:
    """Whether these lines begin with quoted text that a person's unquoted text follows."""
    if not _is_quote(next((line for line in lines if line.strip()), "")):
        return False
    index = 0
    while index < len(lines):
        if not lines[index].strip() or _is_quote(lines[index]):
            index += 1
        elif (after := _attribution_end(lines, index)) is not None:
            index = after
        else:
            return True
    return False


def _without_trailing_quote(lines: list[str]) -> list[str]:
    end = len(lines)
    while end and (not lines[end - 1].strip() or _is_quote(lines[end - 1])):
        end -= 1
    return lines[:end] if end else lines


def _shorten_quotes(lines: list[str]) -> list[str]:
    """Of each long quoted passage before an answer, the lines next to the answer."""
    kept: list[str] = []
    passage: list[str] = []
    for line in [*lines, None]:
        if line is not None and _is_quote(line):
            passage.append(line)
            continue
        if len(passage) > _MAX_QUOTE_BEFORE_ANSWER:
            passage = ["> […]", *passage[-_MAX_QUOTE_BEFORE_ANSWER:]]
        kept += passage
        passage = []
        if line is not None:
            kept.append(line)
    return kept


def _without_rule(lines: list[str]) -> list[str]:
    end = len(lines)
    while end and (not lines[end - 1].strip() or _RULE.fullmatch(lines[end - 1].strip())):
        end -= 1
    return lines[:end]


def _without_boilerplate(lines: list[str]) -> list[str]:
    """Without the device lines and legal disclaimers that end the mail."""
    for _ in range(_MAX_BOILERPLATE):
        lines = _without_rule(lines)
        start = len(lines)
        while start and lines[start - 1].strip():
            start -= 1
        if lines and DEVICE_LINE.fullmatch(lines[-1].strip()):
            lines = lines[:-1]
        elif _has_text(lines[:start]) and _is_disclaimer(" ".join(lines[start:])):
            lines = lines[:start]
        else:
            break
    return lines


def _is_disclaimer(paragraph: str) -> bool:
    return len(paragraph) >= _MIN_DISCLAIMER and DISCLAIMER.search(paragraph) is not None


def _without_footer(lines: list[str]) -> list[str]:
    """Without the lines about the mailing itself, which stand at the top and in the lower half."""
    if sum(bool(line.strip()) for line in lines) < _MIN_LINES_WITH_FOOTER:
        return lines
    return [
        line
        for index, line in enumerate(lines)
        if _MIN_LINES_WITH_FOOTER // 2 <= index < len(lines) // 2
        or len(line) > _MAX_FOOTER_LINE
        or not FOOTER_LINE.search(line)
    ]
