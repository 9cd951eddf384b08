"""The JSON schemas that servers tell of their tools; and what it costs to check a value by one, told before anything is
checked.

References make a schema of 2 kB as long as 2^40 once they are followed, and the library that checks by it can't be
interrupted.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final
from urllib.parse import unquote

import jsonschema_rs
from mcp import types

from email_assistant.errors import AssistantError
from email_assistant.tools.mcp import content
from email_assistant.tools.spec import ToolError

_MOST_SCHEMA: Final = 20_000  # characters of a schema as JSON, which the model is shown at every call
_MOST_COMPLAINTS: Final = 5
_PLAIN: Final = re.compile(r"[A-Za-z0-9_.$-]{1,64}")
"""A name within a schema; what else it holds are texts, which are made safe."""
_MOST_COST: Final = 10_000
_ELSEWHERE: Final = frozenset(("$id", "$anchor", "$dynamicAnchor", "$recursiveAnchor", "$dynamicRef", "$recursiveRef"))
"""Keywords by which a reference leads to another place than its own pointer says."""
_TWICE: Final = ("unevaluatedProperties", "unevaluatedItems")  # keywords that have all beside them checked once more


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


class TooCostly(AssistantError):
    """A schema that takes too long to check, or may; the message says why."""


def check_cost(schema: dict[str, Any]) -> None:
    """Raises TooCostly."""
    if "draft-04" in str(schema.get("$schema")):  # there, plain names such as `id` say where references lead
        raise TooCostly("its schema is of a dialect that is too old")
    try:
        _Costs(schema).of({key: part for key, part in schema.items() if key != "$id"})
    except RecursionError:
        raise TooCostly("its schema is too deep") from None


class _Costs:
    """Counts the schemas within a schema as often as references lead to them."""

    def __init__(self, root: dict[str, Any]) -> None:
        self._root = root
        self._known: dict[str, int | None] = {}  # by reference; None: it is being counted

    def of(self, part: Any) -> int:
        match part:
            case dict():
                cost = 1 + sum(self.of(inner) for inner in part.values()) + sum(map(self._behind, _references(part)))
                cost *= 2 if any(key in part for key in _TWICE) else 1
            case list():
                cost = sum(self.of(inner) for inner in part)
            case _:
                cost = 0
        if cost > _MOST_COST:
            raise TooCostly("its schema takes too long to check")
        return cost

    def _behind(self, reference: str) -> int:
        if reference not in self._known:
            self._known[reference] = None
            self._known[reference] = self.of(self._found(reference))
        cost = self._known[reference]
        if cost is None:
            raise TooCostly("its schema refers to itself")
        return cost

    def _found(self, reference: str) -> Any:
        if reference != "#" and not reference.startswith("#/"):
            raise TooCostly("its schema refers to something that is not a place in it")
        found: Any = self._root
        try:
            for step in unquote(reference).split("/")[1:]:
                key = step.replace("~1", "/").replace("~0", "~")
                found = found[int(key)] if isinstance(found, list) else found[key]
        except (LookupError, TypeError, ValueError):
            raise TooCostly("its schema refers to what it does not have") from None
        return found


def _references(part: dict[str, Any]) -> Iterator[str]:
    """Raises TooCostly."""
    if any(isinstance(part.get(key), str | bool) for key in _ELSEWHERE):
        raise TooCostly("its schema says by names where its references lead")
    if isinstance(reference := part.get("$ref"), str):
        yield reference
