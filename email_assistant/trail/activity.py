"""What came in and what was done with it, day by day."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any
from uuid import UUID

from email_assistant.accounts.account import Account
from email_assistant.db.pool import Pool, fetched

_DAYS = """
with days as (select * from unnest(%(accounts)s::uuid[], %(days)s::date[], %(starts)s::timestamptz[],
                                   %(ends)s::timestamptz[]) as d (account_id, day, starts, ends))
select day, {what} from days d join {table} on {condition} group by day"""
_MAILS = _DAYS.format(
    what="""count(*) as mails, count(*) filter (where classification = 'ignore') as ignore,
            count(*) filter (where classification = 'notify') as notify,
            count(*) filter (where classification = 'respond') as respond,
            count(*) filter (where classification is null) as untriaged""",
    table="mails m",
    condition="""m.user_id = %(user)s and not m.own and m.account_id = d.account_id and m.received_at >= d.starts
                 and m.received_at < d.ends""",
)
_DECISIONS = _DAYS.format(
    what="""count(*) as decided,
            count(*) filter (where decision->>'type' = 'accept' and kind in ('draft', 'meeting')) as unchanged,
            count(*) filter (where kind in ('draft', 'meeting')) as proposals,
            percentile_cont(0.5) within group (order by extract(epoch from decided_at - i.created_at))
                filter (where isfinite(i.created_at))::float8 as median_seconds""",
    table="inbox_items i",
    condition="""i.user_id = %(user)s and i.account_id = d.account_id and i.decided_at >= d.starts
                 and i.decided_at < d.ends""",
)
_USAGE = _DAYS.format(
    what="""count(*) as model_calls, sum(prompt_tokens)::bigint as prompt_tokens,
            sum(completion_tokens)::bigint as completion_tokens,
            sum(cost) filter (where cost between 0 and 1e9)::float8 as cost""",
    table="model_usage u",
    condition="u.account_id = d.account_id and u.at >= d.starts and u.at < d.ends",
)


@dataclass(frozen=True, slots=True)
class DayFigures:
    """One calendar day, of each account's own timezone, summed over the accounts."""

    day: date
    mails: int = 0
    ignore: int = 0
    notify: int = 0
    respond: int = 0
    untriaged: int = 0
    decided: int = 0  # items answered on that day, whatever the answer
    proposals: int = 0  # those of them that were drafts or meetings
    unchanged: int = 0  # those of the proposals that were accepted as they were
    median_seconds: float | None = None  # from an item's appearance to its answer; None on a day without answers
    model_calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float = 0

    @property
    def accepted_unchanged(self) -> float | None:
        """Share of the proposals, from 0 to 1; None on a day without any."""
        return self.unchanged / self.proposals if self.proposals else None


class Activity:
    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def days(self, user_id: UUID, accounts: Sequence[Account], most: int) -> list[DayFigures]:
        """The last days, today included, oldest first. `accounts`: those that count; all of this user; `most`: how many
        days."""
        periods = [(account.id, *period) for account in accounts for period in _periods(account, most)]
        given: dict[str, Any] = {
            "user": user_id,
            "accounts": [account_id for account_id, *_ in periods],
            "days": [day for _, day, _, _ in periods],
            "starts": [starts for *_, starts, _ in periods],
            "ends": [ends for *_, ends in periods],
        }
        found: dict[date, dict[str, Any]] = {day: {} for day in sorted({day for _, day, _, _ in periods})}
        for query in (_MAILS, _DECISIONS, _USAGE):
            for row in await fetched(self._pool, query, given):
                found[row["day"]] |= row
        return [DayFigures(**({"day": day} | figures)) for day, figures in found.items()]


def _periods(account: Account, most: int) -> list[tuple[date, datetime, datetime]]:
    """Each of the last days by the account's own clock, whatever the clocks do on it: (day, start, end)."""
    today = datetime.now(account.zone).replace(hour=0, minute=0, second=0, microsecond=0)
    starts = [today - timedelta(days=back) for back in range(most - 1, -1, -1)]
    return [(start.date(), start, start + timedelta(days=1)) for start in starts]
