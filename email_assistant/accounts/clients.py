"""One Google client per account and process: it holds the refreshed access token."""

from collections.abc import Collection
from datetime import datetime
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any
from uuid import UUID

from email_assistant.accounts.account import Account
from email_assistant.accounts.accounts import Accounts
from email_assistant.accounts.quota import AccountQuota
from email_assistant.accounts.vault import VaultError
from email_assistant.db.pool import Pool
from email_assistant.google.quota import Limits

if TYPE_CHECKING:
    from email_assistant.google.account import GoogleAccount
    from email_assistant.google.client import Wire


class Clients:
    def __init__(
        self,
        pool: Pool,
        accounts: Accounts,
        *,
        root: str | None,
        timeout: float,
        limits: Limits,
        busy_calendars: Collection[str] = (),
    ) -> None:
        self.root = root
        self._pool = pool
        self._accounts = accounts
        self._timeout = timeout
        self.limits = limits
        self._busy_calendars = busy_calendars
        self._clients: dict[UUID, tuple[datetime, GoogleAccount]] = {}

    @cached_property
    def _wire(self) -> "Wire":
        """Opened at first use: most commands have nothing to ask of Google, and it takes long to import."""
        from email_assistant.google.client import Wire

        return Wire(self.root)

    async def get(self, account_id: UUID) -> "GoogleAccount":
        """The account's client; made anew when the person has logged in again.

        Raises:
            UnknownAccount, VaultError.
        """
        login_at, token = await self._accounts.login(account_id)
        known = self._clients.get(account_id)
        if known and known[0] == login_at:
            return known[1]
        client = self._connect(account_id, token)
        self._clients[account_id] = (login_at, client)
        return client

    async def of(self, account: Account) -> "GoogleAccount":
        """As `get`, for an account that was read just now."""
        known = self._clients.get(account.id)
        return known[1] if known and known[0] == account.login_at else await self.get(account.id)

    async def if_any(self, account: Account) -> "GoogleAccount | None":
        """As `of`; None for a person without a mailbox."""
        return await self.of(account) if account.has_mailbox else None

    async def aclose(self) -> None:
        if "_wire" in self.__dict__:
            await self._wire.aclose()

    def _connect(self, account_id: UUID, token: dict[str, Any]) -> "GoogleAccount":
        from email_assistant.google.account import GoogleAccount

        exchange = partial(self._accounts.exchange_token, account_id)
        quota = AccountQuota(self._pool, self.limits, account_id, str(token.get("client_id")))
        try:
            return GoogleAccount(
                token,
                self._wire,
                timeout=self._timeout,
                exchange_token=exchange,
                quota=quota,
                busy_calendars=self._busy_calendars,
            )
        except ValueError as error:
            raise VaultError(
                f"the stored login can't be used ({error}): log in again with `email-assistant auth login ADDRESS`"
            ) from None
