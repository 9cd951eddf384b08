"""One client per account and process: it holds the refreshed access token. Google's share their connections."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, cast
from uuid import UUID

from email_assistant.accounts.account import Account
from email_assistant.accounts.accounts import Accounts
from email_assistant.accounts.provider import Connect, MailAccount
from email_assistant.accounts.quota import AccountQuota
from email_assistant.accounts.vault import VaultError
from email_assistant.db.pool import Pool
from email_assistant.google.quota import Limits
from email_assistant.plugins import plugin

if TYPE_CHECKING:
    from email_assistant.google.account import GoogleAccount
    from email_assistant.google.client import Wire


@dataclass
class Clients:
    pool: Pool
    accounts: Accounts
    root: str | None
    timeout: float
    limits: Limits
    busy_calendars: Collection[str] = ()
    other: Connect | None = None
    """What connects the accounts of another provider; None: they are Google's."""
    _clients: "dict[UUID, tuple[datetime, GoogleAccount]]" = field(default_factory=dict, init=False)
    _others: list[MailAccount] = field(default_factory=list, init=False)

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
        login_at, token = await self.accounts.login(account_id)
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
        for client in self._others:
            await client.aclose()
        if "_wire" in self.__dict__:
            await self._wire.aclose()

    def _connect(self, account_id: UUID, token: dict[str, Any]) -> "GoogleAccount":
        """Raises VaultError."""
        exchange = partial(self.accounts.exchange_token, account_id)
        try:
            if self.other:
                other = self.other(
                    token, timeout=self.timeout, exchange_token=exchange, busy_calendars=self.busy_calendars
                )
                self._others.append(other)
                # It has all that is asked of one (`provider.py`), which the program goes on to name by Google's types.
                return cast("GoogleAccount", other)
            from email_assistant.google.account import GoogleAccount

            return GoogleAccount(
                token,
                self._wire,
                timeout=self.timeout,
                exchange_token=exchange,
                quota=AccountQuota(self.pool, self.limits, account_id, str(token.get("client_id"))),
                busy_calendars=self.busy_calendars,
            )
        except ValueError as error:
            raise VaultError(
                f"the stored login can't be used ({error}): log in again with `email-assistant auth login ADDRESS`"
            ) from None


def connect_of(provider: str | None) -> Connect | None:
    """What connects accounts of another provider than Google, if one is named. Raises BadPlugin."""
    return cast("Connect", plugin("mail_providers", provider).load()) if provider else None


async def address_of(connect: Connect, token: Mapping[str, Any], seconds: float) -> str:
    """The mailbox that a login at another provider is for. Raises ValueError if it is none, GoogleError."""
    account = connect(token, timeout=seconds)
    try:
        return (await account.gmail.profile()).address
    finally:
        await account.aclose()
