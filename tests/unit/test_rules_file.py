"""Rules as a Markdown file: nothing is lost on the way out and back, and a bad line is named."""

from collections.abc import Sequence
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from email_assistant.inbox.items import Invalid
from email_assistant.mail.charset import one_line
from email_assistant.memory.markdown import FileChange, changes, read, written
from email_assistant.memory.rules import PROFILES, Profile, Rule

texts = st.text(max_size=300).map(one_line).filter(bool) | st.sampled_from(
    ["- x", "## cal_preferences", "> You wrote this rule. (0b9f3c1e-1d7c-4c1e-9a52-6d0c9b7e4f11)", "# x", "*", "`"]
)
origins = st.fixed_dictionaries({"did": st.text(), "sender": st.text(), "subject": st.text()})
rules = st.builds(
    lambda key, text, origin: Rule(str(key), text, origin, "2026-01-01T00:00:00+00:00", [], removed=False),
    st.uuids(),
    texts,
    origins,
)
memories = st.fixed_dictionaries({profile: st.lists(rules, max_size=5) for profile in PROFILES})
Memory = dict[Profile, list[Rule]]


def rule(text: str) -> Rule:
    return Rule(str(uuid4()), text, {"did": "You wrote this rule."}, "2026-01-01T00:00:00+00:00", [], removed=False)


def carried_out(memory: Memory, found: Sequence[FileChange]) -> Memory:
    """The rules once the changes were made."""
    made = {profile: {each.key: each for each in rules} for profile, rules in memory.items()}
    for change in found:
        if change.rule:
            del made[change.profile][change.rule.key]
        if change.does != "remove":
            new = rule(change.text)
            made[change.profile][new.key] = new
    return {profile: list(rules.values()) for profile, rules in made.items()}


def said(memory: Memory) -> dict[Profile, list[str]]:
    return {profile: sorted(each.text for each in rules) for profile, rules in memory.items()}


@given(memory=memories, ending=st.sampled_from(["\n", "\r\n"]))
def test_a_file_that_nobody_changed_changes_nothing(memory: Memory, ending: str) -> None:
    assert changes(memory, read(written(memory).replace("\n", ending))) == []


@given(memory=memories, other=memories)
def test_a_file_makes_the_rules_those_that_it_holds(memory: Memory, other: Memory) -> None:
    found = changes(memory, read(written(other)))
    assert said(carried_out(memory, found)) == said(other)


@given(memory=memories, text=texts, number=st.integers(0, 20))
def test_other_words_for_a_rule_change_that_rule_alone(memory: Memory, text: str, number: int) -> None:
    file = read(written(memory))
    every = [(profile, n) for profile, lines in file.items() for n in range(len(lines))]
    if not every:
        return
    profile, n = every[number % len(every)]
    [*others] = [each for each in memory[profile] if each.key != memory[profile][n].key]
    edited = [*others, Rule(memory[profile][n].key, text, {}, "", [], removed=False)]
    found = changes(memory, read(written({**memory, profile: edited})))
    expected = [] if text == memory[profile][n].text else [("change", profile, text, memory[profile][n])]
    assert [(c.does, c.profile, c.text, c.rule) for c in found] == expected


def test_a_profile_without_a_heading_is_left_alone() -> None:
    memory: Memory = {profile: [rule(f"About {profile}.")] for profile in PROFILES}
    found = changes(memory, read("## cal_preferences\n"))
    assert [(change.does, change.text) for change in found] == [("remove", "About cal_preferences.")]


def test_without_their_ids_rules_are_known_by_their_words() -> None:
    memory: Memory = {profile: [] for profile in PROFILES} | {PROFILES[0]: [rule("A."), rule("A."), rule("B.")]}
    found = changes(memory, read(f"## {PROFILES[0]}\n- B.\n* A.\n+ C.\n"))
    assert [(change.does, change.text) for change in found] == [("add", "C."), ("remove", "A.")]


@pytest.mark.parametrize(
    ("file", "says"),
    [
        ("", "no profile's heading"),
        ("- A.", "line 1: a rule stands below"),
        ("## cal_preferences\n\n## other\n", "line 3: there is no profile 'other'"),
        ("## cal_preferences\n- A.\n## cal_preferences", "line 3: cal_preferences has a heading already"),
        ("## cal_preferences\n- A.\n  and so on", "line 3: a line is a heading, a rule"),
        ("## cal_preferences\n  > From nowhere.", "line 2: a line is"),
        (
            f"## cal_preferences\n- A.\n- {'x' * 301}",
            "line 3: a rule is a text of 1 to 300 characters, and this has 301",
        ),
        ("## cal_preferences\n- A.\n- \x00", "line 3: a rule is a text of 1 to 300 characters, and this has 0"),
        ("## cal_preferences\n- A.\n- B.\n- A.", "line 4: that rule stands in line 2 already"),
        ("## cal_preferences\n" + "- A.\n" * 201, "line 202: a profile holds 200 rules at most"),
    ],
)
def test_what_can_not_be_taken_is_refused_with_its_line(file: str, says: str) -> None:
    nothing: dict[Profile, list[Any]] = {profile: [] for profile in PROFILES}
    with pytest.raises(Invalid, match=says):
        changes(nothing, read(file))


def test_a_rule_that_is_there_may_be_as_long_as_it_is() -> None:
    memory: Memory = {profile: [] for profile in PROFILES} | {PROFILES[0]: [rule("x" * 400)]}
    assert changes(memory, read(written(memory))) == []
