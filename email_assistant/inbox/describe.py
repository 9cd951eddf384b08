"""What an inbox item says: the mail, sender and subject first, then the formatted call."""

from collections.abc import Iterable, Iterator
from html import escape
from typing import TYPE_CHECKING, TypedDict

from email_assistant.inbox.standing import TAKEN_FOR
from email_assistant.mail.charset import listed
from email_assistant.outgoing.entry import InGmail

if TYPE_CHECKING:
    from email_assistant.inbox.items import Item

FIRST_ANSWER = "First answer to them, as far as the mail here goes back"
NOT_IN_COPY = "Not in copy"
COUNTED = "Calendars that count"
HERE = "Here it says:"
UNKNOWN_CONFLICTS = "The calendar could not be read: look yourself whether the time is free"


class Newer(TypedDict):
    """Another mail of the conversation that came after the one that an item answers, or waits with it."""

    id: str
    """Gmail's."""
    sender: str
    subject: str
    classification: str | None
    """None: it has not been read yet, or need not be."""
    received_at: str
    """ISO 8601."""


def list_banner(items: Iterable["Item"], failed: int) -> Iterator[str]:
    """What is to be said above a list of what waits. `failed`: mails of the last days that could not be worked on."""
    if failed:
        yield f"{'A mail' if failed == 1 else f'{failed} mails'} of the last seven days could not be worked on."
    if any(item.first_answer and not item.knows_letters for item in items):
        yield "No letter of yours is here yet: nobody counts as known."


def describe(item: "Item", notes: Iterable[str]) -> str:
    """The item's `description`, in Markdown. That of a marked item begins with "! ", and its second line says why.

    The public Agent Inbox app shows its first 65 characters as the row and renders it as live HTML: so all is escaped.

    Args:
        notes: what is said of it only as things stand.
    """
    row, _, rest = item.mail_text.partition("\n")
    lines = [f"! {row}", "; ".join(item.warnings), rest] if item.marks else [item.mail_text]
    lines += ["", "---", ""]
    lines += [f"- Also in this conversation: {words_of_newer(each)}" for each in item.newer]
    lines += [item.action]
    lines += [f"- You are asked again: {item.asked_because}"] if item.asked_because else []
    if item.in_gmail and item.in_gmail.text:
        lines += [f"- {in_gmail(item.in_gmail)}", item.in_gmail.text, f"- {HERE}"]
    lines += [f"- When: {item.when}"] if item.when else []
    lines += [f"- From: {item.sent_from}"] if item.sent_from else []
    lines += [f"- {name}: {as_words(value)}" for name, value in item.args.items() if name != "from_address"]
    lines += [f"- {text}" for text in (*(remark for remark, _ in remarks(item)), *notes)]
    return escape("\n".join(lines), quote=False)


def in_gmail(found: InGmail) -> str:
    """What stands above the text that the person has made of a draft in Gmail."""
    if found.did == "sent":
        return "You have sent this in Gmail:"
    return "In Gmail its draft says:" if found.args else "In Gmail its draft says, and can be sent from there only:"


def remarks(item: "Item") -> Iterator[tuple[str, bool]]:
    """What there is to say beside its marks of those whom a proposal would reach and of its time, a line each, and
    whether it warns."""
    if item.left_out:
        yield f"{NOT_IN_COPY}: {listed(item.left_out)}", True
    if item.first_answer and item.knows_letters:
        yield f"{FIRST_ANSWER}: {item.first_answer}", False
    for conflict in item.conflicts or ():
        yield f"At that time: {conflict}", True
    if item.conflicts is None:
        yield UNKNOWN_CONFLICTS, True
    if item.calendars:
        yield f"{COUNTED}: {', '.join(item.calendars)}", False


def words_of_newer(newer: Newer) -> str:
    """It in one line, and what it was taken for."""
    taken_for = TAKEN_FOR.get(newer["classification"] or "", "not sorted")
    return f"{newer['sender']}: {newer['subject'] or '(no subject)'} ({taken_for})"


def as_words(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
