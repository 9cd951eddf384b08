"""Fit arguments to a JSON schema: what it does not know is left out, what it requires is there."""

from typing import Any

SELF_DESCRIPTION = "This is the demo model: fixed rules and templates, no language model."


def fit(arguments: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    """`arguments` without the fields that an object schema does not name, and with an example for each missing one."""
    properties = schema.get("properties", {})
    fitted = {name: value for name, value in arguments.items() if name in properties}
    missing = {
        name: properties[name] for name in schema.get("required", []) if name in properties and name not in fitted
    }
    return fitted | {name: example(part, schema) for name, part in missing.items()}


def example(schema: dict[str, Any], root: dict[str, Any] | None = None) -> Any:
    """The plainest value that a schema allows; `$ref`s are looked up in `root`."""
    root = schema if root is None else root
    if "$ref" in schema:
        return example(resolve(schema, root), root)
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return schema["enum"][0]
    for choice in ("anyOf", "oneOf", "allOf"):
        if schema.get(choice):
            return example(schema[choice][0], root)
    kind = schema.get("type", "object")
    return _example_of(kind[0] if isinstance(kind, list) else kind, schema, root)


def _example_of(kind: str, schema: dict[str, Any], root: dict[str, Any]) -> Any:
    if kind == "object":
        required = schema.get("required", [])
        return {name: example(part, root) for name, part in schema.get("properties", {}).items() if name in required}
    if kind == "array":
        return [example(schema.get("items", {}), root)] * schema.get("minItems", 0)
    if kind == "string":
        return SELF_DESCRIPTION[: schema.get("maxLength")]
    return {"integer": schema.get("minimum", 0), "number": schema.get("minimum", 0), "boolean": False}.get(kind)


def resolve(schema: dict[str, Any], root: dict[str, Any]) -> dict[str, Any]:
    """A schema, or the part of `root` that it refers to."""
    if "$ref" not in schema:
        return schema
    found: Any = root
    for step in schema["$ref"].removeprefix("#/").split("/"):
        found = found.get(step, {}) if isinstance(found, dict) else {}
    return found if isinstance(found, dict) else {}
