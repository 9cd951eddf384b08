"""Runs as threads, and which item an answer belongs to. The tables `agent_inbox_*` are used here only.

A thread of this API is a run, and shows the oldest item in it that waits. The thread's id is all that an answer says of
what it answers, and the app's client posts an answer again when the connection drops, so that one click could approve
what nobody has seen. These rules keep it from that:

1. An answer goes to the item that was *last served* for its thread to the client that sends it: never to whatever
   waits by then. That is kept in the database, so it holds for any number of API processes. A client is told by its
   address and its `User-Agent`, for the app sends nothing better; one that is not known (its address changed) counts as
   the one that was served last. Where nothing was served, nothing can be answered. So a repeat finds its own item
   answered, even if the next one has appeared meanwhile: it does nothing, and is told the same as the first.
2. The next item may have been served by the time of the repeat, to another tab or by a reload of the list. So an answer
   that approves (accept, edit) is remembered word for word, before it is taken, with the item that it is for. The same
   words go to the same item for good, and once they were taken they are never taken again, not even where the person
   has taken the answer back, or where what waits now looks the same.
3. An accept from the app holds the action that its person saw. If that is not the item's, it is refused: a tab that was
   left open approves nothing newer.

What remains: an *ignore* or a *response* says too little to tell a repeat by, once the next item was served, and then
counts for that one, since a person may well say the same twice. It approves nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from email_assistant.db.pool import Pool, fetched
from email_assistant.db.statements import statements
from email_assistant.inbox.items import Conflict, Item
from email_assistant.inbox.reading import Items

Status = Literal["idle", "busy", "interrupted", "error"]

_WAITS = "exists (select from inbox_items i where i.run_id = r.id and i.status = 'pending')"
_STATE_OF: Mapping[Status, str] = {
    "busy": "('running', 'waiting', 'acting')",
    "error": "('failed')",
    "idle": "('done', 'superseded')",
}
_SQL = statements("features/agent_inbox", "threads.sql")


@dataclass(frozen=True, slots=True)
class Thread:
    """A run as the app sees it."""

    id: UUID
    created_at: datetime
    updated_at: datetime
    state: str  # the run's own
    reason: str | None  # why it failed
    waiting: Item | None  # the oldest of its items that nobody has answered

    @property
    def status(self) -> Status:
        if self.waiting:
            return "interrupted"
        match self.state:
            case "failed":
                return "error"
            case "done" | "superseded":
                return "idle"
            case _:
                return "busy"


@dataclass(frozen=True, slots=True)
class Threads:
    """One person's threads, as one client is shown them."""

    pool: Pool
    inbox: Items
    user_id: UUID
    client: str  # what tells the clients apart

    async def page(self, status: Status | None, limit: int, offset: int) -> list[Thread]:
        """Newest first; all of them count as served."""
        found = f"with found as ({_found(status)} limit %s offset %s)"
        threads = await self._threads(found, "order by found.position desc, r.id desc", self.user_id, limit, offset)
        await self._served([thread.waiting for thread in threads if thread.waiting])
        return threads

    async def show(self, thread_id: UUID) -> Thread | None:
        """One thread, which counts as served."""
        thread = await self.get(thread_id)
        await self._served([thread.waiting] if thread and thread.waiting else [])
        return thread

    async def get(self, thread_id: UUID) -> Thread | None:
        """One thread, for ourselves."""
        found = "with found as (select id from runs where user_id = %s and id = %s)"
        threads = await self._threads(found, "", self.user_id, thread_id)
        return threads[0] if threads else None

    async def served(self, thread_id: UUID) -> Item:
        """The item that this client was last shown for the thread. Raises Conflict."""
        rows = await self._rows("served", self.user_id, thread_id, self.client)
        if not rows:
            raise Conflict("nothing of this thread was shown yet that could be answered; load it first")
        return await self.inbox.get(self.user_id, rows[0]["item_id"])

    async def approved(self, thread_id: UUID, words: str) -> Item | None:
        """The item that these words were for before, if they were not taken. Raises Conflict if they were."""
        rows = await self._rows("approved", self.user_id, thread_id, words)
        if not rows:
            return None
        item = await self.inbox.get(self.user_id, rows[0]["item_id"])
        if rows[0]["taken"] and item.status == "pending":
            raise Conflict("this very answer was taken back; answer it in the assistant's own inbox")
        return item

    async def approves(self, item: Item, words: str) -> Item:
        """Remember what these words are for, unless they were for another item in the meantime; returns that."""
        [row] = await self._rows("approves", self.user_id, item.run_id, words, item.id)
        return await self.inbox.get(self.user_id, row["item_id"])

    async def was_taken(self, thread_id: UUID, words: str) -> None:
        await self._rows("was_taken", self.user_id, thread_id, words)

    async def _served(self, items: Sequence[Item]) -> None:
        if items:
            await self._rows("serve", self.client, self.user_id, [item.id for item in items])

    async def _rows(self, name: str, *parameters: object) -> list[dict[str, Any]]:
        return await fetched(self.pool, _SQL[name], parameters)

    async def _threads(self, found: str, order: str, *parameters: object) -> list[Thread]:
        rows = await fetched(self.pool, f"{found} {_SQL['of_found']} {order}", parameters)
        waiting = await self.inbox.waiting_in(self.user_id, [row["id"] for row in rows])
        return [Thread(**row, waiting=waiting.get(row["id"])) for row in rows]


def _found(status: Status | None) -> str:
    """Runs of a status, newest first."""
    if status == "interrupted":
        return _SQL["interrupted"]
    where = f"and r.state in {_STATE_OF[status]} and not {_WAITS}" if status else ""
    return f"""select r.id, r.created_at as position from runs r where r.user_id = %s {where}
               order by r.created_at desc, r.id desc"""
