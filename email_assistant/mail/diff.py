"""What an edit made of a text, word by word; and how much of a proposed letter is left in the one that was sent."""

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Final, Literal, NamedTuple

from email_assistant.mail.excerpt import GREETING, SENTENCE

_PIECE = re.compile(r"\s+|(?<![\w.+-])[\w.+-]++@[\w-]+(?:\.[\w-]+)*|\w+|[^\w\s]")
"""An address is one."""
_MOST_WORDS = 4000  # more take seconds to compare; they are shown as replaced
_WORD: Final = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]|[^\W\u3040-\u30ff\u3400-\u9fff]+")
"""Chinese and Japanese are written without blanks: there each sign counts as a word."""
_TELLING: Final = 4
"""A sentence with fewer words counts as kept only if a whole sentence of the letter equals it."""
Words = tuple[str, ...]


class Piece(NamedTuple):
    kind: Literal["same", "gone", "new"]
    text: str


def compare(before: str, after: str) -> list[Piece]:
    """The pieces that lead from one text to the other; what is gone stands before what is new."""
    a, b = _PIECE.findall(before), _PIECE.findall(after)
    if max(len(a), len(b)) > _MOST_WORDS:
        return [Piece("gone", before), Piece("new", after)]
    pieces: list[Piece] = []
    for _, a_from, a_to, b_from, b_to in SequenceMatcher(None, a, b, autojunk=False).get_opcodes():
        gone, new = "".join(a[a_from:a_to]), "".join(b[b_from:b_to])
        if gone == new:
            pieces.append(Piece("same", gone))
        else:
            pieces += [Piece("gone", gone)] if gone else []
            pieces += [Piece("new", new)] if new else []
    return pieces


@dataclass(frozen=True, slots=True)
class Survival:
    """What a person kept of a proposal. Large and small letters, punctuation and line breaks count for nothing."""

    sentences: int  # of the proposal, without greeting and closing
    survived: int  # of those, word for word
    distance: float
    """Number of changed words, divided by the word count of the longer text: 0 (same) to 1 (nothing in common)."""

    @property
    def share(self) -> float | None:
        """Of the sentences, those that survived; None where nothing was proposed."""
        return self.survived / self.sentences if self.sentences else None


def survival(proposed: str, sent: str) -> Survival:
    """How much of `proposed` is in `sent`. The caller leaves out quotations and signatures, as `Mail.body` does."""
    kept = _sentences(sent)
    everything = f" {' '.join(_words(sent))} "
    wanted = _sentences(proposed)
    survived = [
        each for each in wanted if each in kept or (len(each) >= _TELLING and f" {' '.join(each)} " in everything)
    ]
    before, after = _words(proposed), _words(sent)
    longer = max(len(before), len(after))
    return Survival(len(wanted), len(survived), _distance(before, after) / longer if longer else 0.0)


def _sentences(text: str) -> list[Words]:
    """Without the short lines at both ends, which greet, close and sign, unless there is nothing else."""
    pieces = [piece for piece in SENTENCE.findall(text) if _words(piece)]
    inner = [number for number, piece in enumerate(pieces) if not GREETING.fullmatch(piece)]
    said = pieces[inner[0] : inner[-1] + 1] if inner else pieces
    return [_words(piece) for piece in said]


def _words(text: str) -> Words:
    return tuple(_WORD.findall(text.casefold()))


def _distance(before: Sequence[str], after: Sequence[str]) -> int:
    """Levenshtein's, a column of the table at a time (Myers 1999, https://doi.org/10.1145/316542.316550, as simplified
    by Hyyrö 2003): long letters take milliseconds."""
    if not before:
        return len(after)
    places: defaultdict[str, int] = defaultdict(int)
    for place, word in enumerate(before):
        places[word] |= 1 << place
    everywhere, last = (1 << len(before)) - 1, 1 << (len(before) - 1)
    up, down, found = everywhere, 0, len(before)  # where the column rises by one, and where it falls
    for word in after:
        same = places.get(word, 0)
        level = (((same & up) + up) ^ up) | same | down
        rises, falls = down | ~(level | up) & everywhere, up & level
        found += bool(rises & last) - bool(falls & last)
        rises, falls = (rises << 1 | 1) & everywhere, (falls << 1) & everywhere
        up, down = falls | ~(level | rises) & everywhere, rises & level
    return found
