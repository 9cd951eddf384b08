"""People's mailboxes: address, timezone, token, state. All SQL on `accounts` but the mailbox cursor's."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal
from http import HTTPStatus
from math import isfinite
from typing import Annotated, Any, Final, Literal, get_args
from uuid import UUID
from zoneinfo import ZoneInfo

import psycopg
from psycopg.rows import dict_row
from psycopg.types.json import Jsonb
from pydantic import AfterValidator, TypeAdapter

from email_assistant.accounts.vault import Vault
from email_assistant.db.pool import Connection, Pool
from email_assistant.db.values import zone_named
from email_assistant.errors import AssistantError
from email_assistant.mail.address import Address, untagged
from email_assistant.settings import GOOGLE, LOCAL_SERVER, is_of_demo

_EXCHANGES: Final = 4
_NOWHERE: Final = "none"
"""Provider of the account that stands for a person without a mailbox: nobody looks for it anywhere."""
WITHOUT_MAILBOX: Final = "no mailbox"
"""Its address."""
SERVED: Final = f"a.provider in (%s, '{_NOWHERE}')"
"""SQL: whether a process that serves a provider serves the account `a`."""
_EXCHANGE_SECONDS: Final = 120

State = Literal["active", "paused", "login", "removing"]
Mode = Literal["shadow", "draft", "send"]
"""What becomes of proposals: only shown; left as drafts at Gmail as well; or carried out once the person accepts."""
MODES: tuple[Mode, ...] = get_args(Mode)

_COLUMNS = """id, user_id, address, provider, name, signature, aliases, timezone, background, history_id, listed_at,
              described_at, triage_since, state, mode, last_error, login_at, login_ends, scopes,
              backfilled_at, backfill_total, backfill_done, backfill_at, backfill_seconds, backfill_messages,
              watch_until, watch_error, labels,
              case when spent_until > clock_timestamp() then spent_until end spent_until"""


Claim = Literal["syncing", "backfilling"]
"""What one process at a time does with a mailbox."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far the fetching of older mail is."""

    done: int
    total: int
    seconds_left: int | None
    """How long the rest takes at the pace of late; None until that is known."""

    def __str__(self) -> str:
        far = f"{self.done:,} of {self.total:,}"
        return far if self.seconds_left is None else f"{far}, {_about(self.seconds_left)} left"


@dataclass(frozen=True, slots=True)
class Identity:
    """An address that the account may send from, with what a mail from it bears."""

    address: str
    """In lower case."""
    name: str
    signature: str
    """Plain text; empty if there is none."""
    default: bool = False
    """The person writes new mail from it."""

    @property
    def mailbox(self) -> Address:
        return Address(self.name, self.address)


@dataclass(frozen=True, slots=True)
class Account:
    id: UUID
    user_id: UUID
    address: str
    provider: str
    """The server that its login is for (`Settings.provider`); no other is ever sent it."""
    name: str
    """The person's name, for the From of what goes out from the account's own address."""
    signature: str
    """Plain text, likewise; empty if there is none."""
    aliases: tuple[Identity, ...] | None
    """Other addresses that Gmail has verified as the person's; None: not asked for yet."""
    timezone: str | None
    """IANA name from the account's calendar; None until it is known."""
    background: str
    history_id: int | None
    """The mailbox cursor; None until the first listing."""
    listed_at: datetime | None
    described_at: datetime | None
    """When timezone, names, signatures and aliases were last asked for."""
    triage_since: datetime
    state: State
    mode: Mode
    last_error: str | None
    login_at: datetime
    """When the person logged in, or out."""
    login_ends: datetime | None
    """When Google ends the login by itself; None if it did not say."""
    scopes: list[str] | None
    """What the person has allowed; None if it is not known."""
    backfilled_at: datetime | None
    """When the last of the older mail was fetched; None while some may be left."""
    backfill_total: int | None
    backfill_done: int | None
    backfill_at: datetime | None
    """When the last batch of it ended."""
    backfill_seconds: float
    """How long was worked on it of late."""
    backfill_messages: float
    """How many messages were fetched meanwhile."""
    watch_until: datetime | None
    """Gmail tells of new mail by itself until then; None if it does not."""
    watch_error: str | None
    """Why it does not, though it was asked to."""
    labels: dict[str, str]
    """Gmail's ids of the labels for classes, by name, as far as they are known."""
    spent_until: datetime | None
    """The day's budget for models is spent until then; None while something is left."""

    @property
    def is_the_demos(self) -> bool:
        """Whether its mailbox is one of `demo`, which alone serves it."""
        return is_of_demo(self.provider)

    @property
    def identities(self) -> tuple[Identity, ...]:
        """All that it may send from, its own address first."""
        return Identity(self.address, self.name, self.signature), *(self.aliases or ())

    @property
    def has_mailbox(self) -> bool:
        """False: it stands for a person who has connected none."""
        return self.provider != _NOWHERE

    @property
    def own_addresses(self) -> frozenset[str]:
        """Every address that is the person's own, in lower case."""
        return frozenset(identity.address for identity in self.identities)

    def is_own(self, address: str) -> bool:
        """Whether mail to this address comes to the person; Gmail delivers `ada+shop@…` to `ada@…`."""
        return self.identity(address) is not None

    def identity(self, address: str) -> Identity | None:
        """What mail to this address is answered from, if it is the person's own."""
        known = {identity.address: identity for identity in self.identities}
        return known.get(address.lower()) or known.get(untagged(address))

    @property
    def new_mail_identity(self) -> Identity:
        """What mail goes out from that answers none: the person's choice in Gmail."""
        return next((alias for alias in self.identities if alias.default), self.identities[0])

    @property
    def zone(self) -> ZoneInfo:
        return zone_named(self.timezone)

    @property
    def wants_backfill(self) -> bool:
        """Whether older mail is to be fetched: the mailbox is watched already, and some may be left."""
        return self.state == "active" and self.history_id is not None and self.backfilled_at is None

    @property
    def older_mail(self) -> Progress | None:
        """None before the older mail is counted, and once all of it is there."""
        if not self.backfill_total or self.backfill_done is None:
            return None
        progress = Progress(self.backfill_done, self.backfill_total, None)
        if self.backfill_seconds < _MEASURED_SECONDS or self.backfill_messages == 0:
            return progress
        left = (self.backfill_total - self.backfill_done) * self.backfill_seconds / self.backfill_messages
        return replace(progress, seconds_left=round(left)) if isfinite(left) else progress


def _is_zone(name: str) -> str:
    if zone_named(name).key != name:
        raise ValueError("there is no such timezone")
    return name


_SHAPES: Final[Mapping[str, TypeAdapter[Any]]] = {
    "aliases": TypeAdapter(tuple[Identity, ...] | None),
    "labels": TypeAdapter(dict[str, str]),
    "scopes": TypeAdapter(list[str] | None),
    "timezone": TypeAdapter(Annotated[str, AfterValidator(_is_zone)] | None),
}
_MEASURED_SECONDS = 5.0
"""A pace from less than this is not told."""


class UnknownAccount(AssistantError):
    """No such account; the message says which ones there are."""

    status = HTTPStatus.NOT_FOUND
    passes = "on another try"


class Accounts:
    """The accounts that this process may touch: those of its provider (Google itself, or another server)."""

    def __init__(self, pool: Pool, vault: Vault, provider: str) -> None:
        self._pool = pool
        self._vault = vault
        self._provider = provider
        # Each holds a connection while Google's token endpoint answers: many at once would leave none.
        self._exchanges = asyncio.Semaphore(_EXCHANGES)

    async def home_user(self) -> UUID:
        """The one implicit user of a home installation."""
        rows = await self._rows("select id from users where name = 'home'", ())
        return UUID(str(rows[0]["id"]))

    async def add(
        self,
        user_id: UUID,
        address: str,
        token: dict[str, Any],
        triage_since: datetime,
        mode: Mode = "send",
        *,
        scopes: Collection[str] | None = None,
        login_ends: datetime | None = None,
    ) -> Account:
        """Add the account, or give the one that is there already, whose mode stays, a new token and make it active.

        One that moved to another provider is listed anew: a mailbox cursor means nothing elsewhere.

        Raises:
            UnknownAccount: it is being removed.
        """
        added = await self._rows(
            """insert into accounts (user_id, address, provider, token, triage_since, mode, scopes, login_ends)
               values (%s, %s, %s, %s, %s, %s, %s, %s)
               on conflict (user_id, address) do update
               set token = excluded.token, login_at = clock_timestamp(), state = 'active', last_error = null,
                   poll_after = '-infinity', watch_after = '-infinity', provider = excluded.provider,
                   scopes = excluded.scopes, login_ends = excluded.login_ends,
                   history_id = case when accounts.provider = excluded.provider then accounts.history_id end,
                   backfilled_at = case when accounts.provider = excluded.provider then accounts.backfilled_at end,
                   backfill_total = case when accounts.provider = excluded.provider then accounts.backfill_total end,
                   labels = case when accounts.provider = excluded.provider then accounts.labels else '{}' end,
                   aliases = case when accounts.provider = excluded.provider then accounts.aliases end
               where accounts.state <> 'removing' returning id""",
            (
                user_id,
                address.lower(),
                self._provider,
                self._vault.encrypt(token),
                triage_since,
                mode,
                None if scopes is None else sorted(scopes),
                login_ends,
            ),
        )
        if not added:
            raise UnknownAccount(f"{address} is being removed; connect it again when that is done")
        return await self.find(user_id, address)

    async def log_out(self, account: Account) -> None:
        """Forget the login, but for the OAuth client, with which the person can log in again."""
        _, token = await self.login(account.id)
        client: dict[str, Any] = {key: token[key] for key in ("client_id", "client_secret") if key in token}
        await self._rows(
            """update accounts set token = %s, login_at = clock_timestamp(), login_ends = null, scopes = null,
                      state = 'login', last_error = 'you logged out' where id = %s and state <> 'removing'""",
            (self._vault.encrypt(client), account.id),
        )

    async def of_user(self, user_id: UUID) -> list[Account]:
        """The person's mailboxes."""
        return await self._accounts("user_id = %s and provider <> %s order by address", (user_id, _NOWHERE))

    async def for_chat(self, user_id: UUID) -> Account:
        """What a chat is about where no mailbox is named: the first, or what stands for a person who has none.

        Raises:
            UnknownAccount: there is one, which this process may not touch.
        """
        if await self.of_user(user_id):
            return await self.first(user_id)
        await self._rows(
            """insert into accounts (user_id, address, provider, token, triage_since, listed_at, backfilled_at)
               values (%s, %s, %s, %s, clock_timestamp(), clock_timestamp(), clock_timestamp())
               on conflict (user_id, address) do nothing""",
            (user_id, WITHOUT_MAILBOX, _NOWHERE, self._vault.encrypt({})),
        )
        return (await self._accounts("user_id = %s and provider = %s", (user_id, _NOWHERE)))[0]

    async def pollable(self) -> list[Account]:
        """Every user's accounts whose mailbox is to be watched by this process."""
        return await self._accounts(
            "state = 'active' and provider = %s and poll_after <= clock_timestamp() order by address", (self._provider,)
        )

    async def find(self, user_id: UUID, address: str) -> Account:
        """Raises UnknownAccount."""
        found = await self._accounts(
            "user_id = %s and address = %s and provider <> %s", (user_id, address.strip().lower(), _NOWHERE)
        )
        if not found:
            known = ", ".join(a.address for a in await self.of_user(user_id)) or "none yet; see `auth login --help`"
            raise UnknownAccount(f"no account {address}; there are: {known}")
        return found[0]

    async def first(self, user_id: UUID) -> Account:
        """The account that is meant where none is named: one that works, if there is any. Raises UnknownAccount."""
        found = await self._accounts(
            "user_id = %s and provider <> %s order by provider = %s desc, state = 'active' desc, address limit 1",
            (user_id, _NOWHERE, self._provider),
        )
        if not found:
            raise UnknownAccount("no mailbox is connected yet: `email-assistant auth login` does that")
        return self.here(found[0])

    def here(self, account: Account) -> Account:
        """The account, if this process may touch it. Raises UnknownAccount."""
        if why := self.away(account):
            raise UnknownAccount(f"{account.address} {why}")
        return account

    def away(self, account: Account) -> str | None:
        """Why this process leaves the account alone, and what to do; to be read after its address. None: it does not.

        A login is sent to the server that it was made at, and to no other, whatever the settings say by now.
        """
        if account.provider == self._provider or not account.has_mailbox:
            return None
        again = f"log in again with `email-assistant auth login {account.address}`"
        if account.is_the_demos:
            return (
                "was left by a demo of an earlier version, and is never worked on here: "
                f"`email-assistant account remove {account.address}` removes it"
            )
        if account.provider.startswith(LOCAL_SERVER):
            name = account.provider.removeprefix(LOCAL_SERVER)
            return (
                f"belongs to the server {name} on this machine, and no other is sent its login: name that with "
                f"EMAIL_ASSISTANT_GOOGLE_NAME and EMAIL_ASSISTANT_GOOGLE_ROOT, or {again}"
            )
        if account.provider == GOOGLE:
            return (
                "belongs to Google, and EMAIL_ASSISTANT_GOOGLE_ROOT names another server, which is not sent its login: "
                f"unset that, or {again}"
            )
        if account.provider.startswith(("http://", "https://")):
            return (
                f"belongs to the server at {account.provider}, and no other is sent its login: set "
                f"EMAIL_ASSISTANT_GOOGLE_ROOT to that, or {again}"
            )
        return (
            "belongs to a server that is not known, since an earlier version did not keep where it is "
            f"({account.provider}), so its login is sent nowhere: {again}"
        )

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

    async def exchange_token(
        self, account_id: UUID, exchange: Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]
    ) -> None:
        """Hand the stored token to `exchange` and store what it returns: one caller at a time, in whatever process.

        A token of a login that came meanwhile stays. Raises UnknownAccount (also where that login is for another
        server, which alone may be sent it), VaultError, and what `exchange` raises.
        """
        async with self._exchanges, self._pool.connection() as conn, conn.transaction():
            # Google may take longer than a command waits for locks, or a transaction for its process, otherwise.
            for limit in ("lock_timeout", "idle_in_transaction_session_timeout"):
                await conn.execute(f"set local {limit} = '{_EXCHANGE_SECONDS}s'".encode())
            # No lock on the row: sending asks for it, and must not wait for Google's token endpoint.
            await conn.execute("select pg_advisory_xact_lock(hashtextextended(%s, 0))", (f"{account_id}/token",))
            row = await (
                await conn.execute(
                    "select login_at, token from accounts where id = %s and provider = %s", (account_id, self._provider)
                )
            ).fetchone()
            if row is None:
                raise UnknownAccount(f"account {account_id} is gone, or belongs to another server")
            stored = self._vault.decrypt(row["token"])
            token = await exchange(stored)
            if token is not stored:
                await conn.execute(
                    "update accounts set token = %s where id = %s and login_at = %s",
                    (self._vault.encrypt(token), account_id, row["login_at"]),
                )

    async def set_state(self, account_id: UUID, state: State, error: str | None = None) -> None:
        """An account that is being removed stays so; one that is in this state already keeps its reason."""
        await self._rows(
            "update accounts set state = %s, last_error = %s where id = %s and state not in ('removing', %s)",
            (state, error, account_id, state),
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
    async def claimed(self, claim: Claim, account_id: UUID, seconds: float) -> AsyncIterator[bool]:
        """Whether this process may do this with the mailbox for the length of the block: one does so at a time.

        So a look that takes longer than the time between two isn't begun over and over. No promise rests on it.
        """
        claimed = await self._rows(
            f"""update accounts set {claim}_until = clock_timestamp() + make_interval(secs => %s)
                where id = %s and {claim}_until < clock_timestamp() returning id""",
            (seconds, account_id),
        )
        if not claimed:
            yield False
            return
        renewal = asyncio.create_task(self._keep(claim, account_id, seconds))
        try:
            yield True
        finally:
            renewal.cancel()
            with suppress(psycopg.Error):  # it runs out by itself
                await self._rows(f"update accounts set {claim}_until = '-infinity' where id = %s", (account_id,))

    async def _keep(self, claim: Claim, account_id: UUID, seconds: float) -> None:
        while True:
            await asyncio.sleep(seconds / 3)
            with suppress(psycopg.Error):
                await self._rows(
                    f"update accounts set {claim}_until = clock_timestamp() + make_interval(secs => %s) where id = %s",
                    (seconds, account_id),
                )

    async def backfill_begins(self, account_id: UUID, total: int) -> None:
        """So much older mail is to be fetched."""
        await self._rows(
            """update accounts set backfill_total = %s, backfill_done = 0, backfill_at = null, backfill_seconds = 0,
                      backfill_messages = 0 where id = %s""",
            (total, account_id),
        )

    async def backfill_progressed(
        self, account_id: UUID, *, done: int, at: datetime, seconds: float, messages: float
    ) -> None:
        await self._rows(
            """update accounts set backfill_done = %s, backfill_at = %s, backfill_seconds = %s, backfill_messages = %s
               where id = %s""",
            (done, at, seconds, messages, account_id),
        )

    async def backfill_ends(self, account_id: UUID) -> None:
        await self._rows(
            """update accounts set backfilled_at = clock_timestamp(), backfill_total = null, backfill_done = null,
                      backfill_at = null where id = %s""",
            (account_id,),
        )

    async def describe(
        self, account_id: UUID, *, timezone: str | None, name: str, signature: str, aliases: Sequence[Identity]
    ) -> None:
        """Keep what Google says of the account; an unknown timezone leaves what is known."""
        await self._rows(
            """update accounts set timezone = coalesce(%s, timezone), name = %s, signature = %s, aliases = %s,
                      described_at = clock_timestamp() where id = %s""",
            (timezone, name, signature, Jsonb([asdict(alias) for alias in aliases]), account_id),
        )

    async def drop_alias(self, account_id: UUID, address: str) -> None:
        """Gmail lets nobody send from this address any more."""
        await self._rows(
            """update accounts set aliases = (select coalesce(jsonb_agg(alias), '[]')
                                              from jsonb_array_elements(aliases) as alias where alias->>'address' <> %s)
               where id = %s""",
            (address, account_id),
        )

    async def claim_watches(self, topic: str | None, for_: timedelta) -> list[UUID]:
        """Accounts in which Gmail is to be asked now to tell a topic of new mail, or no longer to tell if there is
        none. They are the caller's for that time; then they are due again, unless told of below."""
        due = """state = 'active' and provider = %(provider)s and poll_after <= clock_timestamp()
            and (watch_after <= clock_timestamp() or watch_topic is distinct from %(topic)s::text)
            and (%(topic)s::text is not null or watch_until is not null or watch_error is not null)"""
        given = {"topic": topic, "for": for_, "provider": self._provider}
        claimed = [
            await self._rows(
                f"""update accounts set watch_topic = %(topic)s, watch_after = clock_timestamp() + %(for)s
                    where id = %(id)s and {due} returning id""",
                {**given, "id": row["id"]},
            )
            for row in await self._rows(f"select id from accounts where {due}", given)
        ]
        return [row["id"] for rows in claimed for row in rows]

    async def watched(self, account_id: UUID, until: datetime, again: datetime) -> None:
        """Gmail tells until then, and is to be asked again before."""
        await self._rows(
            "update accounts set watch_until = %s, watch_after = %s, watch_error = null where id = %s",
            (until, again, account_id),
        )

    async def not_watched(self, account_id: UUID, why: str | None, again: datetime) -> None:
        """Gmail tells nobody: it refused, or was asked not to."""
        await self._rows(
            "update accounts set watch_until = null, watch_after = %s, watch_error = %s where id = %s",
            (again, why, account_id),
        )

    async def set_labels(self, account_id: UUID, labels: Mapping[str, str]) -> None:
        await self._rows("update accounts set labels = %s where id = %s", (Jsonb(dict(labels)), account_id))

    async def set_background(self, account_id: UUID, text: str) -> None:
        await self._rows("update accounts set background = %s where id = %s", (text, account_id))

    async def _accounts(self, where: str, parameters: tuple[Any, ...]) -> list[Account]:
        async with self._pool.connection() as conn, conn.cursor(row_factory=dict_row) as cursor:
            await cursor.execute(f"select {_COLUMNS} from accounts where {where}".encode(), parameters)
            return [_account(row) for row in await cursor.fetchall()]

    async def _rows(self, query: str, parameters: tuple[Any, ...] | dict[str, Any]) -> list[dict[str, Any]]:
        async with self._pool.connection() as conn:
            cursor = await conn.execute(query.encode(), parameters)
            return await cursor.fetchall() if cursor.description else []


def _account(row: dict[str, Any]) -> Account:
    """An account as it is kept. What this program never writes is left out, and asked for anew."""
    history_id: Decimal | None = row["history_id"]
    kept = {name: _judged(name, row[name]) for name in _SHAPES}
    known = int(history_id) if history_id is not None and history_id.is_finite() else None
    return Account(**{**row, **kept, "history_id": known})


def _judged(name: str, value: Any) -> Any:
    try:
        return _SHAPES[name].validate_python(value)
    except ValueError:
        return {} if name == "labels" else None


def _about(seconds: int) -> str:
    minutes = round(seconds / 60)
    if minutes < 1:
        return "less than a minute"
    return f"about {minutes} min" if minutes < 120 else f"about {round(minutes / 60)} h"
