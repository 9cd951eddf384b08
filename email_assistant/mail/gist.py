"""What a letter comes to on one line, in its own words."""

import re
from collections.abc import Iterator

from .charset import one_line
from .excerpt import SENTENCE
from .phrases import ASKS

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
