"""The mails of a history, wherever they come from."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from email_assistant.errors import AssistantError
from email_assistant.mail.message import Mail

_KEPT: Final = 12_000  # characters of a text
_DRAFTS: Final = {"draft", "drafts", "chat", "chats"}
_SENT: Final = "sent"


class NoHistory(AssistantError):
    """There is nothing that could be rehearsed; the message says why, and what to do."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """One mail of a history."""

    id: str  # its Message-ID; for a mail without one, what else tells it apart
    mail: Mail  # its texts cut to what is read
    at: datetime
    own: bool  # written by the person
    labels: frozenset[str]  # Gmail's, in lower case, as they were when the mail was read
    conversation: str  # Gmail's; empty where it is not known
    copies: tuple[str, ...] = ()  # ids of the same mail lying there again


def kept(mail: Mail) -> Mail:
    """What a rehearsal reads of a mail."""
    return replace(mail, text=mail.text[:_KEPT], body=mail.body[:_KEPT], attachments=mail.attachments[:1])


def is_own(mail: Mail, labels: Collection[str], own: Collection[str]) -> bool:
    """Whether the person wrote it. `own`: their addresses, in lower case."""
    return _SENT in labels or (mail.sender is not None and mail.sender.email.lower() in own)


def nameless(gmail_id: str) -> str:
    """The id of a mail of Gmail's that has no Message-ID."""
    return f"<{gmail_id}@no-message-id>"


def in_order(entries: Iterable[Recorded]) -> list[Recorded]:
    """The mails in the order of time, each once, without drafts and chats."""
    found: dict[str, Recorded] = {}
    by_content: dict[tuple[object, ...], str] = {}
    for entry in entries:
        if entry.labels & _DRAFTS or entry.id in found:
            continue
        mail = entry.mail
        content = (mail.sender and mail.sender.email.lower(), entry.at, mail.subject, mail.body)
        if (first := by_content.setdefault(content, entry.id)) == entry.id:
            found[entry.id] = entry
        else:
            found[first] = replace(found[first], copies=(*found[first].copies, entry.id))
    return sorted(found.values(), key=lambda entry: entry.at)
