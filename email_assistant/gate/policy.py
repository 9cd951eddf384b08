"""Whether a call may run, must be asked about, or may not: a pure function, the one place where that is decided."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final, Literal

from email_assistant.gate.labels import Labels

Rule = Literal["always", "gate", "never"]
"""When a person is asked about a tool's calls: always, where the gate says so, never."""
HERE: Final = "here"  # where data is read that our own tools give, or the prompt itself
_HANDED_ON: Final = (
    "your mail, calendar, background, rules or other private data is read before this is done, and this goes to {}, "
    "which is no part of this program: look at what it would be told"
)


@dataclass(frozen=True, slots=True)
class Subject:
    """The tool that a call is of, as the gate sees it."""

    type: str | None  # the type of tools that it belongs to; None: the agent's own, which no scope leaves out
    labels: Labels | None  # None: nobody has said what it touches
    review: Rule
    server: str | None = None  # the server that it runs on, if that is not ours

    @property
    def may_tell_others(self) -> bool:
        """Whether what it is told may go further than to its server."""
        return self.labels is None or self.labels.write_operation


@dataclass(frozen=True, slots=True)
class Verdict:
    do: Literal["allow", "ask", "deny"]
    reason: str  # in plain words, for the person and the model
    overrules: bool = False  # the person has set another rule for it, so they are told the reason


def decide(scope: Collection[str] | None, subject: Subject, heard: Collection[str] = ()) -> Verdict:
    """`scope`: the types of tools that this request was given; None: all; `heard`: where private data was read before:
    `HERE`, or a server that is not ours. Only a question to the very server that told it gives nothing away."""
    if scope is not None and subject.type is not None and subject.type not in scope:
        return Verdict("deny", f"this request was not given tools of the type {subject.type}")
    if subject.labels is not None and not subject.labels.enabled:
        return Verdict("deny", "it is switched off in tool_permissions.json")
    if subject.server is not None and set(heard) - (set() if subject.may_tell_others else {subject.server}):
        return Verdict("ask", _HANDED_ON.format(subject.server), overrules=True)
    if subject.review == "always":
        return Verdict("ask", "its calls are always reviewed")
    if subject.review == "never":
        return Verdict("allow", "its calls are never reviewed")
    if subject.labels is None:
        return Verdict("ask", "tool_permissions.json does not say what it touches")
    if subject.labels.write_operation:
        return Verdict("ask", "it changes or sends something")
    return Verdict("allow", "it only reads")
