"""What a mail system writes to whoever has sent a letter to an address that is not there (RFC 3464)."""

from collections.abc import Sequence
from email.utils import formatdate, make_msgid

from . import mime

_REPORT = """\
From: Mail Delivery Subsystem <mailer-daemon@googlemail.com>
To: {address}
Subject: Delivery Status Notification (Failure)
Date: {date}
Message-ID: {own_id}
In-Reply-To: {letter_id}
References: {letter_id}
Auto-Submitted: auto-replied
X-Failed-Recipients: {recipients}
MIME-Version: 1.0
Content-Type: multipart/report; report-type=delivery-status; boundary="report"

--report
Content-Type: text/plain; charset=utf-8

Your message could not be delivered to {recipients}: there is no such address.

--report
Content-Type: message/delivery-status

Reporting-MTA: dns; mx.bounce.example
{blocks}
--report--
"""
_BLOCK = """
Final-Recipient: rfc822; {recipient}
Action: failed
Status: 5.1.1
"""


def not_delivered(letter: bytes, address: str, recipients: Sequence[str]) -> bytes:
    """The report to `address` that a letter did not reach these recipients."""
    report = _REPORT.format(
        address=address,
        date=formatdate(),
        own_id=make_msgid(domain="mail.gmail.com"),
        letter_id=mime.raw_header(mime.head(letter), "message-id"),
        recipients=", ".join(recipients),
        blocks="".join(_BLOCK.format(recipient=each) for each in recipients),
    )
    return report.replace("\n", "\r\n").encode()
