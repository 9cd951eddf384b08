"""A mail's text in passages: its sender's words, and what they quote."""

from itertools import groupby

_SHORT = 2  # quoted lines that stay in sight: a sentence that is answered


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
