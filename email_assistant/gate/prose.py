"""What a call says to people, of all that it is given."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from email_assistant.mail.address import parse_addresses

PROSE: Final = re.compile(
    r"(?:.*_)?(?:body|text|content|contents|message|description|notes?|comments?|reason|snippet|subject|title|summary"
    r"|response_text|query|html|markdown|location)",
    re.IGNORECASE,
)
"""Fields whose value is said to people, and names nobody and nothing."""


def prose_of(arguments: Mapping[str, Any]) -> str:
    """All that is said, one after the other."""
    return "\n\n".join(_said(arguments))


def _said(arguments: Mapping[str, Any]) -> Iterator[str]:
    """Its texts, and what it calls those who get it: they all read that too."""
    for name, value in arguments.items():
        if isinstance(value, str) and PROSE.fullmatch(name):
            yield value
        else:
            people = [each for each in (value if isinstance(value, list) else [value]) if isinstance(each, str)]
            yield from (f"To: {person.name}" for each in people for person in parse_addresses(each) if person.name)
