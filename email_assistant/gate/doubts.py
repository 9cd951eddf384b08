"""What a person must see of a proposal's text before they decide: what it tells somebody who never saw it, and what
nobody has said."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, Final, Literal

from email_assistant.gate.answers import PROSE
from email_assistant.gate.provenance import Fact, Source, leaks, unfounded

DoubtKind = Literal["leak", "unfounded"]
_LONGEST: Final = 120  # characters of a sentence that is shown


@dataclass(frozen=True, slots=True)
class Doubt:
    kind: DoubtKind
    value: str
    """What the proposal says."""
    source: str
    """What the text is known as that says it too; empty: nothing does."""
    text: str
    """One sentence."""


def doubts(
    arguments: Mapping[str, Any], recipients: Collection[str], sources: Sequence[Source], day: date
) -> list[Doubt]:
    """Of what a call says to people. `recipients`: whom it reaches; `day`: that of the call."""
    said = "\n\n".join(_said(arguments))
    told = leaks(said, recipients, sources, day) if recipients else []
    found = [_leak(fact) for fact in told] + [_unfounded(fact) for fact in unfounded(said, sources, day)]
    return list(dict.fromkeys(found))


def _said(arguments: Mapping[str, Any]) -> Iterator[str]:
    for name, value in arguments.items():
        if isinstance(value, str) and PROSE.fullmatch(name):
            yield value


def _leak(fact: Fact) -> Doubt:
    source = fact.sources[0].label
    shown = _shortly(fact.span.text)
    return Doubt(
        "leak", fact.span.text, source, f"They have not seen this, as far as is known: {shown} (from {source})"
    )


def _unfounded(fact: Fact) -> Doubt:
    shown = _shortly(fact.span.text)
    return Doubt("unfounded", fact.span.text, "", f"Said by nobody before, so the assistant's own: {shown}")


def _shortly(text: str) -> str:
    words = " ".join(text.split())
    return words if len(words) <= _LONGEST else f"{words[: _LONGEST - 1]}…"
