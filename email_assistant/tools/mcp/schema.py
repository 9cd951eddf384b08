"""The JSON schemas that servers tell of their tools."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final

import jsonschema_rs
from mcp import types

from email_assistant.tools.mcp import content
from email_assistant.tools.mcp.cost import TooCostly, check_cost
from email_assistant.tools.spec import ToolError

_MOST_SCHEMA: Final = 20_000  # characters of a schema as JSON, which the model is shown at every call
_MOST_COMPLAINTS: Final = 5
_PLAIN: Final = re.compile(r"[A-Za-z0-9_.$-]{1,64}")
"""A name within a schema; what else it holds are texts, which are made safe."""


class UnusableTool(ToolError):
    """What the server tells of a tool makes no sense; the message says why."""


class Schema:
    """The JSON schema of a tool's arguments or answers, as its server tells it.

    It is checked by a library whose patterns take linear time. References never leave the schema, nor lead back to
    where they stand, and all that they lead to is counted first."""

    def __init__(self, schema: dict[str, Any]) -> None:
        """Raises UnusableTool."""
        if len(json.dumps(schema)) > _MOST_SCHEMA:
            raise UnusableTool(f"its schema is longer than {_MOST_SCHEMA} characters")
        if schema.get("type", "object") != "object":
            raise UnusableTool("its schema is not one of an object")
        try:
            check_cost(schema)
        except TooCostly as error:
            raise UnusableTool(str(error)) from None
        if not all(map(_PLAIN.fullmatch, _names(schema))):
            raise UnusableTool("its schema holds a name that is not plain")
        try:
            self._validator = jsonschema_rs.validator_for(
                schema, offline=True, pattern_options=jsonschema_rs.RegexOptions()
            )
        except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError):
            raise UnusableTool("its schema is none") from None

    def check(self, value: Mapping[str, Any]) -> None:
        """Raises ToolError with one line that names each wrong field."""
        wrong = list(islice(self._validator.iter_errors(dict(value)), _MOST_COMPLAINTS))
        if wrong:
            raise ToolError("; ".join(f"{_place(error.instance_path)}: {_said(error.message)}" for error in wrong))


def _names(part: Any) -> Iterator[str]:
    """Of all fields and definitions."""
    if isinstance(part, list):
        for inner in part:
            yield from _names(inner)
    elif isinstance(part, dict):
        for key, inner in part.items():
            if key in ("properties", "$defs", "definitions") and isinstance(inner, dict):
                yield from inner
            yield from _names(inner)


def _place(path: Sequence[str | int]) -> str:
    return ".".join(map(str, path)) or "arguments"


def _said(message: str) -> str:
    return content.one_line(message, 200)


def check_told(tool: types.Tool) -> tuple[Schema, Schema | None]:
    """The schemas of a tool's arguments and answers. Raises UnusableTool."""
    return Schema(tool.inputSchema), Schema(tool.outputSchema) if tool.outputSchema is not None else None
