"""Fit arguments to a JSON schema: what it does not know is left out, what it requires is there."""

from typing import Any

from email_assistant_servers.demo_model.protocol import JsonObject
from email_assistant_servers.demo_model.wording import SELF_DESCRIPTION


def fit(arguments: JsonObject, schema: JsonObject) -> JsonObject:
    """`arguments` without the fields that an object schema does not name, and with an example for each missing one."""
    fields = schema.get("properties", {})
    missing = [name for name in schema.get("required", []) if name in fields and name not in arguments]
    fitted = {name: value for name, value in arguments.items() if name in fields}
    return fitted | {name: example(fields[name], schema) for name in missing}


def example(schema: JsonObject, root: JsonObject | None = None) -> Any:
    """The plainest value that a schema allows; `$ref`s are looked up in `root`."""
    root = schema if root is None else root
    schema = resolve(schema, root)
    if "const" in schema:
        return schema["const"]
    for choice in ("enum", "anyOf", "oneOf", "allOf"):
        if options := schema.get(choice):
            return options[0] if choice == "enum" else example(options[0], root)
    kind = schema.get("type", "object")
    match kind[0] if isinstance(kind, list) else kind:
        case "object":
            fields = schema.get("properties", {})
            return {name: example(fields[name], root) for name in schema.get("required", []) if name in fields}
        case "array":
            return [example(schema.get("items", {}), root)] * schema.get("minItems", 0)
        case "string":
            return SELF_DESCRIPTION[: schema.get("maxLength")]
        case "integer" | "number":
            return schema.get("minimum", 0)
        case "boolean":
            return False


def resolve(schema: JsonObject, root: JsonObject) -> JsonObject:
    """A schema, or the part of `root` that it refers to."""
    while "$ref" in schema:
        found: Any = root
        for step in schema["$ref"].removeprefix("#/").split("/"):
            found = found.get(step, {}) if isinstance(found, dict) else {}
        schema = found
    return schema
