"""Google's messages as rows of `mails`."""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from psycopg.types.json import Jsonb
from pydantic import TypeAdapter

from email_assistant.accounts.accounts import Account
from email_assistant.db.pool import Connection, Pool
from email_assistant.google.gmail import Message, MessageRef
from email_assistant.mail.message import Mail
from email_assistant.mail.parse import parse_gmail

_LEFT_ALONE = frozenset({"DRAFT", "SPAM", "TRASH", "CHAT"})
_MAIL = TypeAdapter(Mail)


async def store(conn: Connection, account: Account, messages: Iterable[Message]) -> set[UUID]:
    """Store messages that aren't known yet, in the caller's transaction.

    Returns:
        The conversations in which there is something to do now.
    """
    awake: set[UUID] = set()
    for message in messages:
        if message.labels & _LEFT_ALONE:
            continue
        mail = parse_gmail(message.payload)
        reason = _why_not_triaged(account, message, mail)
        thread_id = await _thread(conn, account, message.thread_id)
        state = "done" if reason else "new"
        if await _insert(conn, account, thread_id, message, mail, state, reason) and reason is None:
            awake.add(thread_id)
    return awake


async def store_unreadable(conn: Connection, account: Account, ref: MessageRef, reason: str) -> None:
    """Store that there is a mail which Gmail would not give, so that it is seen."""
    message = Message(ref.id, ref.thread_id, frozenset(), datetime.now(UTC), 0, {}, 0)
    thread_id = await _thread(conn, account, ref.thread_id)
    await _insert(conn, account, thread_id, message, parse_gmail({}), "failed", reason, readable=False)


async def store_earlier(pool: Pool, account: Account, messages: Iterable[Message]) -> None:
    """Store the part of a thread that came before the account was watched; it makes no work.

    What came later is left to the synchronisation, which makes work of it.
    """
    async with pool.connection() as conn, conn.transaction():
        for message in messages:
            if message.internal_date < account.triage_since and not message.labels & _LEFT_ALONE:
                thread_id = await _thread(conn, account, message.thread_id)
                mail = parse_gmail(message.payload)
                await _insert(conn, account, thread_id, message, mail, "done", "earlier mail of a conversation")


async def unknown(pool: Pool, account_id: UUID, refs: Iterable[MessageRef]) -> list[MessageRef]:
    """Those of the messages that aren't stored, in their order."""
    by_id = {ref.id: ref for ref in refs}
    async with pool.connection() as conn:
        cursor = await conn.execute(
            "select gmail_id from mails where account_id = %s and gmail_id = any(%s)", (account_id, list(by_id))
        )
        known = {row["gmail_id"] for row in await cursor.fetchall()}
    return [ref for ref in by_id.values() if ref.id not in known]


def _why_not_triaged(account: Account, message: Message, mail: Mail) -> str | None:
    if message.internal_date < account.triage_since:
        return "from before the account was connected"
    if "SENT" in message.labels:
        return None
    if "INBOX" not in message.labels:
        return "not in the inbox"
    if mail.sender and mail.sender.email.lower() == account.address:
        return "from the account's own address"
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


async def _insert(
    conn: Connection,
    account: Account,
    thread_id: UUID,
    message: Message,
    mail: Mail,
    state: str,
    reason: str | None,
    *,
    readable: bool = True,
) -> bool:
    # SENT alone says that the account wrote it: anybody can put its address into From.
    own = "SENT" in message.labels
    cursor = await conn.execute(
        """insert into mails (account_id, gmail_id, user_id, thread_id, own, sender, subject, content, readable,
                              received_at, state, reason)
           values (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s) on conflict do nothing""",
        (
            account.id,
            message.id,
            account.user_id,
            thread_id,
            own,
            _storable(mail.sender.email.lower() if mail.sender else ""),
            _storable(mail.subject),
            Jsonb(_storable(_MAIL.dump_python(mail, mode="json"))),
            readable,
            message.internal_date,
            state,
            "sent by the account itself" if own else reason,
        ),
    )
    return cursor.rowcount == 1


def _storable(value: Any) -> Any:
    """Postgres takes neither NUL nor half a surrogate pair, and mail may hold both."""
    match value:
        case str():
            return value.replace("\0", "").encode("utf-8", "replace").decode()
        case list():
            return [_storable(item) for item in value]
        case dict():
            return {key: _storable(item) for key, item in value.items()}
        case _:
            return value
