"""What is new in a mail: its text apart from quoted history, signature, tracking and boilerplate; and its text in
passages.

Every rule here needs a clear mark; what has none is its sender's.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from email_assistant.mail import phrases
from email_assistant.mail.boilerplate import with_quote_marks, without_boilerplate, without_footer, without_rule
from email_assistant.mail.charset import readable
from email_assistant.mail.html_text import html_to_text
from email_assistant.mail.introductions import Introduction, bare, introduced, is_quote
from email_assistant.mail.links import bare_urls

_SHORT = 2  # quoted lines that stay in sight: a sentence that is answered
_WRAPPED = re.compile(r"^([^>\s].{54,})\n(?=([^\W\d_]))", re.MULTILINE)
"""A line that a program has broken where its page ended (RFC 5322, 2.1.1 asks for 78 characters)."""
_MAX_READ = 500_000  # characters; more is no letter, and only `Mail.text` has it
_MAX_SIGNATURE_LINES = 15
_MAX_UNSURE_SIGNATURE_LINES = 8
_MAX_QUOTE_BEFORE_ANSWER = 10  # quoted lines kept before each inline answer
_MAX_POINTING = 400  # characters of a text that asks about "this"
_LIST_FOOTER = re.compile(r"_{20,}\s*")
_PGP_HEADER = re.compile(r"-----BEGIN PGP SIGNED MESSAGE-----\n(?:[^\n]+\n)*\n?")
_IMAGE_MARK = re.compile(
    r"\[(?:cid:[^\]\n]{0,200}|image: [^\]\n]{0,200}\.(?:png|jpe?g|gif)|inline image)\]", re.IGNORECASE
)
_LONG_RUN = re.compile(r"([-=_*~#.+•])\1{7,}")
_NAMED_ANSWER = re.compile(r"\s{0,3}(?:\[(?P<in_brackets>[\w .'-]{2,40})\]|(?P<name>[\w.'-]{2,20}):)\s?\S")
_SENTENCE = re.compile(r"(?<=[.!?。？])\s|\n")
_WORD = re.compile(r"[^\W\d_]{2,}")


def passages(text: str) -> list[tuple[str, bool]]:
    """The text in pieces, each with whether it is quoted and longer than a sentence. Joined by line breaks they are the
    text again."""
    found: list[tuple[str, bool]] = []
    for quotes, group in groupby(text.split("\n"), lambda line: line.startswith(">")):
        lines = list(group)
        piece, folds = "\n".join(lines), quotes and len(lines) > _SHORT
        if found and not folds and not found[-1][1]:
            piece = f"{found.pop()[0]}\n{piece}"
        found.append((piece, folds))
    return found


def unwrapped(text: str) -> str:
    """The text with sentences on one line again that were broken in their middle, for pages of any width."""
    return _WRAPPED.sub(lambda found: f"{found[1]} " if found[2].islower() else found[0], text)


@dataclass(frozen=True, slots=True)
class Quoted:
    """What a mail's sender quotes of another mail, or passes on."""

    text: str
    by: str  # who wrote it, as it says; empty if it does not
    why: str  # what tells it apart
    in_body: bool  # whether `Reading.body` has it


@dataclass(frozen=True, slots=True)
class Reading:
    """A mail's text in its parts."""

    own: str  # the sender's words; empty if there are none
    body: str  # those, and what is needed to follow them; never empty if the text is not
    history: tuple[Quoted, ...]
    signature: str
    signature_why: str


def new_text(text: str, *, subject: str = "", bulk: bool = False) -> str:
    """What a mail's sender wrote in this mail; `text` itself when nothing would be left.

    `subject` tells a forwarded mail, which is kept whole; `bulk` allows footers of mass mail to be dropped."""
    return reading(text, subject=subject, bulk=bulk).body


def reading(text: str, *, subject: str = "", bulk: bool = False) -> Reading:
    """The parts of a mail's text, as `new_text` takes it."""
    text = text[:_MAX_READ]
    start = text[:200].lstrip().lower()
    if start.startswith(("<!doctype html", "<html")):
        text = html_to_text(text) or text
    lines, signature, why = _apart_from_signatures(_lines(text))
    parts = _split(lines, is_forward=phrases.FORWARD_SUBJECT.match(subject) is not None)
    own, body = (_cleaned(each, bulk=bulk) for each in (parts.own, parts.body))
    return Reading(own, body or _compact(text.split("\n")) or text, parts.history, _compact(signature), why)


def written(text: str) -> str:
    """What a mail's sender surely wrote in it, their signature too; nothing that they quote or pass on."""
    return _compact(without_rule(_split(_lines(text[:_MAX_READ]), is_forward=False).surely_own))


def _lines(text: str) -> list[str]:
    return with_quote_marks(_without_armour(readable(text)).split("\n"))


def _cleaned(lines: list[str], *, bulk: bool) -> str:
    lines = without_boilerplate(lines)
    return _compact(without_footer(lines) if bulk else lines)


def _compact(lines: Sequence[str]) -> str:
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


def _apart_from_signatures(lines: list[str]) -> tuple[list[str], list[str], str]:
    """The lines without what follows a signature's mark, up to the text of another mail, if that is short enough; the
    first signature; and what tells it apart."""
    marks = [index for index in range(len(lines)) if _most_signature_lines(lines, index)]
    plain = [bare(line) for line in lines] if marks else []
    borders = {index for index in range(len(lines)) if marks and _begins_another_text(lines, plain, index)}
    first = next((index for index, line in enumerate(lines) if line.strip()), 0)
    kept: list[str] = []
    signature: list[str] = []
    why = ""
    done = 0
    for mark in marks:
        if mark < done or mark <= first:  # a mail is not only a signature
            continue
        end = _signature_end(lines, mark, borders)
        if end is not None:
            kept += [*lines[done:mark], ""]
            if not why:
                signature, why = lines[mark + 1 : end], f"it follows the line “{lines[mark][:40]}”"
            done = end
    return kept + lines[done:], signature, why


def _signature_end(lines: list[str], mark: int, borders: set[int]) -> int | None:
    """The line after a signature; None if there is too much of it, or a request among it."""
    most = _most_signature_lines(lines, mark)
    filled = 0
    end = mark + 1
    while end < len(lines) and end not in borders:
        filled += bool(lines[end].strip())
        if filled > most or (not lines[end - 1].strip() and _asks(lines[end])):
            return None
        end += 1
    return end


def _asks(line: str) -> bool:
    """Whether a line asks something of its reader; boilerplate does, of whoever is not meant."""
    marks = (*phrases.DISCLAIMER_MARKS, phrases.NAMES_THE_MAIL)
    is_legal = any(mark.search(line) for mark in marks) or phrases.DEVICE_LINE.fullmatch(line.strip())
    return phrases.ASKS.search(line) is not None and "://" not in line and not is_legal


def _begins_another_text(lines: list[str], plain: list[str], index: int) -> bool:
    return (
        is_quote(lines[index])
        or phrases.POSTSCRIPT.match(lines[index]) is not None
        or phrases.FORWARD_MARK.fullmatch(plain[index]) is not None
        or introduced(plain, index) is not None
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


@dataclass(frozen=True, slots=True)
class _Parts:
    own: list[str]
    body: list[str]
    history: tuple[Quoted, ...]
    surely_own: list[str]  # without what only says that it holds answers


def _split(lines: list[str], *, is_forward: bool) -> _Parts:
    plain = [bare(line) for line in lines]
    for index, line in enumerate(plain):
        if phrases.FORWARD_MARK.fullmatch(line):
            mark = f"the mark “{line[:60]}” passes it on"
            history = _quoted(lines, plain, index, Introduction(index + 1, mark), in_body=True)
            return _Parts(lines[:index], lines, history, lines[:index])
        found = introduced(plain, index)
        if found is None:
            continue
        if not is_forward and _answers_inline(lines, plain, found.after):
            return _between_quotes(lines, plain)
        top = lines[:index]
        if _answers_within(top, lines, found):
            return _Parts(lines, lines, (), top)
        is_needed = is_forward or not _has_text(top) or _points_to_history(top)
        history = _quoted(lines, plain, index, found, in_body=is_needed)
        top = without_rule(top)
        return _Parts(top, lines if is_needed else top, history, top)
    return _Parts(lines, lines, (), lines) if is_forward else _between_quotes(lines, plain)


def _quoted(
    lines: list[str], plain: list[str], index: int, found: Introduction, *, in_body: bool
) -> tuple[Quoted, ...]:
    """The text that is introduced at a line. What it quotes itself is a part of it."""
    by = found.by
    if not by:  # a mark above the line that names who is quoted
        inner = (introduced(plain, below) for below in range(found.after, min(found.after + 3, len(lines))))
        by = next((each.by for each in inner if each and each.by), "")
    return (Quoted("\n".join(line.rstrip() for line in lines[index:]).strip(), by, found.why, in_body),)


def _between_quotes(lines: list[str], plain: list[str]) -> _Parts:
    """Of a text in which quoted lines stand between one's own."""
    own: list[str] = []
    history: list[Quoted] = []
    body = _without_trailing_quote(lines)
    passage: list[str] = []
    found: Introduction | None = None
    index = 0
    while index <= len(lines):
        beginning = introduced(plain, index) if index < len(lines) else None
        if index < len(lines) and (is_quote(lines[index]) or (passage and not plain[index])):
            passage.append(lines[index])
            index += 1
            continue
        if any(map(str.strip, passage)):
            by = found.by if found else _named_within(passage)
            why = found.why if found else "its lines begin with “>”"
            history.append(Quoted("\n".join(passage).strip(), by, why, in_body=index <= len(body)))
            own += [] if passage[-1].strip() else [""]
            found = None
        passage = []
        if beginning:
            found, passage = beginning, lines[index : beginning.after]
            index = beginning.after
        else:
            own += lines[index : index + 1]
            index += 1
    return _Parts(own, _shorten_quotes(body), tuple(history), own)


def _named_within(passage: list[str]) -> str:
    """Whom quoted lines name that hold their own introduction, as those of a telephone do."""
    first = [bare(line.lstrip("> ")) for line in passage[:_MAX_UNSURE_SIGNATURE_LINES]]
    found = filter(None, (introduced(first, index) for index in range(len(first))))
    return next((each.by for each in found), "")


def _has_text(lines: list[str]) -> bool:
    return any(line.strip() for line in lines)


def _points_to_history(top: list[str]) -> bool:
    """Whether a text can't be understood without what stands below it."""
    text = "\n".join(without_boilerplate(top)).strip()
    if phrases.REFERS_TO_HISTORY.search(text):
        return True
    sentences = _SENTENCE.split(text) if len(text) <= _MAX_POINTING else []
    return any(phrases.ASKS.search(each) and phrases.THIS.search(each) for each in sentences)


def _answers_within(top: list[str], lines: list[str], found: Introduction) -> bool:
    """Whether the sender's answers stand in the text that they quote, with no mark that tells them from it: as they
    say, or behind the name of whom the quoted mail was for."""
    if phrases.ANSWERS_WITHIN.search("\n".join(top)):
        return True
    names = {word.lower() for word in _WORD.findall(found.to.partition("<")[0])}
    answers = filter(None, map(_NAMED_ANSWER.match, lines[found.after :])) if names else ()
    return any(
        {word.lower() for word in _WORD.findall(each["in_brackets"] or each["name"])} & names for each in answers
    )


def _answers_inline(lines: list[str], plain: list[str], index: int) -> bool:
    """Whether the lines from there begin with quoted text that a person's unquoted text follows."""
    while index < len(lines) and not plain[index]:
        index += 1
    if index == len(lines) or not is_quote(lines[index]):
        return False
    while index < len(lines):
        if not plain[index] or is_quote(lines[index]):
            index += 1
        elif (after := introduced(plain, index)) is not None:
            index = after.after
        else:
            return True
    return False


def _without_trailing_quote(lines: list[str]) -> list[str]:
    end = len(lines)
    while end and (not lines[end - 1].strip() or is_quote(lines[end - 1])):
        end -= 1
    top = "\n".join(lines[:end])
    # "They write:" makes the quotation a part of what is said.
    return lines if not top or top.endswith((":", "：")) or phrases.REFERS_TO_HISTORY.search(top) else lines[:end]


def _shorten_quotes(lines: list[str]) -> list[str]:
    """Of each long quoted passage before an answer, the lines next to the answer."""
    kept: list[str] = []
    passage: list[str] = []
    for line in [*lines, None]:
        if line is not None and is_quote(line):
            passage.append(line)
            continue
        if len(passage) > _MAX_QUOTE_BEFORE_ANSWER:
            passage = ["> […]", *passage[-_MAX_QUOTE_BEFORE_ANSWER:]]
        kept += passage
        passage = []
        if line is not None:
            kept.append(line)
    return kept
