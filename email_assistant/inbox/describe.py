"""What an inbox item says: the mail, sender and subject first, then the formatted call."""

from collections.abc import Iterable, Mapping
from html import escape
from typing import Any

from email_assistant.mail.message import Mail

UNKNOWN_CONFLICTS = "The calendar could not be read: look yourself whether the time is free"

_EXCERPT = 2000


def mail_as_text(mail: Mail) -> str:
    """The mail as plain text: `Sender: subject`, its addresses, and what is new in it, cut to a readable length."""
    sender = mail.sender.name or mail.sender.email if mail.sender else "(no sender)"
    lines = [f"{sender}: {mail.subject or '(no subject)'}", ""]
    lines += [f"From: {mail.sender}"] if mail.sender else []
    lines += [f"To: {', '.join(map(str, mail.to))}"] if mail.to else []
    lines += ["", mail.body[:_EXCERPT] + (" […]" if len(mail.body) > _EXCERPT else "")]
    lines += [f"({mail.note})"] if mail.note else []
    return "\n".join(lines)


def describe(
    mail_text: str,
    action: str,
    args: Mapping[str, Any],
    new_recipients: Iterable[str],
    conflicts: Iterable[str] | None,
    notes: Iterable[str] = (),
) -> str:
    """The item's `description`, in Markdown.

    The public Agent Inbox app shows its first 65 characters as the row and renders it as live HTML: so all is escaped.
    """
    lines = [mail_text, "", "---", "", action]
    lines += [f"- {name}: {_plain(value)}" for name, value in args.items()]
    lines += [f"- New recipient, never written to before: {address}" for address in new_recipients]
    lines += [f"- At that time: {_plain(conflict)}" for conflict in conflicts or ()]
    lines += [f"- {UNKNOWN_CONFLICTS}"] if conflicts is None else []
    lines += [f"- {note}" for note in notes]
    return escape("\n".join(lines), quote=False)


def _plain(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
