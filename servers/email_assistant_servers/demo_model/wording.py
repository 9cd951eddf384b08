"""What the model understands and says: `wording.yaml`, and how a sentence is tidied."""

import re
from pathlib import Path
from typing import Any

import yaml

_FILE: dict[str, Any] = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text())
ABILITIES: str = _FILE["abilities"]
SELF_DESCRIPTION = ABILITIES.partition(" It understands")[0]
SAYS: str = _FILE["says"]
PHRASES: dict[str, Any] = _FILE["phrases"]
ADDRESS = re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+")  # an e-mail address as people write it in a sentence


def patterns(concern: str) -> dict[str, re.Pattern[str]]:
    """The patterns of a concern by name, in the file's order."""
    return {name: _pattern(wording) for name, wording in _FILE[concern].items()}


def _pattern(wording: str | list[str]) -> re.Pattern[str]:
    expression = wording if isinstance(wording, str) else rf"\b(?:{'|'.join(wording)})\b"
    return re.compile(expression, re.IGNORECASE)


def shorten(text: str, limit: int) -> str:
    """At most `limit` characters, cut between words."""
    text = " ".join(text.split())
    return text if len(text) <= limit else text[:limit].rsplit(" ", 1)[0] + " …"


def sentence(text: str) -> str:
    """With a capital at its start and a stop at its end."""
    return full_stop(capital(" ".join(text.split())))


def capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def full_stop(text: str) -> str:
    return text if text.endswith((".", "!", "?", "…")) else f"{text}."
