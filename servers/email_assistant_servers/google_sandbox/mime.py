"""Mail as bytes, and the parts, headers and text that Gmail makes of it. Nothing here does I/O."""

import base64
import binascii
import hashlib
import html
import re
from collections.abc import Iterable
from dataclasses import dataclass
from email import message_from_bytes
from email.errors import HeaderParseError, MessageError
from email.header import decode_header, make_header
from email.message import Message
from email.parser import BytesHeaderParser
from email.policy import Compat32
from email.utils import getaddresses, mktime_tz, parsedate_tz
from functools import lru_cache
from typing import Any

_SNIPPET_LENGTH = 200
_YEAR_3000 = 32_503_680_000
_HIDES = re.compile(r"<(?:(!--)|(style|script|head|title)\b)", re.IGNORECASE)
_SHOWS = {each: re.compile(rf"</{each}\s*+>", re.IGNORECASE) for each in ("style", "script", "head", "title")}
_SHOWS["!--"] = re.compile("-->")
_TAG = re.compile(r"<[^<>]*>")
_WORD = re.compile(r"\w+")
_BLANK_LINE = re.compile(rb"\r?\n\r?\n")
_MESSAGE_ID = re.compile(r"<([^<>\s]+)>")
_BROKEN = (LookupError, TypeError, ValueError)
"""Raised by `email` where a header is broken: `filename*0=a; filename*=b` is a TypeError."""
_LONGEST_PARAMETERS = 4_000  # letters of a header that are looked through: Python's time grows with their square


class _FewLetters(Compat32):
    def header_fetch_parse(self, name: str, value: Any) -> Any:
        return super().header_fetch_parse(name, value[:_LONGEST_PARAMETERS])


_LIMITED = _FewLetters()


@dataclass(frozen=True)
class NumberedPart:
    """One node of a message's MIME tree. `path` is Gmail's partId: "" for the root, then "0", "1.0", ..."""

    path: str
    node: Message
    children: tuple["NumberedPart", ...]

    @property
    def filename(self) -> str:
        """The decoded file name, or ""."""
        try:
            return decoded(self.node.get_filename("") or "")
        except _BROKEN:
            return ""

    @property
    def is_attachment(self) -> bool:
        """Whether Gmail keeps the content apart, under an attachmentId."""
        if self.children or self.node.get_content_maintype() == "multipart":
            return False
        return bool(self.filename) or self.node.get_content_maintype() != "text"

    def content(self) -> bytes:
        """The bytes after the transfer encoding is undone; empty for a container."""
        if self.children:
            return b""
        if self.node.is_multipart():  # message/rfc822 and its like, which are leaves to Gmail
            return b"\n".join(inner.as_bytes() for inner in self.node.get_payload() if isinstance(inner, Message))
        payload = self.node.get_payload(decode=True)
        return payload if isinstance(payload, bytes) else b""

    def text(self) -> str:
        """The content as text, by the part's own charset."""
        try:
            return self.content().decode(self.node.get_content_charset("utf-8"), "replace")
        except _BROKEN:
            return self.content().decode("latin-1")

    def walk(self) -> Iterable["NumberedPart"]:
        """This part and everything below it, in order."""
        yield self
        for child in self.children:
            yield from child.walk()


@lru_cache(maxsize=4)  # what has just come is read at once, and by several requests
def parse(raw: bytes) -> NumberedPart:
    """The MIME tree of a message. Never fails: what can't be understood is one plain part."""
    try:
        return _part(message_from_bytes(raw, policy=_LIMITED), "")
    except (RecursionError, *_BROKEN):  # parts in parts, by hundreds
        node = head(raw)
        del node["Content-Type"], node["Content-Transfer-Encoding"]
        node.set_payload(b"".join(_BLANK_LINE.split(raw, maxsplit=1)[1:]).decode("ascii", "surrogateescape"))
        return NumberedPart("", node, ())


def head(raw: bytes) -> Message:
    """The headers of a message alone: its body, which may be long, is not looked at."""
    return BytesHeaderParser(policy=_LIMITED).parsebytes(_BLANK_LINE.split(raw, maxsplit=1)[0])


def _part(node: Message, path: str) -> NumberedPart:
    prefix = f"{path}." if path else ""
    inner = node.get_payload() if node.get_content_maintype() == "multipart" and node.is_multipart() else []
    children = [_part(child, f"{prefix}{n}") for n, child in enumerate(inner) if isinstance(child, Message)]
    return NumberedPart(path, node, tuple(children))


def headers(node: Message) -> list[tuple[str, str]]:
    """Every header as it came, encoded words untouched, folded lines joined."""
    return [(name, _unfolded(value)) for name, value in node.raw_items()]


def _unfolded(value: object) -> str:
    text = str(value).replace("\r", "").replace("\n", "").strip()
    octets = text.encode("utf-8", "surrogateescape")  # eight-bit octets arrive as surrogates
    try:
        return octets.decode()
    except UnicodeDecodeError:
        return octets.decode("latin-1")


def header(node: Message, name: str) -> str:
    """The first header of that name, decoded for people, or ""."""
    return decoded(raw_header(node, name))


def raw_header(node: Message, name: str) -> str:
    """The first header of that name as it came, or ""."""
    return next((value for key, value in headers(node) if key.lower() == name.lower()), "")


def decoded(value: str) -> str:
    """A header value with its encoded words decoded; what is broken stays as it is."""
    try:
        return str(make_header(decode_header(value)))
    except (HeaderParseError, MessageError, LookupError, ValueError, binascii.Error):
        return value


def addresses(node: Message, *names: str) -> list[str]:
    """The addresses in those headers, in lower case."""
    values = [value for key, value in headers(node) if key.lower() in names]
    try:
        return [address.lower() for _, address in getaddresses(values) if "@" in address]
    except RecursionError:  # groups in groups
        return []


def message_ids(value: str) -> list[str]:
    """The ids in a Message-ID, In-Reply-To or References header, without their brackets."""
    return _MESSAGE_ID.findall(value)


def references(node: Message) -> list[str]:
    """The ids that a message says it follows."""
    return [one for name in ("references", "in-reply-to") for one in message_ids(raw_header(node, name))]


def identity(raw: bytes, node: Message) -> str:
    """What makes a message this message: its Message-ID, or else a hash of its bytes."""
    found = message_ids(raw_header(node, "message-id")) or raw_header(node, "message-id").split()
    return found[0] if found else "sha256:" + hashlib.sha256(raw).hexdigest()


def date_ms(node: Message) -> int | None:
    """The Date header in milliseconds since 1970, or None if it is missing, broken or before 1970."""
    return instant_ms(raw_header(node, "date"))


def instant_ms(text: str) -> int | None:
    """A date as mail writes it in milliseconds since 1970, UTC unless it says otherwise, or None."""
    parsed = parsedate_tz(text)
    try:
        seconds = None if parsed is None else mktime_tz((*parsed[:9], parsed[9] or 0))
    except (ValueError, OverflowError):
        return None
    return seconds * 1000 if seconds is not None and 0 < seconds < _YEAR_3000 else None


def with_headers(raw: bytes, replacements: dict[str, str]) -> bytes:
    """The same message with those headers replaced, everything else byte for byte."""
    newline = b"\r\n" if b"\r\n" in raw.partition(b"\n\n")[0] else b"\n"
    head, blank, body = raw.partition(newline + newline)
    names = "|".join(map(re.escape, replacements)).encode()
    kept = re.sub(rb"(?im)^(?:" + names + rb"):.*(?:\r?\n[ \t].*)*(?:\r?\n|\Z)", b"", head)
    added = [f"{name}: {value}".encode() for name, value in replacements.items()]
    return newline.join([*added, kept.rstrip(b"\r\n")]) + (blank or newline + newline) + body


def readable_text(root: NumberedPart) -> str:
    """The words a reader sees: plain text, or else the text of the HTML."""
    shown = [part for part in root.walk() if not part.children and not part.is_attachment]
    plain = [part.text() for part in shown if part.node.get_content_type() == "text/plain"]
    return "\n".join(plain) or "\n".join(_html_text(part.text()) for part in shown)


def _html_text(markup: str) -> str:
    shown: list[str] = []
    endless: set[str] = set()  # what never ends is looked for once
    at = 0
    while begins := _HIDES.search(markup, at):
        name = (begins[1] or begins[2]).lower()
        ends = None if name in endless else _SHOWS[name].search(markup, begins.end())
        if ends is None:
            endless.add(name)
        shown.append(markup[at : begins.start() if ends else begins.end()])
        at = (ends or begins).end()
    return html.unescape(_TAG.sub(" ", " ".join([*shown, markup[at:]])))


def snippet(text: str) -> str:
    """The first words of a text, escaped for HTML as Gmail's snippets are."""
    return html.escape(" ".join(text[: _SNIPPET_LENGTH * 4].split())[:_SNIPPET_LENGTH]).replace("&#x27;", "&#39;")


def words(text: str) -> str:
    """The words of a text in a form in which " word " and " a phrase " can be looked up."""
    return f" {' '.join(_WORD.findall(text.casefold()))} "


def base64url(octets: bytes) -> str:
    """URL-safe base64 with padding, as Gmail gives it."""
    return base64.urlsafe_b64encode(octets).decode()


def from_base64url(text: str) -> bytes:
    """Undo `base64url`; padding may be missing. Raises ValueError."""
    padded = text.rstrip("=") + "=" * (-len(text.rstrip("=")) % 4)
    return base64.b64decode(padded.replace("-", "+").replace("_", "/"), validate=True)


def payload(part: NumberedPart, message_id: str) -> dict[str, Any]:
    """The `payload` of a message in the format `full`."""
    resource = headers_only(part)
    content = part.content()
    body: dict[str, Any] = {"size": len(content)}
    if part.is_attachment:
        body["attachmentId"] = base64url(f"{message_id}:{part.path}".encode())
    elif content:
        body["data"] = base64url(content)
    resource["body"] = body
    if part.children:
        resource["parts"] = [payload(child, message_id) for child in part.children]
    return resource


def headers_only(part: NumberedPart, wanted: Iterable[str] = ()) -> dict[str, Any]:
    """One part without its body; with `wanted`, only those headers."""
    names = {name.lower() for name in wanted}
    return {
        "partId": part.path,
        "mimeType": part.node.get_content_type(),
        "filename": part.filename,
        "headers": [
            {"name": name, "value": value} for name, value in headers(part.node) if not names or name.lower() in names
        ],
    }


def attachment(root: NumberedPart, message_id: str, attachment_id: str) -> bytes | None:
    """The content behind an attachmentId of that message, or None."""
    for part in root.walk():
        if part.is_attachment and base64url(f"{message_id}:{part.path}".encode()) == attachment_id:
            return part.content()
    return None
