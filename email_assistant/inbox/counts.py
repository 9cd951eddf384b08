"""How much there is of what in the inbox, at a price that doesn't grow with it."""

from dataclasses import dataclass
from uuid import UUID

from email_assistant.db.pool import Pool, fetched
from email_assistant.db.statements import statements
from email_assistant.inbox.listing import AWAKE, KINDS, STATUSES, Status
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
