"""The rules as a Markdown file that a person can read and change, and what such a file would change.

A heading for each profile, a bullet for each rule with its words, and below it, quoted, where it comes from:

    ## triage_preferences

    - Ignore mail from shop.example.
      > You wrote this rule. (0b9f3c1e-1d7c-4c1e-9a52-6d0c9b7e4f11)

A profile without a heading is left as it is.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any, Final, Literal

from email_assistant.mail.charset import one_line
from email_assistant.memory.rules import MOST_RULES, PROFILES, BadRule, Profile, Rule, checked, origin_words

_ID: Final = re.compile(r"\(([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\)$")
_BULLETS: Final = ("- ", "* ", "+ ")

Rules = Mapping[Profile, Sequence[Rule]]


@dataclass(frozen=True, slots=True)
class Written:
    """A rule in a file."""

    line: int  # its number, from 1
    text: str
    key: str | None = None  # of the rule that it was


@dataclass(frozen=True, slots=True)
class FileChange:
    """What a file changes."""

    does: Literal["add", "change", "remove"]
    profile: Profile
    text: str  # that it adds, changes a rule to, or removes
    rule: Rule | None  # as it is, if it is there

    @property
    def said(self) -> str:
        """As the person is told of it."""
        was = f"\n  before: {self.rule.text}" if self.rule and self.does == "change" else ""
        return f"{self.does} in {self.profile}: {self.text}{was}"


def written(rules: Rules) -> str:
    """The rules in force as a file."""
    return "\n".join(line for profile in PROFILES for line in _section(profile, rules[profile]))


def _section(profile: Profile, rules: Sequence[Rule]) -> Iterator[str]:
    yield f"## {profile}\n"
    for rule in rules:
        yield f"- {one_line(rule.text)}\n  > {one_line(origin_words(rule.origin))} ({rule.key})"
    yield ""


def read(file: str) -> dict[Profile, list[Written]]:
    """The rules that stand in a file. Raises BadRule, with the number of the line that can't be taken."""
    found: dict[Profile, list[Written]] = {}
    profile: Profile | None = None
    for number, line in enumerate(file.removeprefix("\ufeff").split("\n"), 1):
        text = line.rstrip("\r \t")
        try:
            if text.startswith("## "):
                profile = _profile(text[3:].strip())
                if profile in found:
                    raise BadRule(f"{profile} has a heading already")
                found[profile] = []
            elif text.startswith(_BULLETS):
                if profile is None:
                    raise BadRule("a rule stands below the heading of its profile")
                if len(found[profile]) == MOST_RULES:
                    raise BadRule(f"a profile holds {MOST_RULES} rules at most")
                found[profile].append(Written(number, one_line(text[2:])))
            elif text.startswith("  > ") and profile and found[profile]:
                if known := _ID.search(text):
                    found[profile][-1] = replace(found[profile][-1], key=known[1])
            elif text and not text.startswith("# "):
                raise BadRule('a line is a heading, a rule that begins with "- ", or "  > " and where that comes from')
        except BadRule as wrong:
            raise _refused(number, wrong) from None
    for lines in found.values():
        _check_once(lines)
    if not found:
        raise BadRule(f"no profile's heading stands in it, such as ## {PROFILES[0]}; nothing was changed")
    return found


def _check_once(lines: Sequence[Written]) -> None:
    """Two rules may say the same where both were there before."""
    first: dict[str, int] = {}
    for line in sorted(lines, key=lambda each: (each.key is None, each.line)):
        if line.key is None and line.text in first:
            raise _refused(line.line, f"that rule stands in line {first[line.text]} already")
        first.setdefault(line.text, line.line)


def _profile(name: str) -> Profile:
    for profile in PROFILES:
        if profile == name:
            return profile
    raise BadRule(f"there is no profile {name[:40]!r}; the profiles are {', '.join(PROFILES)}")


def _refused(line: int, why: object) -> BadRule:
    return BadRule(f"line {line}: {why}; nothing was changed")


def changes(rules: Rules, file: Mapping[Profile, Sequence[Written]]) -> list[FileChange]:
    """What makes of the rules in force those of a file. A rule is known by its id, else by its words.

    Raises:
        BadRule: a rule that is not there yet says too much, or nothing.
    """
    return [change for profile, lines in file.items() for change in _changes(profile, rules[profile], lines)]


def _changes(profile: Profile, rules: Sequence[Rule], lines: Sequence[Written]) -> Iterator[FileChange]:
    left = {rule.key: rule for rule in rules}
    by_id = [(line, left.pop(line.key or "", None)) for line in lines]
    for line, known in by_id:
        if known and one_line(known.text) != line.text:
            yield FileChange("change", profile, _checked(line), known)
    for line, known in by_id:
        same = None if known else next((rule for rule in left.values() if one_line(rule.text) == line.text), None)
        if same:
            del left[same.key]
        elif not known:
            yield FileChange("add", profile, _checked(line), None)
    yield from (FileChange("remove", profile, rule.text, rule) for rule in left.values())


def _checked(line: Written) -> str:
    try:
        return checked(line.text)
    except BadRule as wrong:
        raise _refused(line.line, wrong) from None


def seen(found: Sequence[FileChange]) -> str:
    """A name for exactly these changes to exactly these rules, by which a person says yes to what they saw."""
    told: list[Any] = [(c.does, c.profile, c.text, c.rule and (c.rule.key, c.rule.version)) for c in found]
    return sha256(repr(told).encode()).hexdigest()
