"""Match any of several wordings."""

import re


def any_of(*alternatives: str) -> re.Pattern[str]:
    """A pattern that finds any of the alternatives (regular expressions) as whole words, whatever their case."""
    return re.compile(rf"\b(?:{'|'.join(alternatives)})\b", re.IGNORECASE)
