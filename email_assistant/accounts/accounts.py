"""People's mailboxes: address, timezone, token, state. All SQL on `accounts` but the mailbox cursor's."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, get_args
from uuid import UUID
from zoneinfo import ZoneInfo

import psycopg
from psycopg.rows import class_row

from email_assistant.accounts.vault import Vault
from email_assistant.db.pool import Connection, Pool

State = Literal["active", "paused", "login", "removing"]
Mode = Literal["shadow", "draft", "send"]
"""What becomes of proposals: only shown; left as drafts at Gmail as well; or carried out once the person accepts."""
MODES: tuple[Mode, ...] = get_args(Mode)

_COLUMNS = """id, user_id, address, provider, name, signature, timezone, background, history_id, listed_at,
              described_at, triage_since, state, mode, last_error,
              case when spent_until > clock_timestamp() then spent_until end spent_until"""


@dataclass(frozen=True, slots=True)
class Account:
    id: UUID
    user_id: UUID
    address: str
    provider: str
    name: str
    """The person's name, for the From of replies."""
    signature: str
    """Plain text, from the account's send-as settings; empty if there is none."""
    timezone: str | None
    """IANA name from the account's calendar; None until it is known."""
    background: str
    history_id: int | None
    """The mailbox cursor; None until the first listing."""
    listed_at: datetime | None
    described_at: datetime | None
    """When timezone, name and signature were last asked for."""
    triage_since: datetime
    state: State
    mode: Mode
    last_error: str | None
    spent_until: datetime | None
    """The day's budget for models is spent until then; None while something is left."""

    @property
    def zone(self) -> ZoneInfo:
        return ZoneInfo(self.timezone or "UTC")


class UnknownAccount(LookupError):
    """No such account; the message says which ones there are."""


class Accounts:
    """The accounts that this process may touch: those of its provider (Google itself, or another server)."""

    def __init__(self, pool: Pool, vault: Vault, provider: str) -> None:
        self._pool = pool
        self._vault = vault
        self._provider = provider

    async def home_user(self) -> UUID:
        """The one implicit user of a home installation."""
        rows = await self._rows("select id from users where name = 'home'", ())
        return UUID(str(rows[0]["id"]))

    async def add(
        self, user_id: UUID, address: str, token: dict[str, Any], triage_since: datetime, mode: Mode = "send"
    ) -> Account:
        """Add the account, or give the one that is there already, whose mode stays, a new token and make it active.

        One that moved to another provider is listed anew: a mailbox cursor means nothing elsewhere.
        """
        await self._rows(
            """insert into accounts (user_id, address, provider, token, triage_since, mode)
               values (%s, %s, %s, %s, %s, %s)
               on conflict (user_id, address) do update
               set token = excluded.token, login_at = clock_timestamp(), state = 'active', last_error = null,
                   poll_after = '-infinity', provider = excluded.provider,
                   history_id = case when accounts.provider = excluded.provider then accounts.history_id end""",
            (user_id, address.lower(), self._provider, self._vault.encrypt(token), triage_since, mode),
        )
        return await self.find(user_id, address)

    async def of_user(self, user_id: UUID) -> list[Account]:
        return await self._accounts("user_id = %s order by address", (user_id,))

    async def pollable(self) -> list[Account]:
        """Every user's accounts whose mailbox is to be watched by this process."""
        return await self._accounts(
            "state = 'active' and provider = %s and poll_after <= clock_timestamp() order by address", (self._provider,)
        )

    async def find(self, user_id: UUID, address: str) -> Account:
        """Raises UnknownAccount."""
        found = await self._accounts("user_id = %s and address = %s", (user_id, address.strip().lower()))
        if not found:
            known = ", ".join(a.address for a in await self.of_user(user_id)) or "none yet; see `account add --help`"
            raise UnknownAccount(f"no account {address}; there are: {known}")
        return found[0]

    async def get(self, account_id: UUID) -> Account:
        """Raises UnknownAccount."""
        found = await self._accounts("id = %s", (account_id,))
        if not found:
            raise UnknownAccount(f"account {account_id} is gone")
        return found[0]

    async def login(self, account_id: UUID) -> tuple[datetime, dict[str, Any]]:
        """When the person logged in, and the token that this gave. Raises UnknownAccount, VaultError."""
        rows = await self._rows(
            "select login_at, token from accounts where id = %s and provider = %s", (account_id, self._provider)
        )
        if not rows:
            raise UnknownAccount(f"account {account_id} is gone, or belongs to another server")
        return rows[0]["login_at"], self._vault.decrypt(rows[0]["token"])

    async def save_token(self, account_id: UUID, token: dict[str, Any]) -> None:
        await self._rows("update accounts set token = %s where id = %s", (self._vault.encrypt(token), account_id))

    async def set_state(self, account_id: UUID, state: State, error: str | None = None) -> None:
        """An account that is being removed stays so."""
        await self._rows(
            "update accounts set state = %s, last_error = %s where id = %s and state <> 'removing'",
            (state, error, account_id),
        )

    async def set_mode(self, conn: Connection, account_id: UUID, mode: Mode) -> None:
        await conn.execute("update accounts set mode = %s where id = %s", (mode, account_id))

    async def note_error(self, account_id: UUID, error: str, poll_after: datetime | None = None) -> None:
        """
        Args:
            poll_after: when Google said to come back, if it did.
        """
        await self._rows(
            "update accounts set last_error = %s, poll_after = coalesce(%s, poll_after) where id = %s",
            (error, poll_after, account_id),
        )

    @asynccontextmanager
    async def syncing(self, account_id: UUID, seconds: float) -> AsyncIterator[bool]:
        """Whether this process may look into the mailbox for the length of the block: one does so at a time.

        So a look that takes longer than the time between two isn't begun over and over. No promise rests on it.
        """
        claimed = await self._rows(
            """update accounts set syncing_until = clock_timestamp() + make_interval(secs => %s)
               where id = %s and syncing_until < clock_timestamp() returning id""",
            (seconds, account_id),
        )
        if not claimed:
            yield False
            return
        renewal = asyncio.create_task(self._keep_syncing(account_id, seconds))
        try:
            yield True
        finally:
            renewal.cancel()
            with suppress(psycopg.Error):  # it runs out by itself
                await self._rows("update accounts set syncing_until = '-infinity' where id = %s", (account_id,))

    async def _keep_syncing(self, account_id: UUID, seconds: float) -> None:
        while True:
            await asyncio.sleep(seconds / 3)
            with suppress(psycopg.Error):
                await self._rows(
                    "update accounts set syncing_until = clock_timestamp() + make_interval(secs => %s) where id = %s",
                    (seconds, account_id),
                )

    async def describe(self, account_id: UUID, *, timezone: str | None, name: str, signature: str) -> None:
        """Keep what Google says of the account; an unknown timezone leaves what is known."""
        await self._rows(
            """update accounts set timezone = coalesce(%s, timezone), name = %s, signature = %s,
                      described_at = clock_timestamp() where id = %s""",
            (timezone, name, signature, account_id),
        )

    async def set_background(self, account_id: UUID, text: str) -> None:
        await self._rows("update accounts set background = %s where id = %s", (text, account_id))

    async def _accounts(self, where: str, parameters: tuple[Any, ...]) -> list[Account]:
        async with self._pool.connection() as conn, conn.cursor(row_factory=class_row(Account)) as cursor:
            await cursor.execute(f"select {_COLUMNS} from accounts where {where}".encode(), parameters)
            return await cursor.fetchall()

    async def _rows(self, query: str, parameters: tuple[Any, ...]) -> list[dict[str, Any]]:
        async with self._pool.connection() as conn:
            cursor = await conn.execute(query.encode(), parameters)
            return await cursor.fetchall() if cursor.description else []
