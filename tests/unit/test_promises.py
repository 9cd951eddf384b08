"""What `docs/promises.md` promises is held by tests that are there and are run."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatch

from tests.documents import ROOT
from tests.named import Named, names_in

TEXT = (ROOT / "docs" / "promises.md").read_text()
SECOND_LANE = "Held by the second lane alone"
"""The one chapter of promises that no test of the first lane holds."""

PROMISE = re.compile(r"<details>\n<summary>(.+?)</summary>\n\n(.*?)\n?</details>", re.DOTALL)
LINE = re.compile(r"    ([\w/]+\.py)(?:::((?:\w+::)*test_\w+)|(?:::(\w+))? \((\d+) tests\))")


@dataclass(frozen=True)
class Promise:
    chapter: str
    words: str
    lines: list[str]

    @property
    def tests(self) -> list[Named]:
        return [test for line in self.lines for test in named_by(line)]


def promises() -> list[Promise]:
    return [
        Promise(chapter.partition("\n")[0], " ".join(words.split()), [line for line in lines.splitlines() if line])
        for chapter in TEXT.split("\n## ")[1:]
        for words, lines in PROMISE.findall(chapter)
    ]


def named_by(line: str) -> Iterator[Named]:
    """The tests that a line of a promise names: none if there is no such file."""
    if match := LINE.fullmatch(line):
        path, function, group, _ = match.groups()
        file = ROOT / "tests" / path
        if file.is_file() and fnmatch(file.name, "test_*.py"):
            for test in names_in(file):
                if test.name == function or (function is None and test.name.startswith(f"{group}::" if group else "")):
                    yield test


def test_the_page_is_read_whole() -> None:
    assert len(promises()) == TEXT.count("<summary>") > 100


def test_each_promise_is_made_once() -> None:
    words = [promise.words for promise in promises()]
    assert len(words) == len(set(words))


def test_all_tests_that_are_named_are_there() -> None:
    lost = []
    for line in {line for promise in promises() for line in promise.lines}:
        match = LINE.fullmatch(line)
        if match is None or len([*named_by(line)]) < int(match[4] or 1):
            lost.append(line.strip())
    assert lost == []


def test_none_of_them_is_always_skipped() -> None:
    assert [test.name for promise in promises() for test in promise.tests if test.marks & {"skip", "xfail"}] == []


def test_the_first_lane_holds_each_promise_but_those_of_one_chapter() -> None:
    held = {promise.words: any("long" not in test.marks for test in promise.tests) for promise in promises()}
    assert {words for words, is_held in held.items() if not is_held} == {
        promise.words for promise in promises() if promise.chapter == SECOND_LANE
    }
