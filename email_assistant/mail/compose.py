"""A mail as RFC 5322 bytes, and how to recognise it again."""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from datetime import datetime
from email import charset, policy
from email.header import Header
from email.mime.text import MIMEText
from email.utils import format_datetime
from hashlib import sha256

from email_assistant.mail.address import Address, address_of, is_valid_address, parse_addresses
from email_assistant.mail.charset import plain, readable
from email_assistant.mail.message import Mail

_MAX_REFERENCES = 20
_MAX_MESSAGE_ID = 900  # characters; a line of a message may have 998 (RFC 5322, 2.1.1)

_MAX_WORD = 900
"""Characters in which a line can't be folded, for there is no blank; of longer ones, encoded words are made."""

_LONG_WORD = re.compile(rf"\S{{{_MAX_WORD}}}")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_REPLY_PREFIX = re.compile(r"(?:\s*re(?:\[\d{1,3}\])?\s*:)+", re.IGNORECASE)
_MESSAGE_ID = re.compile(r"<[!-;=?-~]+>")
_NAME_SPECIALS = re.compile(r"[^A-Za-z0-9 !#$%&\'*+/=?^_`{|}~-]")


def compose_mail(
    *,
    to: Sequence[str | Address],
    cc: Sequence[str | Address] = (),
    sender: Address,
    subject: str,
    text: str,
    in_reply_to: str | None = None,
    references: Sequence[str] = (),
    signature: str | None = None,
    date: datetime,
) -> bytes:
    """A plain-text mail with CRLF line ends. `references` are those of the mail that `in_reply_to` names; Gmail threads
    by both, and by the subject.

    Raises ValueError for a recipient that isn't one valid address, for no recipient in `to`, for a naive `date`, and
    for control characters in anything that goes into a header."""
    if not to:
        raise ValueError("a mail needs a recipient")
    if date.tzinfo is None:
        raise ValueError("the date has no timezone")
    message = _body(with_signature(text, signature))
    message["From"] = _mailbox(sender)
    message["To"] = ", ".join(map(_mailbox, to))
    if cc:
        message["Cc"] = ", ".join(map(_mailbox, cc))
    message["Subject"] = _encoded(subject)
    message["Date"] = format_datetime(date)
    parent = _usable_ids([in_reply_to] if in_reply_to else [])
    if parent:
        message["In-Reply-To"] = parent[0]
    if chain := _bounded(_usable_ids([*references, *parent])):
        message["References"] = " ".join(chain)
    return message.as_bytes(policy=policy.compat32.clone(linesep="\r\n"))


def with_signature(text: str, signature: str | None) -> str:
    """The text as it is sent; one that ends with the signature already is signed once."""
    own = (signature or "").strip()
    is_signed = (words := _words(own)) and _words(text)[-len(words) :] == words
    return f"{text.rstrip()}\n\n-- \n{own}\n" if own and not is_signed else text


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.casefold())


def without_signature(text: str, signature: str | None) -> str:
    """The text that `with_signature` made this of, as far as the person has left the signature as it was."""
    whole = text.rstrip()
    for line in ("-- ", "--"):
        tail = f"{line}\n{signature.strip()}" if signature and signature.strip() else ""
        if tail and whole.endswith(tail):
            return whole.removesuffix(tail).rstrip()
    return whole


def reply_subject(subject: str) -> str:
    """`Re: ` and the thread's subject as it is shown; other prefixes stay: Gmail threads by what follows `Re:`."""
    shown = plain(subject)
    return f"Re: {_REPLY_PREFIX.sub('', shown, count=1).strip() if _REPLY_PREFIX.match(shown) else shown.strip()}"


def fingerprint(recipients: Iterable[str], text: str) -> str:
    """A hash of who gets a mail and what it says, blind to what transports change.

    Recipients count without names, letter case and order; text without line-end style, trailing blanks, empty lines
    at either end, control characters and Unicode composition."""
    addresses = sorted({address_of(recipient) for recipient in recipients})
    lines = unicodedata.normalize("NFC", readable(text)).split("\n")
    body = "\n".join(line.rstrip() for line in lines).strip("\n")
    return sha256("\0".join([*addresses, "", body]).encode()).hexdigest()


def mail_fingerprint(mail: Mail) -> str:
    """The fingerprint of a parsed mail: equal to that of the recipients and `with_signature` text it was made of."""
    return fingerprint((address.email for address in (*mail.to, *mail.cc)), mail.text)


def _body(text: str) -> MIMEText:
    encoding = charset.Charset("utf-8")
    encoding.body_encoding = charset.QP  # readable in "show original", and smaller than base64 for most languages
    return MIMEText(readable(text), "plain", encoding)  # type: ignore[arg-type]  # documented: a Charset is accepted


def _mailbox(recipient: str | Address) -> str:
    if isinstance(recipient, str):
        _refuse_control(recipient)
        parsed = parse_addresses(recipient)
        if len(parsed) != 1:
            raise ValueError(f"not one address: {recipient!r}")
        recipient = parsed[0]
    _refuse_control(recipient.name)
    if not is_valid_address(recipient.email):
        raise ValueError(f"not an address to send to: {recipient.email!r}")
    if not recipient.name.strip():
        return recipient.email
    return f"{_phrase(recipient.name.strip())} <{recipient.email}>"


def _phrase(name: str) -> str:
    if _must_be_encoded(name):
        return _encoded(name)
    if _NAME_SPECIALS.search(name):
        return '"' + re.sub(r'(["\\])', r"\\\1", name) + '"'
    return name


def _encoded(value: str) -> str:
    """The value as ASCII, in encoded words where it must be."""
    _refuse_control(value)
    if not _must_be_encoded(value):
        return value
    return Header(value, "utf-8", maxlinelen=70).encode(linesep="")


def _must_be_encoded(value: str) -> bool:
    return not value.isascii() or "=?" in value or _LONG_WORD.search(value) is not None


def _refuse_control(value: str) -> None:
    if _CONTROL.search(value):
        raise ValueError("control characters in a header field")


def _usable_ids(ids: Iterable[str]) -> list[str]:
    """Well-formed message ids, each once; the mails of others hold other things too."""
    found = []
    for message_id in ids:
        _refuse_control(message_id)
        if len(message_id) <= _MAX_MESSAGE_ID and _MESSAGE_ID.fullmatch(message_id.strip()):
            found.append(message_id.strip())
    return list(dict.fromkeys(found))


def _bounded(ids: list[str]) -> list[str]:
    """The first id, which names the thread, and the last ones."""
    return ids if len(ids) <= _MAX_REFERENCES else [ids[0], *ids[1 - _MAX_REFERENCES :]]
