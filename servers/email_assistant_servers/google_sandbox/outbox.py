"""Drafts, and mail that leaves; and what a mail system writes to whoever has sent a letter to an address that is not
there (RFC 3464)."""

import sqlite3
import time
from collections.abc import Callable, Sequence
from email.utils import formataddr, formatdate, make_msgid, parseaddr

from . import mime, threads
from .aliases import Aliases
from .errors import invalid
from .mailbox import SandboxMailbox

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


_NOBODY = "@bounce.example"
"""Where nobody is: what is sent there comes back."""

AfterSend = Callable[[str], None]  # called with the id of a message that was just sent, inside its transaction


class Outbox:
    """What Gmail does with a message that the person writes."""

    def __init__(self, mailbox: SandboxMailbox, after_send: AfterSend) -> None:
        self._mailbox = mailbox
        self._store = mailbox.store
        self._after_send = after_send

    def send(self, raw: bytes, thread_id: str | None) -> str:
        """Send a message; its id. Raises ApiError (400 without recipient, 404 for an unknown thread)."""
        with self._store.transaction():
            return self._send(raw, self._joined_thread(raw, thread_id))

    def create_draft(self, raw: bytes, thread_id: str | None) -> str:
        """Keep a draft; its id. Raises ApiError (404) for an unknown thread."""
        with self._store.transaction() as db:
            message_id = self._insert_draft(raw, thread_id)
            draft_id = f"r{int(self._store.new_id(), 16)}"
            db.execute("INSERT INTO drafts VALUES (?, ?)", (draft_id, message_id))
        return draft_id

    def update_draft(self, draft_id: str, raw: bytes, thread_id: str | None) -> None:
        """Replace a draft's message by a new one; the draft keeps its id. Raises ApiError (404)."""
        with self._store.transaction() as db:
            old = self.draft_message(draft_id)["id"]
            new = self._insert_draft(raw, thread_id)
            db.execute("UPDATE drafts SET message_id = ? WHERE id = ?", (new, draft_id))
            self._mailbox.delete(old)

    def send_draft(self, draft_id: str) -> str:
        """Send a draft: it is gone, the sent message has a new id. Raises ApiError (400, 404)."""
        with self._store.transaction():
            draft = self.draft_message(draft_id)
            self.delete_draft(draft_id)
            return self._send(draft["raw"], draft["thread_id"])

    def delete_draft(self, draft_id: str) -> None:
        """Delete a draft for good. Raises ApiError (404)."""
        with self._store.transaction() as db:
            message_id = self.draft_message(draft_id)["id"]
            db.execute("DELETE FROM drafts WHERE id = ?", (draft_id,))
            self._mailbox.delete(message_id)

    def draft_message(self, draft_id: str) -> sqlite3.Row:
        """The message of a draft. Raises ApiError (404)."""
        query = "SELECT m.* FROM drafts d JOIN messages m ON m.id = d.message_id WHERE d.id = ?"
        return self._store.one(query, draft_id)

    def _insert_draft(self, raw: bytes, thread_id: str | None) -> str:
        thread = self._joined_thread(raw, thread_id)
        return self._mailbox.insert(raw, ["DRAFT"], _now(), thread)

    def _joined_thread(self, raw: bytes, thread_id: str | None) -> str | None:
        if thread_id is None:
            return None
        self._mailbox.thread(thread_id)
        with self._store.reading() as db:
            return thread_id if threads.accepts(db, thread_id, mime.head(raw)) else None

    def _send(self, raw: bytes, thread_id: str | None) -> str:
        node = mime.head(raw)
        readers = mime.addresses(node, "to", "cc", "bcc")
        if not readers:
            raise invalid("Recipient address required")
        replaced = {"Message-ID": f"<{self._store.new_id()}@mail.{self._mailbox.address.partition('@')[2]}>"}
        writer = mime.addresses(node, "from")
        if len(writer) != 1 or not Aliases(self._mailbox).may_send_from(writer[0]):
            name = parseaddr(mime.raw_header(node, "from"))[0] or self._mailbox.name
            replaced["From"] = formataddr((name, self._mailbox.address))
        if not mime.raw_header(node, "date"):
            replaced["Date"] = formatdate(localtime=False)
        labels = ["SENT", "INBOX", "UNREAD"] if self._mailbox.address in readers else ["SENT"]
        message_id = self._mailbox.insert(mime.with_headers(raw, replaced), labels, _now(), thread_id)
        self._after_send(message_id)
        if refused := [each for each in readers if each.endswith(_NOBODY)]:
            sent = self._mailbox.message(message_id)
            report = not_delivered(sent["raw"], self._mailbox.address, refused)
            self._mailbox.insert(report, ["INBOX", "UNREAD"], _now(), sent["thread_id"])
        return message_id


def _now() -> int:
    return int(time.time() * 1000)
