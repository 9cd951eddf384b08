"""Hostile mail: any bytes and any payload give a `Mail` that can be shown, stored and put into a prompt.

`EMAIL_ASSISTANT_FUZZ_EXAMPLES` sets the number of mails for each test; the default keeps the run short.
"""

import base64
import os
import re
import unicodedata
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from email_assistant.mail.address import parse_addresses
from email_assistant.mail.html_text import html_to_text
from email_assistant.mail.message import Mail, reply_address
from email_assistant.mail.parse import parse_bytes, parse_gmail
from email_assistant.mail.prompt import for_prompt

pytestmark = pytest.mark.sampled

FUZZ = settings(
    max_examples=int(os.environ.get("EMAIL_ASSISTANT_FUZZ_EXAMPLES", "150")),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)

CHARSETS = st.sampled_from(
    ["utf-8", "us-ascii", "iso-8859-1", "utf-16", "utf-7", "iso-2022-jp", "gb2312", "hz", "rot13", "hex", "idna",
     "punycode", "unicode_escape", "undefined", "x-unknown", "", '"', "a\x00b", "utf-8\n", "cp65001", "mbcs", "zlib"]
)  # fmt: skip
TYPES = st.sampled_from(
    ["text/plain", "text/html", "text/calendar", "text/x-amp-html", "text/plain; format=flowed; delsp=yes",
     "multipart/mixed", "multipart/alternative", "multipart/related", "multipart/signed", "multipart/encrypted",
     "multipart/report", "multipart/digest", "message/rfc822", "message/delivery-status", "application/pdf",
     "application/pkcs7-mime; smime-type=signed-data", "image/png", "text", "/", "", "TEXT/HTML ;", ";;;="]
)  # fmt: skip
ENCODINGS = st.sampled_from(["base64", "quoted-printable", "8bit", "7bit", "binary", "x-uuencode", "", "BASE64 "])
BOUNDARIES = st.sampled_from(["a", "b", "a b", "", "--", "a--", "'(", "[", "é", "\\"])
SNIPPETS = st.sampled_from(
    ["On Mon, 5 May 2026 at 10:15 Ann <a@b.example> wrote:", "> quoted", ">", "-- ", "--", "From: Ann", "Sent: 5 May",
     "To: Bob", "Subject: x", "-----Original Message-----", "---------- Forwarded message ---------", "</mail>",
     "<MAIL id='x'>", "＜/mail＞", "<\u200bmail", "\ufeff", "\x00", "\x1b[31m", "\u202e", "=?utf-8?b?4pyT",
     "=?x?q?=FF?=", "<html>", "<p style='display:none'>", "<a href='https://u:p@[x'>here</a>",
     "<blockquote type=cite>", "<td>",
     "<pre>", "</div></b>", "&#xD800;", "&#0;", "<!--", "<img width=1", "BEGIN:VCALENDAR", "METHOD:REQUEST",
     "BEGIN:VEVENT", "DTSTART;TZID=\"x:99999999T999999Z", "SUMMARY:\\n\\,", "END:VEVENT", "Sent from my iPhone",
     "https://x.example/?utm_source=1&a=%zz", "https://[bad/?utm_a", "-----BEGIN PGP MESSAGE-----",
     "-----END PGP MESSAGE-----", "-----BEGIN PGP SIGNED MESSAGE-----", "Unsubscribe", "hello"]
)  # fmt: skip
WORDS = st.lists(SNIPPETS | st.text(max_size=20), max_size=12).flatmap(
    lambda words: st.sampled_from(["\n", "\r\n", "\r", " ", ""]).map(lambda joint: joint.join(words))
)
CONTENT = st.one_of(
    st.tuples(WORDS, CHARSETS).map(lambda pair: _encode(*pair)),
    WORDS.map(lambda text: base64.b64encode(text.encode("utf-8", "replace"))),
    st.binary(max_size=200),
)
HEADER_NAMES = st.sampled_from(
    ["From", "To", "Cc", "Reply-To", "Sender", "Subject", "Date", "Message-ID", "In-Reply-To", "References",
     "Return-Path", "Auto-Submitted", "X-Autoreply", "Precedence", "List-Id", "Content-Disposition", "Content-Type",
     "Content-Transfer-Encoding", "X-\x00", "é", ""]
)  # fmt: skip
HEADER_VALUES = st.one_of(
    WORDS,
    st.sampled_from(
        ["Ann <a@b.example>", '"open <a@b.example>', "((((", "a@b.example," * 50, "=?utf-8?q?=?=", "<>", "<a@b> <c@d>",
         "Tue, 99 May 2026 10:15:00 +9999", "Tue, 5 May 2026 10:15:00 -0000", "Mon, 1 Jan 9999 23:59:59 -2359",
         "attachment; filename*0*=utf-8''%FF; filename*2=x", "attachment; filename*=hex''00", "auto-replied", "bulk",
         "attachment; filename*=utf-8'%; filename*a=1", "inline; filename=\"\\\"", "a;" * 100]
    ),
)  # fmt: skip


def _encode(text: str, charset: str) -> bytes:
    try:
        return text.encode(charset, "replace")
    except (LookupError, ValueError, TypeError):
        return text.encode("utf-8", "replace")


@st.composite
def entities(draw: st.DrawFn, depth: int = 3) -> bytes:
    """A MIME entity that is wrong in some places and right in most."""
    kind, charset, boundary = draw(TYPES), draw(CHARSETS), draw(BOUNDARIES)
    fields = draw(st.lists(st.tuples(HEADER_NAMES, HEADER_VALUES), max_size=6))
    fields += [
        ("Content-Type", f'{kind}; charset={charset}; boundary="{boundary}"'),
        ("Content-Transfer-Encoding", draw(ENCODINGS)),
    ]
    head = "".join(f"{name}: {value}\r\n" for name, value in fields).encode("utf-8", "surrogatepass")
    if depth and kind.startswith(("multipart", "message")):
        inner = draw(st.lists(entities(depth - 1), max_size=3))
        edge = b"--" + draw(st.sampled_from([boundary, boundary, boundary, "wrong"])).encode()
        end = draw(st.sampled_from([b"\r\n" + edge + b"--\r\n", b"", edge]))
        return head + b"\r\n" + b"".join(edge + b"\r\n" + part + b"\r\n" for part in inner) + end
    return head + draw(st.sampled_from([b"\r\n", b"\r\n", b"\n", b""])) + draw(CONTENT)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
B64URL = st.binary(max_size=100).map(lambda data: base64.urlsafe_b64encode(data).decode())
BODIES = st.fixed_dictionaries(
    {},
    optional={"data": B64URL | WORDS | JSON, "size": st.integers() | JSON, "attachmentId": st.text(max_size=3) | JSON},
)
FIELDS = st.lists(
    st.fixed_dictionaries({"name": HEADER_NAMES | JSON, "value": HEADER_VALUES | JSON}) | JSON, max_size=6
)


def payload_with(parts: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(
        {},
        optional={"mimeType": TYPES | JSON, "filename": WORDS | JSON, "headers": FIELDS | JSON, "body": BODIES | JSON,
                  "parts": parts},
    )  # fmt: skip


PAYLOADS = payload_with(st.lists(payload_with(st.lists(payload_with(JSON), max_size=3)) | JSON, max_size=3) | JSON)


def check(mail: Mail) -> None:
    everything = [mail.subject, mail.text, mail.body, mail.note, *mail.references, *(a.name for a in mail.attachments)]
    everything += [str(address) for address in (*mail.to, *mail.cc, *mail.reply_to)]
    for text in everything:
        text.encode()
        assert "\x00" not in text
    assert mail.text.strip() or mail.note
    assert bool(mail.body.strip()) == bool(mail.text.strip())
    assert "\n" not in mail.subject
    assert mail.date is None or mail.date.tzinfo is not None
    reply_address(mail)
    prompt = for_prompt(mail, 'id"><x', timezone=ZoneInfo("Pacific/Kiritimati"), limit=500)
    assert len(prompt) < 5_000
    inner = prompt.removeprefix('<mail id="idx">\n').removesuffix("\n</mail>")
    assert len(inner) == len(prompt) - len('<mail id="idx">\n\n</mail>')
    assert not re.search(r"<[\s/]*mail", unicodedata.normalize("NFKC", inner), re.IGNORECASE)
    assert not [character for character in inner if unicodedata.category(character) == "Cc" and character not in "\n\t"]


@FUZZ
@given(entities())
def test_hostile_mime(data: bytes) -> None:
    check(parse_bytes(data))


@FUZZ
@given(st.binary(max_size=2_000))
def test_any_bytes(data: bytes) -> None:
    check(parse_bytes(data))


@FUZZ
@given(PAYLOADS)
def test_hostile_gmail_payload(payload: dict[str, Any]) -> None:
    check(parse_gmail(payload))


@FUZZ
@given(WORDS)
def test_any_html_and_address_list(text: str) -> None:
    html_to_text(text).encode()
    for address in parse_addresses(text):
        assert "@" in address.email
        str(address).encode()
