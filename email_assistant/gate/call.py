"""A call as the gate sees it: what its tool touches, as `tool_permissions.json` says, and which of its arguments
speak to people. A tool that the file doesn't name is unknown, never harmless; so is one of which it says only a
part."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, RootModel

from email_assistant.mail.address import parse_addresses
from email_assistant.mail.charset import one_line, visible
from email_assistant.user_file import UserFile

Acl = Literal["PUBLIC", "PRIVATE", "SECRET"]
Act = Literal["add", "send", "change", "delete", "cancel", "share", "pay"]

_SHIPPED: Final = "tool_permissions.json"
_OURS: Final = "agent"  # the section of tools that are named without their server
Rule = Literal["always", "gate", "never"]
"""When a person is asked about a tool's calls: always, where the gate says so, never."""
PROSE: Final = re.compile(
    r"(?:.*_)?(?:body|text|content|contents|message|description|notes?|comments?|reason|snippet|subject|title|summary"
    r"|response_text|query|html|markdown|location)",
    re.IGNORECASE,
)
"""Fields whose value is said to people, and names nobody and nothing."""

_ADDRESS: Final = re.compile(r"\S*(?:@|://)\S*")


class Labels(BaseModel):
    """What one tool touches."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    enabled: bool = True
    """Whether it may be used at all."""
    write_operation: bool
    """It changes something, or sends something to somebody."""
    read_private_data: bool
    """Its answers hold what only the person should know; so do those that tell how a thing stands after a change."""
    read_untrusted_public_data: bool
    """Its answers hold what strangers wrote."""
    acl: Acl
    """Who gets to know what is written with it, or how secret its answers are."""
    external: bool | None = None
    """Whether what it is told reaches others than the person; unset: the other labels and each call's arguments say."""
    act: Act | None = None
    """What it does to somebody's things; unset: its name says."""

    @property
    def touches_nothing(self) -> bool:
        return not (self.write_operation or self.read_private_data or self.read_untrusted_public_data or self.external)


TOUCHES_NOTHING: Final = Labels.model_validate(
    {"write_operation": False, "read_private_data": False, "read_untrusted_public_data": False, "acl": "PUBLIC"}
)
_NEEDED: Final = frozenset(name for name, field in Labels.model_fields.items() if field.is_required())
_SWITCHED_OFF: Final = dict.fromkeys(_NEEDED, True) | {"acl": "PUBLIC"}
"""What a tool touches that may not be used, whatever else is said of it."""


class _LabelsFile(RootModel[dict[str, dict[str, Labels]]]):
    """By section and tool."""


def shipped_labels() -> dict[str, Labels]:
    """Those of our own tools."""
    # Read without the lines that a person would be told: every command reads it.
    return _read(UserFile(_SHIPPED, json.loads(files("email_assistant.gate").joinpath(_SHIPPED).read_text())), {})


def read_labels(source: UserFile) -> Mapping[str, Labels]:
    """Those of a person's file, over ours: what it leaves out of one of our tools stays as it is. Tools of a section
    that is named after a server are called as open-edison calls them, `<server>_<tool>`. Raises BadFile."""
    return _read(source, shipped_labels())


def _read(source: UserFile, base: Mapping[str, Labels]) -> dict[str, Labels]:
    over = {name: labels.model_dump() for name, labels in base.items()}
    sections = {
        section: _whole(tools, over if section == _OURS else {})
        for section, tools in source.mapping().items()
        if not section.startswith("_")  # open-edison's `_metadata`
    }
    read = source.parsed(_LabelsFile, sections).root
    return dict(base) | {
        name if section == _OURS else f"{section}_{name}": labels
        for section, tools in read.items()
        for name, labels in tools.items()
    }


def _whole(tools: Any, base: Mapping[str, Mapping[str, Any]]) -> Any:
    """A section without the tools of which too little is said, and without descriptions, which are for people."""
    if not isinstance(tools, dict):
        return tools
    given = {
        name: {**base.get(name, {}), **{key: value for key, value in labels.items() if key != "description"}}
        if isinstance(labels, dict)
        else labels
        for name, labels in tools.items()
    }
    return {
        name: _SWITCHED_OFF | labels if isinstance(labels, dict) and labels.get("enabled") is False else labels
        for name, labels in given.items()
        if not isinstance(labels, dict) or labels.keys() >= _NEEDED or labels.get("enabled") is False
    }


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


def prose_of(arguments: Mapping[str, Any]) -> str:
    """All that is said, one after the other."""
    return "\n\n".join(_said(arguments))


def argument_lines(arguments: Mapping[str, Any]) -> list[str]:
    """A call's arguments as a person reads them before they say yes: nothing in one can pass for another line."""
    return [line for name, value in arguments.items() for line in _argument_lines(visible(one_line(name)), value)]


def _argument_lines(name: str, value: object) -> list[str]:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    if not PROSE.fullmatch(name):  # in an address, a letter that looks like another shows
        text = _ADDRESS.sub(lambda found: found[0].encode("ascii", "backslashreplace").decode(), text)
    first, *more = visible(text).split("\n")
    return [f"{name}:", *(f"> {line}" for line in (first, *more))] if more else [f"{name}: {first}"]


def _said(arguments: Mapping[str, Any]) -> Iterator[str]:
    """Its texts, and what it calls those who get it: they all read that too."""
    for name, value in arguments.items():
        if isinstance(value, str) and PROSE.fullmatch(name):
            yield value
        else:
            people = [each for each in (value if isinstance(value, list) else [value]) if isinstance(each, str)]
            yield from (f"To: {person.name}" for each in people for person in parse_addresses(each) if person.name)
