"""YAML as version 1.2 has it, for what people and programs write: its core schema, which JSON is part of.

The library's own loader reads 1.1, where `no` is false and `12:30` a number, and lets a key stand twice.
"""

import re
from typing import Any, Final

from yaml import AliasEvent, MappingNode, MarkedYAMLError, Node, SafeLoader, ScalarNode

_MOST: Final = 10_000  # names and values
_DEEPEST: Final = 32  # lists and mappings in one another
_TAG: Final = "tag:yaml.org,2002:"
_SCHEMA: Final = {
    "null": r"null|Null|NULL|~|",
    "bool": r"true|True|TRUE|false|False|FALSE",
    "int": r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+",
    "float": r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)",
}
"""How what is not text is written, where more than one fits the first (https://yaml.org/spec/1.2.2/#1032-tag-resolution)."""
_BASES: Final = {"0o": 8, "0x": 16}


class RepeatedKey(MarkedYAMLError):
    """A mapping has a key twice."""

    def __init__(self, node: ScalarNode) -> None:
        super().__init__(problem="a key stands here twice", problem_mark=node.start_mark)
        self.key: str = node.value


def load(text: str) -> Any:
    """What one document holds; None: there is none. Raises YAMLError."""
    return document(text)[0]


def document(text: str) -> tuple[Any, Node | None]:
    """What one document holds, and the nodes that it was made of, which know their lines. Raises YAMLError."""
    loader = _CoreLoader(text)
    try:
        root = loader.get_single_node()
        return loader.construct_document(root) if root else None, root
    except (ValueError, OverflowError):  # such as for an escape that is no character
        raise MarkedYAMLError(problem="a number is out of bounds", problem_mark=loader.get_mark()) from None


class _CoreLoader(SafeLoader):
    yaml_implicit_resolvers = {  # noqa: RUF012 (the library's own name; it is read only)
        None: [(_TAG + kind, re.compile(rf"(?:{written})\Z")) for kind, written in _SCHEMA.items()]
    }

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._count = self._depth = 0

    def compose_node(self, parent: Node | None, index: Any) -> Node | None:
        """Checked before anything is built of it."""
        event = self.peek_event()  # type: ignore[no-untyped-call]
        self._count += 1
        if isinstance(event, AliasEvent) or event.anchor:
            raise MarkedYAMLError(problem="takes no anchors and aliases", problem_mark=event.start_mark)
        if event.tag:
            raise MarkedYAMLError(problem="takes no tags", problem_mark=event.start_mark)
        if self._count > _MOST or self._depth > _DEEPEST:
            reason = f"holds more than {_MOST} values, or is more than {_DEEPEST} deep"
            raise MarkedYAMLError(problem=reason, problem_mark=event.start_mark)
        self._depth += 1
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node

    def construct_mapping(self, node: MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key, _ in node.value:
            if not isinstance(key, ScalarNode):
                raise MarkedYAMLError(problem="a key is a list or a mapping", problem_mark=key.start_mark)
            name = self.construct_object(key)
            if name in seen:
                raise RepeatedKey(key)
            seen.add(name)
        return super().construct_mapping(node, deep)

    def construct_yaml_int(self, node: ScalarNode) -> int:
        digits = self.construct_scalar(node)
        try:
            return int(digits, _BASES.get(digits[:2], 10))
        except ValueError:
            raise MarkedYAMLError(problem="a number has too many digits", problem_mark=node.start_mark) from None


_CoreLoader.add_constructor(_TAG + "int", _CoreLoader.construct_yaml_int)
