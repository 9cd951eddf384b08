"""What a person must see of an item before they decide it, and how it is told."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from email_assistant.gate.doubt import Doubt, DoubtKind
from email_assistant.mail.charset import MOST_ON_A_LINE, listed, one_line, plain

RecipientMark = Literal["new_recipient", "unknown_recipient", "outside", "lookalike"]
MarkKind = Literal[RecipientMark, DoubtKind, "gate_reason", "undelivered"]


@dataclass(frozen=True, slots=True)
class Mark:
    """Something about an item that a person must see before they decide."""

    kind: MarkKind
    address: str
    """Of a recipient; empty: it is about something else."""
    says: str
    of: str = ""
    """What it says that of; empty: nothing but the item."""
    value: str = ""
    """What the proposal says that nobody has said, or that they have not seen."""
    source: str = ""
    """What the text is known as in which that stands."""

    @property
    def text(self) -> str:
        """One sentence."""
        return _told(self.says, [self.of] if self.of else [])

    @classmethod
    def doubt(cls, doubt: Doubt) -> "Mark":
        return cls(doubt.kind, "", doubt.says, doubt.shown, doubt.value, doubt.source)

    @classmethod
    def gate_reason(cls, because: str) -> "Mark":
        return cls("gate_reason", "", f"You are asked because {because}")

    @classmethod
    def undelivered(cls, says: str) -> "Mark":
        return cls("undelivered", "", f"{says[:1].upper()}{says[1:]}")

    @classmethod
    def new(cls, address: str) -> "Mark":
        return cls("new_recipient", address, "New recipient, never written to before", address)

    @classmethod
    def unknown(cls, address: str) -> "Mark":
        return cls("unknown_recipient", address, "Not known whether you have written to them", address)

    @classmethod
    def outside(cls, address: str) -> "Mark":
        return cls("outside", address, "Goes to somebody who is not in this conversation", address)

    @classmethod
    def lookalike(cls, address: str, why: str) -> "Mark":
        return cls("lookalike", address, f"Not who it seems? {address}: {why}")


def in_words(marks: Iterable[Mark], most: int = MOST_ON_A_LINE) -> list[str]:
    """A line for each thing that is to be said, with all that it is said of, or so many."""
    said: dict[str, list[str]] = {}
    for mark in marks:
        said.setdefault(mark.says, []).extend(filter(None, [mark.of]))
    return [_told(says, of, most) for says, of in said.items()]


def _told(says: str, of: Sequence[str], most: int = MOST_ON_A_LINE) -> str:
    """On one line, whoever wrote into it."""
    return one_line(plain(f"{says}: {listed(of, most)}" if of else says))
