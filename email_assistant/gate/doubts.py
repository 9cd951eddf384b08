"""What a person must see of a proposal's text before they decide: what it tells somebody who never saw it, and what
nobody has said."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, Final, Literal

from email_assistant.gate.answers import PROSE
from email_assistant.gate.provenance import Fact, Source, leaks, unfounded, unseen
from email_assistant.gate.sayings import parts_of
from email_assistant.gate.vocabulary import TITLES
from email_assistant.mail.address import parse_addresses
from email_assistant.mail.charset import listed, quoted

DoubtKind = Literal["leak", "unfounded"]
_PASSING: Final = ("date", "time")
_OWN: Final = "Said by nobody before, so it is the assistant's own"


@dataclass(frozen=True, slots=True)
class Doubt:
    kind: DoubtKind
    value: str
    """What the proposal says."""
    source: str
    """What the text is known as that says it too; empty: nothing does."""
    unseen_by: tuple[str, ...] = ()
    """Whom the proposal reaches and who has not seen that text."""

    @property
    def says(self) -> str:
        """What is to be said of the value."""
        if self.kind == "unfounded":
            return _OWN
        have = "has" if len(self.unseen_by) == 1 else "have"
        who = listed(self.unseen_by) or "they"
        return f"From {self.source}, which {who} {have} not seen, as far as is known"

    @property
    def shown(self) -> str:
        """The value on one line, of a long one the beginning."""
        return quoted(self.value)

    @property
    def text(self) -> str:
        """One sentence."""
        return f"{self.says}: {self.shown}"

    def holds(self, arguments: Mapping[str, Any], recipients: Collection[str]) -> bool:
        """Whether this is to be said of an edit of the proposal, too. What an edit adds is the person's own word."""
        said = " ".join(_text(arguments).split())
        value = re.escape(" ".join(self.value.split()))
        stands = re.search(rf"(?<!\d){value}(?!\d)", said) is not None
        return stands and (not self.unseen_by or not set(recipients).isdisjoint(self.unseen_by))


def doubts(
    arguments: Mapping[str, Any],
    recipients: Collection[str],
    sources: Sequence[Source],
    day: date,
    sent: Sequence[Source] = (),
) -> list[Doubt]:
    """Of what a call says to people.

    Args:
        recipients: whom it reaches.
        day: that of the call.
        sent: what the person wrote to anybody, which the call's writer has not read: what stands there is so, but for
            days and times, which pass.
    """
    found = [_leak(fact, recipients) for fact in leaking(arguments, recipients, sources, day)]
    called = parts_of(recipients)
    own = {fact.span for fact in lacking(arguments, [*sources, *sent], day)} if sent else None
    found += [
        Doubt("unfounded", fact.span.text, "")
        for fact in lacking(arguments, sources, day)
        if (own is None or fact.span in own or fact.span.kind in _PASSING)
        and not (fact.span.kind == "name" and called.issuperset(set(fact.span.key.split()) - TITLES))
    ]
    return list(dict.fromkeys(found))


def lacking(arguments: Mapping[str, Any], sources: Sequence[Source], day: date | None) -> list[Fact]:
    """What a call says to people that no source holds."""
    return unfounded(_text(arguments), sources, day)


def leaking(
    arguments: Mapping[str, Any], recipients: Collection[str], sources: Sequence[Source], day: date | None
) -> list[Fact]:
    """What a call tells its recipients that not all of them have seen."""
    return leaks(_text(arguments), recipients, sources, day) if recipients else []


def _text(arguments: Mapping[str, Any]) -> str:
    return "\n\n".join(_said(arguments))


def _said(arguments: Mapping[str, Any]) -> Iterator[str]:
    """Its texts, and what it calls those who get it: they all read that too."""
    for name, value in arguments.items():
        if isinstance(value, str) and PROSE.fullmatch(name):
            yield value
        else:
            people = [each for each in (value if isinstance(value, list) else [value]) if isinstance(each, str)]
            yield from (f"To: {person.name}" for each in people for person in parse_addresses(each) if person.name)


def _leak(fact: Fact, recipients: Collection[str]) -> Doubt:
    return Doubt("leak", fact.span.text, fact.sources[0].label, tuple(unseen(recipients, fact.sources)))
