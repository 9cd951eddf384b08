"""`/docs`: the OpenAPI document as a page of ours, since the usual ones load from elsewhere."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response

from email_assistant.web.rendering import render

_METHODS = ("get", "post", "put", "patch", "delete")

router = APIRouter()

Schema = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Entry:
    """A parameter, or a field of a body."""

    name: str
    place: str
    """"query", "path", "body" …"""
    kind: str
    required: bool
    description: str


@dataclass(frozen=True, slots=True)
class Route:
    method: str
    path: str
    summary: str
    description: str
    entries: list[Entry]
    request: str | None
    """An example of its body."""
    answers: list[tuple[str, str]]
    """Status and what it means."""
    response: str | None
    """An example of what it answers."""

    @property
    def about(self) -> str:
        """In one sentence."""
        return (self.description or self.summary).partition("\n\n")[0].partition(". ")[0]

    @property
    def anchor(self) -> str:
        return f"{self.method}{self.path}".replace("/", "-").replace("{", "").replace("}", "")


@router.get("/docs")
async def docs(request: Request) -> Response:
    document = request.app.openapi()
    groups: dict[str, list[Route]] = {}
    for path, operations in document["paths"].items():
        for method in (each for each in _METHODS if each in operations):
            group = next(iter(operations[method].get("tags", [])), "other")
            groups.setdefault(group, []).append(_Reader(document).route(method, path, operations[method]))
    return render("docs.html", document=document, groups=groups)


class _Reader:
    def __init__(self, document: Schema) -> None:
        self._document = document

    def route(self, method: str, path: str, operation: Schema) -> Route:
        body = _json(operation.get("requestBody", {}))
        answers = operation["responses"]
        success: Schema = next((answers[status] for status in answers if status.startswith("2")), {})
        return Route(
            method.upper(),
            path,
            operation.get("summary", ""),
            operation.get("description", ""),
            [*map(self._parameter, operation.get("parameters", [])), *self._fields(body)],
            self._example(body),
            [(status, answer.get("description", "")) for status, answer in answers.items()],
            self._example(_json(success)),
        )

    def _parameter(self, parameter: Schema) -> Entry:
        schema = parameter.get("schema", {})
        description = parameter.get("description") or schema.get("description", "")
        return Entry(
            parameter["name"], parameter["in"], self._kind(schema), parameter.get("required", False), description
        )

    def _fields(self, body: Schema) -> Iterator[Entry]:
        schema = self._resolved(body.get("schema", {}))
        required = schema.get("required", ())
        for name, field in schema.get("properties", {}).items():
            yield Entry(name, "body", self._kind(field), name in required, field.get("description", ""))

    def _kind(self, schema: Schema) -> str:
        """A type in a few words, such as `integer, from 1 to 500, 100 unless told`."""
        schema = self._resolved(schema)
        if options := schema.get("anyOf") or schema.get("oneOf"):
            return " or ".join(dict.fromkeys(self._kind(each) for each in options))
        if "enum" in schema:
            return " | ".join(map(str, schema["enum"]))
        kind = str(schema.get("const", schema.get("type", "anything")))
        if kind == "array":
            kind = f"list of {self._kind(schema.get('items', {}))}"
        words = [f"{kind} ({schema['format']})" if "format" in schema else kind]
        words += [f"{name} {schema[key]}" for key, name in (("minimum", "from"), ("maximum", "to")) if key in schema]
        words += [f"{schema['default']} unless told"] if schema.get("default") is not None else []
        return ", ".join(words)

    def _example(self, content: Schema) -> str | None:
        if not content:
            return None
        given = content.get("example", next((e.get("value") for e in content.get("examples", {}).values()), None))
        example = given if given is not None else self._made_up(content.get("schema", {}))
        return json.dumps(example, indent=2, ensure_ascii=False)

    def _made_up(self, schema: Schema, depth: int = 0) -> Any:
        """A value of the schema's form: its own example, else one that shows the types."""
        schema = self._resolved(schema)
        if given := schema.get("examples") or ([schema["example"]] if "example" in schema else None):
            return given[0]
        if options := schema.get("anyOf") or schema.get("oneOf"):
            return self._made_up(options[0], depth)
        if "enum" in schema or "const" in schema:
            return schema.get("const", schema.get("enum", [None])[0])
        match schema.get("type"):
            case "object" if depth < 4:
                return {name: self._made_up(each, depth + 1) for name, each in schema.get("properties", {}).items()}
            case "array" if depth < 4:
                return [self._made_up(schema.get("items", {}), depth + 1)]
            case "null":
                return None
            case kind:
                return schema.get("format") or kind or {}

    def _resolved(self, schema: Schema) -> Schema:
        while "$ref" in schema:
            schema = self._document["components"]["schemas"][schema["$ref"].rsplit("/", 1)[-1]]
        return schema


def _json(content: Schema) -> Schema:
    found: Schema = content.get("content", {}).get("application/json", {})
    return found
