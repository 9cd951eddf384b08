"""Calls of other people's agents that wait for a person. Whoever waits holds neither a thread nor a connection to the
database: one listener hears of every answer."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any, Final
from uuid import UUID

from email_assistant.db.pool import Pool, fetched
from email_assistant.gate.sessions import GateSessions, block
from email_assistant.inbox import rows
from email_assistant.inbox.feed import Change, Feed, Listener

Gone = Callable[[], Coroutine[Any, Any, None]]
"""Returns when the client has gone."""
_TIMED_OUT: Final = "nobody answered in time"
_GONE: Final = "the program that asked has gone"
_ENDING: Final = "the gate's server is ending; ask again once it is back"
_FAREWELL_SECONDS: Final = 5.0


class WaitingCalls(Listener):
    def __init__(self, pool: Pool, sessions: GateSessions, feed: Feed, user_id: UUID) -> None:
        super().__init__()
        self._pool = pool
        self._sessions = sessions
        self._feed = feed
        self._user_id = user_id
        self._heard = ExitStack()
        self._wakes: dict[UUID, asyncio.Event] = {}  # by item
        self._nobody_waits = asyncio.Event()
        self._nobody_waits.set()
        self._is_ending = False

    def tell(self, change: Change) -> None:
        if change["what"] == "item" and (wake := self._wakes.get(UUID(change["id"]))):
            wake.set()

    def reload(self) -> None:
        for wake in self._wakes.values():
            wake.set()

    @contextmanager
    def expecting(self, item: UUID) -> Iterator[None]:
        """No answer to the item is missed while the block lasts."""
        if not self._wakes:
            self._heard.enter_context(self._feed.listener(self._user_id, self))
        self._wakes[item] = asyncio.Event()
        self._nobody_waits.clear()
        try:
            yield
        finally:
            del self._wakes[item]
            if not self._wakes:
                self._nobody_waits.set()
                self._heard.close()

    async def answered(self, session: str, item: UUID, until: float, gone: Gone) -> None:
        """Wait until an item that is expected is answered, or nobody waits for that any more.

        Args:
            until: when that is at the latest, by the loop's clock.
        """
        wake, now = self._wakes[item], asyncio.get_running_loop().time
        left = asyncio.ensure_future(gone())
        try:
            while await self._is_pending(item):
                if self._is_ending or left.done() or now() >= until:
                    why = _ENDING if self._is_ending else _GONE if left.done() else _TIMED_OUT
                    await self._let_go(session, item, why)
                    continue
                waking = asyncio.ensure_future(wake.wait())
                await asyncio.wait({waking, left}, timeout=until - now(), return_when=asyncio.FIRST_COMPLETED)
                waking.cancel()
                wake.clear()
        except asyncio.CancelledError:
            await asyncio.shield(self._let_go(session, item, _GONE))
            raise
        finally:
            left.cancel()

    async def end(self) -> None:
        """Tell all who wait, and whoever comes, that this server is ending; returns once they know."""
        self._is_ending = True
        self.reload()
        with suppress(TimeoutError):  # they hear no more, as the database doesn't answer
            async with asyncio.timeout(_FAREWELL_SECONDS):
                await self._nobody_waits.wait()

    async def _is_pending(self, item: UUID) -> bool:
        query = "select id from inbox_items where id = %s and status = 'pending'"
        return bool(await fetched(self._pool, query, (item,)))

    async def _let_go(self, session: str, item: UUID, why: str) -> None:
        """Nobody can approve it any more, unless they just have."""
        async with self._pool.connection() as conn, conn.transaction():
            await self._sessions.lock(conn, self._user_id, session)
            if await rows.let_go(conn, item):
                await block(conn, why, item=item)
