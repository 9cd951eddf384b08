"""Answers as JSON that fits a schema, from servers that enforce it and from those that don't."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

from langchain_core.messages import AnyMessage, SystemMessage
from pydantic import BaseModel, ValidationError

_FENCE = re.compile(r"```(?:json)?\s*(?=\{)")
_FENCE_END = re.compile(r"\}\s*```")

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


def read_json(text: str) -> Any:
    """The first JSON object in a text, whether it stands alone, in a code fence or among words. Raises ValueError."""
    opened = _FENCE.search(text)
    closed = _FENCE_END.search(text, opened.end()) if opened else None
    begin = opened.end() if opened and closed else max(0, text.find("{"))
    candidate = text[begin : closed.start() + 1 if closed else None]
    try:
        value, _ = json.JSONDecoder().raw_decode(candidate.strip())
    except RecursionError:
        raise ValueError("the JSON is nested too deep") from None
    return value


def first_line(error: ValueError) -> str:
    if isinstance(error, ValidationError):
        first = error.errors()[0]
        return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    return str(error).partition("\n")[0]
