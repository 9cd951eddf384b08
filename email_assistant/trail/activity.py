"""What came in and what was done with it, day by day."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any
from uuid import UUID

from email_assistant.accounts.account import Account
from email_assistant.db.pool import Pool, fetched
from email_assistant.db.statements import statements

_SQL = statements("trail", "activity.sql")


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
        for query in ("mails", "decisions", "usage"):
            for row in await fetched(self._pool, _SQL[query], given):
                found[row["day"]] |= row
        return [DayFigures(**({"day": day} | figures)) for day, figures in found.items()]


def _periods(account: Account, most: int) -> list[tuple[date, datetime, datetime]]:
    """Each of the last days by the account's own clock, whatever the clocks do on it: (day, start, end)."""
    today = datetime.now(account.zone).replace(hour=0, minute=0, second=0, microsecond=0)
    starts = [today - timedelta(days=back) for back in range(most - 1, -1, -1)]
    return [(start.date(), start, start + timedelta(days=1)) for start in starts]
