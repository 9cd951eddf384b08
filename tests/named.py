"""The tests that there are, by the names that pytest has for them: read from their files, none is run."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path


@dataclass(frozen=True)
class Named:
    name: str
    """Its function, behind the class that it stands in: `TestDecision::test_it_is_taken_once`."""
    marks: frozenset[str]
    """Those without conditions: its own, its class's and its file's."""


@cache
def names_in(file: Path) -> tuple[Named, ...]:
    module = ast.parse(file.read_text())
    marks = [
        each.value
        for each in module.body
        if isinstance(each, ast.Assign) and ast.unparse(each.targets[0]) == "pytestmark"
    ]
    return tuple(_tests(module, "", _names(marks)))


def _tests(node: ast.Module | ast.ClassDef, before: str, marks: frozenset[str]) -> Iterator[Named]:
    for each in node.body:
        if isinstance(each, ast.ClassDef) and each.name.startswith("Test"):
            yield from _tests(each, f"{before}{each.name}::", marks | _names(each.decorator_list))
        elif isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef) and each.name.startswith("test_"):
            yield Named(before + each.name, marks | _names(each.decorator_list))


def _names(marks: list[ast.expr]) -> frozenset[str]:
    """`long` of `pytest.mark.long`; what stands within the cases of `parametrize` is a mark of those cases alone."""
    return frozenset(
        part.attr
        for mark in marks
        if "mark.parametrize" not in ast.unparse(mark)
        for part in ast.walk(mark)
        if isinstance(part, ast.Attribute) and ast.unparse(part.value) == "pytest.mark"
    )
