"""What a person must see of a proposal's text before they decide: what it tells somebody who never saw it, and what
nobody has said."""

import re
from collections.abc import Collection, Mapping, Sequence
from datetime import date
from typing import Any, Final

from email_assistant.gate.call import prose_of
from email_assistant.gate.doubt import Doubt
from email_assistant.gate.provenance import Fact, Source, leaks, recipients_without_it, unfounded
from email_assistant.gate.spoken import parts_of
from email_assistant.gate.vocabulary import TITLES

_PASSING: Final = ("date", "time")
_BLANK: Final = re.compile(
    r"\[(?=[^\]\n]{0,60}[^\W\d_])[^\[\]\n]{1,60}\](?!\()|\{\{?[^{}\n]{1,60}\}\}?"
    r"|<(?:[A-Z][^<>@/\n]{2,40}|[^\W\d_]+(?: [^\W\d_]+){1,5})>|(?<!_)_{4,60}(?!_)|\bX{3,20}\b"
)
"""Left to be filled in, such as [Your Name]; a link in Markdown is none."""


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
    found = [Doubt("blank", blank, "") for blank in _BLANK.findall(prose_of(arguments))]
    found += [_leak(fact, recipients) for fact in leaking(arguments, recipients, sources, day)]
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
    return unfounded(prose_of(arguments), sources, day)


def leaking(
    arguments: Mapping[str, Any], recipients: Collection[str], sources: Sequence[Source], day: date | None
) -> list[Fact]:
    """What a call tells its recipients that not all of them have seen."""
    return leaks(prose_of(arguments), recipients, sources, day) if recipients else []


def _leak(fact: Fact, recipients: Collection[str]) -> Doubt:
    return Doubt("leak", fact.span.text, fact.sources[0].label, tuple(recipients_without_it(recipients, fact.sources)))
