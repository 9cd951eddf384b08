"""Forms that the server of a called tool wants filled in: each field is a question to the person."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from email_assistant.agents.agent import Decided, FormField
from email_assistant.tools.spec import FilledIn


def filled_in(fields: Mapping[str, FormField], decisions: Mapping[str, Decided], call_id: str) -> list[FilledIn]:
    """The forms of a call as the person filled them in. Raises ValueError."""
    forms: dict[str, FilledIn] = {}
    for question, asked in fields.items():
        if asked["call_id"] != call_id:
            continue
        answer = decisions[question]
        if answer["do"] != "answer":
            raise ValueError("the person did not fill in what the tool's server asks for")
        form = forms.setdefault(asked["form"], FilledIn(asked["message"], {"properties": {}}, {}))
        form.schema["properties"][asked["name"]] = asked["schema"]
        form.values[asked["name"]] = _typed(answer["text"].strip(), asked)
    return list(forms.values())


def _typed(text: str, field: FormField) -> Any:
    """The person's words as the value that the form takes. Forms hold plain fields only (MCP, "Elicitation").

    Raises:
        ValueError: it takes no such value.
    """
    name, choices = field["name"], field["schema"].get("enum")
    match field["schema"].get("type"):
        case "boolean":
            if text.lower() not in ("yes", "true", "no", "false"):
                raise ValueError(f"{name} takes yes or no, and the person said something else")
            return text.lower() in ("yes", "true")
        case "integer" | "number" as kind:
            return _number(text, name, whole=kind == "integer")
        case "array":
            return [_chosen(part.strip(), name, choices) for part in text.split(",")]
        case _:
            return _chosen(text, name, choices)


def _number(text: str, name: str, *, whole: bool) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number) or (whole and not number.is_integer()):
        raise ValueError(f"{name} takes a {'whole ' if whole else ''}number, and the person said something else")
    return int(number) if number.is_integer() else number


def _chosen(text: str, name: str, choices: Sequence[str] | None) -> str:
    if choices and text not in choices:
        raise ValueError(f"{name} takes one of {', '.join(choices)}, and the person said something else")
    return text


def described(schema: Mapping[str, Any]) -> str:
    """What a field takes, in words."""
    choices = ", ".join(map(str, schema.get("enum", ())))
    return ". ".join(filter(None, (str(schema.get("description") or ""), f"One of: {choices}" if choices else "")))
