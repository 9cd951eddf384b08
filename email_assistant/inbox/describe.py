"""What an inbox item says: the mail, sender and subject first, then the formatted call."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any, Final, TypedDict

from email_assistant.inbox.standing import TAKEN_FOR
from email_assistant.mail.address import address_of
from email_assistant.mail.charset import listed, one_line
from email_assistant.mail.excerpt import beginning, excerpt
from email_assistant.mail.history import Quoted
from email_assistant.mail.message import Mail
from email_assistant.mail.prompt import kept_history
from email_assistant.outgoing.left_drafts import InGmail

if TYPE_CHECKING:
    from email_assistant.inbox.items import Item

FIRST_ANSWER = "First answer to them, as far as the mail here goes back"
NOT_IN_COPY = "Not in copy"
COUNTED = "Calendars that count"
HERE = "Here it says:"
UNKNOWN_CONFLICTS = "The calendar could not be read: look yourself whether the time is free"

_EXCERPT = 3000
"""Characters."""
_KEPT: Final = re.compile(
    r"^\[(Quoted by [^\n]{1,500}, not found in this mailbox):\]\n(>[^\n]*(?:\n>[^\n]*)*+)", re.MULTILINE
)
_NOTE: Final = re.compile(r"\n\(([^\n]*)\)\Z")


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


@dataclass(frozen=True, slots=True)
class Overtaken:
    """What the person had decided, and newer mail came before it was done."""

    kind: str
    args: Mapping[str, Any]
    """As it was proposed."""
    decision: Mapping[str, Any]

    def typed_again(self, proposed: Mapping[str, Any]) -> dict[str, Any] | None:
        """The edit to be offered with a new proposal, {type, args}; None if it was none, or of a letter to others.

        Args:
            proposed: {kind, args}.
        """
        args = proposed["args"]
        same = self.kind == proposed["kind"] == "draft" and _to(self.args) == _to(args)
        if self.decision["type"] != "edit" or not same:
            return None
        changed = {name: value for name, value in self.decision["args"].items() if value != self.args.get(name)}
        return {"type": "edit", "args": {**args, **changed}}


def not_done(overtaken: Overtaken) -> str:
    """Says that it was not done, with the person's own words."""
    args = overtaken.decision["args"] or overtaken.args
    if overtaken.kind == "draft":
        did = "written" if overtaken.decision["type"] == "edit" else "approved"
        text = one_line(beginning(str(args.get("response_text", "")), _EXCERPT))
        return f"your answer to {_to(args)} was not sent, as newer mail came; you had {did}: {text}"
    what = ", ".join(f"{name}: {_plain(value)}" for name, value in args.items() if value)
    return f"what you had decided was not done, as newer mail came: {one_line(beginning(what, _EXCERPT))}"


def _to(args: Mapping[str, Any]) -> str:
    return address_of(str(args.get("email_address") or ""))


def list_banner(items: Iterable["Item"], failed: int) -> Iterator[str]:
    """What is to be said above a list of what waits. `failed`: mails of the last days that could not be worked on."""
    if failed:
        yield f"{'A mail' if failed == 1 else f'{failed} mails'} of the last seven days could not be worked on."
    if any(item.first_answer and not item.knows_letters for item in items):
        yield "No letter of yours is here yet: nobody counts as known."


def mail_as_text(mail: Mail, kept: Sequence[Quoted] = ()) -> str:
    """The mail as plain text: `Sender: subject`, its addresses, and what is new in it, of a long one head and tail.
    `kept`: what it quotes that stands nowhere else."""
    sender = mail.sender.name or mail.sender.email if mail.sender else "(no sender)"
    lines = [f"{sender}: {mail.subject or '(no subject)'}", ""]
    lines += [f"From: {mail.sender}"] if mail.sender else []
    lines += [f"To: {', '.join(map(str, mail.to))}"] if mail.to else []
    lines += ["", excerpt(mail.body, _EXCERPT)]
    below = kept_history(mail, kept)
    lines += ["", below] if below else []
    lines += [f"({mail.note})"] if mail.note else []
    return "\n".join(lines)


def parts_of_mail_text(mail_text: str) -> tuple[str, str, str]:
    """Of a mail as text: whose words, that stand nowhere else, it quotes, and the quotation; and what is said of how it
    could be read."""
    quoted, note = _KEPT.search(mail_text), _NOTE.search(mail_text)
    return quoted[1] if quoted else "", quoted[2] if quoted else "", note[1] if note else ""


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
    lines += [f"- {name}: {_plain(value)}" for name, value in item.args.items() if name != "from_address"]
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


def _plain(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
