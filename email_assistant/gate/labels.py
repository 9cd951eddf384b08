"""What each tool touches, as `tool_permissions.json` says. A tool that it doesn't name is unknown, never harmless."""

from collections.abc import Mapping
from importlib.resources import files
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict

from email_assistant.gate.source import Source

Acl = Literal["PUBLIC", "PRIVATE", "SECRET"]

_SHIPPED: Final = "tool_permissions.json"


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


class _LabelsFile(BaseModel):
    model_config = ConfigDict(extra="forbid")

    agent: dict[str, Labels] = {}


def shipped_labels() -> dict[str, Labels]:
    """Those of our own tools."""
    return _read(Source.json(_SHIPPED, files("email_assistant.gate").joinpath(_SHIPPED).read_text()), {})


def read_labels(source: Source) -> Mapping[str, Labels]:
    """Those of a person's file, over ours: what it leaves out of one of our tools stays as it is. Raises BadFile."""
    return _read(source, shipped_labels())


def _read(source: Source, base: Mapping[str, Labels]) -> dict[str, Labels]:
    given = source.mapping()
    agent = given.get("agent", {})
    if isinstance(agent, dict):
        over = {name: tool.model_dump() for name, tool in base.items()}
        given["agent"] = over | {
            name: over.get(name, {}) | labels if isinstance(labels, dict) else labels for name, labels in agent.items()
        }
    return source.parsed(_LabelsFile, given).agent
