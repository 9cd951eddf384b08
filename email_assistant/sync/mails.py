"""Google's messages as rows of `mails`."""

from collections.abc import Iterable
from datetime import datetime
from uuid import UUID

from psycopg.types.json import Jsonb
from pydantic import TypeAdapter

from email_assistant.accounts.accounts import Account
from email_assistant.db.pool import Connection, Pool
from email_assistant.google.gmail import Message
from email_assistant.mail.message import Mail
from email_assistant.mail.parse import parse_gmail

_LEFT_ALONE = frozenset({"DRAFT", "SPAM", "TRASH", "CHAT"})
_MAIL = TypeAdapter(Mail)


async def store(conn: Connection, account: Account, messages: Iterable[Message], *, work_since: datetime) -> set[UUID]:
    """Store messages that aren't known yet, in the caller's transaction.

    Args:
        work_since: older mail is kept for its text and addresses only.

    Returns:
        The conversations in which there is something to do now.
    """
    awake: set[UUID] = set()
    for message in messages:
        if message.labels & _LEFT_ALONE:
            continue
        reason = _why_not_triaged(message, work_since)
        thread_id = await _thread(conn, account, message.thread_id)
        if await _insert(conn, account, thread_id, message, reason) and reason is None:
            awake.add(thread_id)
    return awake


async def store_earlier(pool: Pool, account: Account, messages: Iterable[Message]) -> None:
    """Store the rest of a thread that is being worked on; it makes no work of its own."""
    async with pool.connection() as conn, conn.transaction():
        for message in messages:
            if not message.labels & _LEFT_ALONE:
                thread_id = await _thread(conn, account, message.thread_id)
                await _insert(conn, account, thread_id, message, "earlier mail of a conversation")


async def unknown(pool: Pool, account_id: UUID, gmail_ids: list[str]) -> list[str]:
    """Those of the ids that aren't stored, in their order."""
    async with pool.connection() as conn:
        cursor = await conn.execute(
            "select gmail_id from mails where account_id = %s and gmail_id = any(%s)", (account_id, gmail_ids)
        )
        known = {row["gmail_id"] for row in await cursor.fetchall()}
    return [i for i in dict.fromkeys(gmail_ids) if i not in known]


def _why_not_triaged(message: Message, work_since: datetime) -> str | None:
    if message.internal_date < work_since:
        return "from before the account was connected"
    if "SENT" not in message.labels and "INBOX" not in message.labels:
        return "not in the inbox"
    return None


async def _thread(conn: Connection, account: Account, gmail_id: str) -> UUID:
    cursor = await conn.execute(
        """insert into threads (user_id, account_id, gmail_id) values (%s, %s, %s)
           on conflict (account_id, gmail_id) do update set gmail_id = excluded.gmail_id returning id""",
        (account.user_id, account.id, gmail_id),
    )
    row = await cursor.fetchone()
    assert row is not None
    return UUID(str(row["id"]))


async def _insert(conn: Connection, account: Account, thread_id: UUID, message: Message, reason: str | None) -> bool:
    mail = parse_gmail(message.payload)
    sender = mail.sender.email.lower() if mail.sender else ""
    own = "SENT" in message.labels or sender == account.address
    cursor = await conn.execute(
        """insert into mails (account_id, gmail_id, user_id, thread_id, own, sender, subject, content, received_at,
                              state, reason)
           values (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s) on conflict do nothing""",
        (
            account.id,
            message.id,
            account.user_id,
            thread_id,
            own,
            sender,
            mail.subject,
            Jsonb(_MAIL.dump_python(mail, mode="json")),
            message.internal_date,
            "done" if reason else "new",
            "sent by the account itself" if own else reason,
        ),
    )
    return cursor.rowcount == 1
