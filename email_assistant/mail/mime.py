"""The parts of a message, from its bytes or from Gmail's JSON, with bounds on hostile structure.

The standard library's parser is not used for the structure: it recurses per level and tests every line against
every open boundary, so that a small hostile mail costs minutes or a RecursionError. Its `Message` keeps the header
fields.
"""

import binascii
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from email.message import Message
from typing import Any

from email_assistant.mail.charset import decode, decode_base64, decode_base64url, decode_words, one_line, readable

MAX_DEPTH = 30
_UUENCODINGS = ("x-uuencode", "uuencode", "x-uue", "uue")
MAX_PARTS = 1_000  # parts of a whole message; the rest stays in the last one
_MAX_HEADER_BYTES = 2_000_000
_MAX_STRUCTURED_VALUE, _MAX_PARAMETERS = 4_000, 60
"""Characters and parameters of a Content-* field: the standard library's parameter parser is quadratic."""

MOST_OF_A_LINE = 998
"""Characters of a line of a mail (RFC 5322, 2.1.1)."""
_MESSAGE_ID = re.compile(rf"<[^<>\s]{{1,{MOST_OF_A_LINE}}}>")
_HEADER_BLOCK = re.compile(rb"(?:(?:>?From [^\r\n]*|[^\s:]+[ \t]*:[^\r\n]*|[ \t][^\r\n]*)(?:\r\n|\r|\n|\Z))*+")
_FOLD = re.compile(rb"(?:\r\n|\r|\n)[ \t]+")
_FIELD = re.compile(rb"^([^\s:]+)[ \t]*:[ \t]*([^\r\n]*)", re.MULTILINE)
_FIRST_BOUNDARY = re.compile(rb"(?:\A|\n)--([^\r\n]{1,200}?)[ \t]{0,9}\r?\nContent-", re.IGNORECASE)
_CHARSET = re.compile(rb";\s{0,9}charset=\"?([\w.:+-]{1,40})", re.IGNORECASE)
_UUENCODED = re.compile(rb"^begin[ \t][^\r\n]*\r?\n(.*)", re.MULTILINE | re.DOTALL | re.IGNORECASE)
_BASE64_LINE = re.compile(rb"[^A-Za-z0-9+/=\r\n]")


@dataclass(slots=True)
class MimePart:
    """One part: its own header fields, and either decoded content or inner parts."""

    headers: Message
    mime_type: str
    filename: str = ""
    content: bytes | None = None  # transfer-decoded; None if it was not delivered with the message
    attachment_id: str = ""  # what Gmail gives the content for, where it was not delivered
    size: int | None = None
    parts: list["MimePart"] = field(default_factory=list)
    truncated: bool = False  # nested more deeply than is read

    def header(self, name: str) -> str:
        """The first field of that name, unfolded and not decoded; empty if there is none."""
        return str(self.headers.get(name, ""))

    def message_ids(self, name: str) -> list[str]:
        """The ids in the first field of that name, with their brackets."""
        found: list[str] = _MESSAGE_ID.findall(self.header(name))
        return found

    def param(self, name: str) -> str:
        """A parameter of Content-Type; empty if missing or broken."""
        return _param(self.headers, name, "content-type")

    @property
    def is_calendar(self) -> bool:
        return _is_calendar(self.mime_type, self.filename)

    @property
    def disposition(self) -> str:
        """`inline`, `attachment` or empty."""
        return self.header("content-disposition").partition(";")[0].strip().lower()


def from_bytes(data: bytes) -> MimePart:
    """The tree of a message's parts. Any bytes make a tree."""
    if b"\n" not in data:
        data = data.replace(b"\r", b"\n")
    return _Splitter().part(data)


def from_gmail(payload: Mapping[str, Any], depth: int = 0) -> MimePart:
    """The same tree from the `payload` of Gmail's `messages.get` with `format=full`. Any mapping makes a tree."""
    headers = _headers((item.get("name"), item.get("value")) for item in mappings(payload.get("headers")))
    declared = payload.get("mimeType")
    part = MimePart(headers, declared.lower() if isinstance(declared, str) and "/" in declared else _type(headers))
    name, body = payload.get("filename"), payload.get("body")
    part.filename = _filename(name) if isinstance(name, str) and name else _declared_filename(headers)
    if isinstance(body, Mapping):
        data, size = body.get("data"), body.get("size")
        part.size = size if isinstance(size, int) and size >= 0 else None
        if isinstance(data, str):
            part.content = decode_base64url(data)
            part.size = len(part.content)
        elif isinstance(key := body.get("attachmentId"), str) and key:
            part.attachment_id = key
        else:
            part.content = b""
    inner = list(mappings(payload.get("parts")))
    part.truncated = bool(inner) and depth >= MAX_DEPTH
    if not part.truncated:
        part.parts = [from_gmail(item, depth + 1) for item in inner]
    return part


def _is_calendar(mime_type: str, filename: str) -> bool:
    return mime_type in ("text/calendar", "application/ics") or filename.lower().endswith(".ics")


class _Splitter:
    """Splits one message; counts its parts."""

    def __init__(self) -> None:
        self._parts_left = MAX_PARTS

    def part(self, data: bytes, default_type: str = "text/plain", depth: int = 0) -> MimePart:
        block, body = _split_header(data)
        fields = _FIELD.findall(_FOLD.sub(b" ", block))
        # Eight bits in a header are UTF-8 by RFC 6532; older programs write the charset of the mail.
        charset = found[1].decode("ascii") if (found := _CHARSET.search(block)) else None
        headers = _headers((decode(name, None), decode(value, charset)) for name, value in fields)
        part = MimePart(headers, _type(headers, default_type), _declared_filename(headers))
        nests = part.mime_type.startswith("multipart/") or part.mime_type == "message/rfc822"
        part.truncated = nests and depth >= MAX_DEPTH
        if part.mime_type.startswith("multipart/") and not part.truncated:
            inner_type = "message/rfc822" if part.mime_type == "multipart/digest" else "text/plain"
            pieces = self._split(body, part.param("boundary"))
            part.parts = [self.part(piece, inner_type, depth + 1) for piece in pieces]
        if part.parts:
            part.size = len(body)
            return part
        part.content = _transfer_decode(body, part.header("content-transfer-encoding"))
        part.size = len(part.content)
        if part.mime_type == "message/rfc822" and not part.truncated:
            part.parts = [self.part(part.content, depth=depth + 1)]
        return part

    def _split(self, body: bytes, declared: str) -> list[bytes]:
        """The pieces between boundary lines; a boundary that is missing or wrong is guessed."""
        pieces = _pieces(body, declared.encode(), self._parts_left) if declared else []
        if not any(map(bytes.strip, pieces)) and (guess := _FIRST_BOUNDARY.search(body)):
            pieces = _pieces(body, guess[1], self._parts_left)
        self._parts_left -= len(pieces)
        return pieces


def _split_header(data: bytes) -> tuple[bytes, bytes]:
    block = _HEADER_BLOCK.match(data, 0, _MAX_HEADER_BYTES)
    end = block.end() if block else 0
    for blank in (b"\r\n", b"\n"):
        if data.startswith(blank, end):
            return data[:end], data[end + len(blank) :]
    return data[:end], data[end:]


def _pieces(body: bytes, boundary: bytes, limit: int) -> list[bytes]:
    pieces: list[bytes] = []
    start: int | None = None
    for line in re.finditer(rb"--" + re.escape(boundary) + rb"(--)?[ \t]*(?:\r?\n|\Z)", body):
        at_line_start = line.start() == 0 or body[line.start() - 1] == 0x0A
        if len(pieces) >= limit - 1:
            break
        if not at_line_start:
            continue
        if start is not None:
            pieces.append(_without_last_break(body[start : line.start()]))
        # After the end there may be more: the mark was an inner part's, which uses the same boundary.
        start = None if line[1] else line.end()
    return pieces if start is None or limit < 1 else [*pieces, body[start:]]


def _without_last_break(piece: bytes) -> bytes:
    return piece.removesuffix(b"\n").removesuffix(b"\r")


def _transfer_decode(body: bytes, encoding: str) -> bytes:
    encoding = encoding.strip().lower()
    if encoding == "quoted-printable":
        return binascii.a2b_qp(body)
    # Plain text behind a lying label would decode to noise.
    if encoding == "base64" and len(_BASE64_LINE.findall(body, 0, 10_000)) * 20 <= min(len(body), 10_000):
        return decode_base64(body)
    if encoding in _UUENCODINGS and (found := _UUENCODED.search(body)):
        return _uudecode(found[1])
    return body


def _uudecode(lines: bytes) -> bytes:
    """The content up to the line `end`; a broken line is left out."""
    pieces: list[bytes] = []
    for line in lines.splitlines():
        if line.strip().lower() == b"end":
            break
        try:
            pieces.append(binascii.a2b_uu(line.ljust(1 + (((line[0] - 32) & 63) * 4 + 2) // 3) if line else line))
        except binascii.Error:
            # Some programs pad a line with more than it says.
            length = (((line[0] - 32) & 63) * 4 + 5) // 3
            with suppress(binascii.Error):
                pieces.append(binascii.a2b_uu(line[:length]))
    return b"".join(pieces)


def _headers(fields: Iterable[tuple[Any, Any]]) -> Message:
    headers = Message()
    for name, value in fields:
        if isinstance(name, str) and isinstance(value, str):
            structured = name.lower().startswith("content-")
            headers[name] = one_line(_bounded(value) if structured else value[:_MAX_HEADER_BYTES])
    return headers


def _bounded(structured: str) -> str:
    return ";".join(structured[:_MAX_STRUCTURED_VALUE].split(";")[:_MAX_PARAMETERS])


def _type(headers: Message, default: str = "text/plain") -> str:
    return headers.get_content_type() if "content-type" in headers else default


def _param(headers: Message, name: str, header: str) -> str:
    try:
        value = headers.get_param(name, "", header)
        if isinstance(value, tuple):
            charset, _, encoded = value
            return decode(encoded.encode("latin-1", "replace"), charset)
    except (ValueError, LookupError, TypeError):  # broken RFC 2231 parameters
        return ""
    return str(value)


def _declared_filename(headers: Message) -> str:
    return _filename(_param(headers, "filename", "content-disposition") or _param(headers, "name", "content-type"))


def _filename(raw: str) -> str:
    """A bare file name: no path, one line."""
    return one_line(re.split(r"[/\\]", decode_words(readable(raw)))[-1])[:200]


def mappings(value: object) -> Iterator[Mapping[str, Any]]:
    """The objects in what should be a list of them."""
    return (item for item in value if isinstance(item, Mapping)) if isinstance(value, list) else iter(())
