"""A row of the ledger: one outside effect, how far it has come, and what can go wrong with it; and what a person made
of a draft in Gmail."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal
from uuid import UUID

from email_assistant.errors import AssistantError
from email_assistant.google.errors import NotFound, RateLimited, Refused

OURS: Final = ""
"""The place of what this program does itself."""
WITHOUT_TEXT: Final = "(Its text is no longer kept here.)"
"""What stands in an action's arguments in the place of each text that was taken out after its time."""
_AT: Final = "#"
_WHY: Mapping[str, str] = {
    "changed": "you changed its draft in Gmail",
    "restored": "you changed its draft in Gmail back",
    "sent": "you sent its draft in Gmail yourself",
    "gone": "you discarded its draft in Gmail, or sent it in another way",
}
State = Literal["planned", "started", "done", "failed", "refused", "unknown"]


def place_at(server: str, identity: str) -> str:
    """The place of what a server that is not ours does; another under its name is another place."""
    return f"{server}{_AT}{identity}"


def server_at(place: str | None) -> str:
    """The name of the server that is not ours; empty: there is none."""
    return (place or OURS).partition(_AT)[0]


class EffectMismatch(AssistantError):
    """Another action was asked for under the key of an effect that exists."""


class Declined(AssistantError):
    """The other side refused what a person decided; they are asked about it again."""


class InDoubt(AssistantError):
    """It can't be known whether the effect happened; a person must say what to do."""


class NotYetClear(AssistantError):
    """It can't be known yet whether the effect happened; look again later."""

    passes = "by itself"

    def __init__(self, reason: str, until: datetime | None = None) -> None:
        """
        Args:
            until: a look before that time tells nothing.
        """
        super().__init__(reason)
        self.until = until


class Unsent(AssistantError):
    """Gmail did not take a letter, which surely was not sent; a draft of it may be there."""

    def __init__(self, refusal: NotFound | RateLimited | Refused) -> None:
        super().__init__(str(refusal))
        self.refusal = refusal


@dataclass(frozen=True, slots=True)
class Entry:
    """One outside effect, under a key of its account: a run's call, a program's own key, or the day of a digest."""

    account_id: UUID
    key: str
    tool: str
    state: State
    draft_id: str | None
    """Google's; only this draft may be sent."""
    orphans: list[str]
    external_id: str | None
    """Google's id of what was sent or made."""
    result: str | None
    """What came of it; of a refused one, why it was refused; of a letter that is looked for in vain, what the person
    has sent in its conversation meanwhile."""
    looks: int
    started_at: datetime | None
    mark: str | None
    """What a letter is recognised by in the mailbox; None: it was not begun."""
    gmail_thread: str | None
    """Gmail's id of the thread that a letter goes into."""
    sent_thread: str | None
    """That of the thread in which it stands since it was sent."""
    lost_draft: str | None
    """The mark of a draft that may be at Gmail, or come to be there, and is not to be sent: one whose creation was not
    answered, or that of a letter which was refused."""

    @property
    def is_refused(self) -> bool:
        return self.state in ("failed", "refused")


@dataclass(frozen=True, slots=True)
class Effect(Entry):
    """That of a run's call."""

    run_id: UUID
    call_id: str
    thread_id: UUID
    args: dict[str, Any]
    place: str | None
    """Where it is to be done, or was begun; None: nothing can be said of that."""
    left_as: Literal["refused", "unknown"] | None
    """As what the person said to leave it, when they were asked about it again."""
    busy_until: datetime | None
    """A worker that is gone has started it, and its write may be under way until then; None: it is over."""


@dataclass(frozen=True, slots=True)
class InGmail:
    """What the person has made of a draft in Gmail."""

    did: Literal["changed", "restored", "sent", "gone"]
    """`gone`: it was discarded, or sent in a way that does not show."""
    text: str = ""
    """As they read it there."""
    args: dict[str, Any] | None = None
    """What our own letter that says the same is made of; None: it holds what such a letter can't, or is not there."""
    message: str | None = None
    """Gmail's id of what was sent."""

    @property
    def is_over(self) -> bool:
        """Whether it is not there any more."""
        return self.did in ("sent", "gone")

    def is_known(self, heard: Mapping[str, Any] | None) -> bool:
        """Whether this is what was last heard of."""
        known = heard or {}
        return (self.did, self.text, self.message) == tuple(known.get(name) for name in ("did", "text", "message"))

    @property
    def why(self) -> str:
        """Why they are asked again."""
        return _WHY[self.did]
