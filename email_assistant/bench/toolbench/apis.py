"""The APIs that tool files tell of, in the form of StableToolBench, and the names and schemas that models take.

People wrote these files for people: names are of any length and in any script, types and descriptions are missing,
lists are null, and what is told twice differs. All that is settled here, once; a file that can't be read is left out.
"""

import hashlib
import json
import logging
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import ConfigDict, TypeAdapter

from email_assistant.errors import AssistantError

Type = Literal["string", "number", "integer", "boolean", "array", "object"]

DEFAULT_CATEGORY: Final = "Data"
_LONGEST_NAME: Final = 64  # OpenAI: names of functions match ^[a-zA-Z0-9_-]{1,64}$
_LONGEST_DESCRIPTION: Final = 1024  # of a function, at OpenAI
_LONGEST_OF_TOOL: Final = 400  # what a tool says of itself, before what each of its APIs does
_TYPES: Final[Mapping[str, Type]] = {
    "NUMBER": "number",
    "FLOAT": "number",
    "INTEGER": "integer",
    "INT": "integer",
    "BOOLEAN": "boolean",
    "BOOL": "boolean",
    "ARRAY": "array",
    "LIST": "array",
    "OBJECT": "object",
    "JSON": "object",
    "MAP": "object",
}
"""What is none of these (STRING, ENUM, DATE, nothing, …) is written as text."""
_TAKEN: Final = frozenset({"self", "config", "run_manager"})
"""Names of arguments that LangChain keeps for itself (`StructuredTool._run`)."""
_READ: Final[Mapping[Type, TypeAdapter[Any]]] = {
    "string": TypeAdapter(str, config=ConfigDict(coerce_numbers_to_str=True)),
    "number": TypeAdapter(int | float),
    "integer": TypeAdapter(int),
    "boolean": TypeAdapter(bool),
    "array": TypeAdapter(list[Any]),
    "object": TypeAdapter(dict[str, Any]),
}
"""Models, and the files, often give a number as text, or the other way round."""

_log = logging.getLogger(__name__)


class BenchError(AssistantError):
    """The bench can't be run as it was asked for."""


@dataclass(frozen=True, slots=True)
class Parameter:
    name: str
    shown: str
    """Its name as models take it."""
    type: Type
    description: str
    default: Any
    """None: there is none. The server fills it in; it is never sent in the model's place."""
    required: bool

    def schema(self) -> dict[str, Any]:
        given = {"description": self.description, "default": self.default}
        told = {name: value for name, value in given.items() if value not in ("", None)}
        return {"type": self.type, **({"items": {}} if self.type == "array" else {}), **told}

    def typed(self, value: Any) -> Any:
        """A value as the API takes it, since servers look answers up by type too: 1 is not "1". Raises ValueError."""
        return _READ[self.type].validate_python(value)


@dataclass(frozen=True, slots=True)
class Api:
    category: str
    tool: str
    name: str
    description: str
    parameters: tuple[Parameter, ...]

    @property
    def title(self) -> str:
        """Its name as the benchmark writes it."""
        return f"{self.tool}_{self.name}"

    def schema(self) -> dict[str, Any]:
        return {
            "type": "object",
            "properties": {each.shown: each.schema() for each in self.parameters},
            "required": [each.shown for each in self.parameters if each.required],
        }

    def input(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """What a model gave as the server takes it, in the order in which the API lists it: the server looks answers up
        by that order. Raises ValueError: it names all that is wrong."""
        known = {each.shown: each for each in self.parameters}
        wrong = [f"there is no argument {name!r}" for name in given if name not in known]
        taken: dict[str, Any] = {}
        for shown, parameter in known.items():
            if given.get(shown) is not None:
                try:
                    taken[parameter.name] = parameter.typed(given[shown])
                except ValueError:
                    wrong.append(f"{shown} takes a value of type {parameter.type}")
            elif parameter.required:
                wrong.append(f"{shown} is missing")
        if wrong:
            raise ValueError("; ".join(wrong))
        return taken


def read_apis(tools_dir: Path) -> list[Api]:
    """All APIs of a folder, in the same order each time: `<category>/<tool>.json`, or `<tool>.json`, whose category
    stands in the file. Raises BenchError."""
    if not tools_dir.is_dir():
        raise BenchError(f"there is no folder {tools_dir}: name the one that holds the tool files")
    found = [api for path in sorted(tools_dir.glob("*.json")) for api in _of_file(path, None)]
    found += [api for path in sorted(tools_dir.glob("*/*.json")) for api in _of_file(path, path.parent.name)]
    if not found:
        raise BenchError(f"{tools_dir} holds no tool files: name the folder of <category>/<tool>.json")
    return found


def _of_file(path: Path, category: str | None) -> Iterator[Api]:
    try:
        told = json.loads(path.read_text("utf-8-sig"))
        tool, about = str(told["tool_name"]), _text(told.get("tool_description"))
        category = category or _text(told.get("tool_category")) or DEFAULT_CATEGORY
        for each in told.get("api_list") or ():
            if each and each.get("name"):
                yield api_of(each, category, tool, str(each["name"]), about)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        _log.warning("%s is left out, it is no tool file: %s %s", path, type(error).__name__, error)


def api_of(told: Mapping[str, Any], category: str, tool: str, name: str, about: str = "") -> Api:
    """`told`: what a tool file, or a query's own list, says of an API; `about`: what the tool says of itself."""
    own = _text(told.get("description", told.get("api_description")))
    description = "\n\n".join(filter(None, (about[:_LONGEST_OF_TOOL], own))) or f"{tool}: {name}"
    return Api(category, tool, name, description[:_LONGEST_DESCRIPTION], tuple(_parameters(told)))


def _parameters(told: Mapping[str, Any]) -> Iterator[Parameter]:
    seen: set[str] = set()
    shown: set[str] = set(_TAKEN)
    for kind in ("required_parameters", "optional_parameters"):
        listed = told.get(kind)
        for each in listed if isinstance(listed, list) else ():
            name = str(each.get("name") or "") if isinstance(each, dict) else ""
            if not name or name in seen:
                continue
            seen.add(name)
            shown.add(as_shown := plain_name(name, shown))
            type_ = _TYPES.get(_text(each.get("type")).upper(), "string")
            described, default = _text(each.get("description")), _default(each.get("default"), type_)
            required = kind == "required_parameters"
            yield Parameter(name, as_shown, type_, described[:_LONGEST_DESCRIPTION], default, required)


def _default(value: Any, type_: Type) -> Any:
    try:
        return None if value in ("", None) else _READ[type_].validate_python(value)
    except ValueError:
        return None


def plain_name(name: str, taken: Collection[str]) -> str:
    """A name in the letters and of the length that models take; where something had to be left out of it, or it is
    taken, with a mark that tells it from others."""
    plain = re.sub(r"[^A-Za-z0-9_-]", "_", name)
    if len(plain) <= _LONGEST_NAME and plain not in taken and plain.strip("_-"):
        return plain
    number = 0
    while True:
        mark = hashlib.sha256(f"{number} {name}".encode("utf-8", "replace")).hexdigest()[:8]
        marked = f"{plain[: _LONGEST_NAME - 1 - len(mark)]}_{mark}"
        if marked not in taken:
            return marked
        number += 1


def _text(value: object) -> str:
    return str(value).strip() if isinstance(value, str | int | float) else ""
