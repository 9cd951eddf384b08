"""What it costs to check a value by somebody's schema, told before anything is checked.

References make a schema of 2 kB as long as 2^40 once they are followed, and the library that checks by it can't be
interrupted.
"""

from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import unquote

from email_assistant.errors import AssistantError

_MOST_COST: Final = 10_000
_ELSEWHERE: Final = frozenset(("$id", "$anchor", "$dynamicAnchor", "$recursiveAnchor", "$dynamicRef", "$recursiveRef"))
"""Keywords by which a reference leads to another place than its own pointer says."""
_TWICE: Final = ("unevaluatedProperties", "unevaluatedItems")  # keywords that have all beside them checked once more


class TooCostly(AssistantError):
    """A schema that takes too long to check, or may; the message says why."""


def check_cost(schema: dict[str, Any]) -> None:
    """Raises TooCostly."""
    if "draft-04" in str(schema.get("$schema")):  # there, plain names such as `id` say where references lead
        raise TooCostly("its schema is of a dialect that is too old")
    try:
        _Costs(schema).of({key: part for key, part in schema.items() if key != "$id"})
    except RecursionError:
        raise TooCostly("its schema is too deep") from None


class _Costs:
    """Counts the schemas within a schema as often as references lead to them."""

    def __init__(self, root: dict[str, Any]) -> None:
        self._root = root
        self._known: dict[str, int | None] = {}  # by reference; None: it is being counted

    def of(self, part: Any) -> int:
        match part:
            case dict():
                cost = 1 + sum(self.of(inner) for inner in part.values()) + sum(map(self._behind, _references(part)))
                cost *= 2 if any(key in part for key in _TWICE) else 1
            case list():
                cost = sum(self.of(inner) for inner in part)
            case _:
                cost = 0
        if cost > _MOST_COST:
            raise TooCostly("its schema takes too long to check")
        return cost

    def _behind(self, reference: str) -> int:
        if reference not in self._known:
            self._known[reference] = None
            self._known[reference] = self.of(self._found(reference))
        cost = self._known[reference]
        if cost is None:
            raise TooCostly("its schema refers to itself")
        return cost

    def _found(self, reference: str) -> Any:
        if reference != "#" and not reference.startswith("#/"):
            raise TooCostly("its schema refers to something that is not a place in it")
        found: Any = self._root
        try:
            for step in unquote(reference).split("/")[1:]:
                key = step.replace("~1", "/").replace("~0", "~")
                found = found[int(key)] if isinstance(found, list) else found[key]
        except (LookupError, TypeError, ValueError):
            raise TooCostly("its schema refers to what it does not have") from None
        return found


def _references(part: dict[str, Any]) -> Iterator[str]:
    """Raises TooCostly."""
    if any(isinstance(part.get(key), str | bool) for key in _ELSEWHERE):
        raise TooCostly("its schema says by names where its references lead")
    if isinstance(reference := part.get("$ref"), str):
        yield reference
