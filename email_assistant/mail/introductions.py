"""Where another mail's text begins in a mail: by the line, the lines or the mark with which its program introduces it.

Programs write these in the language of their user, and languages have more words than can be listed. So what all have
in common comes first (an address, a day, a time, a colon at the end, a quotation mark below), and then words.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from email_assistant.mail import phrases

_MAX_LINE = 400  # characters of an introduction over its lines
_MAX_LINES = 4
_MAX_HEADERS = 12
_MAX_SIGN_OFF = 14  # words beside a time, in the line that introduces a quotation
_MAX_WORDS = 8  # where none of them is known
_MAX_NAME = 4  # words

_UNSEEN = re.compile("[\u200b-\u200f\u202a-\u202e\u2060\u2066-\u2069\ufeff]")
_LINK = re.compile(r"<(?:mailto|https?):[^<>\s]*>", re.IGNORECASE)
_ADDRESS = re.compile(r"[<(\[]\s?[^\s<>()\[\]]+@[^\s<>()\[\]]+\s?[>)\]]")
_ANY_ADDRESS = re.compile(r"[^\s@]+@[^\s@]+")
_YEAR = re.compile(r"(?<!\d)(?:19|20)\d\d(?!\d)|(?<!\d)\d{1,2}[./-] ?\d{1,2}[./-] ?\d{1,2}(?!\d)")
_CLOCK = re.compile(
    r"(?<![\d.:/])\d{1,2}(?:[:h時时]\s?\d{2}(?:[:.]\d{2})?(?!\d)|\.\d{2}(?![\d.]))|\b\d{1,2}\s?[ap]\.?m\b",
    re.IGNORECASE,
)
_WORD = re.compile(r"[^\W\d_]{2,}")
_NAME = re.compile(r"[\"'“„(]?[^\W\d_a-zà-öø-ÿ][\w.'’-]*[\"'”)]?,?")
_PRONOUN = re.compile(r"(?:they|he|she|it|we|you|who|i|sie|er|es|wir|ihr|ils?|elles?|on|nous|vous)\b", re.IGNORECASE)
_FIRST_PERSON = re.compile(r"\bI\b|\bme\b|\b[Ii]ch\b|\bmir\b|\bmich\b|\b[Jj]['’]|\byo\b|\bik\b|\bjag\b|\bjeg\b")
_HALVES = ("am", "pm")  # of a day, in capitals as a name is
_SENTENCE_END = (".", "!", "?", ";", ":")
_EDGES = " \t-–—*_=~"
_HEADER = re.compile(r"[*_ \t]{0,3}([^:：<>@\n]{1,30}?)[*_ \t]{0,3}[:：][*_]{0,2}[ \t]*(.*)")
_WITHOUT_COLON = re.compile(r"([^\W\d_]{2,12}) (?=[\"“<]?\S[^@]{0,80}@)")
_GROUPWISE = re.compile(r">>> ?(?=[^>]*(?:@|\d[:.]\d))[^>]*(?:<[^<>]*>[^>]*)?>>>")
_NOTES = re.compile(r"[^-]{2,60}-{3} ?(?=[^-]{0,40}\d[:.]\d\d)[^-]{5,40}-{3}.*")


@dataclass(frozen=True, slots=True)
class Introduction:
    """What introduces another mail's text."""

    after: int  # the line after it
    why: str
    by: str = ""  # who is quoted, as it says
    to: str = ""  # whom that was written to


def bare(line: str) -> str:
    """A line as introductions are told by: without marks that nobody sees, and links beside addresses."""
    line = line.strip()
    return _LINK.sub("", _UNSEEN.sub("", line.replace("\xa0", " "))).strip() if line else ""


def is_quote(line: str) -> bool:
    return line.startswith((">", " >"))


def introduced(lines: Sequence[str], index: int) -> Introduction | None:
    """What introduces another mail's text at this line of `bare` lines, if anything does."""
    line = lines[index]
    if not line:
        return None
    is_groupwise = line.startswith(">>> ") and line.endswith(":") and _introduces(line[4:], before_quote=False)
    if is_groupwise or _GROUPWISE.fullmatch(line) or _NOTES.fullmatch(line):
        return Introduction(index + 1, _by_line(line), by=_quoted_name(line))
    if is_quote(line):
        return None
    if _is_mark(lines, index):
        below = _below(lines, index, 1)
        inner = introduced(lines, below) if below is not None else None
        named = inner or Introduction(index + 1, "")
        return Introduction(max(named.after, index + 1), f"the mark “{line[:60]}” introduces it", named.by, named.to)
    return header_block(lines, index) or attribution(lines, index)


def quotes_another(text: str) -> bool:
    """Whether a text holds another mail's."""
    lines = [bare(line) for line in text.splitlines()]
    return any(is_quote(line) or introduced(lines, index) is not None for index, line in enumerate(lines))


def _by_line(line: str) -> str:
    return f"the line “{line[:160]}” introduces it"


def _below(lines: Sequence[str], index: int, count: int) -> int | None:
    """The line, of those that are not empty, so many below."""
    for below in range(index + 1, min(index + 6, len(lines))):
        if lines[below]:
            count -= 1
            if not count:
                return below
    return None


def _is_mark(lines: Sequence[str], index: int) -> bool:
    """A line such as `-----Original Message-----` in any language, with the lines below that go with it."""
    match = phrases.FRAMED.fullmatch(lines[index])
    if match is None or _is_said(lines, index) or phrases.FORWARD_MARK.fullmatch(lines[index]):
        return False
    if _CLOCK.search(match["words"]):  # an introduction itself, between dashes
        return False
    below = _below(lines, index, 1)
    if below is None or is_quote(lines[below]):
        return below is not None and len(match["left"]) > 4
    kind = header_kind(lines[below])
    words = _WITHOUT_COLON.match(lines[below])
    return bool(kind) or _is_header(words) or attribution(lines, below, alone=True) is not None


def _is_header(words: re.Match[str] | None) -> bool:
    return words is not None and phrases.HEADERS.get(words[1].lower()) == "from"


def _is_said(lines: Sequence[str], index: int) -> bool:
    """Whether the text above announces what stands here, as something of its own: "with this text:"."""
    above = next((lines[i] for i in range(index - 1, max(-1, index - 4), -1) if lines[i]), "")
    return above.endswith((":", "：")) and not is_quote(above) and not header_kind(above)


# --- "From: … Sent: … To: … Subject: …"


def header_block(lines: Sequence[str], index: int) -> Introduction | None:
    """The lines that Outlook and others put above a quoted mail, in whatever order, in the languages of `HEADERS`."""
    if not header_kind(lines[index]) or (index and _is_form(lines, index)):
        return None
    found: dict[str, str] = {}
    end = index
    for below in range(index, min(index + _MAX_HEADERS, len(lines))):
        line, kind = lines[below], header_kind(lines[below])
        is_header = _HEADER.match(line[:_MAX_LINE]) is not None
        if kind in found or (line and not is_header and not lines[below - 1] and below > index):
            break
        if kind:
            found[kind] = _value(line)
            end = below + 1
        elif line and is_header:
            end = below + 1
    # Without either, it may be a journey: "From: … To: … Date: …".
    is_one = {"from", "date"} <= found.keys() and ("subject" in found or ("to" in found and "@" in found["from"]))
    if not is_one or _is_said(lines, index):
        return None
    names = ", ".join(_label(line) for line in lines[index:end] if header_kind(line))
    return Introduction(end, f"the lines {names} introduce it", found["from"], found.get("to", ""))


def header_kind(line: str) -> str:
    """What such a line tells: `from`, `date`, `to` or `subject`; empty if it is none."""
    return _kind(line[:_MAX_LINE]) if ":" in line or "：" in line else ""


@lru_cache(maxsize=1024)  # each line is asked for by those above it
def _kind(line: str) -> str:
    match = _HEADER.match(line)
    if match is None:
        return ""
    label = " ".join(match[1].strip("*_ \t").lower().split())
    first, _, others = label.partition(" ")
    kind = phrases.HEADERS.get(label) or (phrases.HEADERS.get(first, "") if len(others) <= 6 else "")
    if kind == "date" and not any(map(str.isdigit, match[2])):
        return ""
    return kind


def _label(line: str) -> str:
    match = _HEADER.match(line[:_MAX_LINE])
    return f"“{match[1].strip('*_ ')}:”" if match else ""


def _value(line: str) -> str:
    match = _HEADER.match(line[:_MAX_LINE])
    return match[2].strip(" *_;") if match else ""


def _is_form(lines: Sequence[str], index: int) -> bool:
    """Whether the line directly above is one of a form, which has lines of other names, too."""
    above = lines[index - 1]
    match = _HEADER.fullmatch(above[:_MAX_LINE]) if above else None
    return match is not None and bool(match[2]) and not header_kind(above) and "://" not in above


# --- "On … wrote:"


def attribution(lines: Sequence[str], index: int, *, alone: bool = False) -> Introduction | None:
    """ "On … wrote:", which mailers wrap over several lines; `alone` if it needs no empty line above."""
    if not (lines[index].strip(_EDGES)[:1].isalnum() or lines[index][:1] in "\"'“„(<") or (
        index and not alone and _continues_prose(lines, index)
    ):
        return None
    length = 0
    for end in range(index, min(index + _MAX_LINES, len(lines))):
        line = lines[end]
        length += len(line) + 1
        if not line or length > _MAX_LINE or (end > index and is_quote(line)):
            return None
        framed = phrases.FRAMED.fullmatch(line)
        if line.endswith((":", "：")) or framed or _ends_framed(lines, index, end):
            wrapped = [part.strip(_EDGES) if framed else part.strip() for part in lines[index : end + 1]]
            wrapped[0], wrapped[-1] = wrapped[0].lstrip(_EDGES), _with_colon(wrapped[-1])
            if not _is_attribution(wrapped, before_quote=_quote_follows(lines, end)):
                return None
            whole = " ".join(wrapped)
            return Introduction(end + 1, _by_line(whole), by=_quoted_name(whole))
    return None


def _ends_framed(lines: Sequence[str], start: int, end: int) -> bool:
    """Whether dashes that began some lines above end here: `---- On … wrote ----`."""
    return end > start and lines[start].startswith("---") and lines[end].endswith("---")


def _with_colon(line: str) -> str:
    line = line.rstrip(_EDGES)
    return line if line.endswith((":", "：")) else f"{line}:"


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
    has_address, has_clock = _ADDRESS.search(line) is not None, _CLOCK.search(line) is not None
    has_year = _YEAR.search(line) is not None
    if _FIRST_PERSON.search(_ANY_ADDRESS.sub("", line)):
        return False
    if has_address and has_year and has_clock:
        return len(_WORD.findall(_ADDRESS.sub("", line))) <= _MAX_SIGN_OFF
    says = phrases.QUOTED_BY.search(line) is not None
    begins = phrases.ATTRIBUTION.fullmatch(line) or phrases.NAME_FIRST_ATTRIBUTION.fullmatch(line)
    if not before_quote:
        is_dated = has_clock or (has_address and has_year)
        is_short = len(_WORD.findall(line)) <= _MAX_WORDS
        return (
            (begins is not None and is_dated)
            or (says and has_year and has_clock and is_short)
            or (says and _is_name_alone(line))
        )
    if has_address:
        return says or len(_WORD.findall(_ADDRESS.sub("", line))) <= 2 + _MAX_NAME
    if says:
        is_told = _is_dated(line) or _is_full_name(line)
        return is_told and len(_WORD.findall(line)) <= _MAX_SIGN_OFF
    is_short = len(_WORD.findall(line)) <= _MAX_WORDS
    return (begins is not None and _is_dated(line)) or (has_year and has_clock and is_short)


def _is_name_alone(line: str) -> bool:
    """ "Ann Lee <ann@example.org> wrote:" """
    words = _ADDRESS.sub(" ", phrases.QUOTED_BY.sub(" ", line)).strip(" :：").split()
    if _ADDRESS.search(line):
        return len(words) <= _MAX_NAME and all(map(_NAME.fullmatch, words))
    return len(words) == 1 and "@" in words[0]


def _is_full_name(line: str) -> bool:
    words = phrases.QUOTED_BY.sub(" ", line).strip(" :：").split()
    return 2 <= len(words) <= _MAX_NAME and all(map(_NAME.fullmatch, words)) and not _PRONOUN.match(line)


def _is_dated(line: str) -> bool:
    return "@" in line or any(map(str.isdigit, line))


def _quoted_name(line: str) -> str:
    """Whom an introduction names: an address, with the words before it that are a name."""
    found = _ADDRESS.search(line)
    if found is None:
        bare_address = re.search(r"[^\s<>()@,;:]{1,64}@[^\s<>()@,;:]+\.\w+", line)
        return bare_address[0] if bare_address else _name_beside(line)
    names: list[str] = []
    for word in reversed(line[: found.start()].split()):
        ends = word.endswith(",") or word.replace(".", "").lower() in _HALVES or phrases.QUOTED_BY.search(word)
        if ends or not _NAME.fullmatch(word) or len(names) == _MAX_NAME:
            break
        names.insert(0, word.strip("\"'“„”"))
    return f"{' '.join(names)} {'<' + found[0][1:-1].strip() + '>'}".strip()


def _name_beside(line: str) -> str:
    """The words with capitals before or after the verb."""
    verb = phrases.QUOTED_BY.search(line)
    if verb is None:
        return ""
    before = re.search(r"([^\W\d_][^,\d:]{1,60}?)\s*$", line[: verb.start()])
    after = line[verb.end() :].strip(" :：")
    return (after if after and _NAME.match(after) else before[1] if before else "").strip(" \"'“„”,")


def _quote_follows(lines: Sequence[str], index: int) -> bool:
    return is_quote(next((line for line in lines[index + 1 : index + 4] if line), ""))


def _continues_prose(lines: Sequence[str], index: int) -> bool:
    """An attribution without `>` below it needs an empty line above it to be told from prose."""
    above = lines[index - 1]
    if not above or is_quote(above) or is_device_line(above) or not above.strip(_EDGES):
        return False
    return not any(is_quote(line) for line in lines[index + 1 : index + 2 + _MAX_LINES])


def is_device_line(line: str) -> bool:
    """ "Sent from my …", with or without a link."""
    line = re.sub(r"[<(\[]?https?://\S+", "", line[:_MAX_LINE]).strip()
    return phrases.DEVICE_LINE.fullmatch(line) is not None
