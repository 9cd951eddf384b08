"""The mail of an account's past: fetched from Gmail once, kept in `past_mails`, and read as a history.

All that changes `past_mails` stands here. At Gmail nothing is changed: it is searched, and messages are read.
"""

import asyncio
import math
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from http import HTTPStatus
from typing import Any, Final, TypeVar
from uuid import UUID

from psycopg.types.json import Jsonb
from pydantic import TypeAdapter, ValidationError

from email_assistant.accounts.account import Account, stopped
from email_assistant.accounts.clients import Clients
from email_assistant.db.order import lock_account
from email_assistant.db.pool import Connection, Pool, fetched
from email_assistant.db.values import storable
from email_assistant.errors import AssistantError
from email_assistant.google.errors import NotFound, RateLimited, Refused, Transient
from email_assistant.google.gmail import Gmail, Message
from email_assistant.google.quota import UNITS, Limits, Urgency, calls_are
from email_assistant.mail.message import Mail
from email_assistant.mail.parse import parse_gmail

_KEPT: Final = 12_000  # characters of a text
_DRAFTS: Final = {"draft", "drafts", "chat", "chats"}
_SENT_BY_LABEL: Final = "sent"
_MAIL: Final = TypeAdapter(Mail)
_BATCH: Final = 32
"""Messages that are stored together: so many are asked for again after it was killed."""
_SENT: Final = "SENT"
_AT_ONCE: Final = 8  # as many as the client has connections
_TRIES: Final = 6
_LONGEST_WAIT: Final = 60.0  # seconds before another try
_GET: Final = "gmail.users.messages.get"
T = TypeVar("T")
Progress = Callable[[int], None]
"""Told how many mails have been read."""


class NoHistory(AssistantError):
    """There is nothing that could be rehearsed; the message says why, and what to do."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """One mail of a history."""

    id: str  # its Message-ID; for a mail without one, what else tells it apart
    mail: Mail  # its texts cut to what is read
    at: datetime
    own: bool  # written by the person
    labels: frozenset[str]  # Gmail's, in lower case, as they were when the mail was read
    conversation: str  # Gmail's; empty where it is not known
    copies: tuple[str, ...] = ()  # ids of the same mail lying there again


def kept(mail: Mail) -> Mail:
    """What a rehearsal reads of a mail."""
    return replace(mail, text=mail.text[:_KEPT], body=mail.body[:_KEPT], attachments=mail.attachments[:1])


def is_own(mail: Mail, labels: Collection[str], own: Collection[str]) -> bool:
    """Whether the person wrote it. `own`: their addresses, in lower case."""
    return _SENT_BY_LABEL in labels or (mail.sender is not None and mail.sender.email.lower() in own)


def nameless(gmail_id: str) -> str:
    """The id of a mail of Gmail's that has no Message-ID."""
    return f"<{gmail_id}@no-message-id>"


def in_order(entries: Iterable[Recorded]) -> list[Recorded]:
    """The mails in the order of time, each once, without drafts and chats."""
    found: dict[str, Recorded] = {}
    by_content: dict[tuple[object, ...], str] = {}
    for entry in entries:
        if entry.labels & _DRAFTS or entry.id in found:
            continue
        mail = entry.mail
        content = (mail.sender and mail.sender.email.lower(), entry.at, mail.subject, mail.body)
        if (first := by_content.setdefault(content, entry.id)) == entry.id:
            found[entry.id] = entry
        else:
            found[first] = replace(found[first], copies=(*found[first].copies, entry.id))
    return sorted(found.values(), key=lambda entry: entry.at)


class MailboxClosed(AssistantError):
    """The mailbox is not to be read now; the message says why, and what to do."""


@dataclass(frozen=True, slots=True)
class ToRead:
    """What of a mailbox a rehearsal is about."""

    own: frozenset[str]  # the person's addresses
    listed: int  # messages that there are
    missing: Sequence[str]  # Gmail's ids of those that are still to be fetched
    units: int  # of Gmail's quota, to fetch them
    seconds: float | None  # as long as that takes at least; None where the server sets no limit


class PastMails:
    def __init__(self, pool: Pool, clients: Clients) -> None:
        self._pool = pool
        self._clients = clients

    async def look(self, account: Account, since: datetime) -> ToRead:
        """Ask Gmail what there is from a time on, spam and trash included. Raises MailboxClosed, GoogleError."""
        await self._check(account)
        gmail = (await self._clients.of(account)).gmail
        with calls_are(Urgency.BACKFILL):
            aliases = () if account.aliases is not None else await _patiently(gmail.send_as)
            listed = await _listed(gmail, since)
        query = """select gmail_id from past_mails where account_id = %s
                   union all select gmail_id from forgotten where account_id = %s"""
        known = {row["gmail_id"] for row in await fetched(self._pool, query, (account.id, account.id))}
        missing = [each for each in listed if each not in known]
        units, seconds = _cost(self._clients.limits, len(missing))
        own = account.own_addresses | {each.address.lower() for each in aliases if each.verified}
        return ToRead(own, len(listed), missing, units, seconds)

    async def fetch(self, account: Account, wanted: Sequence[str], progress: Progress = lambda _: None) -> None:
        """Fetch and keep messages, by Gmail's ids; those that are gone by now, or that Gmail does not give, are left
        out. What was kept stays, whatever ends it. Raises MailboxClosed, GoogleError."""
        gmail = (await self._clients.of(account)).gmail
        done = 0
        for start in range(0, len(wanted), _BATCH):
            some = wanted[start : start + _BATCH]
            await self._check(account)
            with calls_are(Urgency.BACKFILL):
                found = await _messages(gmail, some)
            await self._keep(account, await asyncio.to_thread(_rows, found))
            done += len(some)
            progress(done)

    async def history(
        self, account: Account, own: frozenset[str] | None = None, since: datetime | None = None
    ) -> list[Recorded]:
        """What is kept, in the order of time. `own`: the person's addresses, if more are known than the account's;
        `since`: nothing that came before."""
        rows = await fetched(
            self._pool,
            """select gmail_id, thread_id, labels, received_at, content::text as content from past_mails
               where account_id = %s and received_at >= coalesce(%s::timestamptz, '-infinity')
               order by received_at, gmail_id""",
            (account.id, since),
        )
        return await asyncio.to_thread(_history, rows, own or account.own_addresses)

    async def kept(self, account_id: UUID) -> int:
        """How many mails are kept."""
        [row] = await fetched(self._pool, "select count(*) as n from past_mails where account_id = %s", (account_id,))
        return int(row["n"])

    async def forget(self, account_id: UUID) -> int:
        """Returns how many mails are kept no more."""
        query = "with gone as (delete from past_mails where account_id = %s returning 1) select count(*) as n from gone"
        [row] = await fetched(self._pool, query, (account_id,))
        return int(row["n"])

    async def _check(self, account: Account) -> None:
        """That the person has neither stopped everything nor logged out meanwhile, nor the account is being removed."""
        query = "select state, stopped_since(user_id) as stopped from accounts where id = %s"
        rows = await fetched(self._pool, query, (account.id,))
        state = rows[0]["state"] if rows else "removing"
        if state == "stopped":
            raise MailboxClosed(f"{stopped(rows[0]['stopped'])} `email-assistant go-on` ends that")
        if state == "removing":
            raise MailboxClosed(f"{account.address} is being removed")
        if state == "login":
            raise MailboxClosed(
                f"Google does not accept the login of {account.address}: log in again with "
                f"`email-assistant auth login {account.address}`"
            )

    async def _keep(self, account: Account, rows: Sequence[tuple[object, ...]]) -> None:
        async with self._pool.connection() as conn, conn.transaction(), conn.cursor() as cursor:
            await lock_account(conn, account.id, "key share")  # so that what is forgotten meanwhile is known
            await cursor.executemany(
                """insert into past_mails (account_id, user_id, gmail_id, thread_id, labels, received_at, content)
                   select a.id, a.user_id, new.* from accounts a,
                       (values (%s, %s, %s::text[], %s::timestamptz, %s::jsonb)) as new (gmail_id)
                   where a.id = %s
                   and not exists (select from forgotten f where f.account_id = a.id and f.gmail_id = new.gmail_id)
                   on conflict do nothing""",
                [(*row, account.id) for row in rows],
            )


async def _listed(gmail: Gmail, since: datetime) -> list[str]:
    """Gmail's ids, newest first."""
    found: list[str] = []
    token: str | None = None
    query = f"after:{math.floor(since.timestamp())} -in:draft"
    while True:
        page = await _patiently(partial(gmail.list_messages, query, page_token=token, everywhere=True))
        found += [ref.id for ref in page.refs]
        token = page.next_page_token
        if token is None:
            return found


async def _messages(gmail: Gmail, wanted: Sequence[str]) -> list[Message]:
    slots = asyncio.Semaphore(_AT_ONCE)

    async def one(gmail_id: str) -> Message | None:
        async with slots:
            try:
                return await _patiently(partial(gmail.message, gmail_id))
            except NotFound:
                return None
            except Refused as refusal:
                if refusal.code != HTTPStatus.BAD_REQUEST:
                    raise  # it is not about this message
                return None

    return [each for each in await asyncio.gather(*map(one, wanted)) if each is not None]


async def _patiently(call: Callable[[], Awaitable[T]]) -> T:
    """Its answer, be it after some tries: a rehearsal has time, and mail of today goes first."""
    for number in range(_TRIES - 1):
        try:
            return await call()
        except (RateLimited, Transient) as fault:
            named = (fault.until - datetime.now(UTC)).total_seconds() if fault.until else 0.0
            await asyncio.sleep(min(max(named, 2.0**number / 2), _LONGEST_WAIT))
    return await call()


def _cost(limits: Limits, mails: int) -> tuple[int, float | None]:
    """Gmail's units to fetch so many mails, and the seconds until so many are allowed."""
    share, _ = limits.shares(_GET)
    units = limits.units.get(_GET, UNITS[_GET]) * mails
    return units, units / share.rate if share.cost else None


def _rows(messages: Sequence[Message]) -> list[tuple[object, ...]]:
    """Of what others wrote only what is new in it. What the person's own letters quote tells what they answer."""
    found: list[tuple[object, ...]] = []
    # In one order, so that of two who keep the same mails one waits for the other.
    for each in sorted(messages, key=lambda message: message.id):
        mail = kept(parse_gmail(each.payload))
        if _SENT not in each.labels:
            mail = replace(mail, text="")
        content = Jsonb(storable(_MAIL.dump_python(mail, mode="json")))
        found.append((each.id, each.thread_id, sorted(each.labels), each.internal_date, content))
    return found


def _history(rows: Sequence[Mapping[str, Any]], own: frozenset[str]) -> list[Recorded]:
    found = []
    for row in rows:
        try:
            mail = _MAIL.validate_json(row["content"])
        except ValidationError:
            continue  # nothing that this program wrote
        # Gmail has no label for what was read and archived; its export calls it so.
        labels = frozenset(each.lower() for each in row["labels"] or ["archived"])
        identity = mail.message_id or nameless(row["gmail_id"])
        found.append(Recorded(identity, mail, row["received_at"], is_own(mail, labels, own), labels, row["thread_id"]))
    return in_order(found)


async def forget_mails(conn: Connection, account_id: UUID, gmail_ids: Sequence[str]) -> None:
    """Keep these no more, in the caller's transaction."""
    await conn.execute(
        "delete from past_mails where account_id = %s and gmail_id = any(%s)", (account_id, list(gmail_ids))
    )
