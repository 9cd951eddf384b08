"""What is shown of a text that is too long: its head, its tail, where requests stand, and what asks in between; and
what a letter comes to on one line, in its own words."""

import re
from bisect import bisect, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence

from email_assistant.mail.charset import one_line
from email_assistant.mail.phrases import ASKS

Measure = Callable[[str], int]  # how long a text is, in whatever a limit counts

_HEAD = 0.1  # of the room, before anything else: who writes, and about what
_FULL_HEAD = 0.35  # of the room, where some is left over in the end
_TAIL_CHARACTERS = 2000  # of the end, which come next
_TAIL_BESIDE_ASKS = 0.65  # of the room, where so much of the end has none: the rest of it is searched for what asks
_MOST_ASKS = 8
LEAST = 160  # a smaller limit has room for the head only
_PIECES = 20  # how many of the longest pieces fit into a limit; a sentence that is longer may be cut within
_LOOKED_THROUGH = 30_000  # characters at each end of what is longer still; the rest is left out unread
_MARK = "\n[… 100000 characters cut …]\n"

_ENDS = ".!?…؟।፧።"
_BEHIND = "\"'»”’)]"
_WIDE, _BEHIND_WIDE = "。！？", "」』”）"
# A run of marks is looked at once, from its first. A line break ends none where a line is as long as programs wrap it.
_ENDED = rf"[{_ENDS}]+[{re.escape(_BEHIND)}]*(?:\s+|$)"
SENTENCE = re.compile(
    rf"[{_ENDS}]{_ENDED}|.+?(?:(?<![{_ENDS}]){_ENDED}|[{_WIDE}]+[{_BEHIND_WIDE}]*\n*|\n{{2,}}|(?<![^\n]{{60}})\n|$)|\n+",
    re.DOTALL,
)
_BREAK = re.compile(r".*(?:[,;:，、；：]\s*|\s)", re.DOTALL)

# What o200k makes of a character at most in ordinary text, by the Unicode block that it is in (measured).
_TOKENS = (
    (0x0000, 0.4),  # Latin: English 0.22, Finnish 0.30, Hungarian 0.38
    (0x0080, 0.7),
    (0x0370, 0.45),  # Greek, Cyrillic, Armenian, Hebrew, Arabic: 0.27 to 0.36
    (0x0700, 1.5),
    (0x0900, 0.45),  # Indic scripts: 0.28 to 0.30
    (0x0E00, 0.55),  # Thai: 0.41 to 0.52
    (0x0E80, 1.0),
    (0x10A0, 0.45),  # Georgian
    (0x1100, 2.2),  # Ethiopic 1.83, and rarer ones
    (0x1E00, 0.7),
    (0x2000, 1.0),
    (0x3000, 0.8),  # kana: Japanese 0.73 to 0.84
    (0x3100, 1.3),  # Chinese 0.77 to 1.18
    (0xA000, 2.2),
    (0xAC00, 0.8),  # Korean 0.52 to 0.71
    (0xD7B0, 2.0),
    (0xFF00, 1.0),
    (0x10000, 2.0),
)
_BLOCKS = [start for start, _ in _TOKENS]
_SIGN = re.compile(r"[!-@\[-`{-~]|\s(?=[0-9])")
_SIGN_EXTRA = 0.65
_OPAQUE = re.compile(r"[!-~]{25,}")  # no words: keys, links, what a program has encoded
_OPAQUE_EXTRA = 0.35
GREETING = re.compile(r"[^.?!…]{0,60}[,，]\s*|[^\s.?!…]+(?: [^\s.?!…]+){0,3}!?\s*", re.DOTALL)
"""At the head of a letter: a few words that end in a comma, or in nothing."""
_QUESTION = re.compile(r"[?？؟][\"'»”’)\]]*$")
_THANKS = re.compile(
    r"(?:(?:many )?thank(?:s| you)\b|(?:vielen |herzlichen )?dank\b|merci\b|gracias\b)"
    r"(?:(?!\b(?:but|aber|mais|pero)\b)[^,，;:—–])*",
    re.IGNORECASE,
)
"""A sentence of thanks alone: behind a comma it may say anything."""
_FEW_WORDS = 3


def tokens(text: str) -> int:
    """How many tokens a model takes this for; of ordinary text rather too many than too few."""
    plain = sum(_TOKENS[bisect(_BLOCKS, ord(c)) - 1][1] * n for c, n in Counter(text).items())
    opaque = sum(len(found[0]) for found in _OPAQUE.finditer(text))
    return round(plain + len(_SIGN.findall(text)) * _SIGN_EXTRA + opaque * _OPAQUE_EXTRA)


def beginning(text: str, limit: int, measure: Measure = len) -> str:
    """The text, or as much of its beginning as measures `limit`, and how much is left out."""
    if measure(text) <= limit:
        return text
    # No character measures less than a third.
    most = bisect_right(range(min(len(text), 3 * limit)), limit, key=lambda n: measure(text[:n])) - 1
    return f"{text[:most].rstrip()}\n[… {len(text) - most} characters cut]"


def looked_through(text: str) -> str:
    """What of a text anybody may be shown: of a very long one no more than both its ends."""
    if len(text) <= 2 * _LOOKED_THROUGH:
        return text
    return f"{text[:_LOOKED_THROUGH]}\n{text[-_LOOKED_THROUGH:]}"


def excerpt(text: str, limit: int, measure: Measure = len) -> str:
    """The text, or what fits into `limit` of its head, its tail and what asks, in its order and in whole sentences.

    A line stands where some is left out, and says how much. The end comes before all but the first words."""
    whole = measure(text)
    if whole <= limit:
        return text
    if limit < LEAST:
        return beginning(text, limit, measure)
    longest = max(20, limit * len(text) // (whole * _PIECES))
    if len(text) <= 2 * _LOOKED_THROUGH:
        return _told(pieces := list(_pieces(text, longest)), _chosen(pieces, limit, measure))
    first, last = (list(_pieces(part, longest)) for part in (text[:_LOOKED_THROUGH], text[-_LOOKED_THROUGH:]))
    pieces = [*first, text[_LOOKED_THROUGH:-_LOOKED_THROUGH], *last]
    return _told(pieces, _chosen(pieces, limit, measure))


def _pieces(text: str, longest: int) -> Iterator[str]:
    """The text's sentences, and of longer ones their clauses or words."""
    for sentence in SENTENCE.finditer(text):
        rest = sentence[0]
        while len(rest) > longest:
            found = _BREAK.match(rest[:longest])
            end = found.end() if found else longest
            yield rest[:end]
            rest = rest[end:]
        yield rest


def _chosen(pieces: Sequence[str], limit: int, measure: Measure) -> set[int]:
    """The numbers of the pieces to show."""
    mark = measure(_MARK)
    room = limit - mark
    kept: set[int] = set()

    def take(numbers: Iterable[int], most: float) -> None:
        """Keep these pieces, up to the first that goes beyond `most` of the room, or of what is left of it."""
        nonlocal room
        most = min(most, room)
        for number in numbers:
            size = 0 if number in kept else measure(pieces[number])
            if size > most:
                return
            kept.add(number)
            most -= size
            room -= size

    whole = room
    take(range(len(pieces)), whole * _HEAD)
    end = _window(pieces)
    fits = sum(measure(pieces[number]) for number in end if number not in kept) <= room
    take(end, room if fits else whole * _TAIL_BESIDE_ASKS)
    asks = [number for number in reversed(range(len(pieces))) if number not in kept and ASKS.search(pieces[number])]
    for number in asks[:_MOST_ASKS]:
        sentence = [each for each in _beside(pieces, number) if each not in kept]
        if (size := sum(measure(pieces[each]) for each in sentence) + mark) <= room:
            kept.update(sentence)
            room -= size
    take(range(len(pieces)), whole * _FULL_HEAD - (whole * _HEAD))
    take(reversed(range(len(pieces))), room)
    return kept


def _beside(pieces: Sequence[str], number: int) -> list[int]:
    """A piece, and those next to it that are of the same sentence."""
    before = [number - 1] if number and not _is_end(pieces[number - 1]) else []
    after = [number + 1] if number + 1 < len(pieces) and not _is_end(pieces[number]) else []
    return [*before, number, *after]


def _is_end(piece: str) -> bool:
    """Whether a sentence ends with it."""
    said = piece.rstrip()
    is_ended = said.rstrip(_BEHIND).endswith(tuple(_ENDS)) or said.rstrip(_BEHIND_WIDE).endswith(tuple(_WIDE))
    return is_ended or "\n" in piece[len(said) :]


def _window(pieces: Sequence[str]) -> list[int]:
    """The pieces in which the last characters stand, from the end back."""
    left = _TAIL_CHARACTERS
    numbers = []
    for number in reversed(range(len(pieces))):
        if left <= 0:
            break
        numbers.append(number)
        left -= len(pieces[number])
    return numbers


def _told(pieces: Sequence[str], kept: set[int]) -> str:
    parts: list[str] = []
    cut = 0
    for number, piece in enumerate([*pieces, None]):
        if piece is not None and number not in kept:
            cut += len(piece)
            continue
        if cut:
            parts = ["".join(parts).rstrip(), f"\n[… {cut} characters cut …]\n"]
            cut = 0
        parts.append(piece or "")
    return "".join(parts).strip()


def asked(text: str) -> str:
    """The sentence that asks for something, else the first that says something."""
    found = list(_sentences(text))
    questions = (each for each in found if _QUESTION.search(each))
    requests = (each for each in found if ASKS.search(each))
    return next(questions, None) or next(requests, None) or next(iter(found), one_line(text).strip())


def said(text: str, repeated: str = "") -> str:
    """The first sentence that says more than a greeting and thanks.

    Args:
        repeated: what the letter answers: where it says that again is not where it says something.
    """
    found = list(_sentences(text))
    more = (
        each
        for each in found
        if not _THANKS.fullmatch(each) and not (repeated and repeated in each) and not _is_sign_off(each)
    )
    return next(more, found[0] if found else one_line(text).strip())


def _is_sign_off(sentence: str) -> bool:
    """A name, or "Kind regards,"."""
    return len(sentence.split()) <= _FEW_WORDS and sentence[-1] not in ".?!…。？！"


def _sentences(text: str) -> Iterator[str]:
    """Without the greeting."""
    is_head = True
    for piece in SENTENCE.findall(text):
        if is_head and (not piece.strip() or GREETING.fullmatch(piece)):
            continue
        is_head = False
        if sentence := one_line(piece).strip():
            yield sentence
