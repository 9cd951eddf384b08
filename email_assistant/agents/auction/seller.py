"""What a lot's seller answers: out of its description, in their own manner. The same question, the same answer."""

import re
from typing import Final

from email_assistant.agents.auction.rules import Lot

_WORD: Final = re.compile(r"[^\W_]{4,}")
_EMPTY: Final = frozenset(["about", "been", "does", "from", "have", "that", "them", "they", "this", "what", "when"])
_STEM: Final = 5  # letters by which words are compared, so that "repaired" finds "repairs"


def answer(lot: Lot, question: str) -> str:
    """The sentence of the description that has most words of the question; the first of those that have as many."""
    asked = _stems(question)
    sentences = re.split(r"(?<=[.!?])\s+", " ".join(lot.description.split()))
    best = max(sentences, key=lambda sentence: len(asked & _stems(sentence)))
    said = best if asked & _stems(best) else lot.seller.shrug
    return f"{lot.seller.greeting} {said}".strip()


def _stems(text: str) -> set[str]:
    return {word[:_STEM] for word in _WORD.findall(text.lower()) if word not in _EMPTY}
