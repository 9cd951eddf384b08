"""The one account behind an MCP server: whether its tools may be used now, and Google's errors in plain words."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Literal
from uuid import UUID
from zoneinfo import ZoneInfo

from email_assistant.accounts.account import Account, UnknownAccount
from email_assistant.accounts.accounts import Accounts
from email_assistant.accounts.clients import Clients
from email_assistant.accounts.vault import VaultError
from email_assistant.db.lease import LeaseLost
from email_assistant.google.errors import Ambiguous, GoogleError, NotFound, RateLimited, Refused, Revoked, Transient
from email_assistant.google.quota import Urgency, calls_are
from email_assistant.tools.senders import AliasGone
from email_assistant.tools.spec import ToolError

if TYPE_CHECKING:
    from email_assistant.google.account import GoogleAccount

Purpose = Literal["read", "write"]


class Limited(ToolError):
    """Nothing was done, as a limit of Google's is reached; it passes."""


class TryAgain(ToolError):
    """It may pass by itself; a call that has a key of its own is done at most once, however often it is made."""


@dataclass(frozen=True, slots=True)
class Visit:
    """One use of the account."""

    account: Account
    google: "GoogleAccount"
    zone: ZoneInfo
    check_active: Callable[[], Awaitable[None]]
    """To be awaited immediately before something is written that no ledger tells of. Raises LeaseLost."""


class Mailbox:
    """The account, as it is each time that it is used."""

    def __init__(self, accounts: Accounts, clients: Clients, account_id: UUID) -> None:
        self._accounts = accounts
        self._clients = clients
        self._account_id = account_id
        self._zone: ZoneInfo | None = None

    async def check(self, purpose: Purpose) -> None:
        """Raises ToolError: the account may not be used so now."""
        _check(await self._accounts.get(self._account_id), purpose)

    @asynccontextmanager
    async def visit(self, purpose: Purpose) -> AsyncIterator[Visit]:
        """Use the account for one call of a tool. Raises ToolError: it may not be used so now, or Google did not do
        what was asked for within the block."""
        try:
            account = await self._accounts.get(self._account_id)
            _check(account, purpose)
            google = await self._clients.get(account.id)
            with calls_are(Urgency.PERSON if purpose == "write" else Urgency.MAIL):
                active = partial(self._accounts.check_active, account.id)
                yield Visit(account, google, await self._zone_of(account, google), active)
        except AliasGone as gone:
            await self._accounts.drop_alias(self._account_id, gone.address)
            raise
        except Revoked as error:
            await self._accounts.set_state(self._account_id, "login", str(error))
            raise TryAgain(_LOGGED_OUT.format(account.address)) from None
        except LeaseLost:
            account = await self._accounts.get(self._account_id)
            told = _RESTS.get(account.state) or "another process is at this mail: try again"
            raise TryAgain(told.format(account.address)) from None
        except RateLimited as error:
            raise Limited(_explained(error)) from None
        except (Transient, Ambiguous) as error:
            raise TryAgain(_explained(error)) from None
        except (GoogleError, UnknownAccount, VaultError) as error:
            raise ToolError(_explained(error)) from None

    async def _zone_of(self, account: Account, google: "GoogleAccount") -> ZoneInfo:
        """The account's timezone; asked for where the account has never been synchronised."""
        if account.timezone:
            return account.zone
        if self._zone is None:
            self._zone = ZoneInfo(await google.calendar.timezone() or "UTC")
        return self._zone


async def account_served(accounts: Accounts, user_id: UUID, address: str | None) -> Account:
    """The one of that address, by default the only one. Raises UnknownAccount."""
    if address is not None:
        return await accounts.find(user_id, address)
    known = await accounts.of_user(user_id)
    if len(known) != 1:
        there_are = ", ".join(account.address for account in known)
        raise UnknownAccount(
            f"say which account with --account: {there_are}" if known else "no account yet; see `auth login --help`"
        )
    return known[0]


STOPPED = "the person has stopped everything, and nothing is sent or changed: `email-assistant go-on` ends that"
_LOGGED_OUT = "Google no longer accepts the login: the person must run `email-assistant auth login {0}`"
_RESTS = {
    "paused": "{0} is paused: the person can run `email-assistant account resume {0}`",
    "stopped": STOPPED,
}
"""What passes by itself once the person says so."""
_STATES = {
    "login": _LOGGED_OUT,
    "removing": "{0} is being removed",
}
_SHADOW = (
    "{0} is in shadow mode, in which nothing is sent or changed: "
    "the person can run `email-assistant account mode {0} send`"
)


def _check(account: Account, purpose: Purpose) -> None:
    if account.state in _RESTS:
        raise TryAgain(_RESTS[account.state].format(account.address))
    if account.state != "active":
        raise ToolError(_STATES[account.state].format(account.address))
    if purpose == "write" and account.mode == "shadow":
        raise ToolError(_SHADOW.format(account.address))


def _explained(error: GoogleError | UnknownAccount | VaultError) -> str:
    match error:
        case NotFound():
            return f"there is no such thing, or no longer ({error})"
        case RateLimited():
            return f"{error}; nothing was done, try again later"
        case Ambiguous():
            return f"{error}: it may have been done; the same call again looks first"
        case Transient():
            return f"{error}; try again"
        case Refused():
            return f"Google refuses, and nothing was done ({error})"
        case _:
            return str(error)
