"""Which processes that took leases are still there, and whether any works on mail, so that nobody waits for what nobody
does. All SQL on `presences`.

Each holds an advisory lock on a connection of its own: no process has to tell in time that it lives, and an idle one
writes one row a minute. The row says since when nobody is there. The lock only shortens the wait for a process that
died (`lease.claim`). It can be lost while the process works on, and kept by one that is frozen, so nothing may rest on
it but time.
"""

import asyncio
import logging
import secrets
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, tzinfo
from typing import Any

import psycopg
from psycopg import AsyncConnection

from email_assistant.db.pool import Connection, Pool, connection_settings, fetched, fetched_together

log = logging.getLogger(__name__)

_LOOK_SECONDS = 0.5
_ALONE_SECONDS = 10.0
"""How late a process that has come to be alone notices that it no longer is."""
_GRACE_SECONDS = 2.0
"""How long a lock must have been seen free: its process takes it again after a lost connection, or once the server is
up again."""
_AGAIN_SECONDS = 0.2
_PATIENCE_SECONDS = 5
"""For the server to answer."""

_OF_ALL = 0x686F6C64
"""The number of a second lock, which all processes share: by it each knows whether there are others."""

_TAKE = "select pg_try_advisory_lock(%s) and pg_try_advisory_lock_shared(%s) as ours"
_LOCKS = """pg_locks where locktype = 'advisory' and objsubid = 1 and granted
            and (classid::bigint << 32 | objid::bigint)"""
_LOOK = f"""
select exists (select from {_LOCKS} = %s and pid <> pg_backend_pid()
               and database = (select oid from pg_database where datname = current_database())) as accompanied,
       array(select holder from threads t where holder <> %s and lease_until > clock_timestamp()
             and not exists (select from {_LOCKS} = t.holder)
             group by holder) as free"""
"""The holders of leases whose locks are free, by the index of leases that are held."""
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


class Holder:
    """This process, as others know it, and what it knows of them. Nothing is opened before the first lease."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._key = secrets.randbits(63)
        self._keeper: asyncio.Task[None] | None = None
        self._tried = asyncio.Event()
        self._someone_died = asyncio.Event()
        self._is_held = False
        self._dead: frozenset[int] = frozenset()

    async def open(self) -> None:
        """Take the lock and begin to watch the others'. Without a connection it goes on, and is tried again."""
        if self._keeper is None:
            self._keeper = asyncio.create_task(self._keep())
        with suppress(TimeoutError):
            async with asyncio.timeout(_GRACE_SECONDS):
                await self._tried.wait()

    async def aclose(self) -> None:
        """Let go: whatever this process still holds is as that of a dead one."""
        if self._keeper:
            self._keeper.cancel()
            await asyncio.gather(self._keeper, return_exceptions=True)

    @property
    def key(self) -> int:
        """Of its lock, whether that is held now or not."""
        return self._key

    @property
    def name(self) -> int | None:
        """What a lease names; None while the lock is not held, so that the lease keeps its whole term."""
        return self._key if self._is_held else None

    @property
    def dead(self) -> list[int]:
        """Those whose lock has been free for a while."""
        return list(self._dead)

    async def someone_died(self) -> None:
        """Wait until the lock of one more process that holds a lease has been free for a while."""
        await self._someone_died.wait()
        self._someone_died.clear()

    async def _keep(self) -> None:
        while True:
            try:
                async with await self._connect() as conn:
                    await self._watch(conn)
            except (psycopg.Error, OSError, TimeoutError) as error:
                log.info("the lock of this process is let go (%s); taking it again", type(error).__name__)
            except Exception:
                log.exception("the lock of this process is let go; taking it again")
            self._is_held = False
            self._dead = frozenset()
            self._tried.set()
            await asyncio.sleep(_AGAIN_SECONDS)

    async def _connect(self) -> Connection:
        return await AsyncConnection.connect(
            self._url, connect_timeout=_PATIENCE_SECONDS, **connection_settings(self._url)
        )

    async def _watch(self, conn: Connection) -> None:
        # What was seen is forgotten with the connection. So a server that was started again, or dropped everybody,
        # gives the others the whole time to come back; pg_postmaster_start_time() would not tell of the second.
        looks: Counter[int] = Counter()
        while True:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                self._is_held = self._is_held or await self._take(conn)
                self._tried.set()
                found = await (await conn.execute(_LOOK.encode(), (_OF_ALL, self._key))).fetchone()
            assert found is not None
            looks = Counter({holder: looks[holder] + 1 for holder in found["free"]})
            dead = frozenset(holder for holder, seen in looks.items() if (seen - 1) * _LOOK_SECONDS >= _GRACE_SECONDS)
            if dead - self._dead:
                self._someone_died.set()
            self._dead = dead
            await asyncio.sleep(_LOOK_SECONDS if looks or found["accompanied"] else _ALONE_SECONDS)

    async def _take(self, conn: Connection) -> bool:
        """Tried, not waited for: the server may not know yet that our last connection is lost."""
        row = await (await conn.execute(_TAKE, (self._key, _OF_ALL))).fetchone()
        return bool(row and row["ours"])


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
