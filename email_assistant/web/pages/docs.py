"""`/docs`: the OpenAPI document as a page of ours, since the usual ones load from elsewhere."""

import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from fastapi import Request
from fastapi.responses import Response

from email_assistant.web.rendering import render
from email_assistant.web.routers import for_pages

router = for_pages()

Schema = Mapping[str, Any]


class Operation(NamedTuple):
    method: str
    path: str
    told: Schema
    entries: list[tuple[Schema, Schema]]  # each parameter, or field of the body, and its schema
    request: str | None  # an example of its body
    response: str | None  # an example of what it answers

    @property
    def group(self) -> str:
        return str(self.told["tags"][0])

    @property
    def anchor(self) -> str:
        return f"{self.method}{self.path}".translate(str.maketrans("/", "-", "{}"))


@router.get("/docs")
async def docs(request: Request) -> Response:
    document = request.app.openapi()
    operations = list(_operations(document))
    return render("docs.html", operations=operations, kind=lambda schema: _kind(document, schema))


def _operations(document: Schema) -> Iterator[Operation]:
    for path, operations in document["paths"].items():
        for method, told in operations.items():
            body = _json(document, told.get("requestBody", {}))
            answers = (_json(document, answer) for status, answer in told["responses"].items() if status < "300")
            parameters = [(parameter, parameter["schema"]) for parameter in told.get("parameters", [])]
            fields = [
                ({"name": name, "in": "body", "required": name in body.get("required", ())}, schema)
                for name, schema in body.get("properties", {}).items()
            ]
            yield Operation(method, path, told, [*parameters, *fields], _example(body), _example(next(answers, {})))


def _json(document: Schema, content: Schema) -> Schema:
    """The schema of a body; of a list, its entries'."""
    schema = content.get("content", {}).get("application/json", {}).get("schema", {})
    return _resolved(document, schema.get("items", schema))


def _example(schema: Schema) -> str | None:
    return json.dumps(schema["examples"][0], indent=2, ensure_ascii=False) if "examples" in schema else None


def _kind(document: Schema, schema: Schema) -> str:
    """A type in a few words, such as `integer, from 1 to 500, 100 unless told`."""
    schema = _resolved(document, schema)
    if options := schema.get("anyOf"):
        return " or ".join(dict.fromkeys(_kind(document, each) for each in options))
    if "enum" in schema:
        return " | ".join(map(str, schema["enum"]))
    kind = str(schema.get("format") or schema.get("type", "anything"))
    if kind == "array":
        kind = f"list of {_kind(document, schema['items'])}"
    bounds = [f"{word} {schema[key]}" for key, word in (("minimum", "from"), ("maximum", "to")) if key in schema]
    default = [f"{schema['default']} unless told"] if schema.get("default") is not None else []
    return ", ".join([kind, *bounds, *default])


def _resolved(document: Schema, schema: Schema) -> Schema:
    if "$ref" not in schema:
        return schema
    found: Schema = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    return found
