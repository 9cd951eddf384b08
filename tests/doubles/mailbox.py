"""A Gmail mailbox in memory: messages, threads, drafts and history, without HTTP."""

import base64
import re
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email import message_from_bytes, policy
from email.message import EmailMessage
from email.utils import format_datetime, getaddresses, parseaddr
from functools import cached_property
from typing import Any, Literal, cast

Change = Literal["messageAdded", "messageDeleted", "labelAdded", "labelRemoved"]

SYSTEM_LABELS = (
    *("INBOX", "SENT", "DRAFT", "UNREAD", "STARRED", "IMPORTANT", "SPAM", "TRASH"),
    *(f"CATEGORY_{kind}" for kind in ("PERSONAL", "SOCIAL", "PROMOTIONS", "UPDATES", "FORUMS")),
)


class RefusedError(Exception):
    """What Google answers instead of doing it."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.status, self.reason, self.message = status, reason, message


def not_found() -> RefusedError:
    return RefusedError(404, "notFound", "Requested entity was not found.")


def invalid(message: str) -> RefusedError:
    return RefusedError(400, "invalidArgument", message)


@dataclass
class Message:
    id: str
    thread_id: str
    raw: bytes
    labels: set[str]
    date_ms: int
    history_id: int = 0

    @cached_property
    def parsed(self) -> EmailMessage:
        return message_from_bytes(self.raw, policy=policy.default)

    @property
    def message_id(self) -> str:
        return str(self.parsed["Message-ID"])

    @property
    def subject(self) -> str:
        return str(self.parsed["Subject"] or "")

    @property
    def text(self) -> str:
        """The plain text body, without the line end that closes it."""
        body = self.parsed.get_body(("plain",))
        return str(body.get_content()).replace("\r\n", "\n").rstrip("\n") if body else ""

    @property
    def is_unread(self) -> bool:
        return "UNREAD" in self.labels

    @property
    def recipients(self) -> list[str]:
        return self.addresses("To") + self.addresses("Cc") + self.addresses("Bcc")

    def addresses(self, header: str) -> list[str]:
        return [address for _, address in getaddresses([str(v) for v in self.parsed.get_all(header, [])])]


@dataclass(frozen=True)
class HistoryRecord:
    id: int
    change: Change
    message_id: str
    thread_id: str
    labels: frozenset[str]
    """The message's labels after the change."""
    changed: frozenset[str] = frozenset()
    """The labels that were added or removed."""


@dataclass
class Mailbox:
    address: str
    messages: dict[str, Message] = field(default_factory=dict)
    drafts: dict[str, Message] = field(default_factory=dict)
    sent: list[Message] = field(default_factory=list)
    """What was sent over the API, in order; not what the person sent in Gmail."""
    history: list[HistoryRecord] = field(default_factory=list)
    history_id: int = 1000
    history_floor: int = 1
    """A `startHistoryId` below this has expired."""
    labels: dict[str, str] = field(default_factory=lambda: {name: name for name in SYSTEM_LABELS})
    """Label id → name."""
    aliases: dict[str, dict[str, Any]] = field(default_factory=dict)
    """What it may send from besides its own address, as `sendAs.list` shows it, by address."""
    _count: int = 0

    def _id(self) -> str:
        self._count += 1
        return f"{0x1900000000000000 + self._count:x}"

    def message(self, message_id: str) -> Message:
        try:
            return self.messages[message_id]
        except KeyError:
            raise not_found() from None

    def thread(self, thread_id: str) -> list[Message]:
        """The thread's messages, oldest first."""
        found = [m for m in self.messages.values() if m.thread_id == thread_id]
        if not found:
            raise not_found()
        return found

    def draft(self, draft_id: str) -> Message:
        try:
            return self.drafts[draft_id]
        except KeyError:
            raise not_found() from None

    # What the world and the person do

    def deliver(
        self,
        from_: str,
        subject: str | None,
        text: str | None,
        *,
        thread: str | None,
        headers: Mapping[str, str],
        html: str | None,
        labels: Iterable[str],
        age: timedelta,
    ) -> Message:
        """Mail arrives. In a thread it answers that thread's last message."""
        mail = EmailMessage(policy=policy.SMTP)
        when = datetime.now(UTC) - age
        mail["From"], mail["To"] = from_, self.address
        mail["Date"] = format_datetime(when)
        mail["Message-ID"] = f"<{self._count + 1}.{time.time_ns()}@{parseaddr(from_)[1].partition('@')[2]}>"
        if subject is not None:
            mail["Subject"] = subject
        if thread:
            self._answer_last(mail, thread)
        for name, value in headers.items():
            del mail[name]
            mail[name] = value
        if text is not None:
            mail.set_content(text)
        if html is not None:
            (mail.set_content if text is None else mail.add_alternative)(html, subtype="html")
        return self._add(mail.as_bytes(), labels, thread, int(when.timestamp() * 1000))

    def deliver_raw(self, raw: bytes, thread: str | None = None) -> Message:
        """Mail arrives, byte for byte as given."""
        return self._add(raw, ("INBOX", "UNREAD"), thread)

    def deposit(self, raw: bytes, labels: Iterable[str], at: datetime) -> Message:
        """A mail lies there since then, in a thread of its own."""
        return self._add(raw, labels, None, round(at.timestamp() * 1000))

    def person_sends(self, thread: str, text: str) -> Message:
        """The person answers in Gmail's own pages."""
        return self._add(self._answer(thread, text), {"SENT"}, thread)

    def person_drafts(self, thread: str, text: str, draft_id: str | None) -> str:
        """The person begins an answer there, or goes on with one."""
        raw = self._answer(thread, text)
        if draft_id is None:
            return self.create_draft(raw, thread)
        self.update_draft(draft_id, raw, thread)
        return draft_id

    def person_sends_draft(self, draft_id: str) -> Message:
        draft = self.draft(draft_id)
        sent = self._add(draft.raw, {"SENT"}, draft.thread_id)
        self.delete_draft(draft_id)
        return sent

    def _answer(self, thread: str, text: str) -> bytes:
        last = [m for m in self.thread(thread) if "DRAFT" not in m.labels][-1]
        mail = EmailMessage(policy=policy.SMTP)
        mail["From"], mail["To"] = self.address, str(last.parsed["From"])
        mail["Subject"] = last.subject if last.subject.lower().startswith("re:") else f"Re: {last.subject}"
        mail["Date"] = format_datetime(datetime.now(UTC))
        mail["Message-ID"] = self._gmail_message_id()
        self._answer_last(mail, thread)
        mail.set_content(text)
        return mail.as_bytes()

    def _answer_last(self, mail: EmailMessage, thread: str) -> None:
        chain = [m.message_id for m in self.thread(thread) if "DRAFT" not in m.labels]
        mail["In-Reply-To"], mail["References"] = chain[-1], " ".join(chain)

    # What the API does

    def send(self, raw: bytes, thread: str | None) -> Message:
        mail = message_from_bytes(raw, policy=policy.SMTP)
        to = [a for header in ("To", "Cc", "Bcc") for _, a in getaddresses([str(v) for v in mail.get_all(header, [])])]
        if not to or not all("@" in address for address in to):
            raise RefusedError(400, "invalidArgument", "Recipient address required")
        joined = self._thread_of(mail, thread)
        del mail["Message-ID"]
        mail["Message-ID"] = self._gmail_message_id()
        if not self._may_send_from(parseaddr(str(mail["From"] or ""))[1].lower()):
            del mail["From"]
            mail["From"] = self.address
        to_self = {"INBOX", "UNREAD"} if self.address in to else set()
        message = self._add(mail.as_bytes(), {"SENT"} | to_self, joined)
        self.sent.append(message)
        return message

    def _may_send_from(self, address: str) -> bool:
        """Gmail puts its own address in the place of any other."""
        return address == self.address or self.aliases.get(address, {}).get("verificationStatus") == "accepted"

    def create_draft(self, raw: bytes, thread: str | None) -> str:
        self._count += 1
        draft_id = f"r{self._count}"
        self.drafts[draft_id] = self._add_draft(raw, thread)
        return draft_id

    def update_draft(self, draft_id: str, raw: bytes, thread: str | None) -> None:
        old = self.draft(draft_id)
        self.drafts[draft_id] = self._add_draft(raw, thread or old.thread_id)
        self.delete(old.id)

    def send_draft(self, draft_id: str) -> Message:
        draft = self.draft(draft_id)
        message = self.send(draft.raw, draft.thread_id)
        self.delete_draft(draft_id)
        return message

    def delete_draft(self, draft_id: str) -> None:
        self.delete(self.draft(draft_id).id)

    def delete(self, message_id: str) -> None:
        """Remove a message for good, and the draft that holds it."""
        message = self.message(message_id)
        del self.messages[message_id]
        self.drafts = {key: draft for key, draft in self.drafts.items() if draft.id != message_id}
        self._record("messageDeleted", message)

    def label(self, name: str) -> str:
        """The id of the label with this name, which is made if it isn't there."""
        known = {each: label_id for label_id, each in self.labels.items()}
        if name not in known:
            self._count += 1
            self.labels[f"Label_{self._count}"] = name
            return f"Label_{self._count}"
        return known[name]

    def delete_label(self, name: str) -> None:
        """Remove a label for good, and from every message; what history says of that is not documented."""
        label_id = self.label(name)
        del self.labels[label_id]
        for message in self.messages.values():
            message.labels.discard(label_id)

    def relabel(self, message: Message, add: Iterable[str], remove: Iterable[str]) -> None:
        add, remove = list(add), list(remove)
        unknown = [label for label in (*add, *remove) if label not in self.labels]
        if unknown:
            raise invalid(f"Invalid label: {unknown[0]}")
        added, removed = set(add) - message.labels, set(remove) & message.labels
        message.labels = (message.labels | added) - removed
        if added:
            self._record("labelAdded", message, added)
        if removed:
            self._record("labelRemoved", message, removed)

    def search(self, query: str, labels: Iterable[str], spam_and_trash: bool) -> list[Message]:
        """The messages that a search finds, newest first."""
        tests = [_term(word) for word in re.findall(r'-?(?:\w+:)?(?:"[^"]*"|\S+)', query)]
        wanted = set(labels)
        hidden = set() if spam_and_trash or re.search(r"in:(anywhere|spam|trash)", query) else {"SPAM", "TRASH"}
        found = [
            m
            for m in self.messages.values()
            if wanted <= m.labels and not (hidden - wanted) & m.labels and all(test(m) for test in tests)
        ]
        return sorted(found, key=lambda m: m.date_ms, reverse=True)

    def _add_draft(self, raw: bytes, thread: str | None) -> Message:
        mail = message_from_bytes(raw, policy=policy.SMTP)
        return self._add(raw, {"DRAFT"}, self._thread_of(mail, thread))

    def _add(self, raw: bytes, labels: Iterable[str], thread: str | None, date_ms: int | None = None) -> Message:
        message_id = self._id()
        message = Message(message_id, thread or message_id, raw, set(labels), date_ms or time.time_ns() // 1_000_000)
        self.messages[message_id] = message
        self._record("messageAdded", message)
        return message

    def _record(self, change: Change, message: Message, changed: Iterable[str] = ()) -> None:
        self.history_id += 1
        message.history_id = self.history_id
        self.history.append(
            HistoryRecord(
                self.history_id, change, message.id, message.thread_id, frozenset(message.labels), frozenset(changed)
            )
        )

    def _thread_of(self, mail: EmailMessage, requested: str | None) -> str | None:
        """The thread that a mail joins: it must name a message of it, and have its subject; else None, a new one."""
        if requested:
            self.thread(requested)
        named = set(f"{mail['In-Reply-To'] or ''} {mail['References'] or ''}".split())
        for message in self.messages.values():
            same_subject = _plain_subject(message.subject) == _plain_subject(str(mail["Subject"] or ""))
            if message.message_id in named and same_subject and requested in (None, message.thread_id):
                return message.thread_id
        return None

    def _gmail_message_id(self) -> str:
        return f"<CA+{self._count + 1}.{time.time_ns()}@mail.gmail.com>"


def _plain_subject(subject: str) -> str:
    return re.sub(r"^(\s*(re|aw|fwd?)\s*:)+", "", subject, flags=re.IGNORECASE).strip()


def _term(word: str) -> Any:
    """A test of one message for one word of a search. A word that is not known here is refused, never ignored."""
    if word.startswith("-"):
        positive = _term(word[1:])
        return lambda m: not positive(m)
    key, colon, value = word.partition(":")
    value = value.strip('"')
    if word[0] in "{(" or word == "OR":
        raise invalid(f"this double does not know the search word {word!r}")
    if not colon:
        return lambda m: word.strip('"').lower() in f"{m.subject} {m.text}".lower()
    if key in ("newer_than", "older_than"):
        days = {"d": 1, "m": 30, "y": 365}[value[-1]] * int(value[:-1])
        limit = (time.time() - days * 86400) * 1000
        return lambda m: (m.date_ms > limit) == (key == "newer_than")
    if key in ("after", "before"):
        limit = _moment(value) * 1000
        return lambda m: (m.date_ms >= limit) == (key == "after")
    if key == "in" and value == "anywhere":
        return lambda m: True
    if key == "is" and value == "read":
        return lambda m: "UNREAD" not in m.labels
    if key in ("in", "is", "label"):
        label = {"drafts": "DRAFT"}.get(value, value).upper()
        return lambda m: label in {held.upper() for held in m.labels}
    if key == "category":
        return lambda m: f"CATEGORY_{value.upper()}" in m.labels
    if key in ("from", "to", "subject"):
        return lambda m: value.lower() in str(m.parsed[key] or "").lower()
    if key == "rfc822msgid":
        return lambda m: m.message_id.strip("<>") == value.strip("<>")
    raise invalid(f"this double does not know the search word {word!r}")


def _moment(value: str) -> float:
    if value.isdigit():
        return float(value)
    return datetime.strptime(value.replace("-", "/"), "%Y/%m/%d").replace(tzinfo=UTC).timestamp()


# How Gmail shows a message


def show(message: Message, form: str, headers: Iterable[str] = ()) -> dict[str, Any]:
    """A message as `messages.get` answers it: minimal, metadata, full or raw."""
    shown: dict[str, Any] = {
        "id": message.id,
        "threadId": message.thread_id,
        "labelIds": sorted(message.labels),
        "snippet": " ".join(message.text.split())[:200],
        "historyId": str(message.history_id),
        "internalDate": str(message.date_ms),
        "sizeEstimate": len(message.raw),
    }
    if form == "raw":
        shown["raw"] = base64.urlsafe_b64encode(message.raw).decode()
    elif form == "metadata":
        wanted = {name.lower() for name in headers}
        named = [h for h in _headers(message.parsed) if not wanted or h["name"].lower() in wanted]
        shown["payload"] = {"mimeType": message.parsed.get_content_type(), "headers": named}
    elif form == "full":
        shown["payload"] = _part(message.parsed, "")
    elif form != "minimal":
        raise invalid(f"Invalid format: {form}")
    return shown


def _headers(part: EmailMessage) -> list[dict[str, str]]:
    return [{"name": name, "value": str(value)} for name, value in part.items()]


def _part(part: EmailMessage, part_id: str) -> dict[str, Any]:
    shown = {
        "partId": part_id,
        "mimeType": part.get_content_type(),
        "filename": part.get_filename() or "",
        "headers": _headers(part),
    }
    if part.get_content_maintype() == "multipart":
        children = [_part(child, _child_id(part_id, n)) for n, child in enumerate(_children(part))]
        return {**shown, "body": {"size": 0}, "parts": children}
    return {**shown, "body": _content(part, part_id)}


def _children(part: EmailMessage) -> list[EmailMessage]:
    return list(cast("Iterable[EmailMessage]", part.iter_parts())) if part.is_multipart() else []


def _child_id(part_id: str, n: int) -> str:
    return f"{part_id}.{n}" if part_id else str(n)


def _content(part: EmailMessage, part_id: str) -> dict[str, Any]:
    """Of a file, Gmail gives no content but an id to ask for it."""
    content = _bytes(part)
    if part.get_filename():
        return {"size": len(content), "attachmentId": f"content-of-{part_id}"}
    return {"size": len(content), "data": base64.urlsafe_b64encode(content).decode()}


def attached(message: Message, attachment_id: str) -> dict[str, Any]:
    """A file of a message as `messages.attachments.get` answers it."""
    parts = {f"content-of-{part_id}": part for part_id, part in _leaves(message.parsed, "")}
    if attachment_id not in parts:
        raise not_found()
    content = _bytes(parts[attachment_id])
    return {"size": len(content), "data": base64.urlsafe_b64encode(content).decode()}


def _leaves(part: EmailMessage, part_id: str) -> Iterable[tuple[str, EmailMessage]]:
    if part.get_content_maintype() != "multipart":
        yield part_id, part
    for n, child in enumerate(_children(part)):
        yield from _leaves(child, _child_id(part_id, n))


def _bytes(part: EmailMessage) -> bytes:
    return cast("bytes", part.get_payload(decode=True) or b"")
