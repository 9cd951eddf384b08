"""Where a person is told of what waits: their browsers, and webhooks.

What is to be told follows from the tables: items that wait, have done so for a moment, and began after `told_until`.
So a burst makes one notice, and a process that dies makes at most a second one.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from http import HTTPStatus
from typing import Any, Literal
from uuid import UUID

from email_assistant.accounts.vault import Vault
from email_assistant.db.pool import Pool, Statement, fetched, fetched_as
from email_assistant.db.statements import statements
from email_assistant.errors import AssistantError

Kind = Literal["push", "webhook"]

_CLAIM_SECONDS = 60  # how long a process that died keeps a channel from being used; it outlasts any request
_TRIES = 5  # Of one notice. Then it is given up, and the next item starts anew.
_LISTED = 50  # items that one notice names; it counts them all
_SQL = statements("features/notices", "channels.sql")


class NoChannel(AssistantError):
    """The person has no such channel."""

    status = HTTPStatus.NOT_FOUND


@dataclass(frozen=True, slots=True)
class Channel:
    id: UUID
    user_id: UUID
    kind: Kind
    name: str  # the server that is told; the whole address is a secret
    state: Literal["active", "gone"]  # gone: the server said that the address is no more
    told_at: datetime | None
    tries: int  # of the notice that is to be sent, in vain so far
    last_error: str | None
    created_at: datetime


@dataclass(frozen=True, slots=True)
class Notice:
    """What one channel is to be told now."""

    channel: Channel
    items: list[UUID]  # that the channel was not told of yet: the oldest of them
    new: int
    waiting: int  # all that wait for the person, told of or not
    until: datetime | None  # when the newest of them came


class Channels:
    """`after`: how old an item must be; what is answered sooner is not worth a notice; `every`: the shortest time
    between two notices of one channel."""

    def __init__(self, pool: Pool, vault: Vault, *, after: timedelta, every: timedelta) -> None:
        self._pool = pool
        self._vault = vault
        self._settle = after
        self._every = every

    async def add(
        self, user_id: UUID, kind: Kind, name: str, url: str, secrets: Mapping[str, str], session_id: UUID | None = None
    ) -> Channel:
        """Tell this address of what comes from now on. An address that is known gets the new secrets. `session_id`: the
        session that it ends with, if any."""
        secret = self._vault.encrypt({"url": url, **secrets})
        return await self._one("add", user_id, kind, name, _hash(url), secret, session_id)

    async def remove(self, user_id: UUID, channel_id: UUID) -> None:
        """Raises NoChannel."""
        await self._one("remove", user_id, channel_id)

    async def remove_address(self, user_id: UUID, url: str) -> None:
        """One that is not there is fine."""
        await self._channels("remove_address", user_id, _hash(url))

    async def of_user(self, user_id: UUID) -> list[Channel]:
        return await self._channels("of_user", user_id)

    async def is_told(self, user_id: UUID, url: str) -> bool:
        """Whether an address is one of this person's."""
        return bool(await self._channels("is_told", user_id, _hash(url)))

    async def forget_logged_out(self) -> None:
        """Forget the browsers whose session has ended."""
        await self._channels("forget_logged_out")

    async def address(self, channel: Channel) -> dict[str, str]:
        """`url`, and the secrets that it was added with. Raises VaultError."""
        [row] = await self._rows("address", channel.id)
        return self._vault.decrypt(row["address"])

    async def vapid_key(self, user_id: UUID, new: str) -> str:
        """The private key that this person's browsers know us by; `new`, if there is none yet. Raises VaultError."""
        [row] = await self._rows("vapid_key", self._vault.encrypt({"pem": new}), user_id)
        return str(self._vault.decrypt(row["vapid_key"])["pem"])

    def some_due(self) -> Statement:
        """What gives, as `found`, whether there is anything for `claim`."""
        return _SQL["some_to_be_told"], (self._settle,)

    async def claim(self) -> list[Notice]:
        """What is to be told now, for this process to tell."""
        found = [await self._notice(channel) for channel in await self._channels("claim", _CLAIM_SECONDS, self._settle)]
        # All of it may have been answered meanwhile; the claim runs out.
        return [notice for notice in found if notice.new]

    async def told(self, notice: Notice) -> None:
        await self._rows("told", notice.until, self._every, notice.channel.id)

    async def failed(self, notice: Notice, error: str, retry_after: int) -> None:
        """Try again later, a few times."""
        given = {"error": error, "most": _TRIES, "until": notice.until, "after": retry_after, "id": notice.channel.id}
        await self._rows("failed", **given)

    async def gone(self, channel: Channel, error: str) -> None:
        """Never use it again, unless it is added anew."""
        await self._rows("gone", error, channel.id)

    async def _notice(self, channel: Channel) -> Notice:
        [counted] = await self._rows("waits", self._settle, channel.id)
        rows = await self._rows("new_items", channel.id, counted["until"], _LISTED)
        return Notice(channel, [row["id"] for row in rows], **counted)

    async def _one(self, name: str, *parameters: object) -> Channel:
        found = await self._channels(name, *parameters)
        if not found:
            raise NoChannel("there is no such channel; `email-assistant notify status` shows them")
        return found[0]

    async def _channels(self, name: str, *parameters: object) -> list[Channel]:
        return await fetched_as(Channel, self._pool, _SQL[name], parameters)

    async def _rows(self, name: str, *parameters: object, **named: object) -> list[dict[str, Any]]:
        return await fetched(self._pool, _SQL[name], named or parameters)


def _hash(url: str) -> str:
    return hashlib.sha256(url.encode()).hexdigest()
