"""What the assistant knows of one mail."""

from dataclasses import dataclass
from datetime import datetime

from email_assistant.mail.address import Address, is_valid_address

NOT_KEPT = "Its text is no longer kept here; it lies in Gmail."
"""The note of a mail whose text was taken out after its time."""


@dataclass(frozen=True, slots=True)
class Attachment:
    """A part of a mail that is listed, not read."""

    name: str
    mime_type: str
    size: int | None  # bytes, decoded; None if unknown


@dataclass(frozen=True, slots=True)
class CalendarEvent:
    """The event that a mail invites to, moves, cancels or answers."""

    uid: str  # what every calendar that it stands in knows it by
    start: datetime | None  # aware; None for days without hours, and where the timezone is not known
    end: datetime | None


@dataclass(frozen=True, slots=True)
class Delivery:
    """What a report says became of a letter on its way to one recipient."""

    addresses: tuple[str, ...]  # theirs, in lower case: as the letter had it, and as it became on the way
    action: str  # failed, delayed, delivered, relayed or expanded (RFC 3464, 2.3.3)
    status: str  # the code (RFC 3463), such as 5.1.1; empty: none was given


@dataclass(frozen=True, slots=True)
class DeliveryReport:
    """What somebody who claims to be a mail system reports of a letter."""

    letters: tuple[str, ...]  # message ids that may be the letter's, the likeliest first
    deliveries: tuple[Delivery, ...]


@dataclass(frozen=True, slots=True)
class Mail:
    """A parsed message."""

    message_id: str | None
    in_reply_to: str | None
    references: tuple[str, ...]
    sender: Address | None
    reply_to: tuple[Address, ...]
    to: tuple[Address, ...]
    cc: tuple[Address, ...]
    subject: str  # decoded, one line; empty if there is none
    date: datetime | None  # aware; None if missing or impossible
    text: str  # everything readable, HTML converted, nothing cut
    body: str  # what is new in this mail; never empty when `text` isn't
    attachments: tuple[Attachment, ...]
    auto_submitted: bool  # sent by a machine in answer to something (RFC 3834), or by a mail system
    bulk: bool  # From a mailing list or a mass sender
    note: str  # what could not be read, in plain words; empty if everything was
    event: CalendarEvent | None = None  # the first event of its calendar part
    bcc: tuple[Address, ...] = ()  # only the sender's own copy names them
    delivered_to: tuple[str, ...] = ()  # where mail systems say that they brought it, the last one first
    forged: bool = False  # From names several, or, as its receiver found, a domain that has not sent it (RFC 7489)
    report: DeliveryReport | None = None


def reply_addresses(mail: Mail) -> tuple[Address, ...]:
    """Where a reply goes: to all usable addresses of Reply-To, else to From; empty if that is not usable either."""
    wanted = {address.email.lower(): address for address in mail.reply_to if is_valid_address(address.email)}
    if wanted:
        return tuple(wanted.values())
    return (mail.sender,) if mail.sender and is_valid_address(mail.sender.email) else ()


def reply_address(mail: Mail) -> Address | None:
    """The first address that a reply goes to."""
    return next(iter(reply_addresses(mail)), None)


def references_of(mail: Mail) -> tuple[str, ...]:
    """The mails before it; where it names none, its parent is the only one known (RFC 5322, 3.6.4)."""
    return mail.references or ((mail.in_reply_to,) if mail.in_reply_to else ())
