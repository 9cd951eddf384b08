"""The mailboxes that are connected. Whatever is written to `accounts` and `stops` is written here."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

import psycopg
from psycopg.types.json import Jsonb

from email_assistant.accounts.account import NOWHERE, WITHOUT_MAILBOX, Account, Identity, Mode, State, UnknownAccount
from email_assistant.accounts.rows import COLUMNS, account_in
from email_assistant.accounts.vault import Vault
from email_assistant.db.lease import LeaseLost
from email_assistant.db.pool import Connection, Pool, Statement, fetched
from email_assistant.db.presence import Presence

_cached: ContextVar[dict[UUID, Account] | None] = ContextVar("accounts that were read", default=None)
_EXCHANGES: Final = 4
SERVED: Final = f"a.provider in (%s, '{NOWHERE}')"
"""SQL: whether a process that serves a provider serves the account `a`."""
_EXCHANGE_SECONDS: Final = 120
_ACTIVE: Final = "case when stopped_since({}) is null then 'active' else 'stopped' end"
"""SQL: the state of a person's account that is to be active. Asked under `_one_by_one`."""
_AGAIN: Final = """
on conflict (user_id, address) do update
set token = excluded.token, login_at = clock_timestamp(), state = excluded.state, last_error = null,
    poll_after = '-infinity', watch_after = '-infinity', provider = excluded.provider,
    scopes = excluded.scopes, login_ends = excluded.login_ends,
    history_id = case when accounts.provider = excluded.provider then accounts.history_id end,
    backfilled_at = case when accounts.provider = excluded.provider then accounts.backfilled_at end,
    backfill_total = case when accounts.provider = excluded.provider then accounts.backfill_total end,
    labels = case when accounts.provider = excluded.provider then accounts.labels else '{}' end,
    aliases = case when accounts.provider = excluded.provider then accounts.aliases end
where accounts.state <> 'removing'"""
_WATCH_DUE: Final = """state = 'active' and provider = %(provider)s and poll_after <= clock_timestamp()
    and (watch_after <= clock_timestamp() or watch_topic is distinct from %(topic)s::text)
    and (%(topic)s::text is not null or watch_until is not null or watch_error is not null)"""
_EVERYTHING_STOPPED: Final = (
    "It is kept, and not done before you go on: everything is stopped. `email-assistant go-on` does that."
)


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
        async with self._one_by_one() as conn:
            added = await conn.execute(
                f"""insert into accounts
                        (user_id, address, provider, token, triage_since, mode, scopes, login_ends, state)
                    values (%(user)s, %(address)s, %(provider)s, %(token)s, %(since)s, %(mode)s, %(scopes)s, %(ends)s,
                            {_ACTIVE.format("%(user)s")})
                    {_AGAIN}""".encode(),
                {
                    "user": user_id,
                    "address": address.lower(),
                    "provider": self._provider,
                    "token": self._vault.encrypt(token),
                    "since": triage_since,
                    "mode": mode,
                    "scopes": None if scopes is None else sorted(scopes),
                    "ends": login_ends,
                },
            )
        if not added.rowcount:
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
        return await self._accounts("user_id = %s and provider <> %s order by address", (user_id, NOWHERE))

    async def for_chat(self, user_id: UUID) -> Account:
        """What a chat is about where no mailbox is named: the first, or what stands for a person who has none.

        Raises:
            UnknownAccount: there is one, which this process may not touch.
        """
        try:
            return await self.first(user_id)
        except UnknownAccount:
            if await self.of_user(user_id):
                raise
        async with self._one_by_one() as conn:
            await conn.execute(
                f"""insert into accounts
                        (user_id, address, provider, token, state, triage_since, listed_at, backfilled_at)
                    values (%(user)s, %(address)s, %(provider)s, %(token)s, {_ACTIVE.format("%(user)s")},
                            clock_timestamp(), clock_timestamp(), clock_timestamp())
                    on conflict (user_id, address) do nothing""".encode(),
                {
                    "user": user_id,
                    "address": WITHOUT_MAILBOX,
                    "provider": NOWHERE,
                    "token": self._vault.encrypt({}),
                },
            )
        return (await self._accounts("user_id = %s and provider = %s", (user_id, NOWHERE)))[0]

    async def pollable(self, address: str | None = None) -> list[Account]:
        """Every user's accounts whose mailbox is to be watched by this process; of one address, if that is given."""
        which = "state = 'active' and provider = %s and poll_after <= clock_timestamp()"
        given = (self._provider, address)
        return await self._accounts(f"{which} and address = coalesce(%s, address) order by address", given)

    async def due(self, conn: Connection, after: UUID | None, most: int, seconds: float) -> list[Account]:
        """Of the accounts whose mailbox is to be watched, the first after that id into which nobody has looked for so
        long. They are locked until the caller's transaction ends."""
        rows = await conn.execute(
            f"""select {COLUMNS} from accounts a
                where state = 'active' and provider = %(provider)s and poll_after <= clock_timestamp()
                and coalesce(listed_at, '-infinity') <= clock_timestamp() - make_interval(secs => %(seconds)s)
                and (%(after)s::uuid is null or id > %(after)s) order by id limit %(most)s
                for no key update skip locked""".encode(),
            {"provider": self._provider, "seconds": seconds, "after": after, "most": most},
        )
        return [account_in(row) for row in await rows.fetchall()]

    async def find(self, user_id: UUID, address: str) -> Account:
        """Raises UnknownAccount."""
        found = await self._accounts(
            "user_id = %s and address = %s and provider <> %s", (user_id, address.strip().lower(), NOWHERE)
        )
        if not found:
            known = ", ".join(a.address for a in await self.of_user(user_id)) or "none yet; see `auth login --help`"
            raise UnknownAccount(f"no account {address}; there are: {known}")
        return found[0]

    async def first(self, user_id: UUID) -> Account:
        """The account that is meant where none is named: one that works, if there is any. Raises UnknownAccount."""
        found = await self._accounts(
            "user_id = %s and provider <> %s order by provider = %s desc, state = 'active' desc, address limit 1",
            (user_id, NOWHERE, self._provider),
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
        """Why this process leaves the account alone, as `Account.away_from` says it."""
        return account.away_from(self._provider)

    @contextmanager
    def cached(self, account: Account) -> Iterator[None]:
        """Within the block, by tasks started in it too, `get` this account as it was read, or as we change it here."""
        token = _cached.set({account.id: account})
        try:
            yield
        finally:
            _cached.reset(token)

    async def why_kept(self, presence: Presence, account_id: UUID) -> str | None:
        """What to tell of an answer that was just taken, if nothing carries it out for now; None: some process works on
        this account, whichever server's it is. Raises UnknownAccount."""
        account = await self.get(account_id)
        if account.state == "stopped":
            return _EVERYTHING_STOPPED
        absence = await presence.absence_of(account.provider if account.has_mailbox else None)
        if absence is None:
            return None
        away = self.away(account)
        return f"It is kept, and not done as things are: {account.address} {away}." if away else absence.kept

    async def named(self, account_id: UUID) -> str:
        """Its address, for logs; its id where the database does not tell it."""
        try:
            return (await self.get(account_id)).address
        except (psycopg.Error, UnknownAccount):
            return f"account {account_id}"

    async def get(self, account_id: UUID) -> Account:
        """Raises UnknownAccount."""
        return (_cached.get() or {}).get(account_id) or await self.read(account_id)

    async def read(self, account_id: UUID) -> Account:
        """As it is now, whatever is at hand. Raises UnknownAccount."""
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
        """An account that is being removed stays so; one that is in this state already keeps its reason. While all is
        stopped, one that becomes active is stopped."""
        async with self._one_by_one() as conn:
            await conn.execute(
                f"""update accounts set last_error = %(error)s,
                           state = case %(state)s when 'active' then {_ACTIVE.format("user_id")} else %(state)s end
                    where id = %(id)s and state not in ('removing', %(state)s)""".encode(),
                {"id": account_id, "state": state, "error": error},
            )

    async def stop(self, user_id: UUID) -> None:
        """Stop everything: once this has returned, nothing starts any more for any mailbox, whichever process it would.
        What is on the wire by then ends, and is recorded."""
        async with self._one_by_one() as conn:
            await conn.execute("insert into stops (user_id) values (%s) on conflict do nothing", (user_id,))
            await conn.execute("select from accounts where user_id = %s order by id for no key update", (user_id,))
            await conn.execute(
                "update accounts set state = 'stopped' where user_id = %s and state = 'active'", (user_id,)
            )

    async def go_on(self, user_id: UUID) -> list[UUID]:
        """Take back `stop`. What was paused before is paused still. Returns the accounts that are active again."""
        async with self._one_by_one() as conn:
            await conn.execute("delete from stops where user_id = %s", (user_id,))
            await conn.execute("select from accounts where user_id = %s order by id for no key update", (user_id,))
            again = await conn.execute(
                "update accounts set state = 'active' where user_id = %s and state = 'stopped' returning id", (user_id,)
            )
            return [row["id"] for row in await again.fetchall()]

    async def stopped_since(self, user_id: UUID) -> datetime | None:
        """When the person stopped everything; None: they have not, or it goes on."""
        rows = await self._rows("select stopped_since(%s) as at", (user_id,))
        since: datetime | None = rows[0]["at"]
        return since

    async def check_active(self, account_id: UUID) -> None:
        """To be called immediately before something is written at Google that no ledger tells of: what is stopped or
        paused meanwhile waits for this look, or is seen by it.

        Raises:
            LeaseLost: the account may not act.
        """
        if not await self._rows("select id from accounts where id = %s and state = 'active' for share", (account_id,)):
            raise LeaseLost

    async def set_mode(self, conn: Connection, account_id: UUID, mode: Mode) -> None:
        await conn.execute("update accounts set mode = %s where id = %s", (mode, account_id))

    async def move_cursors(self, conn: Connection, to: Sequence[tuple[Account, int]]) -> int:
        """Move mailboxes' cursors on from where they were when the accounts were read, which the caller has locked.
        Returns of how many; those of the others are elsewhere by now."""
        if not to:
            return 0
        moved = await conn.execute(
            """update accounts a set history_id = n.cursor, listed_at = clock_timestamp(), last_error = null
               from unnest(%s::uuid[], %s::numeric[], %s::numeric[]) n (id, was, cursor)
               where a.id = n.id and a.history_id is not distinct from n.was""",
            ([each.id for each, _ in to], [each.history_id for each, _ in to], [cursor for _, cursor in to]),
        )
        return moved.rowcount

    async def delete(self, conn: Connection, account_id: UUID) -> None:
        """With all that is stored about it, but for what no foreign key leads to."""
        await conn.execute("delete from accounts where id = %s", (account_id,))

    async def note_error(self, account_id: UUID, error: str, poll_after: datetime | None = None) -> None:
        """
        Args:
            poll_after: when Google said to come back, if it did.
        """
        await self._set(account_id, "last_error = %s, poll_after = coalesce(%s, poll_after)", error, poll_after)

    async def backfill_begins(self, account_id: UUID, total: int) -> None:
        """So much older mail is to be fetched."""
        await self._set(
            account_id,
            "backfill_total = %s, backfill_done = 0, backfill_at = null, backfill_seconds = 0, backfill_messages = 0",
            total,
        )

    async def backfill_progressed(
        self, account_id: UUID, *, done: int, at: datetime, seconds: float, messages: float
    ) -> None:
        progress = "backfill_done = %s, backfill_at = %s, backfill_seconds = %s, backfill_messages = %s"
        await self._set(account_id, progress, done, at, seconds, messages)

    async def backfill_ends(self, account_id: UUID) -> None:
        ended = "backfilled_at = clock_timestamp(), backfill_total = null, backfill_done = null, backfill_at = null"
        await self._set(account_id, ended)

    async def describe(
        self, account_id: UUID, *, timezone: str | None, senders: Sequence[Identity] | None, asks_again: bool = False
    ) -> None:
        """Keep what Google says of the account, of what it sends from its own address first; None leaves what is known.
        `asks_again`: the next look asks, and not the next day's."""
        own, *aliases = senders or (None,)
        await self._set(
            account_id,
            """timezone = coalesce(%s, timezone), name = coalesce(%s, name), signature = coalesce(%s, signature),
               aliases = coalesce(%s, aliases, '[]'),
               described_at = case when %s then described_at else clock_timestamp() end""",
            timezone,
            own and own.name,
            own and own.signature,
            Jsonb([asdict(alias) for alias in aliases]) if own else None,
            asks_again,
        )

    async def drop_alias(self, account_id: UUID, address: str) -> None:
        """Gmail lets nobody send from this address any more."""
        await self._set(
            account_id,
            """aliases = (select coalesce(jsonb_agg(alias), '[]') from jsonb_array_elements(aliases) as alias
                          where alias->>'address' <> %s)""",
            address,
        )

    async def spend(self, account_id: UUID, until: datetime) -> None:
        """Its budget for models is spent until then."""
        await self._set(account_id, "spent_until = %s", until)

    async def forget_spent(self) -> None:
        """Look anew whether budgets are spent: the settings may have changed."""
        spent = f"select id from accounts a where {SERVED} and spent_until > '-infinity'"
        for account in await self._rows(spent, (self._provider,)):
            await self._set(account["id"], "spent_until = '-infinity'")

    def some_watches_due(self, topic: str | None) -> Statement:
        """What gives, as `found`, whether there is anything for `claim_watches`."""
        return f"select exists (select from accounts where {_WATCH_DUE}) as found", self._watches_given(topic)

    async def claim_watches(self, topic: str | None, for_: timedelta) -> list[UUID]:
        """Accounts in which Gmail is to be asked now to tell a topic of new mail, or no longer to tell if there is
        none. They are the caller's for that time; then they are due again, unless told of below."""
        given = {**self._watches_given(topic), "for": for_}
        claimed = [
            await self._rows(
                f"""update accounts set watch_topic = %(topic)s, watch_after = clock_timestamp() + %(for)s
                    where id = %(id)s and {_WATCH_DUE} returning id""",
                {**given, "id": row["id"]},
            )
            for row in await self._rows(f"select id from accounts where {_WATCH_DUE}", given)
        ]
        return [row["id"] for rows in claimed for row in rows]

    def _watches_given(self, topic: str | None) -> dict[str, object]:
        return {"topic": topic, "provider": self._provider}

    async def watched(self, account_id: UUID, until: datetime, again: datetime) -> None:
        """Gmail tells until then, and is to be asked again before."""
        await self._set(account_id, "watch_until = %s, watch_after = %s, watch_error = null", until, again)

    async def not_watched(self, account_id: UUID, why: str | None, again: datetime) -> None:
        """Gmail tells nobody: it refused, or was asked not to."""
        await self._set(account_id, "watch_until = null, watch_after = %s, watch_error = %s", again, why)

    async def set_labels(self, account_id: UUID, labels: Mapping[str, str]) -> None:
        await self._set(account_id, "labels = %s", Jsonb(dict(labels)))

    async def set_background(self, account_id: UUID, text: str) -> None:
        await self._set(account_id, "background = %s, introduced = true", text)

    @asynccontextmanager
    async def _one_by_one(self) -> AsyncIterator[Connection]:
        """A transaction in which accounts become active, or stop: one at a time."""
        async with self._pool.connection() as conn, conn.transaction():
            await conn.execute("select pg_advisory_xact_lock(hashtextextended('stop', 0))")
            yield conn

    async def _set(self, account_id: UUID, what: str, *given: object) -> None:
        await self._rows(f"update accounts set {what} where id = %s", (*given, account_id))
        (_cached.get() or {}).pop(account_id, None)

    async def _accounts(self, where: str, parameters: tuple[object, ...]) -> list[Account]:
        rows = await self._rows(f"select {COLUMNS} from accounts a where {where}", parameters)
        return [account_in(row) for row in rows]

    async def _rows(self, query: str, parameters: tuple[object, ...] | Mapping[str, object]) -> list[dict[str, Any]]:
        return await fetched(self._pool, query, parameters)
