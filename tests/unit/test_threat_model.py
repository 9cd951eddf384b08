"""What the threat model and the page on security claim has its place in the code, and a test that holds it."""

import re
from pathlib import Path

import pytest

from tests.named import names_in

ROOT = Path(__file__).parents[2]
SECURITY = (ROOT / "docs" / "security.md").read_text()
TEXT = (ROOT / "docs" / "threat-model.md").read_text() + SECURITY
TEST = re.compile(r"`(tests/[^`]+)`")
ROW = re.compile(r"^\| (\d+\.\d+\.\d+) \([123]\) \|(.*)\|$", re.MULTILINE)
ROWS = {"8.1": 3, "8.2": 5, "8.3": 3, "9.1": 3, "9.2": 10, "9.3": 8, "9.4": 4, "9.5": 6, "9.6": 3}
ROWS |= {"10.1": 3, "10.2": 7, "10.3": 5, "10.4": 8}
"""How many rows the sections of AISVS 1.0 have."""
PLACE = re.compile(r"`(?!tests/)([\w/]+\.py)(?:: ([\w, ]+))?`")


def claims() -> list[str]:
    """Rows of the tables that say what is stopped, and how."""
    tables = [block.strip().split("\n") for block in re.findall(r"(?:^\|.*\n)+", TEXT, re.MULTILINE)]
    return [row for header, _, *rows in tables if "is held by" in header for row in rows]


def test_there_are_claims() -> None:
    assert len(claims()) > 70


@pytest.mark.parametrize("claim", claims(), ids=lambda claim: claim[2:40])
def test_each_claim_names_its_tests(claim: str) -> None:
    assert TEST.search(claim)


@pytest.mark.parametrize("named", sorted(set(TEST.findall(TEXT))))
def test_each_test_that_is_named_is_there(named: str) -> None:
    path, _, name = named.partition("::")
    assert (ROOT / path).is_file()
    names = [test.name for test in names_in(ROOT / path)]
    assert not name or any(each == name or each.startswith(f"{name}::") for each in names)


def test_no_test_is_named_in_a_way_that_nothing_checks() -> None:
    named = re.findall(r"`([^`]*\btest_\w+[^`]*)`|`(Test\w+)`", TEXT)
    assert [name for pair in named for name in pair if name and not TEST.fullmatch(f"`{name}`")] == []


@pytest.mark.parametrize(("place", "names"), sorted(set(PLACE.findall(TEXT))))
def test_each_place_in_the_code_is_there(place: str, names: str) -> None:
    [file] = [found for found in (ROOT / "email_assistant" / place, ROOT / place) if found.is_file()]
    text = file.read_text()
    assert [name for name in re.findall(r"\w+", names) if not re.search(rf"\b{name}\b", text)] == []


def test_each_row_of_the_standard_stands_there_once_and_in_order() -> None:
    rows = [f"{section}.{number}" for section, count in ROWS.items() for number in range(1, count + 1)]
    named = [row for row, _ in ROW.findall(SECURITY)]
    assert sorted(named, key=rows.index) == rows
    parts = [[row for row, _ in ROW.findall(part)] for part in SECURITY.split("\n## ")[1:]]
    assert parts == [sorted(part, key=rows.index) for part in parts]
    told = "Of {} rows {} hold, {} hold in part, {} do not, and {} do not apply."
    assert told.format(len(rows), *map(len, parts)) in SECURITY


def test_each_row_says_all_that_its_table_asks_for() -> None:
    assert [row for row, rest in ROW.findall(SECURITY) if any(not cell.strip() for cell in rest.split("|"))] == []
