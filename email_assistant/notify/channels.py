"""Where a person is told of what waits: their browsers, and webhooks. All SQL on `channels` stands here.

What is to be told follows from the tables: items that wait, have done so for a moment, and began after `told_until`.
So a burst makes one notice, and a process that dies makes at most a second one.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal
from uuid import UUID

from psycopg.rows import class_row

from email_assistant.accounts.vault import Vault
from email_assistant.db.pool import Pool

Kind = Literal["push", "webhook"]

_CLAIM_SECONDS = 60
"""How long a process that died keeps a channel from being used; it outlasts any request."""
_TRIES = 5
"""Of one notice. Then it is given up, and the next item starts anew."""
_LISTED = 50
"""Items that one notice names; it counts them all."""
_SHOWN_WORDS = 200
"""Characters of what was asked for in a chat."""
_SINCE = "greatest(i.created_at, i.snoozed_until, i.reopened_at)"
"""When an item began to wait: when it came, is shown again, or is asked about again."""
_UNTOLD = f"""(i.created_at > c.told_until or i.snoozed_until > c.told_until or i.reopened_at > c.told_until)
              and {_SINCE} <= clock_timestamp() - %s"""
"""Of an item i and a channel c; written so that the indexes of the times serve it."""
_LOGGED_IN = """(c.session_id is null or exists (select from sessions s where s.id = c.session_id
                 and s.expires_at > clock_timestamp()))"""
"""Of a channel c: whether the browser that asked for it is still logged in, if it had to be."""
_COLUMNS = "id, user_id, kind, name, state, told_at, tries, last_error, created_at"


class NoChannel(LookupError):
    """The person has no such channel."""


@dataclass(frozen=True, slots=True)
class Channel:
    id: UUID
    user_id: UUID
    kind: Kind
    name: str
    """The server that is told; the whole address is a secret."""
    state: Literal["active", "gone"]
    """Gone: the server said that the address is no more."""
    told_at: datetime | None
    tries: int
    """Of the notice that is to be sent, in vain so far."""
    last_error: str | None
    created_at: datetime


@dataclass(frozen=True, slots=True)
class New:
    """An item that a channel was not told of yet."""

    id: UUID
    sender: str | None
    subject: str | None
    """Of the mail; of a chat, how the request begins."""


@dataclass(frozen=True, slots=True)
class Due:
    """What one channel is to be told now."""

    channel: Channel
    items: list[New]
    """The oldest of them."""
    new: int
    waiting: int
    """All that wait for the person, told of or not."""
    until: datetime | None
    """When the newest of them came."""


class Channels:
    """
    Args:
        settle: how old an item must be; what is answered sooner is not worth a notice.
        every: the shortest time between two notices of one channel.
    """

    def __init__(self, pool: Pool, vault: Vault, *, settle: timedelta, every: timedelta) -> None:
        self._pool = pool
        self._vault = vault
        self._settle = settle
        self._every = every

    async def add(
        self, user_id: UUID, kind: Kind, name: str, url: str, secrets: Mapping[str, str], session_id: UUID | None = None
    ) -> Channel:
        """Tell this address of what comes from now on. An address that is known gets the new secrets.

        Args:
            session_id: the session that it ends with, if any.
        """
        return await self._one(
            f"""insert into channels (user_id, kind, name, address_hash, address, session_id)
                values (%s, %s, %s, %s, %s, %s)
                on conflict (user_id, address_hash) do update
                set address = excluded.address, session_id = excluded.session_id, state = 'active', tries = 0,
                    last_error = null, not_before = '-infinity', told_until = excluded.told_until
                returning {_COLUMNS}""",
            user_id,
            kind,
            name,
            _hash(url),
            self._vault.encrypt({"url": url, **secrets}),
            session_id,
        )

    async def remove(self, user_id: UUID, channel_id: UUID) -> None:
        """Raises NoChannel."""
        await self._one(
            f"delete from channels where user_id = %s and id = %s returning {_COLUMNS}", user_id, channel_id
        )

    async def remove_address(self, user_id: UUID, url: str) -> None:
        """One that is not there is fine."""
        await self._channels(
            f"delete from channels where user_id = %s and address_hash = %s returning {_COLUMNS}", user_id, _hash(url)
        )

    async def of_user(self, user_id: UUID) -> list[Channel]:
        return await self._channels(
            f"select {_COLUMNS} from channels c where user_id = %s and {_LOGGED_IN} order by created_at", user_id
        )

    async def is_told(self, user_id: UUID, url: str) -> bool:
        """Whether an address is one of this person's."""
        return bool(
            await self._channels(
                f"select {_COLUMNS} from channels c where user_id = %s and address_hash = %s and {_LOGGED_IN}",
                user_id,
                _hash(url),
            )
        )

    async def forget_logged_out(self) -> None:
        """Forget the browsers whose session has ended."""
        await self._channels(f"delete from channels c where not {_LOGGED_IN} returning {_COLUMNS}")

    async def address(self, channel: Channel) -> dict[str, str]:
        """`url`, and the secrets that it was added with. Raises VaultError."""
        [row] = await self._rows("select address from channels where id = %s", channel.id)
        return self._vault.decrypt(row["address"])

    async def vapid_key(self, user_id: UUID, new: str) -> str:
        """The private key that this person's browsers know us by; `new`, if there is none yet. Raises VaultError."""
        [row] = await self._rows(
            "update users set vapid_key = coalesce(vapid_key, %s) where id = %s returning vapid_key",
            self._vault.encrypt({"pem": new}),
            user_id,
        )
        return str(self._vault.decrypt(row["vapid_key"])["pem"])

    async def claim(self) -> list[Due]:
        """What is to be told now, for this process to tell."""
        claimed = await self._channels(
            f"""update channels set not_before = clock_timestamp() + make_interval(secs => %s)
                where id in (select c.id from channels c
                             where c.state = 'active' and c.not_before <= clock_timestamp() and {_LOGGED_IN}
                             and exists (select from inbox_items i where i.user_id = c.user_id
                                         and i.status = 'pending' and {_UNTOLD})
                             for update skip locked)
                returning {_COLUMNS}""",
            _CLAIM_SECONDS,
            self._settle,
        )
        found = [await self._due(channel) for channel in claimed]
        return [due for due in found if due.new]  # all of it may have been answered meanwhile; the claim runs out

    async def told(self, due: Due) -> None:
        await self._rows(
            """update channels set told_until = greatest(told_until, %s), told_at = clock_timestamp(), tries = 0,
                      last_error = null, not_before = clock_timestamp() + %s where id = %s""",
            due.until,
            self._every,
            due.channel.id,
        )

    async def failed(self, due: Due, error: str, retry_after: int) -> None:
        """Try again later, a few times."""
        await self._rows(
            """update channels set last_error = %(error)s, tries = (tries + 1) %% %(most)s,
                      told_until = case when tries + 1 = %(most)s then %(until)s else told_until end,
                      not_before = clock_timestamp() + greatest(
                          make_interval(secs => %(after)s), back_off(tries, '30 seconds', '1 hour'))
               where id = %(id)s""",
            error=error,
            most=_TRIES,
            until=due.until,
            after=retry_after,
            id=due.channel.id,
        )

    async def gone(self, channel: Channel, error: str) -> None:
        """Never use it again, unless it is added anew."""
        await self._rows("update channels set state = 'gone', last_error = %s where id = %s", error, channel.id)

    async def _due(self, channel: Channel) -> Due:
        [counted] = await self._rows(
            f"""select count(*) as waiting, count(*) filter (where is_new) as new,
                       max(since) filter (where is_new) as until
                from (select {_SINCE} as since, {_UNTOLD} as is_new
                      from inbox_items i join channels c on c.user_id = i.user_id
                      where c.id = %s and i.status = 'pending' and {_SINCE} <= clock_timestamp()) waits""",
            self._settle,
            channel.id,
        )
        rows = await self._rows(
            f"""select i.id, case when i.mail_id is null then 'You' else m.sender end as sender,
                       coalesce(m.subject, left(r.input->>'request', {_SHOWN_WORDS})) as subject
                from inbox_items i join channels c on c.user_id = i.user_id join runs r on r.id = i.run_id
                left join mails m on m.account_id = i.account_id and m.gmail_id = i.mail_id
                where c.id = %s and i.status = 'pending' and {_SINCE} > c.told_until and {_SINCE} <= %s
                order by {_SINCE}, i.id limit %s""",
            channel.id,
            counted["until"],
            _LISTED,
        )
        return Due(channel, [New(**row) for row in rows], **counted)

    async def _one(self, query: str, *parameters: object) -> Channel:
        found = await self._channels(query, *parameters)
        if not found:
            raise NoChannel("there is no such channel; `email-assistant notify status` shows them")
        return found[0]

    async def _channels(self, query: str, *parameters: object) -> list[Channel]:
        async with self._pool.connection() as conn, conn.cursor(row_factory=class_row(Channel)) as cursor:
            await cursor.execute(query.encode(), parameters)
            return await cursor.fetchall()

    async def _rows(self, query: str, *parameters: object, **named: object) -> list[dict[str, Any]]:
        async with self._pool.connection() as conn:
            cursor = await conn.execute(query.encode(), named or parameters)
            return await cursor.fetchall() if cursor.description else []


def _hash(url: str) -> str:
    return hashlib.sha256(url.encode()).hexdigest()
