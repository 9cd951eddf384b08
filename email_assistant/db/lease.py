"""The lease on a conversation: who may work on it now, and the epoch that fences off whoever was slow.

It has a term, and names the process that holds it (`holder`). It may be claimed once its term is over, or once that
process is seen to be gone. Then a write of its last moments may still be under way: whoever claims leaves what was
started alone until the write's deadline has passed (`threads.cut_short`; the ledger of effects keeps to it).
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from uuid import UUID

import psycopg

from email_assistant.db.holder import Holder
from email_assistant.db.pool import Connection, Pool

FREE = "(t.lease_until < clock_timestamp() or t.holder = any(%s::bigint[]) and t.holder_epoch = t.epoch)"
"""Whether a conversation `t` can be claimed, given the holders that are dead. A process of the version before raises
the epoch and leaves the holder that it found, which then means nothing."""


class LeaseLost(Exception):
    """Another worker has taken the conversation over; nothing more may be written or started for it."""


@dataclass(frozen=True, slots=True)
class Lease:
    thread_id: UUID
    epoch: int

    async def check(
        self, conn: Connection, *, margin: float = 0, account_active: bool = False, durable: bool = True
    ) -> None:
        """Make the caller's transaction fail unless this lease is held; it can't be taken over until that one ends.

        Args:
            margin: seconds that the lease must still last.
            account_active: ask also that the account is neither paused nor being removed.
            durable: whether the transaction's commit waits for the disk.

        Raises:
            LeaseLost: the epoch has moved on, too little time is left, or the account may not act.
        """
        # The account before the thread (`order`): what the caller makes next refers to it.
        of_account = "share" if account_active else "key share"
        row = await (
            await conn.execute(
                f"""select t.epoch = %s and t.lease_until > clock_timestamp() + make_interval(secs => %s) as held,
                          a.state = 'active' as active,
                          case when not %s then set_config('synchronous_commit', 'off', true) end
                   from threads t join accounts a on a.id = t.account_id where t.id = %s
                   for {of_account} of a for share of t""".encode(),
                (self.epoch, margin, durable, self.thread_id),
            )
        ).fetchone()
        if row is None or not row["held"]:
            raise LeaseLost(f"conversation {self.thread_id}, epoch {self.epoch}")
        if account_active and not row["active"]:
            raise LeaseLost(f"the account of conversation {self.thread_id} is not active")


async def claim(pool: Pool, thread_id: UUID, seconds: float, holder: Holder | None = None) -> Lease | None:
    """Take the lease if nobody holds it, or only a dead process does; None if somebody does.

    Args:
        holder: this process; without one the lease is held for its term, and the term of another's is waited for.
    """
    if holder:
        await holder.open()
    async with pool.connection() as conn:
        row = await (
            await conn.execute(
                f"""update threads t set lease_until = clock_timestamp() + make_interval(secs => %s), epoch = epoch + 1,
                           holder = %s, holder_epoch = epoch + 1,
                           cut_short = case when lease_until < clock_timestamp() then cut_short else epoch end
                    where id = %s and {FREE} returning epoch""".encode(),
                (seconds, holder and holder.name, thread_id, holder.dead if holder else []),
            )
        ).fetchone()
    return Lease(thread_id, row["epoch"]) if row else None


async def release(pool: Pool, lease: Lease) -> None:
    async with pool.connection() as conn:
        await conn.execute(
            "update threads set lease_until = '-infinity', holder = null where id = %s and epoch = %s",
            (lease.thread_id, lease.epoch),
        )


@asynccontextmanager
async def held(
    pool: Pool, thread_id: UUID, seconds: float, holder: Holder | None = None
) -> AsyncIterator[Lease | None]:
    """Hold the lease for the block and renew it all the while; the block gets None if another worker holds it.

    Args:
        holder: this process, as for `claim`.

    Raises:
        LeaseLost: it could not be renewed; the block was cancelled.
    """
    lease = await claim(pool, thread_id, seconds, holder)
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
            with suppress(psycopg.Error):  # a lease that can't be given back runs out by itself
                await release(pool, lease)
    except asyncio.CancelledError:
        if lost.is_set() and owner.uncancel() == 0:
            raise LeaseLost(f"conversation {thread_id}, epoch {lease.epoch}") from None
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
    async with pool.connection(timeout=seconds / 3) as conn:
        cursor = await conn.execute(
            """update threads set lease_until = clock_timestamp() + make_interval(secs => %s)
               where id = %s and epoch = %s and lease_until > clock_timestamp()""",
            (seconds, lease.thread_id, lease.epoch),
        )
        return cursor.rowcount == 1
