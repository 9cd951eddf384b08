"""YAML by the core schema of 1.2: what stands in a file is what was meant, and nothing in it costs much to read."""

import json
import sys
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from yaml import MappingNode, MarkedYAMLError, SequenceNode, YAMLError

from email_assistant.core_yaml import RepeatedKey, document, load
from email_assistant.user_file import UserFile

# Within quotes only JSON takes line separators as they are.
characters = st.characters(exclude_categories=["Cc", "Cs", "Zl", "Zp"], exclude_characters="\ufffe\uffff")
printable = st.text(characters, max_size=50)
jsons = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | printable,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(printable, inner, max_size=5),
    max_leaves=20,
)


def refused(text: str) -> tuple[str, int]:
    """What is said, and of which line; 1 is the first."""
    with pytest.raises(MarkedYAMLError) as raised:
        load(text)
    assert raised.value.problem_mark is not None
    return str(raised.value.problem), raised.value.problem_mark.line + 1


@pytest.mark.parametrize(
    "text",
    [
        *("yes", "no", "on", "off", "y", "n", "Yes", "NO", "tRue", "nUll"),
        *("12:30", "190:20:30", "1_000", "0b11", "-0x1f", "0o8", "0X1F", "1e", "."),
        *("2026-05-04", "2026-13-45", "2026-05-04T10:00:00Z", "=", "<<", "+.nan", "--1"),
    ],
)
def test_what_only_1_1_takes_for_something_else_is_text(text: str) -> None:
    assert load(f"- {text}") == [text]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *(("true", True), ("False", False), ("TRUE", True), ("null", None), ("Null", None), ("~", None), ("", None)),
        *(("0", 0), ("-7", -7), ("+12", 12), ("017", 17), ("08", 8), ("0o17", 15), ("0x1F", 31)),
        *(("1.5", 1.5), ("-.5", -0.5), ("1.", 1.0), ("1e3", 1000.0), ("6.02E+23", 6.02e23)),
        *((".inf", float("inf")), ("-.INF", float("-inf"))),
    ],
)
def test_values_of_the_core_schema(text: str, value: Any) -> None:
    [read] = load(f"- {text}")
    assert (type(read), read) == (type(value), value)


def test_no_number() -> None:
    assert str(load(".nan")) == "nan"


@pytest.mark.parametrize("text", ["'true'", '"1"', "|-\n  1", ">-\n  null"])
def test_what_is_quoted_or_a_block_is_text(text: str) -> None:
    assert isinstance(load(text), str)


def test_a_merge_key_is_a_key_as_any_other() -> None:
    assert load("<<: {a: 1}\nb: 2") == {"<<": {"a": 1}, "b": 2}


@given(value=jsons)
def test_json_is_read_as_what_it_is(value: Any) -> None:
    assert load(json.dumps(value, ensure_ascii=False)) == value
    assert load(json.dumps(value, ensure_ascii=False, indent=1)) == value


def test_a_file_of_json_holds_what_json_says() -> None:
    """Its escapes too, of which two may stand for one character."""
    assert UserFile.json("f.json", '{\t"a": "\\ud83d\\ude00",\n"\\u0062": 1e5}').mapping() == {"a": "😀", "b": 1e5}


@pytest.mark.parametrize("text", ["", "\n", "# nothing\n", "---\n"])
def test_nothing_holds_nothing(text: str) -> None:
    assert load(text) is None


def test_nodes_know_their_lines() -> None:
    _, root = document("a: 1\nb:\n  - x\n  - {c: d}\n")
    assert isinstance(root, MappingNode)
    [(a, _), (b, items)] = root.value
    assert isinstance(items, SequenceNode)
    assert [node.start_mark.line for node in (a, b, *items.value)] == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("text", "key", "line"),
    [
        ("a: 1\nb: 2\na: 3\n", "a", 3),
        ("x:\n- b: {c: 1,\n  'c': 2}\n", "c", 3),
        ("1: a\n0x1: b\n", "0x1", 2),
        ('{"a": 1,\n"\\u0061": 1}', "a", 2),
    ],
)
def test_no_key_stands_twice(text: str, key: str, line: int) -> None:
    with pytest.raises(RepeatedKey) as raised:
        load(text)
    assert raised.value.key == key
    assert raised.value.problem_mark is not None
    assert raised.value.problem_mark.line + 1 == line


@pytest.mark.parametrize(
    ("text", "reason", "line"),
    [
        ("a: 1\nb: &b 1", "takes no anchors and aliases", 2),
        ("a:\n- *b", "takes no anchors and aliases", 2),
        ("&a\n- *a", "takes no anchors and aliases", 1),
        ("&a k: 1", "takes no anchors and aliases", 1),
        ("a: 1\nb: !!python/object/apply:os.system [x]", "takes no tags", 2),
        ("!!str a: 1", "takes no tags", 1),
        ("- ! a", "takes no tags", 1),
        ("- !local {a: b}", "takes no tags", 1),
        ("- !<tag:yaml.org,2002:int> 1", "takes no tags", 1),
        ("a: 1\n---\nb: 1", "but found another document", 2),
        ("a: b: c", "mapping values are not allowed here", 1),
        ("\n? [a]\n: b", "a key is a list or a mapping", 2),
        (f"a:\n- {'1' * 5000}", "a number has too many digits", 2),
        ('a:\n  "\\U00110000"', "a number is out of bounds", 2),
        ('a:\n  "\\UFFFFFFFF"', "a number is out of bounds", 2),
        (f"%YAML 1.{'9' * 5000}\n---\na", "a number is out of bounds", 1),
    ],
    ids=lambda value: str(value)[:30],
)
def test_what_is_refused_is_told_with_its_line(text: str, reason: str, line: int) -> None:
    assert refused(text) == (reason, line)


@pytest.mark.parametrize("text", ["a: \x00", "a: \x07", "a\ufffe"])
def test_what_can_not_be_printed_is_refused(text: str) -> None:
    with pytest.raises(YAMLError):
        load(text)


def test_bounds() -> None:
    assert len(load("[" + "x," * 9_999 + "]")) == 9_999
    assert load("[" * 32 + "x" + "]" * 32)
    too_much = "holds more than 10000 values, or is more than 32 deep"
    assert refused("-\n" * 10_000) == (too_much, 10_000)
    assert refused("\n[" * 33 + "x" + "]" * 33) == (too_much, 34)


@pytest.mark.parametrize("part", ["[", "{a: ", "- ", "? ", "[{a: ", "x: ["])
def test_what_is_very_deep_is_refused_before_it_is_built(part: str) -> None:
    assert refused(part * 50_000)[0].endswith("32 deep")


@pytest.mark.parametrize(
    "written",
    [
        lambda size: "#" * size,
        lambda size: "\n" * size,
        lambda size: "a: " + "x " * size,
        lambda size: "a: " + "x\n  " * size,
        lambda size: "a: |\n" + "  x\n" * size,
        lambda size: 'a: "' + "\\\n" * size + '"',
        lambda size: "%TAG !a! b\n" * size,
        lambda size: "a: [" + "x, " * size + "]",
        lambda size: "".join(f"k{number}: v\n" for number in range(size)),
        lambda size: "a:" * size,
    ],
    ids=["comment", "lines", "plain", "plain lines", "block", "quoted", "directives", "list", "mapping", "colons"],
)
def test_what_is_twice_as_long_costs_at_most_twice_as_much(written: Callable[[int], str]) -> None:
    assert calls(written(2_000)) < 2.1 * calls(written(1_000))


def calls(text: str) -> int:
    """How many functions are called to read it."""
    count = 0

    def counted(_: object, event: str, __: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(counted)
    try:
        load(text)
    except YAMLError:
        pass
    finally:
        sys.setprofile(before)
    return count


@given(text=st.text(st.sampled_from("ab1 \n\t:-?,[]{}#&*!|>'\"%@`~=<.\\x\u2028\ud800\ufeff"), max_size=60))
def test_whatever_is_written_has_a_value_or_an_error(text: str) -> None:
    try:
        _, root = document(text)
    except YAMLError:
        return
    assert root is None or root.start_mark.line <= text.count("\n") + text.count("\u2028")
