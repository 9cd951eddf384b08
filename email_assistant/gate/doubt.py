"""What a person must see of one thing that a proposal says; apart from what finds it, which takes long to load."""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from email_assistant.gate.prose import prose_of
from email_assistant.mail.charset import listed, quoted

DoubtKind = Literal["leak", "unfounded"]
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
        said = " ".join(prose_of(arguments).split())
        value = re.escape(" ".join(self.value.split()))
        stands = re.search(rf"(?<!\d){value}(?!\d)", said) is not None
        return stands and (not self.unseen_by or not set(recipients).isdisjoint(self.unseen_by))
