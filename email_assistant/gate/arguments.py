"""The arguments of a call as other people's agents tell them: read in one way only, or not at all."""

import json
from collections.abc import Mapping
from math import isfinite
from typing import Any

from email_assistant.gate.ledger import LONGEST


def arguments_in(summary: str | None) -> Mapping[str, Any] | None:
    """The arguments that a client tells as JSON, by name or, as `open_edison` does, with those that have none apart.
    None: they can't be read, or a tool may read them otherwise than the gate."""
    if summary is None:
        return {}
    try:
        told: Any = _strictly(summary) if len(summary) <= LONGEST else None
    except (ValueError, RecursionError):
        return None
    match told:
        case {"args": list(unnamed), "kwargs": dict(named), **rest} if not rest:
            return {**named, **({"args": unnamed} if unnamed else {})}
        case dict():
            return told
        case list():
            return {"args": told} if told else {}
        case _:
            return None


def _strictly(text: str) -> Any:
    """JSON of one meaning (RFC 8259, sections 4 and 6; RFC 7493): of two members of one name parsers take either, and
    NaN, infinity and NUL end a text for some and not for others. Raises ValueError."""
    if "\\u0000" in text:
        raise ValueError
    return json.loads(text, object_pairs_hook=_once, parse_float=_finite, parse_constant=_finite)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    named = dict(pairs)
    if len(named) < len(pairs):
        raise ValueError
    return named


def _finite(number: str) -> float:
    if not isfinite(float(number)):
        raise ValueError
    return float(number)
