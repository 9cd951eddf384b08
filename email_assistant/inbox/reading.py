"""Reading what waits for a person, what has waited, and how much there is of what."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Unpack
from uuid import UUID

from email_assistant.db.pool import Pool, fetched
from email_assistant.db.statements import statements
from email_assistant.inbox.items import JOINED, PAGE, Invalid, Item, NoItem, read, read_from
from email_assistant.inbox.listing import AWAKE, KINDS, STATUSES, Status, Wanted, listed, order, position
from email_assistant.tools.spec import Kind

MOST = 1000
"""No further than this is counted, in each group; so that many entries of an index are read for each at most."""

_SQL = statements("inbox", "counts.sql", awake=AWAKE)


@dataclass(frozen=True, slots=True)
class Counts:
    """Each number stops at `most`, which then means "or more"."""

    most: int
    by_status: dict[Status, int]
    """Snoozed items are not among the pending."""
    waiting_by_kind: dict[Kind, int]
    waiting_by_account: dict[str, int]
    snoozed: int


async def count(pool: Pool, user_id: UUID) -> Counts:
    others: list[Status] = [status for status in STATUSES if status != "pending"]
    given = {"user": user_id, "most": MOST, "kinds": list(KINDS), "statuses": others}
    rows = await fetched(pool, _SQL["counts"], given)
    waiting = [row for row in rows if row["status"] == "pending"]
    rest = {row["status"]: row["count"] for row in rows if row["status"] != "pending"}
    snoozed = rest.pop("snoozed")
    return Counts(
        most=MOST,
        by_status={"pending": min(MOST, sum(row["count"] for row in waiting)), **rest},
        waiting_by_kind={k: min(MOST, sum(r["count"] for r in waiting if r["kind"] == k)) for k in KINDS},
        waiting_by_account={
            a: min(MOST, sum(r["count"] for r in waiting if r["account"] == a))
            for a in sorted({row["account"] for row in waiting if row["account"]})
        },
        snoozed=snoozed,
    )


_MOST_NAMED = 5


class Items:
    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def page(
        self, user_id: UUID, *, cursor: str | None = None, limit: int = PAGE, **wanted: Unpack[Wanted]
    ) -> tuple[list[Item], str | None]:
        """One page, longest waiting first unless another order is wanted, and the cursor of the next page, if any.

        Raises:
            BadCursor.
            Invalid: an order, or a way to be left out, of what is pending is wanted for another status.
        """
        if wanted.get("status") not in (None, "pending") and (
            wanted.get("sort") == "urgency" or wanted.get("snoozed") == "only"
        ):
            raise Invalid("only what is pending is urgent or snoozed; leave the status out")
        where, parameters = listed(user_id, wanted, cursor)
        # The page is chosen before anything is joined to it, so that no plan ever joins the whole inbox.
        chosen = f"(select * from inbox_items i where {where} limit %s) as i {JOINED} order by {order(wanted)}"
        async with self._pool.connection() as conn:
            items = await read_from(conn, chosen, *parameters, limit + 1, plan_anew=True)
        if len(items) <= limit:
            return items, None
        last = items[limit - 1]
        return items[:limit], position(wanted, last.created_at, last.urgency, last.id)

    async def waiting(self, user_id: UUID, account_id: UUID, *, but_run: UUID, most: int) -> tuple[list[Item], int]:
        """What waits in an account but for one run's, longest waiting first, and how much that is in all."""
        where = f"i.user_id = %s and i.account_id = %s and i.status = 'pending' and {AWAKE} and i.run_id <> %s"
        given = (user_id, account_id, but_run)
        tables = f"inbox_items i {JOINED} where {where} order by i.created_at, i.id limit %s"
        async with self._pool.connection() as conn:
            items = await read_from(conn, tables, *given, most, plan_anew=True)
        [row] = await fetched(self._pool, f"select count(*) as n from inbox_items i where {where}", given)
        return items, int(row["n"])

    async def waiting_in(self, user_id: UUID, run_ids: Sequence[UUID]) -> dict[UUID, Item]:
        """By run, the oldest of its items that nobody has answered; runs where nothing waits are left out."""
        where = "i.user_id = %s and i.run_id = any(%s) and i.status = 'pending' order by i.created_at desc, i.id desc"
        return {item.run_id: item for item in await self._items(where, user_id, list(run_ids))}

    async def counts(self, user_id: UUID) -> Counts:
        """How many items there are of each status, and how many wait of each kind and in each account."""
        return await count(self._pool, user_id)

    async def get(self, user_id: UUID, item_id: UUID) -> Item:
        """Raises NoItem."""
        found = await self._items("i.user_id = %s and i.id = %s", user_id, item_id)
        if not found:
            raise NoItem(f"there is no item {item_id}")
        return found[0]

    async def of_ids(self, user_id: UUID, item_ids: Sequence[UUID]) -> list[Item]:
        """Those that are there, in that order."""
        found = await self._items("i.user_id = %s and i.id = any(%s)", user_id, list(item_ids))
        return sorted(found, key=lambda item: item_ids.index(item.id))

    async def find(self, user_id: UUID, prefix: str) -> Item:
        """The item whose id begins with `prefix`. Raises NoItem."""
        if not prefix:
            raise NoItem("an item's id, or its first characters, is missing; `inbox list` shows them")
        where = "i.user_id = %s and starts_with(i.id::text, %s) order by i.created_at, i.id limit %s"
        found = await self._items(where, user_id, prefix.lower(), _MOST_NAMED + 1)
        if not found:
            raise NoItem(f"there is no item whose id begins with {prefix}; `inbox list` shows them")
        if len(found) > 1:
            which = ", ".join(str(item.id) for item in found[:_MOST_NAMED])
            more = " and more" if len(found) > _MOST_NAMED else ""
            raise NoItem(f"more than one item's id begins with {prefix}: {which}{more}; give more of it")
        return found[0]

    async def of_run(self, user_id: UUID, run_id: UUID) -> list[Item]:
        """The items of one run, oldest first."""
        return await self._items("i.user_id = %s and i.run_id = %s order by i.created_at, i.id", user_id, run_id)

    async def proposal(self, item: Item) -> list[Item]:
        """The parts of its proposal that wait for the person, oldest first; nothing but it if none does."""
        if all(part.answer for part in item.parts):
            return [item]
        where = """i.user_id = %s and i.run_id = %s and coalesce(i.group_id, i.run_id::text) = %s
                   and i.status = 'pending' order by i.created_at, i.id"""
        found = await self._items(where, item.user_id, item.run_id, item.group)
        return found or [item]

    async def of_thread(self, user_id: UUID, thread_id: UUID) -> list[Item]:
        """The items of one conversation, oldest first."""
        return await self._items("i.user_id = %s and i.thread_id = %s order by i.created_at, i.id", user_id, thread_id)

    async def asked_again_because_of(self, item: Item) -> list[Item]:
        """The parts that are asked about again because of the answer to an item."""
        return await self._items("i.run_id = %s and i.reopened->>'item' = %s order by i.id", item.run_id, str(item.id))

    async def _items(self, where: str, *parameters: object) -> list[Item]:
        async with self._pool.connection() as conn:
            return await read(conn, where, *parameters)
