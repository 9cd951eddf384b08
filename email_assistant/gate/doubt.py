"""What a person must see of one thing that a proposal says; apart from what finds it, which takes long to load."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, Self

from email_assistant.gate.call import prose_of
from email_assistant.mail.charset import listed, quoted

DoubtKind = Literal["leak", "unfounded", "time", "blank"]
_TO: Final = " to "
_OWN: Final = "Said by nobody before, so it is the assistant's own"


@dataclass(frozen=True, slots=True)
class Doubt:
    kind: DoubtKind
    value: str
    """What the proposal says."""
    source: str
    """What the text is known as that says it too; empty: nothing does. Of a time, what is unusual about it."""
    unseen_by: tuple[str, ...] = ()
    """Whom the proposal reaches and who has not seen that text."""

    @classmethod
    def time(cls, times: Sequence[str], unusual: str) -> Self:
        """Of when an event would be, from when to when."""
        return cls("time", _TO.join(times), unusual)

    @property
    def says(self) -> str:
        """What is to be said of the value."""
        if self.kind == "unfounded":
            return _OWN
        if self.kind == "blank":
            return "Left to be filled in"
        if self.kind == "time":
            return f"Look at the time: {self.source}"
        have = "has" if len(self.unseen_by) == 1 else "have"
        who = listed(self.unseen_by) or "they"
        return f"From {self.source}, which {who} {have} not seen, as far as is known"

    @property
    def shown(self) -> str:
        """The value on one line, of a long one the beginning; empty where it stands beside the mark."""
        return quoted(self.value) if self.kind != "time" else ""

    @property
    def text(self) -> str:
        """One sentence."""
        return f"{self.says}: {self.shown}" if self.shown else self.says

    def holds(self, arguments: Mapping[str, Any], recipients: Collection[str]) -> bool:
        """Whether this is to be said of an edit of the proposal, too. What an edit adds is the person's own word."""
        if self.kind == "time":
            return all(each in arguments.values() for each in self.value.split(_TO))
        said = " ".join(prose_of(arguments).split())
        value = re.escape(" ".join(self.value.split()))
        stands = re.search(rf"(?<!\d){value}(?!\d)", said) is not None
        return stands and (not self.unseen_by or not set(recipients).isdisjoint(self.unseen_by))
