"""What is new in a mail: its text without quoted history, signature, tracking and boilerplate.

Every rule here needs a clear mark; what has none is kept.
"""

import re
from collections.abc import Iterator

from . import phrases
from .boilerplate import without_boilerplate, without_footer, without_rule
from .charset import readable
from .html_text import html_to_text
from .links import bare_urls

_MAX_READ = 500_000  # characters; more is no letter, and only `Mail.text` has it
_MAX_ATTRIBUTION = 400  # characters of "On … wrote:" over its lines
_MAX_ATTRIBUTION_LINES = 4
_MAX_HEADER_BLOCK = 9
_MAX_SIGNATURE_LINES = 15
_MAX_UNSURE_SIGNATURE_LINES = 8
_MAX_QUOTE_BEFORE_ANSWER = 10  # quoted lines kept before each inline answer

_ATTRIBUTION_START = re.compile(r"[^\W_]")
_ADDRESS_AND_TIME = re.compile(r"(?=.*[<(][^\s<>()]+@[^\s<>()]+[>)])(?=.*\b\d{4}\b)(?=.*\b\d{1,2}[:.h]\d\d\b).*")
_SENTENCE_END = (".", "!", "?", ";", ":")
_HEADER_LINE = re.compile(r"[*_ \t]{0,3}([^\W\d_]{1,12})(?: [^\W\d_]{1,6})?\s?[*_]{0,2}\s?[:：][*_]{0,2}[ \t]*(.*)")
_LIST_FOOTER = re.compile(r"_{20,}\s*")
_PGP_HEADER = re.compile(r"-----BEGIN PGP SIGNED MESSAGE-----\n(?:[^\n]+\n)*\n?")
_IMAGE_MARK = re.compile(
    r"\[(?:cid:[^\]\n]{0,200}|image: [^\]\n]{0,200}\.(?:png|jpe?g|gif)|inline image)\]", re.IGNORECASE
)
_LONG_RUN = re.compile(r"([-=_*~#.+•])\1{7,}")


def new_text(text: str, *, subject: str = "", bulk: bool = False) -> str:
    """What a mail's sender wrote in this mail; `text` itself when nothing would be left.

    `subject` tells a forwarded mail, which is kept whole; `bulk` allows footers of mass mail to be dropped."""
    text = text[:_MAX_READ]
    start = text[:200].lstrip().lower()
    if start.startswith(("<!doctype html", "<html")):
        text = html_to_text(text) or text
    lines = _without_signatures(_without_armour(readable(text)).split("\n"))
    if not phrases.FORWARD_SUBJECT.match(subject):
        lines = _without_history(lines)
    lines = without_boilerplate(lines)
    if bulk:
        lines = without_footer(lines)
    body = _compact(lines)
    return body or _compact(text.split("\n")) or text


def written(text: str) -> str:
    """What a mail's sender wrote in it, their signature too; nothing that they quote or pass on."""
    lines = _without_armour(readable(text[:_MAX_READ])).split("\n")
    kept: list[str] = []
    index = 0
    while index < len(lines) and not phrases.FORWARD_MARK.fullmatch(lines[index].strip()):
        after = _history_after(lines, index)
        if after is not None and not _answers_inline(lines[after:]):
            break
        if after is None and not _is_quote(lines[index]):
            kept.append(lines[index])
        index = after or index + 1
    return _compact(without_rule(kept))


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


def _without_signatures(lines: list[str]) -> list[str]:
    """Without what follows a signature's mark, up to the text of another mail, if that is short enough."""
    marks = [index for index in range(len(lines)) if _most_signature_lines(lines, index)]
    borders = {index for index in range(len(lines)) if marks and _begins_another_text(lines, index)}
    first = next((index for index, line in enumerate(lines) if line.strip()), 0)
    kept: list[str] = []
    done = 0
    for mark in marks:
        if mark < done or mark <= first:  # a mail is not only a signature
            continue
        end = _signature_end(lines, mark, borders)
        if end is not None:
            kept += [*lines[done:mark], ""]
            done = end
    return kept + lines[done:]


def _signature_end(lines: list[str], mark: int, borders: set[int]) -> int | None:
    """The line after a signature; None if there is too much of it."""
    most = _most_signature_lines(lines, mark)
    filled = 0
    end = mark + 1
    while end < len(lines) and end not in borders:
        filled += bool(lines[end].strip())
        end += 1
        if filled > most:
            return None
    return end


def _begins_another_text(lines: list[str], index: int) -> bool:
    return (
        _is_quote(lines[index])
        or phrases.POSTSCRIPT.match(lines[index]) is not None
        or phrases.FORWARD_MARK.fullmatch(lines[index].strip()) is not None
        or _history_after(lines, index) is not None
    )


def _most_signature_lines(lines: list[str], index: int) -> int:
    """How many lines the mark at `index` may cut; 0 if there is no mark."""
    line = lines[index]
    if line == "-- ":
        return _MAX_SIGNATURE_LINES
    # Without its blank, "--" may as well underline a heading or part two passages.
    if line == "--" and not lines[index - 1].strip() and any(map(str.strip, lines[index + 1 : index + 2])):
        asks = any("?" in other for other in lines[index + 1 : index + 1 + _MAX_UNSURE_SIGNATURE_LINES])
        return 0 if asks else _MAX_UNSURE_SIGNATURE_LINES
    if _LIST_FOOTER.fullmatch(line) and "mailing list" in " ".join(lines[index + 1 : index + 3]).lower():
        return _MAX_UNSURE_SIGNATURE_LINES
    return 0


def _has_text(lines: list[str]) -> bool:
    return any(line.strip() for line in lines)


def _without_history(lines: list[str]) -> list[str]:
    for index, line in enumerate(lines):
        if phrases.FORWARD_MARK.fullmatch(line.strip()):
            return lines
        after = _history_after(lines, index)
        if after is None:
            continue
        if _answers_inline(lines[after:]):
            break
        top = lines[:index]
        if not _has_text(top) or phrases.REFERS_TO_HISTORY.search("\n".join(top)):
            return lines
        return without_rule(top)
    return _shorten_quotes(_without_trailing_quote(lines))


def _history_after(lines: list[str], index: int) -> int | None:
    """If another mail's text is introduced at this line: the line after the introduction."""
    line = lines[index].strip()
    if phrases.ORIGINAL_MARK.fullmatch(line):
        return index + 1
    if _starts_header_block(lines, index):
        return index + 1
    return _attribution_end(lines, index)


def _attribution_end(lines: list[str], index: int) -> int | None:
    """The line after "On … wrote:", which mailers wrap over several lines."""
    if not _ATTRIBUTION_START.match(lines[index].lstrip()) or (index and _continues_prose(lines, index)):
        return None
    length = 0
    for end in range(index, min(index + _MAX_ATTRIBUTION_LINES, len(lines))):
        line = lines[end].strip()
        length += len(line) + 1
        if not line or length > _MAX_ATTRIBUTION:
            return None
        if line.endswith((":", "：")):
            wrapped = [part.strip() for part in lines[index : end + 1]]
            return end + 1 if _is_attribution(wrapped, before_quote=_quote_follows(lines, end)) else None
    return None


def _is_attribution(lines: list[str], *, before_quote: bool) -> bool:
    """Whether these lines, and no fewer of the last of them, introduce a quotation."""
    if not _introduces(" ".join(lines), before_quote=before_quote):
        return False
    for start in range(1, len(lines)):
        rest = " ".join(lines[start:])
        if phrases.ATTRIBUTION.fullmatch(rest):
            return False
        is_apart = lines[start - 1].endswith(_SENTENCE_END) or not _is_dated(" ".join(lines[:start]))
        if is_apart and _introduces(rest, before_quote=before_quote):
            return False
    return True


def _introduces(line: str, *, before_quote: bool) -> bool:
    if not _is_dated(line):
        return False
    if phrases.ATTRIBUTION.fullmatch(line) or phrases.NAME_FIRST_ATTRIBUTION.fullmatch(line):
        return True
    # In any language, a quotation makes it sure.
    return before_quote and _ADDRESS_AND_TIME.fullmatch(line) is not None


def _is_dated(line: str) -> bool:
    return "@" in line or any(map(str.isdigit, line))


def _quote_follows(lines: list[str], index: int) -> bool:
    return _is_quote(next((line for line in lines[index + 1 : index + 4] if line.strip()), ""))


def _continues_prose(lines: list[str], index: int) -> bool:
    """An attribution without `>` below it needs an empty line above it to be told from prose."""
    if not lines[index - 1].strip() or _is_quote(lines[index - 1]):
        return False
    return not any(_is_quote(line) for line in lines[index + 1 : index + 2 + _MAX_ATTRIBUTION_LINES])


def _starts_header_block(lines: list[str], index: int) -> bool:
    """Outlook's "From: … Sent: … To: … Subject: …", in the languages of `HEADERS`."""
    if _header_kind(lines[index]) != "from":
        return False
    kinds = set(_kinds_below(lines, index))
    # Without either, it may be a journey: "From: … To: … Date: …".
    return "date" in kinds and ("subject" in kinds or ("to" in kinds and "@" in lines[index]))


def _kinds_below(lines: list[str], index: int) -> Iterator[str]:
    """The kinds of the header lines that follow, of which each may stand alone or run on."""
    for below in range(index + 1, min(index + _MAX_HEADER_BLOCK, len(lines))):
        kind = _header_kind(lines[below])
        is_header = _HEADER_LINE.match(lines[below][:_MAX_ATTRIBUTION])
        if kind == "from" or (lines[below].strip() and not is_header and not lines[below - 1].strip()):
            return
        yield kind


def _header_kind(line: str) -> str:
    match = _HEADER_LINE.match(line[:_MAX_ATTRIBUTION])
    kind = phrases.HEADERS.get(match[1].lower(), "") if match else ""
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
    top = "\n".join(lines[:end])
    # "They write:" makes the quotation a part of what is said.
    return lines if not top or top.endswith((":", "：")) or phrases.REFERS_TO_HISTORY.search(top) else lines[:end]


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
