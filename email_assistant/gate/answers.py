"""What the answer of a tool tells: of which things, by which names, and what else stands there.

An answer that is structured says more than its text: an id belongs to the thing of that name, and an address that is
the whole of a field was put there as one. Text that somebody wrote into a field says nothing but itself.
"""

import json
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from datetime import date
from typing import Any, Final

from yaml import YAMLError

from email_assistant.core_yaml import load
from email_assistant.gate import provenance
from email_assistant.gate.call import PROSE, Labels
from email_assistant.gate.names import called, words
from email_assistant.gate.provenance import By, Kind, Source, read
from email_assistant.mail.address import address_of, is_recipient

NAMING: Final = re.compile(r"(?:.*_)?(?:title|name|subject|summary)|file_?name", re.IGNORECASE)
_OTHERS_SAY: Final = re.compile(r"reply_?to|to|recipients?|b?cc", re.IGNORECASE)
"""Fields of a mail in which a stranger names whom they like. Whoever is named there is no part of the thing."""
_APART: Final = re.compile(r"(?:.*_)?(?:title|filename|subject|summary)", re.IGNORECASE)
"""What has one of these within another thing, as an event of a calendar has, is a thing of its own."""
_TITLE: Final = re.compile(r"(?:event_?)?title|summary", re.IGNORECASE)
_CLOCKS: Final = r"(?:\d\d-\d\d )?\d\d:\d\d"
_EVENT: Final = re.compile(rf"^(?:all day|{_CLOCKS}-{_CLOCKS}) (.+?)(?: \([a-z ]+\))?$", re.MULTILINE)
"""A line of a calendar, with its title."""
_LISTED: Final = re.compile(
    r"^(?P<day>\d{4}-\d\d-\d\d)(?:T(?P<time>\d\d:\d\d)\S*)? to \S+: (?P<title>.*)\n  Id: (?P<id>\S+)"
    r"(?P<more>(?:\n  .*)*)",
    re.MULTILINE,
)
"""An event as our own calendar lists it: no title or text in it can begin a line of its own."""
_FIELD: Final = re.compile(r"[A-Za-z_][\w-]*")
_NUMBER: Final = re.compile(r"\d{1,12}\.\d{1,6}")
_LONGEST_YAML: Final = 60_000  # letters; reading it takes a quarter of a second at most
_DEEPEST: Final = 100  # in one another
_LONGEST_VALUE: Final = 200


@dataclass(frozen=True, slots=True)
class Thing:
    """Of which an answer tells, such as an event, a file or a payment."""

    names: tuple[str, ...]
    """What it is called, in words between blanks; without the ending of a file. A list of things has none."""
    values: frozenset[str]
    """What stands in its fields, each as a whole, folded; not what is said to people."""
    prose: str
    """What somebody wrote into it, in words between single blanks."""
    when: frozenset[tuple[Kind, str]] = frozenset()
    """By which it is told when it is: the keys of its day, and of the time at which it begins."""


@dataclass(frozen=True, slots=True)
class Indexed:
    source: Source
    """All of its text. Of the person's own records only what is the whole of a field is theirs: texts quote others."""
    things: tuple[Thing, ...]
    """What is not structured is one without name and fields."""


def answer(
    text: str, label: str, labels: Labels | None, *, readers: Collection[str] | None = None, day: date | None = None
) -> Indexed:
    """Index what a tool answered, as `read` does. Private records that no stranger writes to are the person's own:
    contacts, sent mail, their settings; not what a change answers, which repeats what it was told. What others publish
    tells of no thing of theirs."""
    is_private = labels is not None and labels.read_private_data
    is_own = is_private and not (labels is None or labels.read_untrusted_public_data or labels.write_operation)
    by: By = "own" if is_own else "stranger"
    tree = _tree(text)
    found = _EVENT.findall(text) if tree is None else [value for key, value in _leaves(tree) if _TITLE.fullmatch(key)]
    titles = frozenset(filter(None, map(provenance.title, found)))
    source = replace(read(text, label=label, by=by, readers=readers, day=day), titles=titles)
    if tree is None and is_own:
        return Indexed(source, (Thing((), frozenset({whole(text)}), ""),))
    if tree is None or not is_private:
        return Indexed(source, (Thing((), frozenset(), words(text)),))
    return Indexed(source, tuple(_things(tree)))


def events(text: str) -> Iterator[Thing]:
    """What our own calendar lists: an event is called by its title, or by when it is."""
    for event in _LISTED.finditer(text):
        day, weekday = event["day"], date.fromisoformat(event["day"]).isoweekday()
        days: frozenset[tuple[Kind, str]] = frozenset({("date", day), ("date", day[5:]), ("date", f"day {weekday}")})
        begins: frozenset[tuple[Kind, str]] = frozenset({("time", event["time"])} if event["time"] else ())
        title = called(event["title"])
        yield Thing((title,) if title else (), frozenset({whole(event["id"])}), words(event["more"]), days | begins)


def is_prose(key: str, value: str) -> bool:
    return bool(PROSE.fullmatch(key)) or "\n" in value or len(value) > _LONGEST_VALUE


def whole(value: str) -> str:
    """A value as it is compared: of somebody with an address the address, and of a number what it amounts to."""
    said = (address_of(value) if is_recipient(value) else value).strip().casefold()
    return f"{float(said):g}" if _NUMBER.fullmatch(said) else said


def _tree(text: str) -> Any:
    """The parts of a structured answer; None: it is no more than text."""
    if not text.lstrip().startswith(("{", "[", "-")) and ":" not in text[:80]:
        return None
    try:
        tree = json.loads(text)
    except ValueError:
        tree = _yaml(text)
    except RecursionError:
        return None
    return tree if isinstance(tree, dict | list) and not _is_deep(tree) else None


def _is_deep(tree: Any, depth: int = 0) -> bool:
    parts = tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else ()
    return depth > _DEEPEST or any(_is_deep(part, depth + 1) for part in parts)


def _yaml(text: str) -> Any:
    if len(text) > _LONGEST_YAML:
        return None
    try:
        tree = load(text)
    except YAMLError:
        return None
    return tree if all(isinstance(key, str) and _FIELD.fullmatch(key) for key in _fields(tree)) else None


def _fields(tree: Any) -> Iterator[Any]:
    """Of the outermost things, which tell whether this is data or text with colons."""
    for part in tree if isinstance(tree, list) else [tree]:
        if isinstance(part, dict):
            yield from part


def _things(tree: Any) -> Iterator[Thing]:
    match tree:
        case dict():
            names = {called(v) for k, v in tree.items() if NAMING.fullmatch(str(k)) and isinstance(v, str)}
            own = {key: part for key, part in tree.items() if not _OTHERS_SAY.fullmatch(str(key))}
            leaves = [(key, value) for key, value in _leaves(own, apart=True) if not NAMING.fullmatch(key)]
            yield Thing(
                tuple(sorted(filter(None, names))),
                frozenset(whole(value) for key, value in leaves if not is_prose(key, value)),
                " ".join(words(value) for key, value in leaves if is_prose(key, value)),
            )
            for part in tree.values():
                yield from _things(part)
        case list():
            if flat := frozenset(whole(str(part)) for part in tree if isinstance(part, str | int | float)):
                yield Thing((), flat, "")
            for part in tree:
                yield from _things(part)


def _leaves(tree: Any, key: str = "", *, apart: bool = False) -> Iterator[tuple[str, str]]:
    """Values with the fields that they stand in; `apart`: without those of further things. A name of a field that no
    program would give it is a value too."""
    match tree:
        case dict():
            for name, part in tree.items():
                if not _FIELD.fullmatch(str(name)):
                    yield key, str(name)
                yield from _leaves(part, str(name), apart=apart)
        case list():
            for part in tree:
                if not (apart and isinstance(part, dict) and any(_APART.fullmatch(str(name)) for name in part)):
                    yield from _leaves(part, key, apart=apart)
        case None | bool():
            return
        case _:
            yield key, str(tree)
