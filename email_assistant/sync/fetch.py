"""Messages as Gmail gives them, and those that it does not give."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from http import HTTPStatus

from email_assistant.google.errors import GoogleError, NotFound, RateLimited, Refused, Transient, said
from email_assistant.google.gmail import Gmail, Message, MessageRef
from email_assistant.inbox.originals import message_of

_AT_ONCE = 4


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
