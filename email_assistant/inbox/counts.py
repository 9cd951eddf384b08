"""How much there is of what in the inbox, at a price that doesn't grow with it."""

from dataclasses import dataclass
from uuid import UUID

from email_assistant.db.pool import Pool
from email_assistant.inbox.listing import AWAKE, KINDS, STATUSES, Status
from email_assistant.tools.spec import Kind

MOST = 1000
"""No further than this is counted, in each group; so that many entries of an index are read for each at most."""

_WAITING = f"""
select a.address as account, k.kind, n.count
from accounts a cross join unnest(%(kinds)s::text[]) as k (kind) cross join lateral (
    select count(*) from (select from inbox_items i where i.user_id = %(user)s and i.status = 'pending'
                          and i.account_id = a.id and i.kind = k.kind and {AWAKE} limit %(most)s) as few) as n
where a.user_id = %(user)s and (a.provider <> 'none' or n.count > 0)"""
_OTHERS = """
select s.status, n.count
from unnest(%(statuses)s::text[]) as s (status) cross join lateral (
    select count(*) from (select from inbox_items i where i.user_id = %(user)s and i.status = s.status
                          limit %(most)s) as few) as n"""
_SNOOZED = """
select count(*) from (select from inbox_items i where i.user_id = %(user)s and i.status = 'pending'
                      and i.snoozed_until > statement_timestamp() limit %(most)s) as few"""


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
    async with pool.connection() as conn:
        waiting = await (await conn.execute(_WAITING.encode(), given)).fetchall()
        rest = await (await conn.execute(_OTHERS.encode(), given)).fetchall()
        snoozed = await (await conn.execute(_SNOOZED.encode(), given)).fetchall()
    pending = min(MOST, sum(row["count"] for row in waiting))
    return Counts(
        most=MOST,
        by_status={"pending": pending, **{row["status"]: row["count"] for row in rest}},
        waiting_by_kind={k: min(MOST, sum(r["count"] for r in waiting if r["kind"] == k)) for k in KINDS},
        waiting_by_account={
            a: min(MOST, sum(r["count"] for r in waiting if r["account"] == a))
            for a in sorted({row["account"] for row in waiting})
        },
        snoozed=snoozed[0]["count"],
    )
