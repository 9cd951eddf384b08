"""Models' servers that refuse, whoever asks: since when, in what words, and when one of all who wait asks again.

All processes share what is known. All SQL on `model_refusals` stands here.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from typing import Final
from uuid import UUID

from email_assistant.db import threads
from email_assistant.db.pool import Connection, Pool, fetched
from email_assistant.db.presence import clock_time

Wake = Callable[[Connection, Sequence[UUID]], Awaitable[None]]
"""Has conversations gone on with, in the caller's transaction."""

_LONGEST: Final = 10
"""How many times as long as at first a server is left alone at most."""

_ENTER: Final = """
with claimed as (
    update model_refusals set
        next_at = clock_timestamp() + least(power(2, least(refusals - 1, 9)), %(longest)s) * %(first)s
    where server = %(server)s and model in ('', %(model)s) and next_at <= clock_timestamp() and %(claims)s
    returning model)
select r.reason, r.next_at, r.probed, exists (select from claimed c where c.model = r.model) as ours
from model_refusals r where r.server = %(server)s and r.model in ('', %(model)s)"""
_REFUSED: Final = """
insert into model_refusals as r (server, model, reason, probed, next_at)
values (%(server)s, %(model)s, %(reason)s, %(probed)s,
        least(coalesce(%(until)s, clock_timestamp() + %(first)s), clock_timestamp() + %(longest)s * %(first)s))
on conflict (server, model) do update set
    reason = excluded.reason, probed = excluded.probed,
    refusals = r.refusals + 1,
    next_at = least(coalesce(%(until)s, clock_timestamp() + power(2, least(r.refusals, 9)) * %(first)s),
                    clock_timestamp() + %(longest)s * %(first)s)
where %(ours)s
returning next_at"""
_STANDING: Final = """
select server, model, reason, since, next_at from model_refusals where server = %s order by since, model"""


@dataclass(frozen=True, slots=True)
class Refusing:
    """A server that refused when it was asked last."""

    reason: str
    next_at: datetime
    """When one of those who wait asks again."""
    probed: bool
    """It refuses the smallest question, which so shows whether it still does."""
    ours: bool
    """It is time to ask again, and nobody else does meanwhile."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A server that refuses, as the person is told of it."""

    server: str
    model: str
    """Empty: whatever model it is asked for."""
    reason: str
    since: datetime
    next_at: datetime
    """When one of those who wait asks again."""

    def times(self, zone: tzinfo | None = None) -> str:
        since, again = clock_time(self.since, zone), clock_time(self.next_at, zone)
        return f"so it is since {since}, mail waits for it, and it is asked again at {again}"

    def sentence(self, zone: tzinfo | None = None) -> str:
        return f"{self.reason[:1].upper()}{self.reason[1:]}; {self.times(zone)}."


class ModelServers:
    """
    Args:
        first: how long a server is left alone at first; then twice as long each time, ten times as long at most.
    """

    def __init__(self, pool: Pool, wake: Wake, first: timedelta) -> None:
        self._pool = pool
        self._wake = wake
        self._given = {"first": first, "longest": _LONGEST}

    async def enter(self, server: str, model: str, *, claims: bool) -> Refusing | None:
        """Look before a server is asked; None: it is not known to refuse.

        Args:
            claims: whether to be the one who asks again, if it is time.
        """
        given = {"server": server, "model": model, "claims": claims, **self._given}
        rows = [Refusing(**row) for row in await fetched(self._pool, _ENTER, given)]
        return min(rows, key=lambda each: each.ours, default=None)  # of two, the one that is still waited for

    async def refused(
        self,
        server: str,
        model: str,
        reason: str,
        until: datetime | None,
        was: Refusing | None,
        *,
        probed: bool,
    ) -> datetime | None:
        """Note that a server refuses; returns when it is asked again.

        Args:
            model: empty, where it refuses whatever model it is asked for.
            until: when it said to come back, if it did.
            was: as `enter` gave it. Who asked beside the one whose turn it was changes nothing.
            probed: it refuses the smallest question too.
        """
        given = {
            "server": server,
            "model": model,
            "reason": reason,
            "until": until,
            "probed": probed,
            "ours": was is not None and was.ours,
            **self._given,
        }
        rows = await fetched(self._pool, _REFUSED, given)
        return rows[0]["next_at"] if rows else was.next_at if was else until

    async def answered(self, server: str, model: str) -> None:
        """A server that refused has answered: all that waits for it goes on at once."""
        async with self._pool.connection() as conn, conn.transaction():
            cursor = await conn.execute(
                "delete from model_refusals where server = %s and model in ('', %s)", (server, model)
            )
            if cursor.rowcount:
                await self._wake(conn, await threads.answered(conn, server))

    async def ask_anew(self, server: str) -> None:
        """What is set may be another now, so all that waits for a server goes on, and this one is asked at once. Of
        other servers nothing is known any more."""
        async with self._pool.connection() as conn, conn.transaction():
            await conn.execute("delete from model_refusals where server <> %s", (server,))
            await conn.execute("update model_refusals set next_at = clock_timestamp()")
            await self._wake(conn, await threads.answered(conn, None))

    async def standing(self, server: str) -> list[Refusal]:
        """What of a server refuses now, the longest first."""
        return [Refusal(**row) for row in await fetched(self._pool, _STANDING, (server,))]
