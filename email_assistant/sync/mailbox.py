"""Bring what is new in a mailbox into the database, by Gmail's history.

The cursor moves only in a transaction that stores mail and enqueues its work, by compare-and-set on its old value.

Gmail's own notices of new mail, if the person has a topic for them, are asked for in time, and ended when not wanted.
They only wake the poll, which goes on without them.
"""

import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import TypeVar
from uuid import UUID

from email_assistant.accounts.account import Account, Identity, UnknownAccount
from email_assistant.accounts.accounts import Accounts
from email_assistant.accounts.clients import Clients
from email_assistant.accounts.vault import VaultError
from email_assistant.db.order import lock_account
from email_assistant.db.pool import Connection, Pool, Statement
from email_assistant.errors import logged
from email_assistant.google.account import GoogleAccount
from email_assistant.google.errors import GoogleError, NotFound, RateLimited, Refused, Revoked, Transient, said
from email_assistant.google.gmail import Change, Gmail, MessageRef, SendAs
from email_assistant.inbox.mails import Class
from email_assistant.mail.html_text import html_to_text
from email_assistant.sync.fetch import LEFT_INBOX, Fetched, News, fetch
from email_assistant.sync.mails import (
    any_known,
    back_in,
    missing_from,
    note,
    read,
    store,
    store_asked_again,
    to_ask_again,
    to_look_at,
    unheard,
    waiting_since,
)
from email_assistant.telemetry import about

_RENEW_EVERY = timedelta(days=1)  # as Google recommends; a watch ends after seven
_TRY_AGAIN = timedelta(minutes=5)
_AFTER_REFUSAL = timedelta(hours=1)
log = logging.getLogger(__name__)
Enqueue = Callable[[Connection, set[UUID]], Awaitable[None]]
"""Wakes conversations, in the caller's transaction."""
_BATCH = 50
_OVERLAP = timedelta(days=1)
"""How far before the last good listing a listing begins when Gmail has forgotten the cursor."""
_DESCRIBE_EVERY = timedelta(days=1)
_ROUNDS = 3
_T = TypeVar("_T")


class Watches:
    """
    Args:
        topic: the Pub/Sub topic that Gmail is to tell; None ends what was asked for before.
    """

    def __init__(self, accounts: Accounts, clients: Clients, topic: str | None) -> None:
        self._accounts = accounts
        self._clients = clients
        self._topic = topic

    def some_due(self) -> Statement:
        """What gives, as `found`, whether there is anything for `renew_due`."""
        return self._accounts.some_watches_due(self._topic)

    async def renew_due(self) -> None:
        """Ask for, or end, what is due in any account. Of several processes one does it."""
        for account_id in await self._accounts.claim_watches(self._topic, _TRY_AGAIN):
            try:
                await self._renew(account_id)
            except (Refused, NotFound) as refusal:
                why = (
                    f"Gmail does not push to {self._topic} ({refusal}): let gmail-api-push@system.gserviceaccount.com "
                    "publish to it; until then mail is looked for as without push"
                )
                await self._accounts.not_watched(account_id, why, datetime.now(UTC) + _AFTER_REFUSAL)
            except (GoogleError, VaultError, UnknownAccount) as error:  # tried again when the claim has run out
                name = await self._accounts.named(account_id)
                log.warning("%s: no push: %s; it is asked for again by itself", name, logged(error))

    async def _renew(self, account_id: UUID) -> None:
        gmail = (await self._clients.get(account_id)).gmail
        if self._topic is None:
            await gmail.stop_watch()
            await self._accounts.not_watched(account_id, None, datetime.now(UTC))
            return
        until = await gmail.watch(self._topic)
        now = datetime.now(UTC)
        await self._accounts.watched(account_id, until, now + max(_TRY_AGAIN, min(_RENEW_EVERY, (until - now) / 2)))


class _CursorMoved(Exception):
    """Another process has synchronised the same mailbox meanwhile."""


class Mailboxes:
    def __init__(
        self,
        pool: Pool,
        accounts: Accounts,
        clients: Clients,
        *,
        enqueue: Enqueue,
        labels: Mapping[Class, str],
        max_tries: int,
    ) -> None:
        """
        Args:
            labels: the name of each class's label; empty if there are none.
            max_tries: how often a mail is asked for that Gmail does not give, while it gives others, before it is set
                aside.
        """
        self._labels = labels
        self._max_tries = max_tries
        self._tries: Counter[tuple[UUID, str]] = Counter()
        self._pool = pool
        self._accounts = accounts
        self._clients = clients
        self._enqueue = enqueue

    async def sync(self, account_id: UUID) -> Account:
        """Fetch and store what is new; with nothing new this is one `history.list`.

        What Gmail did not give is asked for again too, once that is due.

        Returns:
            The account, as it was before.

        Raises:
            GoogleError, UnknownAccount, VaultError.
        """
        for _ in range(_ROUNDS):
            account, asks_again = await to_look_at(self._pool, account_id)
            if account.state != "active":
                return account
            with suppress(_CursorMoved):
                cursor = await self._look(account)
                if cursor is not None:
                    await self._store_batch(account, (await self._clients.of(account)).gmail, [], News(), cursor)
                break
        if asks_again:
            await self.ask_again(account)
        return account

    async def look(self, account: Account) -> int | None:
        """As `sync`, of an account that was read just now, but for what Gmail did not give. Where nothing is new, it
        writes nothing and returns the cursor, for the caller to move the mailbox's to."""
        try:
            return await self._look(account)
        except _CursorMoved:
            await self.sync(account.id)
            return None

    async def sync_thread(self, account: Account, thread_id: str) -> bool:
        """Fetch and store what is new in one of Gmail's threads; the cursor stays.

        For a decision, which must know what happened in its thread and must not wait for a burst of other mail. One
        `history.list`, which costs a twentieth of looking at the thread.

        Returns:
            Whether there may be anything since the account's cursor but a label. If not, what was stored in the thread
            when that was read is all.

        Raises:
            GoogleError, UnknownAccount, VaultError.
        """
        gmail = (await self._clients.of(account)).gmail
        try:
            news = await self._news_of_thread(gmail, account, thread_id)
        except NotFound:  # deleted: nothing more has come
            return True
        unheard_of = await unheard(self._pool, account, news)
        await self._store_batch(account, gmail, unheard_of.refs, unheard_of)
        return bool(news.refs or news.put_away or news.drafts)

    async def _news_of_thread(self, gmail: Gmail, account: Account, thread_id: str) -> News:
        """Raises NotFound if the thread is gone, as far as that can be known."""
        if account.history_id is not None:
            with suppress(NotFound):
                _, changes = await self._changes(gmail, account.history_id)
                return News.of((c for c in changes if c.thread_id == thread_id), self._classes(account))
        return News(refs=list(await gmail.thread_refs(thread_id)))

    async def _look(self, account: Account) -> int | None:
        client = await self._clients.of(account)
        account = await self._described(account, client)
        cursor, news = await self._news(account, client.gmail)
        news = await unheard(self._pool, account, news)
        if account.history_id is not None and not news.refs and news.is_none:
            return cursor
        await self._store(account, client.gmail, news, cursor)
        return None

    async def _news(self, account: Account, gmail: Gmail) -> tuple[int, News]:
        if account.history_id is None:
            # The person waits for new mail; what is older is the backfill's.
            return await self._list(gmail, account.triage_since)
        try:
            cursor, changes = await self._changes(gmail, account.history_id)
            return cursor, News.of(changes, self._classes(account))
        except NotFound:
            last_good = (account.listed_at or account.triage_since) - _OVERLAP
            cursor, news = await self._list(gmail, max(account.triage_since, last_good))
            news.put_away = await self._missed(gmail, account)
            return cursor, news

    def _classes(self, account: Account) -> dict[str, Class]:
        """The class that each label stands for, by its id, as far as there are labels."""
        return {account.labels[name]: each for each, name in self._labels.items() if name in account.labels}

    async def _list(self, gmail: Gmail, since: datetime) -> tuple[int, News]:
        """All messages since a time, and a cursor from before the listing."""
        cursor = (await gmail.profile()).history_id
        return cursor, News(refs=await self._refs_since(gmail, since))

    async def _missed(self, gmail: Gmail, account: Account) -> dict[str, str | None]:
        """Mails that left the inbox while nobody looked, of those that wait for the person, or that came back to it."""
        since = await waiting_since(self._pool, account.id)
        if since is None:
            return {}
        inbox = {ref.id for ref in await self._refs_since(gmail, since - _OVERLAP, labels=("INBOX",))}
        async with self._pool.connection() as conn:
            back: dict[str, str | None] = dict.fromkeys(await back_in(conn, account, inbox))
            return back | dict.fromkeys(await missing_from(conn, account, inbox), LEFT_INBOX)

    async def _refs_since(self, gmail: Gmail, since: datetime, labels: Sequence[str] = ()) -> list[MessageRef]:
        """All messages since a time, oldest first."""
        query = f"after:{int(since.timestamp())}" if since.timestamp() > 0 else ""
        refs: list[MessageRef] = []
        token: str | None = None
        while True:
            page = await gmail.list_messages(query, labels, token)
            refs += page.refs
            token = page.next_page_token
            if token is None:
                return refs[::-1]

    async def _changes(self, gmail: Gmail, start: int) -> tuple[int, list[Change]]:
        """What changed since the cursor, oldest first, and the new cursor.

        Raises NotFound if Gmail has forgotten the old one.
        """
        changes: list[Change] = []
        token: str | None = None
        cursors: list[int] = []
        while True:
            page = await gmail.history(start, token)
            changes += page.changes
            cursors += [page.history_id] if page.history_id else []
            token = page.next_page_token
            if token is None:
                # The first page's: mail that comes between two pages may be on neither.
                return min(cursors, default=start), sorted(changes, key=lambda change: change.record)

    async def _store(self, account: Account, gmail: Gmail, news: News, cursor: int) -> None:
        """Store in batches, so that memory stays flat and the first mails are worked on while others still come; the
        cursor moves with the last one, and what was stored before a crash is known when the listing is repeated."""
        batches = [news.refs[i : i + _BATCH] for i in range(0, len(news.refs), _BATCH)] or [[]]
        for batch in batches[:-1]:
            await self._store_batch(account, gmail, batch, News())
        await self._store_batch(account, gmail, batches[-1], news, cursor)

    async def _store_batch(
        self, account: Account, gmail: Gmail, refs: Sequence[MessageRef], news: News, cursor: int | None = None
    ) -> None:
        """Store messages and what else happened, wake their conversations, move the cursor if one is given: all or
        nothing."""
        fetched = await fetch(gmail, refs)
        fault = fetched.limited or await self._fault(account, gmail, fetched)
        if fault:  # all else is stored; what it holds up is listed again
            news, cursor = News(), None
        found = await read(account, fetched.messages, fetched.refused)
        if not found and not fault and news.is_none and cursor is None:
            return
        async with self._pool.connection() as conn, conn.transaction():
            if cursor is None:
                await lock_account(conn, account.id, "key share")
            elif not await self._accounts.move_cursors(conn, [(account, cursor)]):  # which locks it
                raise _CursorMoved
            awake = await store(conn, account, found)
            await self._enqueue(conn, awake | await note(conn, account, news))
        for each in found:
            with about(each.message.id):
                log.info("stored: %s", each.state)
        if fault:
            raise fault

    async def _fault(self, account: Account, gmail: Gmail, fetched: Fetched) -> Transient | None:
        """Why the cursor may not pass these messages yet.

        A message that Gmail went on not to give, while it gave others, is counted among those that it refuses: it is
        stored as such, and asked for again later. While Gmail gives none, that says nothing of a message.
        """
        if not fetched.faults:
            return None
        fault = fetched.faults[0].error
        assert isinstance(fault, Transient)
        if not fetched.messages and not await self._gives_another(account, gmail):
            return Transient(f"Gmail gives no mail at the moment ({said(fault)}): it is asked again by itself")
        self._tries.update((account.id, each.ref.id) for each in fetched.faults)
        if any(self._tries[account.id, each.ref.id] < self._max_tries for each in fetched.faults):
            return Transient(
                f"Gmail does not give {len(fetched.faults)} of the new mails ({said(fault)}): it is asked again by "
                f"itself, and what it still does not give after {self._max_tries} tries is set aside"
            )
        for each in fetched.faults:
            del self._tries[account.id, each.ref.id]
        fetched.refused += fetched.faults
        return None

    async def _gives_another(self, account: Account, gmail: Gmail) -> bool:
        """Whether Gmail answers where it is asked for a mail that it gave before."""
        known = await any_known(self._pool, account.id)
        try:
            return known is not None and bool(await gmail.labels_of(known))
        except NotFound:
            return True
        except Transient:
            return False

    async def ask_again(self, account: Account) -> None:
        """Ask for what Gmail did not give, each time after twice as long."""
        asked = await to_ask_again(self._pool, account.id, _BATCH)
        if not asked:
            return
        gmail = (await self._clients.of(account)).gmail
        fetched = await fetch(gmail, asked)
        asked = [ref for ref in asked if ref not in fetched.left]
        withheld = [each.ref for each in fetched.refused + fetched.faults]
        found = await read(account, fetched.messages)
        async with self._pool.connection() as conn, conn.transaction():
            await lock_account(conn, account.id, "key share")
            await self._enqueue(conn, await store_asked_again(conn, account, asked, found, withheld))
        if fetched.limited:
            raise fetched.limited

    async def _described(self, account: Account, client: GoogleAccount) -> Account:
        """The account, whose timezone, and what it sends from, are learned once a day.

        Raises GoogleError: it was never learned which addresses are the person's, so that an answer to mail that came
        now would go from the wrong one.
        """
        described_at = account.described_at if account.aliases is not None else None
        if described_at and datetime.now(UTC) - described_at < _DESCRIBE_EVERY:
            return account
        passing: list[GoogleError] = []
        if account.aliases is None:
            senders: tuple[SendAs, ...] | None = await _first_told(client.gmail)
        else:
            senders = await self._told(account, client.gmail.send_as(), passing)
        timezone = await self._told(account, client.calendar.timezone(), passing)
        identities = None if senders is None else _sends_from(account, senders)
        await self._accounts.describe(account.id, timezone=timezone, senders=identities, asks_again=bool(passing))
        return await self._accounts.get(account.id)

    async def _told(self, account: Account, answer: Awaitable[_T], passing: list[GoogleError]) -> _T | None:
        """What Google says of the account; None: it does not. Mail goes on without.

        Args:
            passing: gets the fault, if another try may help.

        Raises:
            Revoked.
        """
        try:
            return await answer
        except Revoked:
            raise
        except GoogleError as error:
            lasts = error.passes == "never"
            passing += [] if lasts else [error]
            again = "it is asked again in a day" if lasts else "the next look asks again"
            log.warning("%s: its names or timezone can't be read: %s; %s", account.address, logged(error), again)
            return None


async def _first_told(gmail: Gmail) -> tuple[SendAs, ...]:
    """Raises GoogleError: no mail is read before. That Google refuses may pass, too: somebody allows it."""
    try:
        return await gmail.send_as()
    except Revoked:
        raise
    except GoogleError as fault:
        words = (
            f"Gmail does not say yet which addresses you send from ({said(fault)}): it is asked again by itself, and "
            "no mail is read before, as answers could go from the wrong one"
        )
        raise RateLimited(words, fault.until) if isinstance(fault, RateLimited) else Transient(words) from fault


def _sends_from(account: Account, senders: Sequence[SendAs]) -> tuple[Identity, ...]:
    """The account's own address first, and what Gmail has verified besides."""
    own = next((s for s in senders if s.primary or s.address.lower() == account.address), None)
    name = own.name if own else ""
    # One without a name of its own bears the account's, as in Gmail.
    others = [
        Identity(s.address.lower(), s.name or name, html_to_text(s.signature_html), s.default)
        for s in senders
        if s is not own and s.verified
    ]
    return Identity(account.address, name, html_to_text(own.signature_html) if own else ""), *others
