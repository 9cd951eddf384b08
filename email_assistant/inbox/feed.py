"""Tells, as it happens, that something changed in what a person sees; ids and states only, never a word of mail.

The database tells every change at its commit (triggers in `db/schema.sql`), whoever made it. One connection of this
process listens, and what it hears is fanned out.
"""

import asyncio
import json
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from typing import Any, cast
from uuid import UUID

import psycopg

from email_assistant.db.pool import Connection, ListeningConnection, Pool

_CHANNEL = "email_assistant"
_GATHER_SECONDS = 0.1
"""What changes within this time is told at once."""
_LOOK_SECONDS = 1.0
"""How long after an item changed, which may have been put off, the end of the next snooze is asked for."""
_SILENCE_SECONDS = 15.0
"""How late it is noticed that the database has gone without a word."""
_AGAIN_SECONDS = 0.5
_MOST_TOLD = 200

Change = dict[str, Any]
_WOKEN = """
select now.at, extract(epoch from (select min(snoozed_until) from inbox_items
                                   where status = 'pending' and snoozed_until > now.at) - now.at) as left,
       array(select json_build_object('what', 'item', 'user', user_id, 'id', id, 'kind', kind, 'status', status)
             from inbox_items where status = 'pending' and snoozed_until > %s and snoozed_until <= now.at) as woken
from (select clock_timestamp() as at) now"""


class Listener:
    """What one open page has not been told yet."""

    def __init__(self) -> None:
        self._waits: dict[tuple[str, str], Change] = {}
        self._reload = False
        self._something = asyncio.Event()

    def tell(self, change: Change) -> None:
        """The last change of a thing stands for those before it."""
        self._waits[change["what"], change["id"]] = change
        self._something.set()

    def reload(self) -> None:
        """What happened is not known, or is too much to tell."""
        self._reload = True
        self._something.set()

    async def next(self, seconds: float) -> tuple[str, dict[str, Any]] | None:
        """The event to send; None if nothing happened for so long."""
        try:
            async with asyncio.timeout(seconds):
                await self._something.wait()
        except TimeoutError:
            return None
        await asyncio.sleep(_GATHER_SECONDS)
        changes, reload = list(self._waits.values()), self._reload or len(self._waits) > _MOST_TOLD
        self._waits, self._reload = {}, False
        self._something.clear()
        if reload:
            return "reload", {}
        told: dict[str, list[Change]] = {"items": [], "mails": [], "accounts": [], "chats": []}
        for change in changes:
            told[f"{change['what']}s"].append({name: change[name] for name in change if name not in ("user", "what")})
        return "change", told


class Feed:
    """Listens to the database while somebody listens to it."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._listeners: dict[UUID, set[Listener]] = defaultdict(set)
        self._task: asyncio.Task[None] | None = None
        self._listening = asyncio.Event()

    @contextmanager
    def listener(self, user_id: UUID, listener: Listener | None = None) -> Iterator[Listener]:
        """Hears what changes for this user while the block lasts; with one given, it is that which hears."""
        listener = listener or Listener()
        self._listeners[user_id].add(listener)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run())
        try:
            yield listener
        finally:
            self._listeners[user_id].discard(listener)
            if not any(self._listeners.values()):
                self._task.cancel()
                self._task = None

    @property
    def is_open(self) -> bool:
        """Whether the program is still at work."""
        return not self._pool.closed

    @property
    def is_listening(self) -> bool:
        """Whether the database is heard just now."""
        return self._listening.is_set()

    async def listening(self) -> None:
        """Wait until nothing can be missed any more."""
        await self._listening.wait()

    async def _run(self) -> None:
        try:
            while self.is_open:
                with suppress(psycopg.Error, OSError):
                    await self._listen()
                self._listening.clear()
                await asyncio.sleep(_AGAIN_SECONDS)
        finally:
            self._listening.clear()

    async def _listen(self) -> None:
        """Until the connection is lost. Each one that is made anew tells all to look for themselves."""
        conninfo = str(self._pool.conninfo)
        async with await ListeningConnection.connect(conninfo, **self._settings()) as conn:
            await conn.execute(f"listen {_CHANNEL}".encode())
            loop = asyncio.get_running_loop()
            since, left = await self._wake(conn, None)
            look_at = loop.time() + left
            self._listening.set()
            for listener in self._all():
                listener.reload()
            while self.is_open:
                async for notice in conn.notifies(timeout=max(0, look_at - loop.time()), stop_after=1):
                    change = json.loads(notice.payload)
                    self._tell(change)
                    if change["what"] == "item":
                        look_at = min(look_at, loop.time() + _LOOK_SECONDS)
                if loop.time() >= look_at:
                    since, left = await self._wake(conn, since)
                    look_at = loop.time() + left

    async def _wake(self, conn: Connection, since: datetime | None) -> tuple[datetime, float]:
        """Tell of the items whose snooze ended since, as nothing changes in the database when that happens. Returns the
        time, and how many seconds later to look again."""
        row = await (await conn.execute(_WOKEN.encode(), (since,))).fetchone()
        assert row is not None
        for change in row["woken"]:
            self._tell(change)
        return row["at"], min(_SILENCE_SECONDS, float(row["left"] or _SILENCE_SECONDS))

    def _tell(self, change: Change) -> None:
        for listener in self._listeners.get(UUID(change["user"]), ()):
            listener.tell(change)

    def _all(self) -> Iterator[Listener]:
        for listeners in self._listeners.values():
            yield from listeners

    def _settings(self) -> dict[str, Any]:
        return cast("dict[str, Any]", self._pool.kwargs or {})
