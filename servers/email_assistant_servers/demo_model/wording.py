"""Match any of several wordings, and what is written alike everywhere."""

import re

ADDRESS = re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+")
"""An e-mail address as people write it in a sentence."""


def any_of(*alternatives: str) -> re.Pattern[str]:
    """A pattern that finds any of the alternatives (regular expressions) as whole words, whatever their case."""
    return re.compile(rf"\b(?:{'|'.join(alternatives)})\b", re.IGNORECASE)
