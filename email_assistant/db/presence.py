"""Whether any process works on mail, so that nobody waits for what nobody does. All SQL on `presences`.

A process that works is there for as long as its advisory lock is held (`holder.py`): no process has to tell in time
that it lives, and an idle one writes one row a minute. The row says since when nobody is there.
"""

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, tzinfo
from typing import Any

import psycopg

from email_assistant.db.holder import Holder
from email_assistant.db.pool import Pool, fetched, fetched_together

_BEAT_SECONDS = 60
_FAREWELL_SECONDS = 2

_BEAT = """
insert into presences (holder, provider) values (%s, %s)
on conflict (holder) do update set seen_at = excluded.seen_at"""
_WORKS_AS = """
insert into presences (holder, provider, workers) values (%s, %s, array[%s::bigint])
on conflict (holder) do update set workers = presences.workers || excluded.workers"""
_FORGET = "delete from presences where holder <> %s and seen_at < clock_timestamp() - interval '1 day'"
"""Of others, which say so again if they live; our own row is a later sign of life than theirs."""
_LAST = """
select max(seen_at) as seen_at, coalesce(bool_or(exists (
    select from pg_locks where locktype = 'advisory' and objsubid = 1 and granted
    and database = (select oid from pg_database where datname = current_database())
    and (classid::bigint << 32 | objid::bigint) = holder)), false) as anybody
from presences where provider = coalesce(%s, provider)"""


@dataclass(frozen=True, slots=True)
class Absence:
    """Nothing works on the mail of some accounts."""

    since: datetime | None  # the last sign of life, at most a minute before the end; None: nothing ever has
    start: str  # the command that changes it

    def __str__(self) -> str:
        if self.since is None:
            return f"nothing is running yet; start `{self.start}`"
        return f"nothing is running since {clock_time(self.since)}; start `{self.start}`"

    @property
    def sentence(self) -> str:
        told = str(self)
        return f"{told[:1].upper()}{told[1:]}."

    def of_mail(self, zone: tzinfo | None) -> str:
        """The same, where other things go on, on a zone's clock."""
        since = f"since {clock_time(self.since, zone)}" if self.since else "yet"
        return f"Nothing works on your mail {since}; start `{self.start}`."

    @property
    def kept(self) -> str:
        """What it means for an answer that was just taken."""
        return f"It is kept, and done once something works on it: {self}."


class Presence:
    def __init__(self, pool: Pool, holder: Holder, provider: str, start: str) -> None:
        """`start`: the command that works on this provider's accounts."""
        self._pool = pool
        self._holder = holder
        self._provider = provider
        self._start = start

    async def keep(self) -> None:
        """Let others know that this process works, until cancelled."""
        try:
            while True:
                with suppress(psycopg.Error):  # the lock says it too
                    await self._beat()
                await asyncio.sleep(_BEAT_SECONDS)
        finally:
            with suppress(psycopg.Error, TimeoutError):
                async with asyncio.timeout(_FAREWELL_SECONDS):
                    await self._beat()

    async def works_as(self, worker_id: int) -> None:
        """The queue knows this process as this worker, so that its jobs are known for nobody's once it has died."""
        await fetched(self._pool, _WORKS_AS, (self._holder.key, self._provider, worker_id))

    async def absence(self) -> Absence | None:
        """None while some process works on the accounts that this one may touch."""
        return await self.absence_of(self._provider)

    async def absence_of(self, provider: str | None) -> Absence | None:
        """None while some process works on this provider's accounts; on any, if none is given."""
        row: dict[str, Any] | None
        async with self._pool.connection() as conn:
            row = await (await conn.execute(_LAST, (provider,))).fetchone()
        assert row is not None
        return None if row["anybody"] else Absence(row["seen_at"], self._start)

    async def _beat(self) -> None:
        key = self._holder.key
        await fetched_together(self._pool, (_BEAT, (key, self._provider)), (_FORGET, (key,)))


def clock_time(at: datetime, zone: tzinfo | None = None) -> str:
    """A time on this machine's clock, or on that of a zone, with its date unless that is today's."""
    at = at.astimezone(zone)
    return f"{at:%H:%M}" if at.date() == datetime.now(at.tzinfo).date() else f"{at:%Y-%m-%d %H:%M}"
