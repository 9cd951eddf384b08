"""Leases: what one worker does at a time, for a term that it renews while it is at it.

That of a conversation has an epoch, which fences off whoever was slow, and names the process that holds it (`holder`).
It may be claimed once its term is over, or once that process is seen to be gone. Then a write of its last moments may
still be under way: whoever claims leaves what was started alone until the write's deadline has passed
(`threads.cut_short`; the ledger of effects keeps to it). The others only save doing the same twice.
"""

import asyncio
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager, nullcontext, suppress
from dataclasses import dataclass
from typing import Literal, NamedTuple
from uuid import UUID

import psycopg
from psycopg.rows import DictRow

from email_assistant.db.pool import Connection, Pool
from email_assistant.db.presence import Holder
from email_assistant.errors import AssistantError

FREE = "(t.lease_until < clock_timestamp() or t.holder = any(%s::bigint[]))"
"""Whether a conversation `t` can be claimed, given the holders that are dead."""

Name = Literal["conversation", "new mail", "older mail", "lesson"]
"""What can be held: work on a conversation, a look for an account's new or older mail, learning from an answer."""


@dataclass(frozen=True, slots=True)
class _Place:
    """Where leases stand: a row of a table each."""

    table: str
    until: str
    """The column with the end of the term."""
    free: str
    """Whether row `t` can be claimed."""
    sets: str = ""
    """What a claim changes besides."""
    unsets: str = ""
    """What giving it back does."""
    epoch: str = "0"
    """The column that counts claims, if there is one."""
    behind: str = ""
    """Takes a lock first, in a statement of its own: the claim must see what was committed while it was waited for."""


_PLACES: dict[Name, _Place] = {
    "conversation": _Place(
        "threads",
        "lease_until",
        FREE.replace("%s", "%(dead)s"),
        """, epoch = epoch + 1, holder = %(holder)s,
            cut_short = case when lease_until < clock_timestamp() then cut_short else epoch end""",
        ", holder = null",
        "epoch",
    ),
    "new mail": _Place("accounts", "syncing_until", "syncing_until < clock_timestamp()"),
    "older mail": _Place("accounts", "backfilling_until", "backfilling_until < clock_timestamp()"),
    "lesson": _Place(
        "inbox_items",
        "learning_until",
        # One of an account at a time, since a lesson changes the profile that the next one is put to.
        """t.status = 'applied' and t.teaches and t.learned_at is null and t.learn_after <= clock_timestamp()
           and not exists (select from inbox_items o where o.account_id = t.account_id and o.status = 'applied'
                           and o.teaches and o.learned_at is null and o.learning_until > clock_timestamp())""",
        ", learn_tries = learn_tries + 1",
        behind="select from accounts where id = (select account_id from inbox_items where id = %s) for no key update",
    ),
}
# The account before the thread (`order`): what the caller makes next refers to it.
_HELD = """
select case when not %s then set_config('synchronous_commit', 'off', true) end
from threads t join accounts a on a.id = t.account_id
where t.id = %s and t.epoch = %s
and t.lease_until > clock_timestamp() + make_interval(secs => %s) {active}
for {of_account} of a for share of t"""
_GIVE_BACK_SECONDS = 10
_AGAIN_SECONDS = 0.2
HELD = "exists (select from lease)"
"""Stands among the conditions of a statement that `Lease.guarded` runs."""


class LeaseLost(AssistantError):
    """Another worker has taken it over, or its account may not act; nothing more may be written or started for it."""

    def __init__(self, why: str = "another process has taken this over, or its account is paused") -> None:
        super().__init__(why)


class RowChange(NamedTuple):
    """A statement for `Lease.guarded`, with what it is given."""

    statement: str
    """An `update`, `insert … select` or `delete` with `HELD` among its conditions."""
    parameters: Sequence[object]


@dataclass(frozen=True, slots=True)
class Lease:
    id: UUID
    """Of what is held: a conversation, an account or an item."""
    epoch: int
    """Of a conversation, which claim of it this is; else 0."""
    name: Name = "conversation"

    @property
    def thread_id(self) -> UUID:
        return self.id

    async def check(self, conn: Connection, *, margin: float = 0, account_active: bool = False) -> None:
        """Make the caller's transaction fail unless this lease on a conversation is held; it can't be taken over until
        that one ends.

        Args:
            margin: seconds that the lease must still last.
            account_active: ask also that the account is neither paused nor being removed.

        Raises:
            LeaseLost: the epoch has moved on, too little time is left, or the account may not act.
        """
        cursor = await conn.execute(_held(account_active), (True, self.id, self.epoch, margin))
        if await cursor.fetchone() is None:
            raise LeaseLost

    async def guarded(
        self,
        conn: Connection,
        statement: str,
        *parameters: object,
        along: Sequence[RowChange] = (),
        margin: float = 0,
        account_active: bool = False,
        durable: bool = True,
    ) -> list[DictRow]:
        """Run one statement that changes rows only if `check` would pass, and what it returns.

        As long as it stands alone it needs no transaction; in one, what follows is guarded by it too. A row that it
        only reads may be as it was before another's transaction ended: where that matters, `check` first.

        Args:
            statement: an `update`, `insert … select` or `delete` with `HELD` among its conditions and a `returning`.
            along: others that go with it, each on rows of its own, which none of the others sees changed.

        Raises:
            LeaseLost: as `check`; nothing was changed.
        """
        assert all(HELD in each for each in (statement, *(change.statement for change in along)))
        others = "".join(f"along{number} as ({change.statement}), " for number, change in enumerate(along))
        query = f"""with lease as ({_held(account_active)}), {others}guarded as ({statement})
                    select found.* from lease left join (select true as changed, * from guarded) as found on true"""
        given = [each for change in along for each in change.parameters]
        cursor = await conn.execute(query.encode(), (durable, self.id, self.epoch, margin, *given, *parameters))
        rows = await cursor.fetchall()
        if not rows:
            raise LeaseLost
        return [row for row in rows if row.pop("changed")]


def _held(account_active: bool) -> str:
    return (
        _HELD.format(active="and a.state = 'active'", of_account="share")
        if account_active
        else _HELD.format(active="", of_account="key share")
    )


async def claim(pool: Pool, name: Name, id_: UUID, seconds: float, holder: Holder | None = None) -> Lease | None:
    """Take a lease if nobody holds it, or only a dead process does; None if somebody does, or there is nothing to do.

    Args:
        holder: this process, for a conversation; without one it is held for its term, and another's term waited for.
    """
    place = _PLACES[name]
    if holder:
        await holder.open()
    async with pool.connection() as conn, conn.transaction() if place.behind else nullcontext():
        if place.behind:
            await conn.execute(place.behind.encode(), (id_,))
        cursor = await conn.execute(
            f"""update {place.table} t set {place.until} = clock_timestamp() + make_interval(secs => %(seconds)s)
                {place.sets} where id = %(id)s and {place.free} returning {place.epoch} as epoch""".encode(),
            {
                "seconds": seconds,
                "id": id_,
                "holder": holder and holder.name,
                "dead": holder.dead if holder else [],
            },
        )
        row = await cursor.fetchone()
    return Lease(id_, row["epoch"], name) if row else None


async def claim_each(conn: Connection, name: Name, ids: Collection[UUID], seconds: float) -> set[UUID]:
    """Take, in the caller's transaction, the leases on rows that it has locked, and return of which; as `claim` does,
    without an epoch. It is the caller's to renew and release them."""
    place = _PLACES[name]
    claimed = await conn.execute(
        f"""update {place.table} t set {place.until} = clock_timestamp() + make_interval(secs => %s)
            where id = any(%s) and {place.free} returning id""".encode(),
        (seconds, list(ids)),
    )
    return {row["id"] for row in await claimed.fetchall()}


async def renew_each(conn: Connection, name: Name, ids: Collection[UUID], seconds: float) -> None:
    """Of rows that the caller has locked. One that was lost stays so."""
    place = _PLACES[name]
    await conn.execute(
        f"""update {place.table} set {place.until} = clock_timestamp() + make_interval(secs => %s)
            where id = any(%s) and {place.until} > clock_timestamp()""".encode(),
        (seconds, list(ids)),
    )


async def release_each(conn: Connection, name: Name, ids: Collection[UUID]) -> None:
    """Of rows that the caller has locked."""
    place = _PLACES[name]
    await conn.execute(
        f"update {place.table} set {place.until} = '-infinity' where id = any(%s)".encode(), (list(ids),)
    )


async def release(pool: Pool, lease: Lease) -> None:
    place = _PLACES[lease.name]
    given_back = f"{place.until} = '-infinity' {place.unsets}"
    async with pool.connection() as conn:
        await conn.execute(
            f"update {place.table} set {given_back} where id = %s and {place.epoch} = %s".encode(),
            (lease.id, lease.epoch),
        )


async def _give_back(pool: Pool, lease: Lease) -> None:
    """Release, over and over for a while: a server that was started again has lost the connections, not the lease."""
    async with asyncio.timeout(_GIVE_BACK_SECONDS):
        while True:
            try:
                return await release(pool, lease)
            except psycopg.Error:
                await asyncio.sleep(_AGAIN_SECONDS)


@asynccontextmanager
async def held(
    pool: Pool, name: Name, id_: UUID, seconds: float, holder: Holder | None = None
) -> AsyncIterator[Lease | None]:
    """Hold a lease for the block and renew it all the while; the block gets None where `claim` does.

    Raises:
        LeaseLost: it could not be renewed; the block was cancelled.
    """
    lease = await claim(pool, name, id_, seconds, holder)
    if lease is None:
        yield None
        return
    owner = asyncio.current_task()
    assert owner is not None
    lost = asyncio.Event()
    renewal = asyncio.create_task(_renew_until_lost(pool, lease, seconds, owner, lost))
    try:
        try:
            yield lease
        finally:
            renewal.cancel()
            with suppress(TimeoutError):  # a lease that can't be given back runs out by itself
                await _give_back(pool, lease)
    except asyncio.CancelledError:
        if lost.is_set() and owner.uncancel() == 0:
            raise LeaseLost from None
        raise


async def _renew_until_lost(
    pool: Pool, lease: Lease, seconds: float, owner: "asyncio.Task[object]", lost: asyncio.Event
) -> None:
    """Renew three times per term; refused, or a whole term without an answer: another worker may hold it, so stop."""
    loop = asyncio.get_running_loop()
    ends = loop.time() + seconds
    held_still = True
    while held_still:
        await asyncio.sleep(seconds / 3)
        try:
            async with asyncio.timeout(seconds / 3):
                held_still = await _renew(pool, lease, seconds)
            ends = loop.time() + seconds
        except (psycopg.Error, TimeoutError):
            held_still = loop.time() < ends
    lost.set()
    owner.cancel()


async def _renew(pool: Pool, lease: Lease, seconds: float) -> bool:
    place = _PLACES[lease.name]
    async with pool.connection(timeout=seconds / 3) as conn:
        cursor = await conn.execute(
            f"""update {place.table} set {place.until} = clock_timestamp() + make_interval(secs => %s)
                where id = %s and {place.epoch} = %s and {place.until} > clock_timestamp()""".encode(),
            (seconds, lease.id, lease.epoch),
        )
        return cursor.rowcount == 1
