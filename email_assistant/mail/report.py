"""What a mail system reports of a letter (RFC 3464), and what its codes mean (RFC 3463).

Anybody can write such a report who knows the letter and its recipients: nothing of it is more than an allegation.
"""

import re
from collections.abc import Iterable, Iterator, Sequence

from email_assistant.mail.charset import listed, one_line
from email_assistant.mail.message import Delivery, DeliveryReport
from email_assistant.mail.mime import MimePart, from_bytes

Told = tuple[str, str, str]
"""A recipient, and what a report says of the letter on its way to them: action and code."""

_MOST = 100  # recipients of a report, and ids that it names
_MOST_BYTES = 100_000  # of what is read of a part

_STATUS_TYPES = ("message/delivery-status", "message/global-delivery-status")
_LETTER_TYPES = ("message/rfc822", "message/global")
_HEADER_TYPES = ("text/rfc822-headers", "message/rfc822-headers", "message/global-headers")
_BLANK_LINE = re.compile(rb"\n[ \t\r]*\n")
_STATUS = re.compile(r"\b([245])\.(\d{1,3})\.(\d{1,3})\b")
_REPORTED_AS = {
    "failed": "reported as not delivered",
    "delayed": "reported as delayed, and is still tried",
}
_ACTIONS = ("failed", "delayed", "delivered", "relayed", "expanded")

_REASONS = {
    "1.1": "that address does not exist",
    "1.2": "there is no such domain",
    "1.3": "that is no address to which mail can be sent",
    "1.6": "they have moved, and left no address",
    "1.10": "that domain takes no mail",
    "2.1": "that mailbox takes no mail",
    "2.2": "their mailbox is full",
    "2.3": "the letter is too long for them",
    "3.4": "the letter is too long for them",
    "4.1": "their mail server does not answer",
    "4.4": "no mail server could be found for them",
    "4.7": "it could not be brought there in time",
}
"""By subject and detail of the code."""
_REASONS_BY_SUBJECT = {
    "1": "something is wrong with that address",
    "2": "something is wrong with their mailbox",
    "3": "their mail system could not take it",
    "4": "their mail system could not be reached",
    "6": "their mail system can't take what it is written in",
    "7": "their mail system does not let it in",
}


def delivery_report(root: MimePart) -> DeliveryReport | None:
    """What a message reports; None: it is no report."""
    parts = list(_parts(root))
    told = [found for part in parts if part.mime_type in _STATUS_TYPES for found in _told_in(part)][:_MOST]
    named = {address for each in told for address in each.addresses}
    failed = (_address(each) for each in root.header("x-failed-recipients").split(",")[:_MOST])
    told += [Delivery((each,), "failed", "") for each in failed if each and each not in named]
    if not told:
        return None
    ids = [found for part in parts for found in _letter_in(part)]
    ids += [*root.message_ids("in-reply-to"), *reversed(root.message_ids("references"))]
    return DeliveryReport(tuple(dict.fromkeys(ids))[:_MOST], tuple(told))


def note(told: Iterable[Told]) -> str:
    """What was reported of a letter, in our words; empty: nothing."""
    return "; ".join(f"{what} to {listed(whom)}{why}" for whom, what, why in _grouped(told))


def sentence(told: Iterable[Told], delivered: Sequence[str]) -> str:
    """The same of the person's own letter, and whom it reached. The beginning of a sentence, in small letters."""
    (first, what, why), *others = _grouped(told)
    parts = [f"your letter to {listed(first)} was {what}{why}"]
    parts += [f"to {listed(whom)} it was {what}{why}" for whom, what, why in others]
    parts += [f"to {listed(delivered)} it was reported as delivered"] if delivered else []
    return "; ".join(parts)


def _grouped(told: Iterable[Told]) -> list[tuple[list[str], str, str]]:
    """Those of whom the same is told, what that is, and why; first those whom it did not reach."""
    known = sorted(told, key=lambda each: (each[1] != "failed", each[0]))
    failed = {recipient for recipient, action, _ in known if action == "failed"}
    groups: dict[tuple[str, str], list[str]] = {}
    for recipient, action, status in known:
        if action == "failed" or recipient not in failed:
            why = f": {reason}" if (reason := _reason(status)) else ""
            groups.setdefault((_REPORTED_AS[action], why), []).append(recipient)
    return [(whom, what, why) for (what, why), whom in groups.items()]


def _reason(status: str) -> str:
    """Why a letter was not delivered; empty: the code does not say."""
    found = _STATUS.fullmatch(status)
    return _REASONS.get(f"{found[2]}.{found[3]}") or _REASONS_BY_SUBJECT.get(found[2], "") if found else ""


def _parts(part: MimePart) -> Iterator[MimePart]:
    """The parts, but none of a mail that is attached: what that reports is another's."""
    yield part
    if part.mime_type not in (*_LETTER_TYPES, *_STATUS_TYPES):
        for inner in part.parts:
            yield from _parts(inner)


def _told_in(part: MimePart) -> Iterator[Delivery]:
    """What is told of each recipient. The fields of each are a block, which some hand over as a part of its own."""
    blocks = part.parts or [from_bytes(block.strip()) for block in _BLANK_LINE.split(_beginning(part), _MOST)]
    for block in blocks:
        addresses = tuple(
            found
            for name in ("original-recipient", "final-recipient")
            if (found := _address(block.header(name).partition(";")[2]))
        )
        action = next(iter(block.header("action").lower().split()), "")
        status = _STATUS.search(block.header("status"))
        if addresses and action in _ACTIONS:
            yield Delivery(tuple(dict.fromkeys(addresses)), action, status[0] if status else "")


def _letter_in(part: MimePart) -> list[str]:
    """The id of the letter, of which a report holds all or the header."""
    if part.mime_type in _LETTER_TYPES and part.parts:
        return part.parts[0].message_ids("message-id")[:1]
    if part.mime_type in (*_LETTER_TYPES, *_HEADER_TYPES):
        return from_bytes(_beginning(part)).message_ids("message-id")[:1]
    return []


def _beginning(part: MimePart) -> bytes:
    return (part.content or b"")[:_MOST_BYTES]


def _address(written: str) -> str:
    return one_line(written).strip().strip("<>").lower()
