"""Whether what a call does was said by the person: its arguments that matter, each with the texts that hold it.

Which arguments matter is decided by what they are, an address, a link, an account, an id, an amount that moves, and by
where they stand in the call; not by which tool is called.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from email_assistant.gate import verbs
from email_assistant.gate.answers import NAMING, PROSE, Indexed, Thing, whole, words
from email_assistant.gate.call import Proposed
from email_assistant.gate.labels import Act, Labels
from email_assistant.gate.provenance import Source, holders, spans

_REACHES: Final = ("address", "link", "account", "phone")  # spans by which something gets to somebody
_LEADS: Final = ("link", "account")  # where a reader of a text is led
_MOMENT: Final = re.compile(
    r"\d{4}-\d\d?-\d\d?(?:[T ]\d\d?:\d\d(?::\d\d(?:\.\d+)?)?)?(?:Z| ?[+-]\d\d:?\d\d)?|\d\d?:\d\d(?::\d\d)?"
)
_ID_FIELD: Final = re.compile(r"(?:.*_)?ids?_?|.*[a-z]Ids?", re.IGNORECASE)
_SAYS_WHO: Final = re.compile(r"^(?!true$|false$|none$)[^\W\d_]{4,}|\d{8}")
_SPOKEN: Final = 2  # words of a name that nobody says by chance
_LEAST_TOLD: Final = 4  # letters of an id that stands in a text for itself, and not by chance

_MOVES: Final = ("change", "pay", "delete", "cancel")  # acts of which every argument matters
_WHERE: Final = (("goes to", "leads to", "tells", "name", "id", "amount"), ("goes to", "leads to", "tells", "name"))
"""What says where a call goes, and where a letter does; a title says nothing of that."""
What = Literal["goes to", "leads to", "tells", "id", "amount", "name", "title"]
"""`leads to`: where a reader of what it says is led; `tells`: it is said to a server of somebody else's."""


@dataclass(frozen=True, slots=True)
class Origin:
    """An argument that matters."""

    argument: str
    """Its place in the call, such as `attendees[0]`."""
    value: str
    what: What
    grounded: bool
    held_by: tuple[str, ...]
    """What the texts that hold it are known as: those that ground it, or else those that only others wrote."""


@dataclass(frozen=True, slots=True)
class Known:
    """What is known when a call is proposed."""

    sources: Sequence[Source]
    """The person's words, their own records, and what others wrote."""
    answers: Sequence[Indexed]
    """Of the tools that ran."""
    correspondents: frozenset[str]
    """Whom a mail may go back to."""

    @property
    def things(self) -> Iterator[tuple[Indexed, Thing]]:
        return ((told, thing) for told in self.answers for thing in told.things)

    @property
    def said(self) -> list[str]:
        """The person's texts, in words between single blanks."""
        return [words(source.words) for source in self.sources if source.by == "person"]


@dataclass(frozen=True, slots=True)
class Grounds:
    marks: tuple[Origin, ...]
    external: bool
    """It reaches others than the person, or hands them its arguments."""
    lacks: str
    """What the person has not said, in plain words; empty: they, or their own records, said all that matters."""


@dataclass(frozen=True, slots=True)
class _Leaf:
    place: str
    key: str
    value: Any

    @property
    def text(self) -> str:
        return str(self.value)

    @property
    def is_prose(self) -> bool:
        """Only by its name: how long it is, whoever wrote it can choose."""
        return bool(PROSE.fullmatch(self.key))

    @property
    def reaches(self) -> list[str]:
        """To whom it gets something, or whom it has a reader turn to: a text may mention an address."""
        kinds = _LEADS if self.is_prose else _REACHES
        return [span.text for span in spans(self.text) if span.kind in kinds]

    @property
    def mentions(self) -> bool:
        return any(span.kind in _REACHES for span in spans(self.text))

    @property
    def is_id(self) -> bool:
        is_code = " " not in self.text and any(c.isdigit() for c in self.text)
        return bool(_ID_FIELD.fullmatch(self.key)) or (isinstance(self.value, str) and is_code)


def find(call: Proposed, known: Known, *, handed_on: bool) -> Grounds:
    """What matters in a call, and where it comes from.

    `handed_on`: its server is not ours, and what it is told may come from elsewhere."""
    labels = call.subject.labels
    if call.arguments is None:
        return Grounds((), external=_may_reach(labels), lacks="what it is told can't be read")
    leaves = [leaf for leaf in _leaves(call.arguments) if leaf.text.strip() and not isinstance(leaf.value, bool)]
    external = _is_external(labels, leaves, handed_on=handed_on)
    if not external and labels is not None and not labels.write_operation:
        return Grounds((), external=False, lacks="")
    act = verbs.act_of(call.tool, labels.act if labels else None)
    asked_for = verbs.is_asked_for(call.tool, act, known.said)
    is_question = labels is not None and not labels.write_operation
    whole_of: What | None = "tells" if handed_on else "goes to" if is_question else None
    matter = ((leaf, leaf.text, whole_of) for leaf in leaves) if whole_of else _matter(act, external, leaves)
    marks = tuple(_mark(leaf, value, what, known) for leaf, value, what in matter)
    if asked_for and not external:
        marks = tuple(_of_their_things(mark, known) for mark in marks)
    is_theirs = bool(leaves) and all(_is_theirs(leaf.text, known) for leaf in leaves)
    return Grounds(marks, external, "" if is_theirs and asked_for else _lacks(call, act, external, asked_for, marks))


def _may_reach(labels: Labels | None) -> bool:
    return labels is None or (labels.write_operation if labels.external is None else labels.external)


def _is_external(labels: Labels | None, leaves: Sequence[_Leaf], *, handed_on: bool) -> bool:
    if labels is None or handed_on:
        return True
    if labels.external is not None:
        return labels.external
    if not labels.write_operation:
        return any(span.kind == "link" for leaf in leaves for span in spans(leaf.text))
    return labels.acl == "PUBLIC" or any(leaf.reaches for leaf in leaves if not leaf.is_prose)


def _matter(act: Act | None, external: bool, leaves: Sequence[_Leaf]) -> Iterator[tuple[_Leaf, str, What]]:
    """The values of a change that the person must have said, or their own records."""
    reach = [(leaf, text) for leaf in leaves if external or not leaf.is_prose for text in leaf.reaches]
    yield from ((leaf, text, "leads to" if leaf.is_prose else "goes to") for leaf, text in reach)
    named = {leaf.place for leaf, _ in reach}
    rest = [
        leaf for leaf in leaves if leaf.place not in named and not leaf.is_prose and not _MOMENT.fullmatch(leaf.text)
    ]
    ids = [leaf for leaf in rest if leaf.is_id]
    yield from ((leaf, leaf.text, "id" if _ID_FIELD.fullmatch(leaf.key) else "name") for leaf in ids)
    if act in _MOVES or any(span.kind == "account" for leaf in leaves for span in spans(leaf.text)):
        yield from ((leaf, leaf.text, "amount") for leaf in rest if not leaf.is_id and not isinstance(leaf.value, str))
    names = [leaf for leaf in rest if not leaf.is_id and isinstance(leaf.value, str)]
    goes_to = any(not leaf.is_prose for leaf, _ in reach)
    if (external and not goes_to) or act in _MOVES:
        yield from ((leaf, leaf.text, "name") for leaf in names)
    if act == "add":
        yield from ((leaf, leaf.text, "title") for leaf in leaves if NAMING.fullmatch(leaf.key))


def _mark(leaf: _Leaf, value: str, what: What, known: Known) -> Origin:
    key = whole(value)
    value = key if what == "amount" else value
    if what == "tells":  # their records are what nobody is to be told; their words are not
        return Origin(leaf.place, value, what, _is_theirs(value, known), _told_by(value, known))
    own = [source.label for source in holders(value, known.sources) if source.by != "stranger"]
    own += [told.source.label for told, thing in known.things if told.source.by == "own" and key in thing.values]
    if own or key in known.correspondents:
        return Origin(leaf.place, value, what, grounded=True, held_by=tuple(dict.fromkeys(own)))
    if labels := _in_what_they_named(key, what, known):
        return Origin(leaf.place, value, what, grounded=True, held_by=labels)
    told = _told_by(value, known)
    # A title may be made up, as long as nobody else did so.
    is_made_up = what == "title" and not leaf.mentions and (not told or len(value.split()) < _SPOKEN)
    return Origin(leaf.place, value, what, is_made_up, told)


def _is_theirs(value: str, known: Known) -> bool:
    return any(source.by == "person" for source in holders(value, known.sources))


def _told_by(value: str, known: Known) -> tuple[str, ...]:
    told = holders(value, [*known.sources, *(answer.source for answer in known.answers)])
    return tuple(dict.fromkeys(source.label for source in told))


def _in_what_they_named(key: str, what: What, known: Known) -> tuple[str, ...]:
    """The answers that tell of a thing which the person called by its name, and which holds a value. If there are
    several things of that name, all must: else somebody may have made the second one. An amount moves nowhere by
    itself, so it is enough that they said to whom or from whom it was."""
    bearers: dict[str, list[tuple[str, bool]]] = {}
    for told, thing in known.things:
        least = 1 if told.source.by == "own" else _SPOKEN
        names = [name for name in thing.names if len(name.split()) >= least]
        if what == "amount":
            names += [words(value).strip() for value in thing.values if _SAYS_WHO.search(value)]
        for name in names:
            if any(f" {name} " in text for text in known.said):
                bearers.setdefault(name, []).append((told.source.label, key in thing.values))
    sure = [found for found in bearers.values() if all(holds for _, holds in found)]
    return tuple(dict.fromkeys(label for found in sure for label, _ in found))


def _of_their_things(mark: Origin, known: Known) -> Origin:
    """An id of one of the person's things, once they gave a word to what is done, unless somebody else speaks of it."""
    if mark.grounded or mark.what in ("goes to", "leads to", "tells"):
        return mark
    folded = whole(mark.value)
    owning = [(told.source, thing) for told, thing in known.things if folded in thing.values]
    called = [name for _, thing in owning for name in thing.names if len(name.split()) >= _SPOKEN]
    told = [*(f" {name} " for name in called), f" id {folded} ", f" number {folded} "]
    told += [words(folded)] if len(folded) >= _LEAST_TOLD else []
    others = [a.prose for told, a in known.things if told.source.by == "stranger" and folded not in a.values]
    if not owning or any(text in prose for prose in others for text in told):
        return mark
    labels = tuple(dict.fromkeys(source.label for source, _ in owning))
    return Origin(mark.argument, mark.value, mark.what, grounded=True, held_by=labels)


def unnamed(mark: Origin) -> str:
    """What the person has not said of an argument, in plain words."""
    where = f"only stands in {' and '.join(mark.held_by)}" if mark.held_by else "stands nowhere before"
    return f"you never named {mark.value!r} ({mark.argument}), which {where}"


def _lacks(call: Proposed, act: Act | None, external: bool, asked_for: bool, marks: Sequence[Origin]) -> str:
    for mark in marks:
        if not mark.grounded:
            return unnamed(mark)
    writes = call.subject.may_tell_others
    if external and writes and not any(mark.what in _WHERE[act == "send"] for mark in marks):
        return "it does not say whom it goes to"
    if writes and verbs.needs_word(act) and not asked_for:
        return f"you never asked to {act}" if act else f"you never asked for {call.tool.replace('_', ' ')}"
    return ""


def _leaves(tree: Any, place: str = "", key: str = "") -> Iterator[_Leaf]:
    match tree:
        case Mapping():
            for name, part in tree.items():
                inner = f"{place}.{name}" if place else str(name)
                if spans(str(name)):
                    yield _Leaf(inner, "", str(name))
                yield from _leaves(part, inner, str(name))
        case list() | tuple():
            for at, part in enumerate(tree):
                yield from _leaves(part, f"{place}[{at}]", key)
        case None:
            return
        case _:
            yield _Leaf(place, key, tree)
