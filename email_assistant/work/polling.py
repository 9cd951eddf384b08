"""When each mailbox is looked at, and what it means that one can't be.

Many are looked at at once, each under its lease and with its own faults, on slots that work on mail never takes: one
that hangs has its time-out and holds up no other. Where nothing is new, which is nearly always, what is written of a
look is written for many at once.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from uuid import UUID

import psycopg

from email_assistant.accounts.account import Account, UnknownAccount
from email_assistant.accounts.accounts import Accounts
from email_assistant.accounts.vault import VaultError
from email_assistant.db.lease import LeaseLost, claim_each, held, release_each, renew_each
from email_assistant.db.order import lock_accounts
from email_assistant.db.pool import Pool
from email_assistant.errors import logged
from email_assistant.google.errors import GoogleError
from email_assistant.meters import went_wrong
from email_assistant.sync.mailbox import Mailboxes
from email_assistant.sync.mails import some_to_ask_again
from email_assistant.work.faults import classify, to_come
from email_assistant.work.heartbeat import Heartbeat

log = logging.getLogger(__name__)

_AT_ONCE = 64
"""Looks of one process."""
_FEWEST = 16
"""How many must be free for others to be begun."""
_GATHER_SECONDS = 0.1
"""What ends within this time is written down at once."""
_AGAIN_SECONDS = 1.0
_TRIES = 5  # at a mailbox that somebody looks at
_GIVE_BACK_SECONDS = 5.0
_UNSEEN = "no mailbox has been looked at"
_MISSED, _MISSED_SECONDS = 3, 60.0
"""After so many looks that were missed, and so long, a scheduler is not well."""


@dataclass(slots=True)
class Polling:
    pool: Pool
    accounts: Accounts
    mailboxes: Mailboxes
    backfill: Callable[[UUID], Awaitable[None]]
    """Has older mail of an account fetched."""
    every: float
    """Seconds from one look at a mailbox to the next."""
    lease_seconds: float
    heartbeat: Heartbeat
    """Told that mailboxes are looked at."""
    _spared_seconds: float = field(default=0.0, init=False)
    """A mailbox into which somebody has looked since is left alone."""
    _under_way: dict[UUID, asyncio.Task[None]] = field(default_factory=dict, init=False)
    _ended: set[UUID] = field(default_factory=set, init=False)
    """Whose leases are to be given back."""
    _unchanged: list[tuple[Account, int]] = field(default_factory=list, init=False)
    """Where nothing is new, with the cursor to move it to."""
    _some_ended: asyncio.Event = field(default_factory=asyncio.Event, init=False)

    async def begin(self) -> None:
        """Begin to look into every mailbox whose time has come. Any number of processes may do so.

        The first time, that is every one; then those into which no other process has looked meanwhile. Raises
        psycopg.Error."""
        await self._begin_all(self._spared_seconds)
        self._spared_seconds = self.every / 2
        self.heartbeat.beat(_UNSEEN)

    async def keep(self) -> None:
        """See to the looks that were begun, until cancelled; then those that have not ended are broken off."""
        self.heartbeat.expect(_UNSEEN, max(_MISSED * self.every, _MISSED_SECONDS))
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._write_down())
                tasks.create_task(self._renew())
        finally:
            await self._stop()

    async def poll(self) -> None:
        """Look once at every mailbox that is due; returns when that is done."""
        await self._begin_all()
        await asyncio.gather(*self._under_way.values())
        await self._settle()

    async def look(self, account_id: UUID) -> None:
        """Look at one mailbox now. Where somebody does already, a moment later: they may have asked Gmail before the
        mail was there that this is about. If that takes them long, it is left to the next look."""
        try:
            for _ in range(_TRIES):
                async with held(self.pool, "new mail", account_id, self.lease_seconds) as ours:
                    if ours:
                        account = await self.mailboxes.sync(account_id)
                        break
                await asyncio.sleep(_AGAIN_SECONDS)
            else:
                return
            await self._backfill(account)
        except (UnknownAccount, LeaseLost):
            return
        except Exception as error:
            await self._note(account_id, await self.accounts.named(account_id), error)

    async def _begin_all(self, seconds: float = 0) -> None:
        """Begin to look into the mailboxes into which nobody has looked for so long."""
        last: UUID | None = None
        while True:
            while (free := _AT_ONCE - len(self._under_way)) < _FEWEST:
                await asyncio.wait(self._under_way.values(), return_when=asyncio.FIRST_COMPLETED)
            async with self.pool.connection() as conn, conn.transaction():
                due = await self.accounts.due(conn, last, free, seconds)
                ours = await claim_each(conn, "new mail", [account.id for account in due], self.lease_seconds)
                again = await some_to_ask_again(conn, ours)
            for account in due:
                if account.id in ours:
                    look = self._look(account, asks_again=account.id in again)
                    self._under_way[account.id] = asyncio.create_task(look)
            if len(due) < free:
                return
            last = due[-1].id

    async def _look(self, account: Account, *, asks_again: bool) -> None:
        try:
            if (cursor := await self.mailboxes.look(account)) is not None:
                self._unchanged.append((account, cursor))
            if asks_again:
                await self.mailboxes.ask_again(account)
            await self._backfill(account)
        except UnknownAccount:
            pass
        except Exception as error:
            await self._note(account.id, account.address, error)
        finally:
            del self._under_way[account.id]
            self._ended.add(account.id)
            self._some_ended.set()

    async def _backfill(self, account: Account) -> None:
        if account.backfilled_at is None and (await self.accounts.get(account.id)).wants_backfill:
            await self.backfill(account.id)

    async def _note(self, account_id: UUID, name: str, error: Exception) -> None:
        """Have `status` and `doctor` tell that a mailbox could not be looked at; what nobody foresaw not in its own
        words, which may quote a mail."""
        fault = classify(error)
        if not isinstance(error, GoogleError | VaultError | psycopg.Error):
            log.error("%s: no look for new mail; %s", name, to_come(fault), exc_info=error)
        else:
            log.warning("%s: no look for new mail: %s; %s", name, logged(error), to_come(fault))
        went_wrong("mailbox", error)
        try:
            if fault.needs_login:
                await self.accounts.set_state(account_id, "login", fault.reason)
            elif fault.unexpected:
                await self.accounts.note_error(
                    account_id,
                    f"unexpected {type(error).__name__} while new mail was looked for; it is tried again, please "
                    "report it",
                )
            elif not isinstance(error, psycopg.Error):
                await self.accounts.note_error(account_id, fault.reason, fault.until)
        except psycopg.Error as away:
            log.warning("%s: that is not noted, as the database is not available (%s)", name, type(away).__name__)

    async def _write_down(self) -> None:
        while True:
            await self._some_ended.wait()
            await asyncio.sleep(_GATHER_SECONDS)
            try:
                await self._settle()
            except psycopg.Error as error:
                log.warning("looks are not noted: the database is not available (%s)", type(error).__name__)
                await asyncio.sleep(_AGAIN_SECONDS)

    async def _settle(self) -> None:
        """Note the looks that have ended, and give back their leases."""
        self._some_ended.clear()
        ended, unchanged = set(self._ended), list(self._unchanged)
        if not ended:
            return
        try:
            async with self.pool.connection() as conn, conn.transaction():
                await lock_accounts(conn, ended)
                await self.accounts.move_cursors(conn, unchanged)
                await release_each(conn, "new mail", ended)
        except BaseException:
            self._some_ended.set()
            raise
        self._ended -= ended
        del self._unchanged[: len(unchanged)]

    async def _renew(self) -> None:
        """Renew the leases of looks that take long, such as the first one at a mailbox."""
        while True:
            await asyncio.sleep(self.lease_seconds / 3)
            if self._under_way:
                with suppress(psycopg.Error):  # all that it costs is that another process looks, too
                    async with self.pool.connection() as conn, conn.transaction():
                        await lock_accounts(conn, self._under_way)
                        await renew_each(conn, "new mail", self._under_way, self.lease_seconds)

    async def _stop(self) -> None:
        looks = list(self._under_way.values())
        for look in looks:
            look.cancel()
        await asyncio.gather(*looks, return_exceptions=True)
        self._ended |= self._under_way.keys()  # those that had not begun
        with suppress(psycopg.Error, TimeoutError):  # a lease that can't be given back runs out by itself
            async with asyncio.timeout(_GIVE_BACK_SECONDS):
                await self._settle()
