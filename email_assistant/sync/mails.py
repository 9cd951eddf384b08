"""Google's messages as rows of `mails`."""

import asyncio
import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from psycopg.types.json import Jsonb
from pydantic import TypeAdapter

from email_assistant.accounts.account import Account, UnknownAccount
from email_assistant.accounts.rows import COLUMNS, account_in
from email_assistant.bounces.undelivered import Report, noted
from email_assistant.db import mails, threads
from email_assistant.db.pool import Connection, Pool, fetched
from email_assistant.db.values import storable
from email_assistant.google.gmail import Message, MessageRef
from email_assistant.mail.message import Mail
from email_assistant.mail.parse import parse_gmail
from email_assistant.sync.fetch import NOT_OURS, News, Withheld

_NOT_IN_INBOX = "not in the inbox"
_EARLIER = "earlier mail of a conversation"
_GONE = "it was deleted in Gmail, or is spam there, and was never read"
_MAIL = TypeAdapter(Mail)


@dataclass(frozen=True, slots=True)
class NewMail:
    """A message as it is to be stored, if it isn't known yet."""

    message: Message
    mail: Mail
    content: bytes
    """The mail as JSON."""
    reason: str | None
    """Why there is nothing to do about it; None: there is."""
    readable: bool = True

    @property
    def state(self) -> str:
        return "failed" if not self.readable else "done" if self.reason else "new"


async def read(account: Account, messages: Iterable[Message], withheld: Iterable[Withheld] = ()) -> list[NewMail]:
    """What is to be stored of these messages. A mail may be long: it is read beside the event loop.

    Args:
        withheld: mails that Gmail would not give; they are stored so that they are seen, and asked for again.
    """
    found = [await asyncio.to_thread(_read, account, message) for message in messages if not message.labels & NOT_OURS]
    for each in withheld:
        message, mail = Message(each.ref.id, each.ref.thread_id, frozenset(), datetime.now(UTC), 0, {}), parse_gmail({})
        found.append(NewMail(message, mail, _as_json(mail), each.reason, readable=False))
    return found


def _read(account: Account, message: Message) -> NewMail:
    mail = parse_gmail(message.payload)
    return NewMail(message, mail, _as_json(mail), _why_not_triaged(account, message, mail))


def _as_json(mail: Mail) -> bytes:
    return json.dumps(storable(_MAIL.dump_python(mail, mode="json"))).encode()


async def store(conn: Connection, account: Account, found: Iterable[NewMail]) -> set[UUID]:
    """Store messages that aren't known yet, in the caller's transaction.

    Returns:
        The conversations in which there is something to do now.
    """
    new = list(found)
    if not new:
        return set()
    counted = await _reports(conn, account, new)
    # A report on a letter of ours is a conversation of its own, wherever Gmail files it: it comes into no prompt, and
    # nothing that waits makes way for it. Gmail calls a conversation after its first message.
    of = [each.message.id if each.message.id in counted else each.message.thread_id for each in new]
    ids = await threads.insert(conn, account.user_id, account.id, sorted(set(of)))
    new = [replace(each, reason=counted.get(each.message.id, each.reason)) for each in new]
    rows = [{**_row(each), "thread_id": ids[thread]} for each, thread in zip(new, of, strict=True)]
    return await mails.insert(conn, account.user_id, account.id, rows)


async def _reports(conn: Connection, account: Account, new: Sequence[NewMail]) -> dict[str, str | None]:
    """The reports among them that count, by Gmail's id, and why one needs no look."""
    others = [each for each in new if "SENT" not in each.message.labels]
    since = [each for each in others if each.message.internal_date >= account.triage_since]
    reports = [Report(each.message.id, each.mail.report) for each in since if each.mail.report]
    copies = {each.message.id: each.mail for each in new if "SENT" in each.message.labels}
    return await noted(conn, account.id, reports, copies) if reports else {}


# Of such a mail no sender is known, and senders have an index.
_TO_ASK_AGAIN = """m.sender = '' and not m.readable and m.state = 'failed'
                   and m.received_at + back_off(m.tries, '1 minute', '1000 years') <= clock_timestamp()"""


_KNOWN = """select gmail_id from mails where account_id = %(account)s and gmail_id = any(%(mails)s)
union all select gmail_id from forgotten where account_id = %(account)s and gmail_id = any(%(mails)s)"""


async def some_to_ask_again(conn: Connection, account_ids: Collection[UUID]) -> set[UUID]:
    """The accounts with mail that `to_ask_again` gives."""
    query = f"""select id from unnest(%s::uuid[]) as of (id)
                where exists (select from mails m where m.account_id = of.id and {_TO_ASK_AGAIN})"""
    cursor = await conn.execute(query.encode(), (list(account_ids),))
    return {row["id"] for row in await cursor.fetchall()}


async def to_look_at(pool: Pool, account_id: UUID) -> tuple[Account, bool]:
    """An account, and whether it has mail that `to_ask_again` gives. Raises UnknownAccount."""
    again = f"exists (select from mails m where m.account_id = a.id and {_TO_ASK_AGAIN}) as asks_again"
    rows = await fetched(pool, f"select {COLUMNS}, {again} from accounts a where a.id = %s", (account_id,))
    if not rows:
        raise UnknownAccount(f"account {account_id} is gone")
    return account_in(rows[0]), rows[0]["asks_again"]


async def to_ask_again(pool: Pool, account_id: UUID, limit: int) -> list[MessageRef]:
    """Mails that Gmail did not give, and that are due to be asked for; each time after twice as long."""
    query = f"""select m.gmail_id, t.gmail_id as thread from mails m join threads t on t.id = m.thread_id
                where m.account_id = %s and {_TO_ASK_AGAIN} order by m.received_at limit %s"""
    return [MessageRef(row["gmail_id"], row["thread"]) for row in await fetched(pool, query, (account_id, limit))]


async def store_asked_again(
    conn: Connection,
    account: Account,
    asked: Iterable[MessageRef],
    given: Iterable[NewMail],
    withheld: Iterable[MessageRef],
) -> set[UUID]:
    """Store what came of mails that Gmail did not give before, in the caller's transaction.

    Args:
        given: of those that were asked for, the ones that Gmail gave; but for the `withheld`, the others are gone.

    Returns:
        The conversations in which there is something to do now.
    """
    await conn.execute(
        "select from threads where account_id = %s and gmail_id = any(%s) order by id for no key update",
        (account.id, [ref.thread_id for ref in asked]),
    )
    await mails.asked_again(conn, account.id, [ref.id for ref in withheld])
    awake = set()
    for each in given:
        thread_id = await mails.given(conn, account_id=account.id, **_row(each))
        if thread_id and each.state == "new":
            awake.add(thread_id)
    left = {ref.id for ref in asked} - {ref.id for ref in withheld} - {each.message.id for each in given}
    await mails.never_given(conn, account.id, sorted(left), _GONE)
    return awake


async def any_known(pool: Pool, account_id: UUID) -> str | None:
    """A mail that Gmail gave, the newest; None if there is none yet."""
    query = "select gmail_id from mails where account_id = %s and readable order by received_at desc limit 1"
    return next((row["gmail_id"] for row in await fetched(pool, query, (account_id,))), None)


async def store_earlier(pool: Pool, account: Account, messages: Iterable[Message]) -> None:
    """Store the part of a thread that came before the account was watched; it makes no work.

    What came later is left to the synchronisation, which makes work of it.
    """
    earlier = [message for message in messages if message.internal_date < account.triage_since]
    found = await read(account, earlier)
    async with pool.connection() as conn, conn.transaction():
        await store(conn, account, [replace(new, reason=_EARLIER) for new in found])


async def unknown(pool: Pool, account_id: UUID, refs: Iterable[MessageRef]) -> list[MessageRef]:
    """Those of the messages that aren't stored, and that the person had not forgotten, in their order."""
    by_id = {ref.id: ref for ref in refs}
    if not by_id:
        return []
    rows = await fetched(pool, _KNOWN, {"account": account_id, "mails": list(by_id)})
    known = {row["gmail_id"] for row in rows}
    return [ref for ref in by_id.values() if ref.id not in known]


async def unheard(pool: Pool, account: Account, news: News) -> News:
    """The news but for what is known: messages, as `unknown` says, and labels, most of which are our own."""
    if not news.refs and not news.relabelled:
        return news
    query = f"""select gmail_id, false as is_label from ({_KNOWN}) as known
                union all select m.gmail_id, true
                from mails m join unnest(%(labelled)s::text[], %(classes)s::text[]) as n (gmail_id, class)
                     on n.gmail_id = m.gmail_id and n.class = m.labelled where m.account_id = %(account)s"""
    given = {
        "account": account.id,
        "mails": [ref.id for ref in news.refs],
        "labelled": list(news.relabelled),
        "classes": list(news.relabelled.values()),
    }
    known = {(row["gmail_id"], row["is_label"]) for row in await fetched(pool, query, given)}
    return replace(
        news,
        refs=[ref for ref in dict.fromkeys(news.refs) if (ref.id, False) not in known],
        relabelled={id_: each for id_, each in news.relabelled.items() if (id_, True) not in known},
    )


async def note(conn: Connection, account: Account, news: News) -> set[UUID]:
    """Store what the person did with mail that is known, in the caller's transaction.

    Returns:
        The conversations in which there is something to do now.
    """
    if news.is_none or not await _lock(conn, account, news):
        return set()
    back = [message for message, why in news.put_away.items() if why is None]
    return {
        *await threads.drafted(conn, account.id, news.drafts),
        *await mails.moved_in(conn, account.id, back, _NOT_IN_INBOX),
        *await mails.moved(conn, account.id, news.put_away),
        *await mails.relabelled(conn, account.id, news.relabelled),
    }


async def missing_from(conn: Connection, account: Account, inbox: Iterable[str]) -> list[str]:
    """Mails that wait for the person and are not among those in the inbox."""
    cursor = await conn.execute(
        "select gmail_id from mails where account_id = %s and state = 'waiting' and gmail_id <> all(%s)",
        (account.id, list(inbox)),
    )
    return [row["gmail_id"] for row in await cursor.fetchall()]


async def back_in(conn: Connection, account: Account, inbox: Iterable[str]) -> list[str]:
    """Mails whose going closed what waited, and that are among those in the inbox again."""
    cursor = await conn.execute(
        """select gmail_id from mails where account_id = %(account)s and put_away is not null and gmail_id in (
             select closed_with from runs where account_id = %(account)s and closed_with = any(%(inbox)s))""",
        {"account": account.id, "inbox": list(inbox)},
    )
    return [row["gmail_id"] for row in await cursor.fetchall()]


async def waiting_since(pool: Pool, account_id: UUID) -> datetime | None:
    """When the oldest mail came that waits for the person, or would if it came back; None if none does."""
    query = """select least((select min(received_at) from mails where account_id = %(account)s and state = 'waiting'),
                            (select min(closed_mail_at) from runs
                             where account_id = %(account)s and closed_with is not null)) as at"""
    [row] = await fetched(pool, query, {"account": account_id})
    since: datetime | None = row["at"]
    return since


async def _lock(conn: Connection, account: Account, news: News) -> bool:
    """Lock the conversations before their mails, in the order of `db.order`; False if there are none to note it in.

    A label that is known to be there tells nothing: most are our own.
    """
    cursor = await conn.execute(
        """select from threads t where t.account_id = %s and (t.gmail_id = any(%s) or t.id in (
               select m.thread_id from mails m where m.account_id = %s and m.gmail_id = any(%s)
               union select m.thread_id from mails m join unnest(%s::text[], %s::text[]) as n (gmail_id, class)
                     on n.gmail_id = m.gmail_id and n.class is distinct from m.labelled where m.account_id = %s))
           order by t.id for no key update""",
        (
            *(account.id, list(news.drafts)),
            *(account.id, list(news.put_away)),
            *(list(news.relabelled), list(news.relabelled.values()), account.id),
        ),
    )
    return cursor.rowcount > 0


def _why_not_triaged(account: Account, message: Message, mail: Mail) -> str | None:
    if message.internal_date < account.triage_since:
        return "from before the account was connected"
    if "SENT" in message.labels:
        return None
    if "INBOX" not in message.labels:
        return _NOT_IN_INBOX
    if mail.sender and account.is_own(mail.sender.email) and not mail.forged:
        # A contact form writes in its owner's name, and asks for an answer to whoever filled it in.
        answered_elsewhere = any(not account.is_own(address.email) for address in mail.reply_to)
        return None if answered_elsewhere else "from the account's own address"
    return None


def _row(new: NewMail) -> dict[str, Any]:
    """What Gmail tells of a mail, by column."""
    message, mail = new.message, new.mail
    # SENT alone says that the account wrote it: anybody can put its address into From.
    own = "SENT" in message.labels
    return {
        "gmail_id": message.id,
        "own": own,
        "sender": storable(mail.sender.email.lower() if mail.sender else ""),
        "subject": storable(mail.subject),
        "content": Jsonb(new.content, dumps=bytes),
        "readable": new.readable,
        "received_at": message.internal_date,
        "state": new.state,
        "reason": "sent by the account itself" if own else new.reason,
    }
