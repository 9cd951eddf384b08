"""What an edit made of a text, word by word."""

import re
from difflib import SequenceMatcher
from typing import Literal, NamedTuple

_WORD = re.compile(r"\s+|(?<![\w.+-])[\w.+-]++@[\w-]+(?:\.[\w-]+)*|\w+|[^\w\s]")
"""An address is one."""
_MOST_WORDS = 4000  # more take seconds to compare; they are shown as replaced


class Piece(NamedTuple):
    kind: Literal["same", "gone", "new"]
    text: str


def compare(before: str, after: str) -> list[Piece]:
    """The pieces that lead from one text to the other; what is gone stands before what is new."""
    a, b = _WORD.findall(before), _WORD.findall(after)
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
