"""A message, from its bytes or from Gmail's JSON, to a `Mail`. Never raises, whatever it is given."""

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from email_assistant.mail import invite, mime
from email_assistant.mail.address import Address, parse_addresses
from email_assistant.mail.charset import cut, decode, decode_words, one_line
from email_assistant.mail.history import new_text
from email_assistant.mail.html_text import Beside, html_to_text
from email_assistant.mail.message import Attachment, CalendarEvent, Mail
from email_assistant.mail.mime import MimePart
from email_assistant.mail.report import delivery_report
from email_assistant.mail.two_parts import Part, besides, is_stub, together

_MAX_HEADER = mime.MOST_OF_A_LINE
"""Characters of a subject, a name or an address."""
_META_CHARSET = re.compile(rb"<meta[^>]{0,200}charset=[\"']?([\w.:-]{1,40})", re.IGNORECASE)
_MAX_DATE = 100
_MAX_APART = 1_000_000  # bytes of a part that is fetched by itself
_MAX_UNREADABLE = 0.1  # share of undecodable characters beyond which a text part isn't text

_SIGNATURE_TYPES = {"application/pgp-signature", "application/pkcs7-signature", "application/x-pkcs7-signature"}
_READ_AS_TEXT = {
    "message/partial",
    "message/delivery-status",
    "message/disposition-notification",
    "message/feedback-report",
}
_OUTLOOK_TYPES = {"application/ms-tnef", "application/vnd.ms-tnef"}
_NOT_READ = {"text/x-amp-html", "text/rtf", "text/vcard", "text/x-vcard", "text/directory", "text/css"}
# Of the first field alone: who receives a mail puts its own above all that came with it (RFC 8601, 5).
_DMARC_FAILED = re.compile(r"\bdmarc\s*=\s*fail\b", re.IGNORECASE)
_MACHINE_NAMES = ("mailer-daemon", "postmaster")


def parse_bytes(data: bytes) -> Mail:
    """Parse an RFC 5322 message."""
    return _mail(mime.from_bytes(data))


def parse_gmail(payload: Mapping[str, Any]) -> Mail:
    """Parse the `payload` of Gmail's `messages.get` with `format=full`."""
    return _mail(mime.from_gmail(payload))


def kept_apart(payload: Mapping[str, Any], depth: int = 0, *, in_report: bool = False) -> Iterator[dict[str, Any]]:
    """The `body` of each part of Gmail's JSON that is read and whose content Gmail gives apart, as it does where a part
    has a file name: text, a calendar, and what a report says, and of which letter. Put what `attachmentId` names into
    `data`, and it is read as what Gmail gives at once."""
    body, declared = payload.get("body"), str(payload.get("mimeType", "")).lower()
    in_report = in_report or declared == "multipart/report"
    inner = list(mime.mappings(payload.get("parts"))) if depth < mime.MAX_DEPTH else []
    if isinstance(body, dict) and body.get("attachmentId") and "data" not in body and not inner:
        part = mime.from_gmail(payload)
        reports = in_report and declared.startswith("message/")
        is_read = reports or part.is_calendar or is_text(part, is_root=depth == 0)
        if is_read and part.size is not None and part.size <= _MAX_APART:
            yield body
    for item in inner:
        yield from kept_apart(item, depth + 1, in_report=in_report)


def _mail(root: MimePart) -> Mail:
    bulk = _is_bulk(root)
    reader = _MailReader(bulk=bulk)
    text = reader.read_message(root)
    subject = _subject(root)
    return Mail(
        message_id=next(iter(root.message_ids("message-id")), None),
        in_reply_to=next(iter(root.message_ids("in-reply-to")), None),
        references=tuple(root.message_ids("references")),
        sender=_sender(root),
        reply_to=_addresses(root, "reply-to"),
        to=_addresses(root, "to"),
        cc=_addresses(root, "cc"),
        subject=subject,
        date=_date(root.header("date")),
        text=text,
        body=new_text(text, subject=subject, bulk=bulk),
        attachments=tuple(reader.attachments),
        auto_submitted=_is_auto_submitted(root),
        bulk=bulk,
        note="; ".join(dict.fromkeys(reader.notes)),
        event=reader.event,
        bcc=_addresses(root, "bcc"),
        delivered_to=tuple(address.email for address in _addresses(root, "delivered-to")),
        forged=_is_forged(root),
        report=delivery_report(root),
    )


def _is_forged(root: MimePart) -> bool:
    writers = {address.email.lower() for address in _addresses(root, "from")}
    return len(writers) > 1 or _DMARC_FAILED.search(root.header("authentication-results")) is not None


def _addresses(root: MimePart, name: str) -> tuple[Address, ...]:
    # One by one: a quote that is left open in one field must not swallow the next.
    fields = root.headers.get_all(name, [])
    found = (address for field in fields for address in parse_addresses(str(field)))
    return tuple(Address(cut(address.name, _MAX_HEADER), cut(address.email, _MAX_HEADER)) for address in found)


def _sender(root: MimePart) -> Address | None:
    for name in ("from", "sender"):
        if found := _addresses(root, name):
            return found[0]
    name = _header_text(root, "from")
    return Address(name, "") if name else None


def _subject(root: MimePart) -> str:
    return _header_text(root, "subject")


def _header_text(root: MimePart, name: str) -> str:
    return cut(one_line(decode_words(root.header(name))), _MAX_HEADER)


def _date(value: str) -> datetime | None:
    try:
        date = parsedate_to_datetime(value[:_MAX_DATE])
        date = date if date.tzinfo else date.replace(tzinfo=UTC)  # "-0000": UTC, zone of the sender unknown
        return date if 1970 <= date.astimezone(UTC).year <= 9000 else None
    except (ValueError, TypeError, IndexError, OverflowError):
        return None


def _is_auto_submitted(root: MimePart) -> bool:
    """RFC 3834, and what mail systems sent before it."""
    answer = root.header("auto-submitted").partition(";")[0].strip().lower()
    sender = _sender(root)
    local_part = sender.email.partition("@")[0].lower() if sender else ""
    return (
        answer not in ("", "no")
        or any(root.header(name).lower() not in ("", "no") for name in ("x-autoreply", "x-autorespond"))
        or root.header("precedence").lower() in ("auto_reply", "auto-reply")
        or root.header("return-path") == "<>"
        or local_part in _MACHINE_NAMES
        or (sender is not None and not sender.email and sender.name.lower() in _MACHINE_NAMES)
        or root.mime_type == "multipart/report"
    )


def _is_bulk(root: MimePart) -> bool:
    listed = any(name in root.headers for name in ("list-id", "list-unsubscribe"))
    return listed or root.header("precedence").lower() in ("bulk", "list", "junk")


class _MailReader:
    """Reads a tree of parts into text, and collects what can't be read as text."""

    def __init__(self, *, bulk: bool) -> None:
        self._bulk = bulk
        self.attachments: list[Attachment] = []
        self.notes: list[str] = []
        self._beside = Beside()
        self._invites: list[str] = []
        self._agendas: list[str] = []
        self.event: CalendarEvent | None = None

    def read_message(self, root: MimePart) -> str:
        text = self._read(root, is_root=True)
        # Most calendars repeat an event's description in the mail's text.
        agendas = [besides(text, agenda) for agenda in self._agendas] if text.strip() else self._agendas
        pieces = [*self._invites, *agendas, text]
        text = "\n\n".join(piece for piece in pieces if piece)
        text = text if text.strip() else ""
        if not text and not self.notes:
            self.notes.append("no text part; attachments only" if self.attachments else "no text")
        return text

    def _read(self, part: MimePart, *, is_root: bool = False) -> str:
        if part.truncated:
            self.notes.append("nested too deeply to read in full")
        if part.mime_type == "message/partial":
            self.notes.append("one piece of a mail that was sent in several; the others are missing here")
        if part.parts:
            return self._read_parts(part)
        if part.is_calendar:
            return self._read_calendar(part)
        if is_text(part, is_root=is_root) or (part.truncated and part.content is not None):
            return self._read_text(part)
        self._attach(part)
        return ""

    def _read_parts(self, part: MimePart) -> str:
        kind = part.mime_type
        if kind == "multipart/encrypted":
            name = "OpenPGP" if "pgp" in part.param("protocol").lower() else "unknown method"
            self.notes.append(_encrypted(name))
            return ""
        if kind == "multipart/alternative":
            return self._read_alternative(part)
        if kind == "message/rfc822":
            return self._read_attached_mail(part)
        return "\n\n".join(filter(None, map(self._read_inner, part.parts)))

    def _read_inner(self, part: MimePart) -> str:
        return "" if part.mime_type in _SIGNATURE_TYPES else self._read(part)

    def _read_alternative(self, part: MimePart) -> str:
        plain: list[str] = []
        rich: list[str] = []
        for child in part.parts:
            if child.mime_type != "text/x-amp-html" and (text := self._read(child)):
                (plain if child.mime_type == "text/plain" else rich).append(text)
        told = [text for text in plain if not rich or not is_stub(text, rich[-1])]
        # The last of a kind is what a program shows.
        parts: list[Part] = [*(("text", text) for text in reversed(told)), *(("HTML", text) for text in reversed(rich))]
        if not parts:
            return ""
        # Mass mail has a text part for form's sake; who writes to one person means all.
        text, differ = (parts[0][1], "") if self._bulk else together(parts, self._beside)
        if differ:
            self.notes.append(differ)
        return text

    def _read_attached_mail(self, part: MimePart) -> str:
        inner = part.parts[0]
        subject = _subject(inner)
        self.attachments.append(Attachment(part.filename or f"{subject or 'mail'}.eml", part.mime_type, part.size))
        facts = {"From": _sender(inner), "Date": inner.header("date"), "Subject": subject}
        lines = [f"{name}: {fact}" for name, fact in facts.items() if fact]
        return "\n".join(["---------- Forwarded message ---------", *lines, "", self._read(inner, is_root=True)])

    def _read_calendar(self, part: MimePart) -> str:
        calendar = text_of(part)
        summary = invite.summarise(calendar)
        if part.filename or not summary:
            self._attach(part)
        if summary and summary not in self._invites:
            self._invites.append(summary)
            self._agendas.append(invite.description(calendar))
            self.event = self.event or invite.event(calendar)
        return ""

    def _read_text(self, part: MimePart) -> str:
        if part.content is None:
            size = "was too large to be" if part.size is None or part.size > _MAX_APART else "could not be"
            self.notes.append(f"a text part {size} delivered with the mail")
            self._attach(part)
            return ""
        text = text_of(part)
        if len(text) and _unreadable_share(part.content) > _MAX_UNREADABLE:
            self.notes.append("a text part holds no readable text")
            self._attach(part)
            return ""
        if "-----BEGIN PGP MESSAGE-----" in text:
            self.notes.append(_encrypted("OpenPGP"))
        if part.mime_type == "text/html":
            return html_to_text(text, self._beside)
        if part.param("format").lower() == "flowed":
            text = _unflow(text, delete_space=part.param("delsp").lower() == "yes")
        text, files = without_files(text)
        self.attachments += files
        return text.strip("\n")

    def _attach(self, part: MimePart) -> None:
        if part.mime_type in ("application/pkcs7-mime", "application/x-pkcs7-mime"):
            kind = part.param("smime-type").lower()
            opaque = "signed (S/MIME) in a form whose text can't be read here"
            self.notes.append(opaque if "signed" in kind else _encrypted("S/MIME"))
        if part.mime_type in _OUTLOOK_TYPES or part.filename.lower() == "winmail.dat":
            self.notes.append("what is packed into winmail.dat (Outlook's own format) can't be read here")
        self.attachments.append(Attachment(part.filename, part.mime_type, part.size))


def text_of(part: MimePart) -> str:
    """The content of a part that is text; empty where it was not delivered."""
    content = part.content or b""
    charset = part.param("charset")
    if not charset and part.mime_type == "text/html" and (meta := _META_CHARSET.search(content[:4_000])):
        charset = meta[1].decode("ascii")
    return decode(content, charset)


def _encrypted(method: str) -> str:
    return f"encrypted ({method}): the text can't be read here"


def is_text(part: MimePart, *, is_root: bool) -> bool:
    """Whether a part is read as the mail's own text, and not a file of its."""
    kind = part.mime_type
    if kind in _READ_AS_TEXT or (is_root and kind.startswith(("text/", "multipart/"))):
        return True
    if kind.startswith("multipart/"):
        return True
    if not kind.startswith("text/") or kind in _NOT_READ:
        return False
    return part.disposition != "attachment" and (not part.filename or part.disposition == "inline")


def _unreadable_share(content: bytes) -> float:
    """The share of control bytes, which text of no charset holds (but for SO and SI: RFC 1557), in its beginning."""
    sample = content[:10_000]
    return len(re.findall(rb"[\x01-\x08\x10-\x1a\x1c-\x1f]", sample)) / max(1, len(sample))


def _unflow(text: str, *, delete_space: bool = False) -> str:
    """Join the soft-broken lines of `format=flowed` text (RFC 3676)."""
    lines: list[list[str]] = []
    open_quote: int | None = None
    for raw in text.split("\n"):
        content = raw.lstrip(">")
        quote = len(raw) - len(content)
        content = content.removeprefix(" ")
        if open_quote == quote and content != "-- ":
            lines[-1].append(content)
        else:
            lines.append([">" * quote + (" " if quote else ""), content])
        open_quote = quote if content.endswith(" ") and content != "-- " else None
        if open_quote is not None and delete_space:
            lines[-1][-1] = content[:-1]
    return "\n".join(map("".join, lines))


_FILES = (
    re.compile(
        r"^begin [0-7]{3,4} (?P<name>\S.{0,200})\n(?:[ -`]{1,64}(?:\n|\Z))++(?:`?\n)?(?:end[ \t]*$)?", re.MULTILINE
    ),
    re.compile(
        r"^begin-base64 [0-7]{3,4} (?P<name>\S.{0,200})\n(?:[A-Za-z0-9+/=]{1,100}\n)*?====[ \t]*$", re.MULTILINE
    ),
    re.compile(r"^=ybegin .{0,200}?\bname=(?P<name>.{1,200})\n(?:(?!=ybegin ).*\n)*?=yend.*$", re.MULTILINE),
)


def without_files(text: str) -> tuple[str, list[Attachment]]:
    """The text with a note in place of each file, and the files. Their sizes are unknown."""
    files: list[Attachment] = []

    def note(match: re.Match[str]) -> str:
        name = one_line(re.split(r"[/\\]", match["name"])[-1])
        files.append(Attachment(name, "application/octet-stream", None))
        return f"[file in the text: {name}]\n"

    for pattern in _FILES:
        text = pattern.sub(note, text)
    return text, files
