"""Answers as JSON that fits a schema, from servers that enforce it and from those that don't."""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, Literal, TypeVar

from langchain_core.messages import AnyMessage, SystemMessage
from pydantic import BaseModel, ValidationError

from email_assistant.mail.charset import readable

R = TypeVar("R")

_THOUGHTS: Final = re.compile(
    r"\A\s*<(think(?:ing)?|reasoning)>.*?(?:</\1>|\Z)|\A(?!\s*[{`]).*?</(?:think(?:ing)?|reasoning)>", re.DOTALL
)
_BEGINS: Final = re.compile(r'\{(?=\s*+["}])')
NO_WORDS: Final = re.compile(r"(?:\[TOOL_CALLS\]|[\s,;\[\]]|`{3}(?:json\b)?|</?tool_calls?>)*+")
"""As models put between objects, and their templates round them: no word is in it."""
_MOST_BROKEN: Final = 32
_DECODER: Final = json.JSONDecoder()

Kind = Literal["json_schema", "json_object", "text"]
KINDS: tuple[Kind, ...] = ("json_schema", "json_object", "text")
"""How an answer's form can be asked for, the strictest first."""


@dataclass(frozen=True, slots=True)
class Form:
    """What an answer must look like."""

    name: str
    schema: Mapping[str, Any]
    write: Callable[[Sequence[AnyMessage]], list[AnyMessage]]
    """The messages as they go out, with the form told in words."""
    always_told: bool
    """The schema alone would not do: it does not keep to what OpenAI's strict mode takes, or is not all of the form."""

    def response_format(self, kind: Kind) -> dict[str, Any]:
        """What goes into the request."""
        if kind == "text":
            return {}
        if kind == "json_object":
            return _in_body({"type": "json_object"})
        schema = {"name": self.name, "strict": not self.always_told, "schema": self.schema}
        return _in_body({"type": "json_schema", "json_schema": schema})


def _in_body(response_format: Mapping[str, Any]) -> dict[str, Any]:
    # Given as an argument, it has OpenAI's client parse the answer, which raises on one that was cut off
    # (`LengthFinishReasonError`), with its usage lost, and counts the usage of a streamed one twice.
    return {"extra_body": {"response_format": response_format}}


@dataclass(slots=True)
class Objects:
    """JSON objects that stand side by side in a text."""

    values: list[Any]
    written: list[str]
    """Each as it stands there."""
    end: int
    """Where the last one ends in the text."""


@lru_cache
def form_of(schema: type[BaseModel], name: str) -> Form:
    strict = strict_schema(schema)
    return Form(name, strict, lambda messages: with_instructions(messages, _told(strict)), always_told=False)


def strict_schema(schema: type[BaseModel]) -> dict[str, Any]:
    """The model's JSON schema without titles, closed and with every field required, as strict mode asks."""
    full = schema.model_json_schema()
    properties = {
        name: {key: value for key, value in field.items() if key not in ("title", "default")}
        for name, field in full["properties"].items()
    }
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def with_instructions(messages: Sequence[AnyMessage], text: str) -> list[AnyMessage]:
    """The messages with more in their system prompt; many models know only one, at the top."""
    first, *rest = messages
    if isinstance(first, SystemMessage):
        return [SystemMessage(f"{first.text}\n\n{text}"), *rest]
    return [SystemMessage(text), *messages]


def complaint(form: Form, problem: str) -> str:
    """What a model is told whose answer can't be read. One that enforces schemas never gets here."""
    return f"{problem}\n{'Answer with one JSON object only.' if form.always_told else _told(form.schema)}"


def _told(schema: Mapping[str, Any]) -> str:
    return f"Answer with one JSON object only, by this JSON schema: {compact(schema)}"


def compact(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def answer_in(text: str) -> str:
    """A text without the thoughts that stand before the answer: some servers leave them in, or their end alone."""
    return _THOUGHTS.sub("", text, count=1).strip()


def read_object(text: str, read: Callable[[Any], R]) -> R:
    """What `read` makes of the last JSON object of an answer that fits, alone, in a code fence or among words. Raises
    ValueError."""
    found: list[R] = []
    problem = ValueError("there is no JSON object in it")
    for value in (value for row in rows_of(answer_in(text)) for value in row.values):
        try:
            found.append(read(value))
        except ValueError as error:
            problem = error
    if not found:
        raise problem
    return found[-1]


def rows_of(text: str) -> Iterator[Objects]:
    """The JSON objects of a text, those with no word between them together; what only begins like one is passed over,
    so many times that the time to read it all grows no faster than the text."""
    row: Objects | None = None
    broken, end = 0, 0
    while broken < _MOST_BROKEN and (begins := _BEGINS.search(text, end)):
        start = begins.start()
        try:
            value, ends = _DECODER.raw_decode(text, start)
            value = _readable(value)
        except (ValueError, RecursionError):  # the latter: it is nested too deep
            broken, end = broken + 1, start + 1
            continue
        if row and not NO_WORDS.fullmatch(text, row.end, start):
            yield row
            row = None
        row = row or Objects([], [], ends)
        row.values.append(value)
        row.written.append(text[start:ends])
        row.end = end = ends
    if row:
        yield row


def _readable(value: Any) -> Any:
    """JSON whose texts can be stored and shown: an escape may stand for half a character."""
    match value:
        case str():
            return readable(value)
        case list():
            return [_readable(each) for each in value]
        case dict():
            return {key: _readable(each) for key, each in value.items()}
        case _:
            return value


def first_line(error: ValueError) -> str:
    if isinstance(error, ValidationError):
        first = error.errors()[0]
        return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    return str(error).partition("\n")[0]
