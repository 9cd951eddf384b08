"""A mail's text in passages: its sender's words, and what they quote."""

import re
from itertools import groupby

_SHORT = 2  # quoted lines that stay in sight: a sentence that is answered
_WRAPPED = re.compile(r"^([^>\s].{54,})\n(?=([^\W\d_]))", re.MULTILINE)
"""A line that a program has broken where its page ended (RFC 5322, 2.1.1 asks for 78 characters)."""


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
