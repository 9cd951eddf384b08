"""What the gate is told of a call, and which of its arguments speak to people."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from email_assistant.gate.labels import Labels
from email_assistant.mail.address import parse_addresses

Rule = Literal["always", "gate", "never"]
"""When a person is asked about a tool's calls: always, where the gate says so, never."""


@dataclass(frozen=True, slots=True)
class Subject:
    """The tool that a call is of, as the gate sees it."""

    type: str | None  # the type of tools that it belongs to; None: the agent's own, which no scope leaves out
    labels: Labels | None  # None: nobody has said what it touches
    review: Rule
    server: str | None = None  # the server that it runs on, if that is not ours
    states: str | None = None  # the argument in which we say ourselves what a thing is that it changes

    @property
    def may_tell_others(self) -> bool:
        """Whether what it is told may go further than to its server."""
        return self.labels is None or self.labels.write_operation


@dataclass(frozen=True, slots=True)
class Proposed:
    tool: str
    subject: Subject
    arguments: Mapping[str, Any] | None  # None: they can't be read


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
