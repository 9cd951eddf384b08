"""The people of the script: they write at the start, write again later, and answer once when they are answered."""

import threading
import time
from collections.abc import Iterable
from datetime import UTC, date, datetime
from email import policy
from email.message import EmailMessage
from email.utils import format_datetime, parseaddr
from string import Template
from zoneinfo import ZoneInfo

from . import mime, threads
from .calendars import Calendars
from .mailbox import SandboxMailbox
from .script import ME, SCRIPT, ScriptedMail, days, spoken

_ARRIVAL = "arrival:"
_ANSWER = "answer:"
_MAILS = {mail.key: mail for mail in (*SCRIPT.initial, *SCRIPT.later)}


def _address(sender: str) -> str:
    return parseaddr(sender)[1]


def _identity(key: str, sender: str) -> str:
    return f"{key}@{_address(sender).partition('@')[2]}"


_BY_IDENTITY = {_identity(mail.key, mail.sender): mail for mail in _MAILS.values() if mail.sender != ME}


class Correspondents:
    """Delivers the script's mails into one mailbox, each of them once ever."""

    def __init__(self, mailbox: SandboxMailbox, zone: ZoneInfo, pace: float) -> None:
        """`pace`: seconds between later mails, and before an answer; 0: no later mails, and answers at once."""
        self._mailbox = mailbox
        self._store = mailbox.store
        self._zone = zone
        self._pace = pace
        self._wake = threading.Event()
        self._stopping = False
        self._clock = threading.Thread(target=self._run, name="correspondents", daemon=True)

    def begin(self, calendars: Calendars) -> int:
        """Fill an empty mailbox and its calendars; the number of messages stored (0 if that was done before)."""
        with self._store.transaction():
            if self._store.fact("story_began") is not None:
                return 0
            now = datetime.now(UTC)
            self._store.remember("story_began", now.isoformat())
            for mail in SCRIPT.initial:
                self._deliver(mail, now - mail.ago)
            private = calendars.create({"summary": SCRIPT.private_calendar})
            calendars.change_entry(private.id, {"selected": True})
            for appointment in SCRIPT.appointments:
                start, end = appointment.moments(self._days())
                told = {
                    "summary": appointment.summary,
                    "location": appointment.location,
                    "status": "tentative" if appointment.tentative else "confirmed",
                    "start": _event_time(start, self._zone),
                    "end": _event_time(end, self._zone),
                }
                (private if appointment.private else calendars.primary).insert(told)
        return len(SCRIPT.initial)

    def start(self) -> None:
        """Let the later mails come, from now on."""
        with self._store.transaction() as db:
            db.execute("DELETE FROM deliveries WHERE NOT delivered AND name LIKE ?", (_ARRIVAL + "%",))
            here = {row["name"] for row in db.execute("SELECT name FROM deliveries")}
            waiting = [name for mail in SCRIPT.later if (name := _ARRIVAL + mail.key) not in here]
            if self._pace > 0:
                due = [(name, time.time() + self._pace * n) for n, name in enumerate(waiting, start=1)]
                db.executemany("INSERT INTO deliveries (name, due) VALUES (?, ?)", due)
        self._clock.start()

    def stop(self) -> None:
        """Let nothing come any more; what is due waits for the next start."""
        self._stopping = True
        self._wake.set()
        self._clock.join()

    def after_send(self, message_id: str) -> None:
        """Have the people whom a message answers write back: once for each mail of theirs, and the newest counts."""
        sent = self._mailbox.message(message_id)
        recipients = mime.addresses(mime.head(sent["raw"]), "to", "cc", "bcc")
        with self._store.transaction() as db:
            for mail in self._newest_by_sender(sent["thread_id"]):
                if mail.answer and _address(mail.sender) in recipients:
                    db.execute(
                        "INSERT OR IGNORE INTO deliveries (name, due, in_reply_to) VALUES (?, ?, ?)",
                        (_ANSWER + mail.key, time.time() + self._pace, message_id),
                    )
            if self._pace == 0:
                self._deliver_due()
        self._wake.set()

    def _newest_by_sender(self, thread_id: str) -> Iterable[ScriptedMail]:
        newest = {}
        for row in self._mailbox.thread(thread_id):
            if mail := _BY_IDENTITY.get(row["identity"]):
                newest[mail.sender] = mail
        return newest.values()

    def _run(self) -> None:
        while not self._stopping:
            with self._store.transaction():
                self._deliver_due()
            self._wake.wait(self._seconds_to_next())
            self._wake.clear()

    def _seconds_to_next(self) -> float | None:
        due = self._store.one("SELECT min(due) AS due FROM deliveries WHERE NOT delivered")["due"]
        return None if due is None else max(0.0, due - time.time())

    def _deliver_due(self) -> None:
        with self._store.transaction() as db:
            due = db.execute(
                "SELECT * FROM deliveries WHERE NOT delivered AND due <= ? ORDER BY due", (time.time(),)
            ).fetchall()
            for row in due:
                kind, _, key = row["name"].partition(":")
                if kind + ":" == _ARRIVAL:
                    self._deliver(_MAILS[key], datetime.now(UTC))
                else:
                    self._answer(_MAILS[key], row["in_reply_to"])
                db.execute("UPDATE deliveries SET delivered = 1 WHERE name = ?", (row["name"],))

    def _deliver(self, mail: ScriptedMail, at: datetime) -> None:
        message = self._envelope(mail, at)
        if mail.subject is not None:
            message["Subject"] = self._filled(mail.subject)
        for name, value in (mail.headers or {}).items():
            message[name] = value
        if mail.reply_to is not None:
            self._follow(message, self._ancestors(mail))
        message.set_content(self._filled(mail.text), charset=mail.charset, cte="quoted-printable")
        if mail.html is not None:
            message.add_alternative(mail.html, subtype="html")
        if mail.attachment is not None:
            message.add_attachment(mail.attachment.csv, subtype="csv", filename=mail.attachment.name)
        self._insert(message, at, mail.sender == ME, mail.unread, mail.labels)

    def _answer(self, mail: ScriptedMail, sent_id: str) -> None:
        at = datetime.now(UTC)
        sent = mime.parse(self._mailbox.message(sent_id)["raw"])
        subject = mime.header(sent.node, "subject")
        message = self._envelope(mail, at, suffix="-answer")
        message["Subject"] = subject if subject.lower().startswith("re:") else f"Re: {subject}"
        self._follow(
            message, [*mime.references(sent.node), *mime.message_ids(mime.raw_header(sent.node, "message-id"))]
        )
        quoted = "".join(f"> {line}\n" for line in mime.readable_text(sent).strip().splitlines())
        message.set_content(
            f"{mail.answer}\nOn {at.astimezone(self._zone):%d.%m.%Y %H:%M}, {self._mailbox.name} wrote:\n{quoted}"
        )
        self._insert(message, at, mine=False, unread=True)

    def _envelope(self, mail: ScriptedMail, at: datetime, suffix: str = "") -> EmailMessage:
        message = EmailMessage(policy=policy.SMTP)
        sender = self._sender(mail)
        message["Message-ID"] = f"<{_identity(mail.key + suffix, sender)}>"
        message["Date"] = format_datetime(at.astimezone(self._zone))
        message["From"] = sender
        message["To"] = mail.to or f"{self._mailbox.name} <{self._mailbox.address}>"
        return message

    def _insert(
        self, message: EmailMessage, at: datetime, mine: bool, unread: bool, extra: tuple[str, ...] = ()
    ) -> None:
        labels = ["SENT"] if mine else ["INBOX", *(["UNREAD"] if unread else []), *extra]
        with self._store.transaction() as db:
            thread_id = threads.of_incoming(db, mime.head(message.as_bytes()))
            self._mailbox.insert(message.as_bytes(), labels, int(at.timestamp() * 1000), thread_id)

    def _follow(self, message: EmailMessage, ancestors: list[str]) -> None:
        message["In-Reply-To"] = f"<{ancestors[-1]}>"
        message["References"] = " ".join(f"<{one}>" for one in dict.fromkeys(ancestors))

    def _ancestors(self, mail: ScriptedMail) -> list[str]:
        if mail.reply_to is None:
            return []
        parent = _MAILS[mail.reply_to]
        return [*self._ancestors(parent), _identity(parent.key, self._sender(parent))]

    def _sender(self, mail: ScriptedMail) -> str:
        return f"{self._mailbox.name} <{self._mailbox.address}>" if mail.sender == ME else mail.sender

    def _days(self) -> dict[str, date]:
        began = datetime.fromisoformat(self._store.fact("story_began") or "")
        return days(began.astimezone(self._zone).date())

    def _filled(self, text: str) -> str:
        return Template(text).substitute({f"{name}_day": spoken(day) for name, day in self._days().items()})


def _event_time(moment: date, zone: ZoneInfo) -> dict[str, str]:
    if isinstance(moment, datetime):
        return {"dateTime": moment.replace(tzinfo=zone).isoformat(), "timeZone": zone.key}
    return {"date": moment.isoformat()}
