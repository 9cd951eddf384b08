"""Runs as threads, and which item an answer belongs to. The tables `agent_inbox_*` are used here only."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal
from uuid import UUID

from email_assistant.db.pool import Pool
from email_assistant.inbox.items import Conflict, Item
from email_assistant.inbox.reading import Items

Status = Literal["idle", "busy", "interrupted", "error"]

_WAITS = "exists (select from inbox_items i where i.run_id = r.id and i.status = 'pending')"
_STATE_OF: Mapping[Status, str] = {
    "busy": "('running', 'waiting', 'acting')",
    "error": "('failed')",
    "idle": "('done', 'superseded')",
}
# By the items' index: what waits may be few among very many runs.
_INTERRUPTED = """select i.run_id as id, i.created_at as position from inbox_items i
    where i.user_id = %s and i.status = 'pending'
    and not exists (select from inbox_items o where o.run_id = i.run_id and o.status = 'pending'
                    and (o.created_at, o.id) < (i.created_at, i.id))
    order by i.created_at desc, i.id desc"""


@dataclass(frozen=True, slots=True)
class Thread:
    """A run as the app sees it."""

    id: UUID
    created_at: datetime
    updated_at: datetime
    state: str
    """The run's own."""
    reason: str | None
    """Why it failed."""
    waiting: Item | None
    """The oldest of its items that nobody has answered."""

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
    client: str
    """What tells the clients apart."""

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
        async with self.pool.connection() as conn:
            cursor = await conn.execute(
                """select item_id from agent_inbox_served where user_id = %s and run_id = %s
                   order by client = %s desc, at desc limit 1""",
                (self.user_id, thread_id, self.client),
            )
            row = await cursor.fetchone()
        if row is None:
            raise Conflict("nothing of this thread was shown yet that could be answered; load it first")
        return await self.inbox.get(self.user_id, row["item_id"])

    async def approved(self, thread_id: UUID, words: str) -> Item | None:
        """The item that these words were for before, if they were not taken. Raises Conflict if they were."""
        async with self.pool.connection() as conn:
            cursor = await conn.execute(
                "select item_id, taken from agent_inbox_approvals where user_id = %s and run_id = %s and words = %s",
                (self.user_id, thread_id, words),
            )
            row = await cursor.fetchone()
        if row is None:
            return None
        item = await self.inbox.get(self.user_id, row["item_id"])
        if row["taken"] and item.status == "pending":
            raise Conflict("this very answer was taken back; answer it in the assistant's own inbox")
        return item

    async def approves(self, item: Item, words: str) -> Item:
        """Remember what these words are for, unless they were for another item in the meantime; returns that."""
        async with self.pool.connection() as conn:
            cursor = await conn.execute(
                """insert into agent_inbox_approvals (user_id, run_id, words, item_id) values (%s, %s, %s, %s)
                   on conflict (run_id, words) do update set item_id = agent_inbox_approvals.item_id
                   returning item_id""",
                (self.user_id, item.run_id, words, item.id),
            )
            row = await cursor.fetchone()
        assert row is not None
        return await self.inbox.get(self.user_id, row["item_id"])

    async def was_taken(self, thread_id: UUID, words: str) -> None:
        async with self.pool.connection() as conn:
            await conn.execute(
                "update agent_inbox_approvals set taken = true where user_id = %s and run_id = %s and words = %s",
                (self.user_id, thread_id, words),
            )

    async def _served(self, items: Sequence[Item]) -> None:
        if not items:
            return
        # In the order of their key, so that two lists at once can't wait for each other.
        async with self.pool.connection() as conn:
            await conn.execute(
                """insert into agent_inbox_served as s (user_id, run_id, client, item_id)
                   select user_id, run_id, %s, id from inbox_items where user_id = %s and id = any(%s)
                   order by run_id for key share
                   on conflict (run_id, client) do update set item_id = excluded.item_id, at = clock_timestamp()
                   where s.item_id <> excluded.item_id""",
                (self.client, self.user_id, [item.id for item in items]),
            )

    async def _threads(self, found: str, order: str, *parameters: object) -> list[Thread]:
        query = f"""{found}
            select r.id, r.created_at, r.state, r.reason, greatest(r.created_at, items.changed_at) as updated_at
            from found join runs r on r.id = found.id
            left join lateral (select max(greatest(i.created_at, i.decided_at, i.applied_at)) as changed_at
                               from inbox_items i where i.run_id = r.id) items on true {order}"""
        async with self.pool.connection() as conn:
            cursor = await conn.execute(query.encode(), parameters)
            rows = await cursor.fetchall()
        waiting = await self.inbox.waiting_in(self.user_id, [row["id"] for row in rows])
        return [Thread(**row, waiting=waiting.get(row["id"])) for row in rows]


def _found(status: Status | None) -> str:
    """Runs of a status, newest first."""
    if status == "interrupted":
        return _INTERRUPTED
    where = f"and r.state in {_STATE_OF[status]} and not {_WAITS}" if status else ""
    return f"""select r.id, r.created_at as position from runs r where r.user_id = %s {where}
               order by r.created_at desc, r.id desc"""
