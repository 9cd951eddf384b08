"""Forget an account: take each conversation from its worker, settle what is under way, then delete."""

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from uuid import UUID

from email_assistant.accounts.account import Account
from email_assistant.accounts.accounts import Accounts
from email_assistant.accounts.clients import Clients
from email_assistant.accounts.vault import VaultError
from email_assistant.db import checkpoints
from email_assistant.db.holder import Holder
from email_assistant.db.lease import Lease, held
from email_assistant.db.order import lock_all
from email_assistant.db.pool import Pool
from email_assistant.google.errors import GoogleError
from email_assistant.outgoing.effects import Ledger
from email_assistant.outgoing.entry import InDoubt, NotYetClear
from email_assistant.work.settle import Settler

_RETRY_SECONDS = 0.5


@dataclass(frozen=True)
class Removal:
    pool: Pool
    accounts: Accounts
    clients: Clients
    ledger: Ledger
    settler: Settler
    lease_seconds: float
    holder: Holder

    async def remove(self, account: Account) -> int:
        """Delete all that is stored about an account. Nothing changes in its mailbox.

        Returns:
            The number of actions of which it is not known whether they happened.
        """
        await self.accounts.set_state(account.id, "removing")
        if account.watch_until:
            with suppress(GoogleError, VaultError):  # it ends by itself within a week
                await (await self.clients.get(account.id)).gmail.stop_watch()
        unclear = 0
        for thread_id in await self._threads_of(account):
            unclear += await self._close(account, thread_id)
        async with self.pool.connection() as conn, conn.transaction():
            await lock_all(conn, account.id)
            runs = await conn.execute("select id from runs where account_id = %s", (account.id,))
            await checkpoints.forget(conn, [row["id"] for row in await runs.fetchall()])
            await conn.execute("delete from store where prefix like %s", (f"email_assistant.{account.id}.%",))
            await self.accounts.delete(conn, account.id)
        return unclear

    async def _threads_of(self, account: Account) -> list[UUID]:
        async with self.pool.connection() as conn:
            cursor = await conn.execute("select id from threads where account_id = %s", (account.id,))
            return [row["id"] for row in await cursor.fetchall()]

    async def _close(self, account: Account, thread_id: UUID) -> int:
        while True:
            async with held(self.pool, "conversation", thread_id, self.lease_seconds, self.holder) as lease:
                if lease is not None and not await self._is_busy(thread_id):
                    return await self._settle(account, lease)
            await asyncio.sleep(_RETRY_SECONDS)

    async def _is_busy(self, thread_id: UUID) -> bool:
        """Whether a write of a worker that died may still be under way."""
        return any(effect.busy_until for effect in await self.ledger.started_in(thread_id))

    async def _settle(self, account: Account, lease: Lease) -> int:
        started = await self.ledger.started_in(lease.thread_id)
        bears = (GoogleError, VaultError, NotYetClear, InDoubt)
        await self.settler.settle_all(started, account, lease, bears)
        return len(await self.ledger.started_in(lease.thread_id)) + len(await self.ledger.doubtful_in(lease.thread_id))
