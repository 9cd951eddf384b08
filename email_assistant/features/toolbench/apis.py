"""The APIs that tool files tell of, in the form of StableToolBench, and the names and schemas that models take.

People wrote these files for people: names are of any length and in any script, types and descriptions are missing,
lists are null, and what is told twice differs. All that is settled here, once; a file that can't be read is left out.
"""

import hashlib
import json
import logging
import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, Final

from pydantic import ConfigDict, TypeAdapter

from email_assistant.errors import AssistantError

DEFAULT_CATEGORY: Final = "Data"
_LONGEST_NAME: Final = 64  # OpenAI: names of functions match ^[a-zA-Z0-9_-]{1,64}$
_LONGEST_DESCRIPTION: Final = 1024  # of a function, at OpenAI
_LONGEST_OF_TOOL: Final = 400  # what a tool says of itself, before what each of its APIs does
_TAKEN: Final = ("self", "config", "run_manager")  # arguments that LangChain keeps to itself (`StructuredTool._run`)
_TYPES: Final = {
    **dict.fromkeys(("NUMBER", "FLOAT"), "number"),
    **dict.fromkeys(("INTEGER", "INT"), "integer"),
    **dict.fromkeys(("BOOLEAN", "BOOL"), "boolean"),
    **dict.fromkeys(("ARRAY", "LIST"), "array"),
    **dict.fromkeys(("OBJECT", "JSON", "MAP"), "object"),
}
"""What is none of these (STRING, ENUM, DATE, nothing, …) is written as text."""
_READ: Final[Mapping[str, TypeAdapter[Any]]] = {
    "string": TypeAdapter(str, config=ConfigDict(coerce_numbers_to_str=True)),
    "number": TypeAdapter(int | float, config=ConfigDict(allow_inf_nan=False)),
    "integer": TypeAdapter(int),
    "boolean": TypeAdapter(bool),
    "array": TypeAdapter(list[Any]),
    "object": TypeAdapter(dict[str, Any]),
}
"""Models and files often give a number as text, or the other way round; the server looks answers up by type too."""

_log = logging.getLogger(__name__)


class BenchError(AssistantError):
    """The bench can't be run as it was asked for."""


@dataclass(frozen=True, slots=True)
class Api:
    category: str
    tool: str
    name: str
    description: str
    schema: dict[
        str, Any
    ]  # of its arguments, as models take them; defaults are told, and never sent in a model's place
    arguments: dict[str, str]  # their own names, in the order of the file

    def input(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """What a model gave as the server takes it, in the order of the file: the server looks answers up by that too.
        Raises ValueError: it names all that is wrong."""
        wrong = [f"there is no argument {shown!r}" for shown in given if shown not in self.arguments]
        taken: dict[str, Any] = {}
        for shown, name in self.arguments.items():
            if given.get(shown) is None:
                wrong += [f"{shown} is missing"] if shown in self.schema["required"] else []
                continue
            type_ = self.schema["properties"][shown]["type"]
            try:
                taken[name] = _READ[type_].validate_python(given[shown])
            except ValueError:
                wrong.append(f"{shown} takes a value of type {type_}")
        if wrong:
            raise ValueError("; ".join(wrong))
        return taken


def read_apis(tools_dir: Path) -> list[Api]:
    """All APIs of a folder, in the same order each time: `<category>/<tool>.json`, or `<tool>.json`, whose category
    stands in the file. Raises BenchError."""
    found = [api for path in sorted(tools_dir.glob("*.json")) for api in _of_file(path, None)]
    found += [api for path in sorted(tools_dir.glob("*/*.json")) for api in _of_file(path, path.parent.name)]
    if not found:
        raise BenchError(f"{tools_dir} holds no tool files: name the folder of the files <category>/<tool>.json")
    return found


def _of_file(path: Path, category: str | None) -> Iterator[Api]:
    try:
        told = json.loads(path.read_text("utf-8-sig"))
        tool, about = sound(told["tool_name"]), _text(told.get("tool_description"))
        category = category or _text(told.get("tool_category")) or DEFAULT_CATEGORY
        for each in told.get("api_list") or ():
            if each and each.get("name"):
                yield api_of(each, category, tool, sound(each["name"]), about)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        _log.warning("%s is left out, it is no tool file: %s %s", path, type(error).__name__, error)


def api_of(told: Mapping[str, Any], category: str, tool: str, name: str, about: str = "") -> Api:
    """`told`: what a tool file, or a query's own list, says of an API; `about`: what the tool says of itself."""
    own = _text(told.get("description", told.get("api_description")))
    description = "\n\n".join(filter(None, (about[:_LONGEST_OF_TOOL], own))) or f"{tool}: {name}"
    properties: dict[str, Any] = {}
    arguments: dict[str, str] = {}
    required = []
    for kind in ("required_parameters", "optional_parameters"):
        for each in told.get(kind) or ():
            named = sound(each.get("name") or "") if isinstance(each, dict) else ""
            if not named or named in arguments.values():
                continue
            shown = plain_name(named, {*arguments, *_TAKEN})
            arguments[shown], properties[shown] = named, _property(each)
            required += [shown] if kind == "required_parameters" else []
    schema = {"type": "object", "properties": properties, "required": required}
    return Api(category, tool, name, description[:_LONGEST_DESCRIPTION], schema, arguments)


def _property(parameter: Mapping[str, Any]) -> dict[str, Any]:
    type_ = _TYPES.get(_text(parameter.get("type")).upper(), "string")
    told: dict[str, Any] = {"type": type_, **({"items": {}} if type_ == "array" else {})}
    if described := _text(parameter.get("description"))[:_LONGEST_DESCRIPTION]:
        told["description"] = described
    if (default := parameter.get("default")) not in ("", None):
        with suppress(ValueError):
            told["default"] = _READ[type_].validate_python(default)
    return told


def plain_name(name: str, taken: Collection[str]) -> str:
    """A name in the letters and of the length that models take; where it was too long, or is taken, with a mark that
    tells it from others."""
    plain = re.sub(r"[^A-Za-z0-9_-]", "_", name)
    if len(plain) <= _LONGEST_NAME and plain not in taken and plain.strip("_-"):
        return plain
    marks = (hashlib.sha256(f"{number} {name}".encode()).hexdigest()[:8] for number in count())
    free = (marked for mark in marks if (marked := f"{plain[: _LONGEST_NAME - 9]}_{mark}") not in taken)
    return next(free)


def sound(value: object) -> str:
    """A text that can be sent: JSON may hold halves of surrogate pairs, and UTF-8 none."""
    return str(value).encode("utf-8", "replace").decode()


def _text(value: object) -> str:
    return sound(value).strip() if isinstance(value, str | int | float) else ""
