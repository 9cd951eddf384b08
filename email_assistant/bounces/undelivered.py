"""What mail systems reported of letters that we sent: noted beside the letter, and put to the person once.

A report counts if it names a letter of ours, by the id that its recipients see, and a recipient of it. Whoever knows
both can write one: so it changes nothing of what happened, and nothing is shown of it but our own record of the letter
and the address, in our own words.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypedDict
from uuid import UUID

from pydantic import TypeAdapter

from email_assistant.db.pool import Connection, Pool, fetched
from email_assistant.db.statements import statements
from email_assistant.errors import AssistantError
from email_assistant.inbox.kept import args_in
from email_assistant.mail.charset import listed
from email_assistant.mail.message import Delivery, DeliveryReport, Mail
from email_assistant.mail.prompt import mail_as_text
from email_assistant.mail.report import sentence
from email_assistant.outgoing.entry import WITHOUT_TEXT

MOST_A_DAY: Final = 20
"""Reports of an account that are put to the person within a day: more are forged, or tell of something else."""
_TOLD_BEFORE: Final = "a mail system's report on a letter of yours that tells nothing new"
_TOO_MANY: Final = f"a mail system's report on a letter of yours; more than {MOST_A_DAY} came within a day"
_FOR_GOOD: Final = "5"  # begins the code of what no other try can change (RFC 3463, 2)
_SIGNED: Final = "\n-- \n"  # begins a signature (RFC 3676, 4.3)
_COUNT: Final = ("failed", "delayed")
_SHOWN: Final = {True: "Not delivered to", False: "Delayed on its way to"}
_MAIL = TypeAdapter(Mail)
_SQL = statements("bounces", "undelivered.sql")


class LetterOnItsWay(AssistantError):
    """A report may be on a letter that is being sent, or whose sent copy has not come."""

    passes = "by itself"
    is_plain = True


class Undelivered(TypedDict):
    """What a run about a report is given."""

    says: str
    """Half a sentence for the person."""
    args: dict[str, Any] | None
    """Of the call by which the letter would be sent again; None: it is only to be known."""
    for_good: bool
    """An address was refused for good: as it is, nothing is to be sent to it."""
    to: str
    """Whom it did not reach."""
    subject: str
    """The letter's."""
    shown: str
    """The letter as the person reads it."""


@dataclass(frozen=True, slots=True)
class Report:
    """A mail that reports."""

    mail_id: str
    """Gmail's."""
    says: DeliveryReport


async def noted(
    conn: Connection, account_id: UUID, reports: Sequence[Report], copies: Mapping[str, Mail]
) -> dict[str, str | None]:
    """Note what reports say of letters of ours, in the caller's transaction.

    Args:
        copies: sent mail that is about to be stored with them, by Gmail's id.

    Returns:
        By the id of each that counts: why it needs no look; None: it is to be put to the person. One that may report
        on a letter which is just being sent, or whose copy Gmail has not given yet, counts for now.
    """
    named = sorted({letter for each in reports for letter in each.says.letters})
    if not named:
        return {}
    given = {"account": account_id, "named": named, "copies": list(copies)}
    may_count = await _may_count(conn, reports, copies, given)  # first: what changes in between is found by the other
    letters: dict[str, tuple[str, frozenset[str]]] = {}
    for row in await (await conn.execute(_SQL["letters"].encode(), given)).fetchall():
        copy = copies.get(row["copy"])
        recipients = row["recipients"] if copy is None else [each.email.lower() for each in _people(copy)]
        message_id = row["message_id"] or (copy and copy.message_id)
        if message_id:
            letters[message_id] = row["key"], frozenset(recipients)
    counted: dict[str, str | None] = dict.fromkeys(may_count)
    for report in reports:
        if meant := _meant(report.says, letters):
            counted[report.mail_id] = await _noted(conn, account_id, report.mail_id, *meant)
    return counted


async def _may_count(
    conn: Connection, reports: Sequence[Report], copies: Mapping[str, Mail], given: Mapping[str, object]
) -> set[str]:
    """Those that may be on a letter which is just being sent, or whose sent copy has not come."""
    found: set[str] = set()
    for row in await (await conn.execute(_SQL["on_its_way"].encode(), given)).fetchall():
        own = {*row["own"], *(copy.message_id for copy in copies.values())}
        found |= {each.mail_id for each in reports if not own.isdisjoint(each.says.letters)}
    for row in await (await conn.execute(_SQL["unread_copies"].encode(), given)).fetchall():
        recipients = frozenset(row["recipients"])
        found |= {each.mail_id for each in reports
                  if any(_one_of(recipients, told.addresses) for told in each.says.deliveries)}  # fmt: skip
    return found


def _meant(
    says: DeliveryReport, letters: Mapping[str, tuple[str, frozenset[str]]]
) -> tuple[str, dict[str, Delivery]] | None:
    """The letter, by its key in the ledger, and what is told of its recipients; None: the report does not count."""
    for key, recipients in (letters[each] for each in says.letters if each in letters):
        told = {
            address: each
            for each in says.deliveries
            if each.action in _COUNT and (address := _one_of(recipients, each.addresses))
        }
        if told:
            return key, told
    return None


async def _noted(
    conn: Connection, account_id: UUID, mail_id: str, key: str, told: Mapping[str, Delivery]
) -> str | None:
    """Why it needs no look."""
    given = {"account": account_id, "key": key, "report": mail_id}
    new = 0
    for recipient, delivery in sorted(told.items()):
        what = {"recipient": recipient, "action": delivery.action, "status": delivery.status}
        new += (await conn.execute(_SQL["note"].encode(), given | what)).rowcount
    if not new:
        return _TOLD_BEFORE
    [late] = await (await conn.execute(_SQL["shown_of_late"].encode(), given)).fetchall()
    return _TOO_MANY if late["n"] >= MOST_A_DAY else None


async def told_by(pool: Pool, account_id: UUID, mail_id: str, mail: Mail) -> dict[str, Any] | None:
    """What a run about a mail is given otherwise than one about any other; None: it is no report that counts, or none
    that told something new. Raises LetterOnItsWay."""
    if mail.report is None:
        return None
    if not (rows := await _rows(pool, account_id, Report(mail_id, mail.report))):
        return None
    letter = _MAIL.validate_python(rows[0]["content"])
    failed = [row for row in rows if row["action"] == "failed"]
    about = [row["recipient"] for row in failed or rows]
    people = frozenset(each.email.lower() for each in _people(letter))
    delivered = sorted(
        {
            address
            for each in mail.report.deliveries
            if each.action not in _COUNT and (address := _one_of(people, each.addresses))
        }
        - set(about)
    )
    says = sentence(((row["recipient"], row["action"], row["status"]) for row in rows), delivered)
    text = _text(args_in(rows[0]["args"]), letter)
    _, *rest = mail_as_text(letter).split("\n")
    told = Undelivered(
        says=says,
        args=_again(about, text) if failed else None,
        for_good=any(row["status"].startswith(_FOR_GOOD) for row in failed),
        to=", ".join(about),
        subject=letter.subject,
        shown="\n".join([f"{_SHOWN[bool(failed)]} {listed(about)}: {letter.subject or '(no subject)'}", *rest]),
    )
    reply = {
        "to": about[0],
        "also_to": [],
        "everyone": [],
        "more": 0,
        "addressed": [letter.sender.email.lower()] if letter.sender else [],
        "subject": letter.subject,
        "in_reply_to": letter.in_reply_to,
        "references": list(letter.references),
    }
    return {
        "undelivered": told,
        # Gmail takes no letter into a conversation that answers nothing in it.
        "thread": rows[0]["sent_thread"] if letter.in_reply_to else "",
        "reply": reply,
        "text": "",
        "sender": "",
        "invitation": None,
    }


async def _rows(pool: Pool, account_id: UUID, report: Report) -> Sequence[Mapping[str, Any]]:
    """What is noted of a report, with the letter. It may have come before its letter was known to be sent."""
    given = {"account": account_id, "report": report.mail_id}
    if rows := await fetched(pool, _SQL["told_by"], given):
        return rows
    async with pool.connection() as conn, conn.transaction():
        counts = await noted(conn, account_id, [report], {})
    rows = await fetched(pool, _SQL["told_by"], given)
    if not rows and counts.get(report.mail_id, _TOLD_BEFORE) is None:
        raise LetterOnItsWay("it may report on a letter of yours that was sent just now")
    return rows


def as_asked(told: Undelivered, question: Mapping[str, Any]) -> dict[str, Any]:
    """How the person is asked about a report. Nothing of it is a model's, to be told to do otherwise, or is learned
    from; and what was refused for good is not sent as it was."""
    without = ("accept", "response") if told["for_good"] else ("response",)
    allowed = [each for each in question["allowed"] if each not in without]
    return {**question, "allowed": allowed, "teaches": False, "because": told["says"]}


def _again(about: Sequence[str], text: str) -> dict[str, Any]:
    others = {"additional_recipients": list(about[1:])} if about[1:] else {}
    return {"response_text": text, "email_address": about[0], **others}


def _text(args: Mapping[str, Any], letter: Mail) -> str:
    """What the letter said, without the signature, which it gets anew; empty where that is kept no more."""
    text = str(args.get("response_text") or letter.text.partition(_SIGNED)[0].rstrip())
    return "" if text == WITHOUT_TEXT else text


def _people(mail: Mail) -> list[Any]:
    return [*mail.to, *mail.cc, *mail.bcc]


def _one_of(recipients: frozenset[str], addresses: Sequence[str]) -> str | None:
    """The recipient of ours that is meant: what the report says itself is shown nowhere."""
    return next((each for each in addresses if each in recipients), None)
