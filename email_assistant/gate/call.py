"""What the gate is told of a call."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from email_assistant.gate.labels import Labels

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
