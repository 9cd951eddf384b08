"""What the threat model claims has its place in the code, and a test that holds it."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "threat-model.md").read_text()
TEST = re.compile(r"`(tests/[^`]+)`")
PLACE = re.compile(r"`(?!tests/)([\w/]+\.py)(?:: ([\w, ]+))?`")


@cache
def names_in(file: Path) -> frozenset[str]:
    """Its tests and their classes, as pytest names them."""
    return frozenset(_named(ast.parse(file.read_text()), ""))


def _named(node: ast.Module | ast.ClassDef, before: str) -> Iterator[str]:
    for each in node.body:
        if isinstance(each, ast.ClassDef) and each.name.startswith("Test"):
            yield before + each.name
            yield from _named(each, f"{before}{each.name}::")
        elif isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef) and each.name.startswith("test_"):
            yield before + each.name


def claims() -> list[str]:
    """Rows of the tables that say what is stopped, and how."""
    tables = [block.strip().split("\n") for block in re.findall(r"(?:^\|.*\n)+", TEXT, re.MULTILINE)]
    return [row for header, _, *rows in tables if "is held by" in header for row in rows]


def test_there_are_claims() -> None:
    assert len(claims()) > 25


@pytest.mark.parametrize("claim", claims(), ids=lambda claim: claim[2:40])
def test_each_claim_names_its_tests(claim: str) -> None:
    assert TEST.search(claim)


@pytest.mark.parametrize("named", sorted(set(TEST.findall(TEXT))))
def test_each_test_that_is_named_is_there(named: str) -> None:
    path, _, name = named.partition("::")
    assert (ROOT / path).is_file()
    assert not name or name in names_in(ROOT / path)


def test_no_test_is_named_in_a_way_that_nothing_checks() -> None:
    named = re.findall(r"`([^`]*\btest_\w+[^`]*)`|`(Test\w+)`", TEXT)
    assert [name for pair in named for name in pair if name and not TEST.fullmatch(f"`{name}`")] == []


@pytest.mark.parametrize(("place", "names"), sorted(set(PLACE.findall(TEXT))))
def test_each_place_in_the_code_is_there(place: str, names: str) -> None:
    [file] = [found for found in (ROOT / "email_assistant" / place, ROOT / place) if found.is_file()]
    text = file.read_text()
    assert [name for name in re.findall(r"\w+", names) if not re.search(rf"\b{name}\b", text)] == []
