"""Messages as Gmail gives them, those that it does not give, and what a stretch of a mailbox's history means for the
conversations in it."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus

from email_assistant.google.errors import GoogleError, NotFound, RateLimited, Refused, Transient, said
from email_assistant.google.gmail import Change, Gmail, Message, MessageRef
from email_assistant.inbox.mails import Class
from email_assistant.inbox.originals import message_of

_AT_ONCE = 4
NOT_OURS = frozenset({"DRAFT", "SPAM", "TRASH", "CHAT"})
"""Labels of messages that are left alone: neither fetched nor stored."""
LEFT_INBOX = "it is no longer in Gmail's inbox"
_ARCHIVED = "you archived this in Gmail"
_MOVED_TO: Mapping[str, str] = {
    "TRASH": "you moved this to Gmail's trash",
    "SPAM": "you marked this as spam in Gmail",
}
_DELETED = "you deleted this in Gmail"
RID_OF = (*_MOVED_TO.values(), _DELETED)
"""What the person does with mail that they don't want."""


@dataclass(frozen=True, slots=True)
class Withheld:
    """A message that Gmail does not give, and what it says instead."""

    ref: MessageRef
    error: GoogleError

    @property
    def reason(self) -> str:
        """For the person."""
        return f"Gmail does not give this mail ({said(self.error)}): it is asked for again later; open it in Gmail"


@dataclass(slots=True)
class Fetched:
    """What came of asking for messages; those that are gone by now are in none of the lists."""

    messages: list[Message] = field(default_factory=list)
    refused: list[Withheld] = field(default_factory=list)
    """Gmail says no to each of these for good."""
    faults: list[Withheld] = field(default_factory=list)
    """Something went wrong, be it with the message or with Gmail."""
    left: list[MessageRef] = field(default_factory=list)
    """Not given as the quota is used up, so that what was given before that is not asked for again."""
    limited: RateLimited | None = None
    """Why some are left."""


async def fetch(gmail: Gmail, refs: Sequence[MessageRef]) -> Fetched:
    """The messages, in order, as far as the quota goes.

    Raises:
        GoogleError: it is neither about one message, nor Transient, nor RateLimited.
    """
    fetched, slots = Fetched(), asyncio.Semaphore(_AT_ONCE)

    async def one(ref: MessageRef) -> Message | Withheld | MessageRef | None:
        async with slots:
            if fetched.limited:
                return ref
            try:
                return await message_of(gmail, ref.id)
            except NotFound:
                return None
            except RateLimited as limited:
                fetched.limited = limited
                return ref
            except Transient as fault:
                return Withheld(ref, fault)
            except Refused as refusal:
                if refusal.code != HTTPStatus.BAD_REQUEST:
                    raise  # it is not about this message, so nothing may pass it by
                return Withheld(ref, refusal)

    for found in await asyncio.gather(*map(one, refs)):
        match found:
            case Message():
                fetched.messages.append(found)
            case MessageRef():
                fetched.left.append(found)
            case Withheld(error=Refused()):
                fetched.refused.append(found)
            case Withheld():
                fetched.faults.append(found)
    return fetched


@dataclass(slots=True)
class News:
    """What happened, without what was undone again later in the same stretch."""

    refs: list[MessageRef] = field(default_factory=list)
    """Messages that may be new to us, oldest first."""
    put_away: dict[str, str | None] = field(default_factory=dict)
    """By message, what the person did with it; None where they moved it into the inbox."""
    drafts: dict[str, str] = field(default_factory=dict)
    """By Gmail's thread id, the message id of the draft in it that was written or deleted last."""

    relabelled: dict[str, Class] = field(default_factory=dict)
    """By message, the class whose label was put on it last, by the person or by us."""

    @property
    def is_none(self) -> bool:
        """Whether there is none but of messages."""
        return not (self.put_away or self.drafts or self.relabelled)

    @classmethod
    def of(cls, changes: Iterable[Change], classes: Mapping[str, Class]) -> "News":
        """
        Args:
            classes: the class that each of our labels stands for, by Gmail's id.
        """
        news = cls()
        for change in changes:
            news._read(change)
            for label in change.labels & classes.keys() if change.kind == "labels_added" else ():
                news.relabelled[change.message_id] = classes[label]
        return news

    def _read(self, change: Change) -> None:
        message = change.message_id
        match change.kind:
            case "added" if "DRAFT" in change.labels:
                self.drafts[change.thread_id] = message
            case "deleted":
                self.put_away[message] = _DELETED
                if "DRAFT" in change.labels or not change.labels:
                    self.drafts.setdefault(change.thread_id, message)
            case "added" if not change.labels & NOT_OURS:
                self.refs.append(MessageRef(message, change.thread_id))
            case "labels_added":
                self._read_labels(change)
            case "labels_removed" if "INBOX" in change.labels:
                self.put_away[message] = self.put_away.get(message) or _ARCHIVED
            case _:
                pass

    def _read_labels(self, change: Change) -> None:
        moved = next((why for label, why in _MOVED_TO.items() if label in change.labels), None)
        if moved:
            self.put_away[change.message_id] = moved
        elif not change.labels.isdisjoint({"INBOX", "SENT"}):
            self.refs.append(MessageRef(change.message_id, change.thread_id))
            if "INBOX" in change.labels:
                self.put_away[change.message_id] = None
