"""Whether what a call does was said by the person: its arguments that matter, each with the texts that hold it.

Which arguments matter is decided by what they are, an address, a link, an account, an id, an amount that moves, and by
where they stand in the call; not by which tool is called.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final, Literal

from email_assistant.gate.answers import NAMING, Indexed, Thing, whole
from email_assistant.gate.call import PROSE, Act, Labels, Proposed
from email_assistant.gate.names import called, plain, words
from email_assistant.gate.provenance import Source, sources_of, spans
from email_assistant.gate.spoken import Spoken, act_of, behind, is_asked_for, is_named, needs_word
from email_assistant.gate.vocabulary import EXTREMES
from email_assistant.mail.address import address_of
from email_assistant.mail.charset import quoted

_REACHES: Final = ("address", "link", "account", "phone")  # spans by which something gets to somebody
_TO: Final = re.compile(
    r"(?:.*_)?(?:to|b?cc|recipients?|attendees?|participants?|guests?|invitees?|members?|users?|channels?)",
    re.IGNORECASE,
)
"""Fields that say whom something gets to, whatever stands there."""
_ATTACHED: Final = re.compile(r"(?:.*_)?(?:attachments?|files?|documents?)", re.IGNORECASE)
_MOMENT: Final = re.compile(
    r"\d{4}-\d\d?-\d\d?(?:[T ]\d\d?:\d\d(?::\d\d(?:\.\d+)?)?)?(?:Z| ?[+-]\d\d:?\d\d)?|\d\d?:\d\d(?::\d\d)?"
)
_ID_FIELD: Final = re.compile(r"(?:.*_)?ids?_?|.*[a-z]Ids?", re.IGNORECASE)
_SAYS_WHO: Final = re.compile(r"@|\d{8}")
_SPOKEN: Final = 2  # words of a name that nobody says by chance
_LEAST_TOLD: Final = 4  # letters of an id that stands in a text for itself, and not by chance

_MOVES: Final = ("change", "pay", "delete", "cancel")  # acts of which every argument matters
_REACHING: Final = ("send", "share")
What = Literal["goes to", "leads to", "tells", "id", "amount", "name", "title"]
"""`leads to`: where a reader of what it says is led; `tells`: it is said to a server of somebody else's."""
_SAY_WHERE: Final[Sequence[What]] = ("goes to", "tells")
_SAY_WHAT: Final[Sequence[What]] = (*_SAY_WHERE, "name", "id", "amount")


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


@dataclass(frozen=True)
class Known:
    """What is known when a call is proposed."""

    sources: Sequence[Source]
    """The person's words, their own records, and what others wrote."""
    answers: Sequence[Indexed]
    """Of the tools that ran."""
    correspondents: frozenset[str]
    """Whom a mail may go back to."""
    sent: Sequence[Source] = ()
    """What the person wrote to anybody."""

    @property
    def things(self) -> Iterator[tuple[Indexed, Thing]]:
        return ((told, thing) for told in self.answers for thing in told.things)

    @cached_property
    def spoken(self) -> Spoken:
        return Spoken.of(self.sources)


@dataclass(frozen=True, slots=True)
class Grounds:
    marks: tuple[Origin, ...]
    external: bool
    """It reaches others than the person, or hands them its arguments."""
    handed_on: bool
    """A server of somebody else's is told something, after other things were read."""
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
        """To whom it gets something, or whom it has a reader turn to. An address that is none as a whole, such as
        a@b@c, is read otherwise by others."""
        found = [span for span in spans(self.text) if span.kind in _REACHES]
        signs = 0 if self.is_prose else plain(self.text).text.count("@")
        is_read = signs <= sum(span.kind == "address" for span in found)
        return [*(span.text for span in found), *([] if is_read else [self.text])]

    @property
    def mentions(self) -> bool:
        return any(span.kind in _REACHES for span in spans(self.text))

    @property
    def is_attached(self) -> bool:
        return bool(_ATTACHED.fullmatch(self.key)) or any(span.kind == "file" for span in spans(self.text))

    @property
    def is_id(self) -> bool:
        return bool(_ID_FIELD.fullmatch(self.key))

    @property
    def is_code(self) -> bool:
        return " " not in self.text and any(c.isdigit() for c in self.text)


def find(call: Proposed, known: Known, *, handed_on: bool) -> Grounds:
    """What matters in a call, and where it comes from.

    `handed_on`: its server is not ours, and what it is told may come from elsewhere."""
    labels = call.subject.labels
    if call.arguments is None:
        return Grounds((), _may_reach(labels), handed_on, "what it is told can't be read")
    leaves = [leaf for leaf in _leaves(call.arguments) if leaf.text.strip()]
    act = act_of(call.tool, labels.act if labels else None)
    external = _is_external(labels, act, leaves, handed_on=handed_on)
    if not external and labels is not None and not labels.write_operation:
        return Grounds((), external=False, handed_on=False, lacks="")
    asked_for = is_asked_for(call.tool, act, known.spoken.texts)
    is_question = labels is not None and not labels.write_operation
    whole_of: What | None = "tells" if handed_on else "leads to" if is_question else None
    matter = list(_all_as(whole_of, leaves) if whole_of else _matter(act, external, leaves))
    to = frozenset(address_of(value) for _, value, what in matter if what == "goes to")
    marks = tuple(_mark(leaf, value, what, known, to) for leaf, value, what in matter)
    if asked_for and (not external or call.subject.states):
        near = behind(call.tool, act, known.spoken.texts)
        marks = tuple(_of_their_things(mark, known, one_of_many=not EXTREMES.isdisjoint(near)) for mark in marks)
        marks = tuple(_stated(marks, call.subject.states))
    is_theirs = asked_for and bool(leaves) and all(_is_theirs(leaf.text, known) for leaf in leaves)
    lacks = "" if is_theirs else _lacks(call, act, external, asked_for, marks, known.spoken)
    return Grounds(marks, external, handed_on, lacks)


def _may_reach(labels: Labels | None) -> bool:
    return labels is None or (labels.write_operation if labels.external is None else labels.external)


def _is_external(labels: Labels | None, act: Act | None, leaves: Sequence[_Leaf], *, handed_on: bool) -> bool:
    if labels is None or handed_on:
        return True
    if labels.external is not None:
        return labels.external
    if not labels.write_operation:
        return any(span.kind == "link" for leaf in leaves for span in spans(leaf.text))
    reaches = act == "share" or any(leaf.reaches for leaf in leaves if not leaf.is_prose)
    return labels.acl == "PUBLIC" or reaches


def _all_as(what: What, leaves: Sequence[_Leaf]) -> Iterator[tuple[_Leaf, str, What]]:
    return ((leaf, leaf.text, what) for leaf in leaves if not isinstance(leaf.value, bool))


def _matter(act: Act | None, external: bool, leaves: Sequence[_Leaf]) -> Iterator[tuple[_Leaf, str, What]]:
    """The values of a change that the person must have said, or their own records."""
    reach = [(leaf, text) for leaf in leaves if external or not leaf.is_prose for text in leaf.reaches]
    yield from ((leaf, text, "leads to" if leaf.is_prose else "goes to") for leaf, text in reach)
    named = {leaf.place for leaf, _ in reach}
    switches = [leaf for leaf in leaves if isinstance(leaf.value, bool)]
    rest = [
        leaf
        for leaf in leaves
        if leaf.place not in named and not leaf.is_prose and leaf not in switches and not _MOMENT.fullmatch(leaf.text)
    ]
    yield from ((leaf, leaf.text, "id") for leaf in rest if leaf.is_id)
    if act in _MOVES or any(span.kind == "account" for leaf in leaves for span in spans(leaf.text)):
        yield from ((leaf, leaf.text, "amount") for leaf in rest if not leaf.is_id and not isinstance(leaf.value, str))
    if act in _MOVES:  # what is switched must have been spoken of
        yield from ((leaf, leaf.key.replace("_", " "), "name") for leaf in switches)
    texts = [leaf for leaf in rest if not leaf.is_id and isinstance(leaf.value, str)]
    beside = {leaf.key for leaf, _ in reach if not leaf.is_prose}
    yield from _names(act, external, texts, beside)
    if act == "add":
        yield from ((leaf, leaf.text, "title") for leaf in leaves if NAMING.fullmatch(leaf.key))


def _names(
    act: Act | None, external: bool, texts: Sequence[_Leaf], beside: Collection[str]
) -> Iterator[tuple[_Leaf, str, What]]:
    """Of texts without address. `beside`: the fields that hold one."""
    for leaf in texts:
        if external and (not beside or leaf.key in beside or _TO.fullmatch(leaf.key)):
            yield leaf, leaf.text, "goes to"
        elif act in _MOVES or leaf.is_code or (external and leaf.is_attached):
            yield leaf, leaf.text, "name"


def _mark(leaf: _Leaf, value: str, what: What, known: Known, to: frozenset[str]) -> Origin:
    """`to`: the addresses that the call gets to."""
    key = whole(value)
    value = key if what == "amount" else value
    if what == "tells":  # their records are what nobody is to be told; their words are not
        told = sources_of(value, [*known.sources, *(answer.source for answer in known.answers)])
        return Origin(leaf.place, value, what, _is_theirs(value, known), _labels(told))
    own = [source.label for source in sources_of(value, known.sources) if source.by in ("person", "own")]
    own = own if what != "goes to" or _is_name(value, known) else []
    own += [told.source.label for told, thing in known.things if told.source.by == "own" and key in thing.values]
    own += _labels(sources_of(value, known.sent)) if what == "leads to" else ()
    own += ["your request"] if leaf.is_attached and known.spoken.means(called(value)) else []
    if own or key in known.correspondents or (what == "leads to" and key in to):
        return Origin(leaf.place, value, what, grounded=True, held_by=tuple(dict.fromkeys(own)))
    if labels := _in_what_they_named(key, what, known):
        return Origin(leaf.place, value, what, grounded=True, held_by=labels)
    told = sources_of(value, [*known.sources, *(answer.source for answer in known.answers)])
    # A title may be made up, as long as nobody else did so; and who told something may be told it again.
    is_made_up = what == "title" and not leaf.mentions and (not told or len(value.split()) < _SPOKEN)
    is_returned = what == "leads to" and any(_answers_all(source, to) for source in told)
    return Origin(leaf.place, value, what, is_made_up or is_returned, _labels(told))


def _answers_all(source: Source, to: frozenset[str]) -> bool:
    """Whether a letter goes back to whoever wrote something, and else only to those who have it from them."""
    return source.writer in to and (source.readers is None or to <= source.readers | {source.writer})


def _is_theirs(value: str, known: Known) -> bool:
    return any(source.by == "person" for source in sources_of(value, known.sources))


def _labels(sources: Sequence[Source]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(source.label for source in sources))


def _is_name(value: str, known: Known) -> bool:
    """Whether it tells by itself to whom something goes. A single word does if the person says it as a name."""
    return len(words(value).split()) > 1 or bool(spans(value)) or known.spoken.means(words(value).strip())


def _in_what_they_named(key: str, what: What, known: Known) -> tuple[str, ...]:
    """The answers that tell of a thing which the person called by its name, and which holds a value. If there are
    several things of that name, all must: else somebody may have made the second one. An amount moves nowhere by
    itself, so it is enough that they said to whom or from whom it was."""
    bearers: dict[str, list[tuple[str, bool]]] = {}
    for told, thing in known.things:
        names = [name for name in thing.names if _is_called(name, told.source, key, what, known)]
        if what == "amount":
            who = [words(value).strip() for value in thing.values if _SAYS_WHO.search(value)]
            names += [value for value in who if known.spoken.says(value)]
        for name in names:
            bearers.setdefault(name, []).append((told.source.label, key in thing.values))
    sure = [found for found in bearers.values() if all(holds for _, holds in found)]
    return tuple(dict.fromkeys(label for found in sure for label, _ in found))


def _is_called(name: str, source: Source, key: str, what: What, known: Known) -> bool:
    """Whether the person means a thing by its name. Of one that others named, and by which somebody is reached, they
    must speak of its people, or of that person too."""
    spoken = known.spoken
    if source.by == "own":
        return spoken.says(name)
    if len(name.split()) < _SPOKEN or not spoken.says(name):
        return False
    if what == "id":
        return True
    return _is_spoken_of(key, known) or (spoken.means(name) and (what != "goes to" or spoken.means_people()))


def _is_spoken_of(address: str, known: Known) -> bool:
    """Whether the person says a name that the address bears, and has no other address of that name."""
    names = {word for word in words(address.partition("@")[0]).split() if known.spoken.means(word)}
    own = [value for told, thing in known.things if told.source.by == "own" for value in thing.values if "@" in value]
    own += [key for source in known.sources if source.by == "own" for kind, key in source.keys if kind == "address"]
    return bool(names) and not any(names.intersection(words(each.partition("@")[0]).split()) for each in own)


def _of_their_things(mark: Origin, known: Known, *, one_of_many: bool) -> Origin:
    """An id of one of the person's things, once they gave a word to what is done, if it is the one that they describe,
    or they describe none but by a word such as "oldest", and nobody else speaks of it."""
    if mark.grounded or mark.what in ("goes to", "leads to", "tells"):
        return mark
    folded = whole(mark.value)
    owning = [(told.source, thing) for told, thing in known.things if folded in thing.values]
    if not owning or not (one_of_many or _is_described([thing for _, thing in owning], known)):
        return mark
    names = [name for _, thing in owning for name in thing.names if len(name.split()) >= _SPOKEN]
    told = [*(f" {name} " for name in names), f" id {folded} ", f" number {folded} "]
    told += [words(folded)] if len(folded) >= _LEAST_TOLD else []
    others = [a for answer, a in known.things if answer.source.by == "stranger" and folded not in a.values]
    said = [text for a in others for text in (a.prose, *(f" {name} " for name in a.names if name not in names))]
    if any(text in prose for prose in said for text in told):
        return mark
    labels = tuple(dict.fromkeys(source.label for source, _ in owning))
    return Origin(mark.argument, mark.value, mark.what, grounded=True, held_by=labels)


def _stated(marks: Sequence[Origin], states: str | None) -> Iterator[Origin]:
    """What we say ourselves of a thing is as much theirs as the thing is: those who have a part in it, too."""
    is_theirs = any(mark.what == "id" for mark in marks) and all(mark.grounded for mark in marks if mark.what == "id")
    yield from (replace(mark, grounded=True) if is_theirs and mark.argument == states else mark for mark in marks)


def _is_described(owning: Sequence[Thing], known: Known) -> bool:
    """Whether the person's words fit a thing as well as any other."""
    fit, best = (
        max(known.spoken.described([*thing.names, *thing.values]) for thing in things)
        for things in (owning, [thing for _, thing in known.things])
    )
    return 0 < fit == best or (best == 0 and _is_at_their_time(owning, known))


def _is_at_their_time(owning: Sequence[Thing], known: Known) -> bool:
    """Whether they say when a thing is, and no other fits that as well."""
    said = frozenset().union(*(source.keys for source in known.sources if source.by == "person"))
    fit = max(len(thing.when & said) for thing in owning)
    values = {value for thing in owning for value in thing.values}
    return fit > max((len(t.when & said) for _, t in known.things if values.isdisjoint(t.values)), default=0)


def unnamed(mark: Origin) -> str:
    """What the person has not said of an argument, in plain words."""
    where = f"stands only in {' and '.join(mark.held_by)}" if mark.held_by else "stands nowhere else"
    return f"you never named {quoted(mark.value)}, which {where}"


def _lacks(
    call: Proposed, act: Act | None, external: bool, asked_for: bool, marks: Sequence[Origin], spoken: Spoken
) -> str:
    for mark in marks:
        if not mark.grounded:
            return unnamed(mark)
    writes = call.subject.may_tell_others
    where = _SAY_WHERE if act in _REACHING else _SAY_WHAT
    if external and writes and not any(mark.what in where for mark in marks):
        return "does not say to whom"
    if act in _MOVES and not marks and not is_named(call.tool, spoken.texts):
        return "does not say what it changes"
    if writes and needs_word(act) and not asked_for:
        return f"you never asked to {act}" if act else "you never asked for this"
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
