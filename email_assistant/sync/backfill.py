"""Fetch the mail from before an account was connected, newest first, beside all that goes on.

What is to be fetched is listed once and kept in `backfill`, whose SQL stands here. A message leaves that list when it
has been fetched, whether it was stored or is left alone; so it goes on where it was, whatever stopped it.
"""

import math
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from uuid import UUID

from email_assistant.accounts.account import Account
from email_assistant.accounts.accounts import Accounts
from email_assistant.accounts.clients import Clients
from email_assistant.db.order import lock_account
from email_assistant.db.pool import Pool
from email_assistant.google.errors import Refused
from email_assistant.google.gmail import Gmail, MessageRef
from email_assistant.google.quota import Urgency, calls_are
from email_assistant.sync.fetch import fetch
from email_assistant.sync.mailbox import Enqueue
from email_assistant.sync.mails import read, store, unknown

_BATCH = 50
_AT_ONCE = 4
_BATCH_SECONDS = 3.0
"""After which a batch ends early, so that a process that is to stop need not break it off."""
_PAUSE = timedelta(seconds=30)
"""Between two batches; anything longer tells nothing of the pace."""
_MEMORY_SECONDS = 300.0
"""The pace is that of about so long."""


class Backfill:
    def __init__(self, pool: Pool, accounts: Accounts, clients: Clients, *, enqueue: Enqueue, reach: timedelta) -> None:
        """`reach` is how far back before `triage_since` it goes."""
        self._pool = pool
        self._accounts = accounts
        self._clients = clients
        self._enqueue = enqueue
        self._reach = reach

    async def run(self, account_id: UUID) -> bool:
        """Fetch a batch. Returns whether more is left.

        Raises:
            GoogleError, UnknownAccount, VaultError.
        """
        account = await self._accounts.get(account_id)
        if not account.wants_backfill:
            return False
        gmail = (await self._clients.get(account_id)).gmail
        with calls_are(Urgency.BACKFILL):
            if account.backfill_total is None:
                await self._list(account, gmail)
                account = await self._accounts.get(account_id)
            began = datetime.now(UTC)
            fetched = await self._fetch_batch(account, gmail)
        left = await self._left(account_id)
        if left == 0:
            await self._accounts.backfill_ends(account_id)
            return False
        await self._note_progress(account, began, fetched, left)
        return True

    async def _list(self, account: Account, gmail: Gmail) -> None:
        refs: list[MessageRef] = []
        token: str | None = None
        query = self._query(account)
        while query:
            page = await gmail.list_messages(query, page_token=token)
            refs += page.refs
            token = page.next_page_token
            if token is None:
                break
        new = await unknown(self._pool, account.id, refs)
        async with self._pool.connection() as conn, conn.transaction():
            await lock_account(conn, account.id, "key share")
            await conn.execute("delete from backfill where account_id = %s", (account.id,))
            await conn.execute(
                """insert into backfill (account_id, user_id, gmail_id, thread_id, position)
                   select %s, %s, gmail_id, thread_id, position
                   from unnest(%s::text[], %s::text[]) with ordinality as listed (gmail_id, thread_id, position)""",
                (account.id, account.user_id, [ref.id for ref in new], [ref.thread_id for ref in new]),
            )
        await self._accounts.backfill_begins(account.id, len(new))

    def _query(self, account: Account) -> str | None:
        """Gmail's search for the older mail; None where there can be none."""
        since = max(0, math.floor((account.triage_since - self._reach).timestamp()))
        before = math.ceil(account.triage_since.timestamp())
        return f"after:{since} before:{before}" if self._reach and since < before else None

    async def _fetch_batch(self, account: Account, gmail: Gmail) -> int:
        """Returns how many messages were fetched."""
        ends = time.monotonic() + _BATCH_SECONDS
        batch = await self._next(account.id)
        new = await unknown(self._pool, account.id, batch)
        await self._forget(account.id, set(batch) - set(new))
        for start in range(0, len(new), _AT_ONCE):
            some = new[start : start + _AT_ONCE]
            await self._fetch(account, gmail, some)
            if time.monotonic() > ends:
                return start + len(some)
        return len(new)

    async def _fetch(self, account: Account, gmail: Gmail, refs: Sequence[MessageRef]) -> None:
        try:
            fetched = await fetch(gmail, refs)
        except Refused:
            await self._put_last(account.id, refs)
            if len(refs) == 1:
                raise
            for ref in refs:  # so that what Google gives doesn't wait with what it does not
                await self._fetch(account, gmail, [ref])
            return
        found = await read(account, fetched.messages, fetched.refused)
        async with self._pool.connection() as conn, conn.transaction():
            await self._enqueue(conn, await store(conn, account, found))
        withheld = [each.ref for each in fetched.faults]
        await self._forget(account.id, set(refs) - set(withheld) - set(fetched.left))
        if fetched.limited:
            raise fetched.limited
        if withheld:
            await self._put_last(account.id, withheld)
            raise fetched.faults[0].error

    async def _put_last(self, account_id: UUID, refs: Sequence[MessageRef]) -> None:
        """One that Google never gives holds up no other."""
        async with self._pool.connection() as conn:
            await conn.execute(
                """update backfill set position = (select max(position) + 1 from backfill where account_id = %s)
                   where account_id = %s and gmail_id = any(%s)""",
                (account_id, account_id, [ref.id for ref in refs]),
            )

    async def _next(self, account_id: UUID) -> list[MessageRef]:
        async with self._pool.connection() as conn:
            cursor = await conn.execute(
                "select gmail_id, thread_id from backfill where account_id = %s order by position limit %s",
                (account_id, _BATCH),
            )
            return [MessageRef(row["gmail_id"], row["thread_id"]) for row in await cursor.fetchall()]

    async def _forget(self, account_id: UUID, refs: Sequence[MessageRef] | set[MessageRef]) -> None:
        async with self._pool.connection() as conn:
            await conn.execute(
                "delete from backfill where account_id = %s and gmail_id = any(%s)",
                (account_id, [ref.id for ref in refs]),
            )

    async def _left(self, account_id: UUID) -> int:
        async with self._pool.connection() as conn:
            cursor = await conn.execute("select count(*) as n from backfill where account_id = %s", (account_id,))
            row = await cursor.fetchone()
        return int(row["n"]) if row else 0

    async def _note_progress(self, account: Account, began: datetime, fetched: int, left: int) -> None:
        """Measure from the end of one batch to the end of the next, what goes ahead of it in between included.

        The first after a pause is not measured: it has the quota that was saved up meanwhile.
        """
        now = datetime.now(UTC)
        seconds = messages = 0.0
        if account.backfill_at and began - account.backfill_at < _PAUSE:
            seconds, messages = (now - account.backfill_at).total_seconds(), fetched
        faded = math.exp(-seconds / _MEMORY_SECONDS)
        await self._accounts.backfill_progressed(
            account.id,
            done=(account.backfill_total or left) - left,
            at=now,
            seconds=account.backfill_seconds * faded + seconds,
            messages=account.backfill_messages * faded + messages,
        )
