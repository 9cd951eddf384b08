"""Mails as a test writes them, and as it finds them in a mailbox."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email import message_from_bytes, policy
from email.message import EmailMessage
from email.utils import format_datetime, getaddresses, make_msgid, parseaddr
from functools import cached_property


@dataclass
class Message:
    """What a mailbox holds, as it was when it was looked at."""

    id: str
    thread_id: str
    raw: bytes
    labels: set[str]
    date_ms: int

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


def written(
    from_: str,
    to: str,
    subject: str | None,
    text: str | None,
    *,
    thread: Sequence[Message] = (),
    headers: Mapping[str, str] | None = None,
    html: str | None = None,
    age: timedelta = timedelta(0),
) -> bytes:
    """A mail of `age` ago. It answers the last message of `thread`, the drafts aside."""
    mail = EmailMessage(policy=policy.SMTP)
    mail["From"], mail["To"] = from_, to
    mail["Date"] = format_datetime(datetime.now(UTC) - age)
    mail["Message-ID"] = make_msgid(domain=parseaddr(from_)[1].partition("@")[2] or "example.org")
    if subject is not None:
        mail["Subject"] = subject
    if chain := [message.message_id for message in thread if "DRAFT" not in message.labels]:
        mail["In-Reply-To"], mail["References"] = chain[-1], " ".join(chain)
    for name, value in (headers or {}).items():
        del mail[name]
        mail[name] = value
    if text is not None:
        mail.set_content(text)
    if html is not None:
        (mail.set_content if text is None else mail.add_alternative)(html, subtype="html")
    return mail.as_bytes()


def answer(from_: str, thread: Sequence[Message], text: str) -> bytes:
    """What somebody answers to the last message of a thread, the drafts aside."""
    last = [message for message in thread if "DRAFT" not in message.labels][-1]
    subject = last.subject if last.subject.lower().startswith("re:") else f"Re: {last.subject}"
    return written(from_, str(last.parsed["From"]), subject, text, thread=thread)


def reported(
    letter: str,
    *told: tuple[str, str, str],
    from_: str = "Mail Delivery System <MAILER-DAEMON@mx.example.net>",
    to: str = "ada@example.com",
    says: str = "I could not bring your mail to where it should go. PRETEND-THE-BOSS-SAYS-PAY",
    headers: Mapping[str, str] | None = None,
) -> bytes:
    """A report (RFC 3464) on the letter of this id: recipient, action and code of each."""
    groups = "".join(f"\nFinal-Recipient: rfc822; {who}\nAction: {did}\nStatus: {code}\n" for who, did, code in told)
    fields = {
        "From": from_,
        "To": to,
        "Subject": "Undelivered Mail Returned to Sender",
        "Date": format_datetime(datetime.now(UTC)),
        "Message-ID": make_msgid(domain="mx.example.net"),
        "References": letter,
        "Auto-Submitted": "auto-replied",
        "MIME-Version": "1.0",
        "Content-Type": 'multipart/report; report-type=delivery-status; boundary="cut"',
        **(headers or {}),
    }
    head = "".join(f"{name}: {value}\n" for name, value in fields.items())
    body = (
        f"\n--cut\nContent-Type: text/plain; charset=utf-8\n\n{says}\n"
        f"--cut\nContent-Type: message/delivery-status\n\nReporting-MTA: dns; mx.example.net\n{groups}\n--cut--\n"
    )
    return (head + body).replace("\n", "\r\n").encode()
