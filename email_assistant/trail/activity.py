"""What came in and what was done with it, by day and by week; and the letters that were proposed, with what the person
made of them."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any, Final
from uuid import UUID

from email_assistant.accounts.account import Account
from email_assistant.db.pool import Pool, fetched, fetched_as
from email_assistant.db.statements import statements
from email_assistant.mail.diff import survival
from email_assistant.outgoing.entry import WITHOUT_TEXT
from email_assistant.tools.spec import LETTER

_SQL = statements("trail", "activity.sql")
_LEAST_MONEY: Final = 0.01
_WEEK: Final = timedelta(days=7)
_Period = tuple[date, datetime, datetime]  # the day that names it, start, end


@dataclass(frozen=True, slots=True)
class Figures:
    """One calendar day or week, of each account's own timezone, summed over the accounts."""

    day: date  # of a week its Monday
    mails: int = 0
    ignore: int = 0
    notify: int = 0
    respond: int = 0
    untriaged: int = 0
    without_model: int = 0  # sorted by the person's rules or habits, so that no model was asked
    corrected: int = 0  # whose class the person changed
    decided: int = 0  # items answered on that day, whatever the answer
    proposals: int = 0  # those of them that were drafts or meetings
    unchanged: int = 0  # those of the proposals that were accepted as they were
    answered: int = 0  # mails to which a reply was accepted
    as_proposed: int = 0  # those of them whose reply was left as it was
    letters: int = 0  # drafts that were approved, as they were or changed, and whose text is still kept
    lost: float = 0  # shares of their sentences that are not left, summed: 1 is a letter of which none is
    learned: int = 0  # rules
    median_seconds: float | None = None  # from an item's appearance to its answer; None on a day without answers
    model_calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float = 0
    unpriced: int = 0  # model calls of which it is not known what they cost

    @property
    def accepted_unchanged(self) -> float | None:
        """Share of the proposals, from 0 to 1; None on a day without any."""
        return self.unchanged / self.proposals if self.proposals else None

    @property
    def corrected_of_100(self) -> float | None:
        """Of 100 mails that were sorted, those corrected; None without any."""
        triaged = self.mails - self.untriaged
        return 100 * self.corrected / triaged if triaged else None

    @property
    def kept(self) -> float | None:
        """The share of a draft's sentences that is left in the approved letter, from 0 to 1; None without letters."""
        return 1 - self.lost / self.letters if self.letters else None

    @property
    def any(self) -> bool:
        """Whether anything was at all."""
        return bool(self.mails or self.decided or self.learned or self.model_calls)

    def sentence(self, currency: str) -> str:
        """Without what there was nothing of; of cost only where all of it is known."""
        changed = self.answered - self.as_proposed
        parts = [
            _counted(self.mails, "mail"),
            f"{self.without_model:,} sorted without a model" if self.without_model else "",
            f"{self.corrected:,} corrected by you ({self.corrected_of_100:.0f} of 100)" if self.corrected else "",
            f"{self.as_proposed:,} answered as proposed" if self.as_proposed else "",
            f"{changed:,} answered with your changes" if changed else "",
            f"{self.kept:.0%} of the drafted sentences kept" if changed and self.kept is not None else "",
            f"{_counted(self.learned, 'rule')} learned" if self.learned else "",
            f"{_money(self.cost)} {currency}".rstrip() if self.cost and not self.unpriced else "",
        ]
        return ", ".join(filter(None, parts))


@dataclass(frozen=True, slots=True)
class Week:
    """A calendar week, from Monday on."""

    begins: date
    name: str
    says: str
    """What it came to, in one sentence."""


class Activity:
    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def days(self, user_id: UUID, accounts: Sequence[Account], most: int) -> list[Figures]:
        """The last days, today included, oldest first. `accounts`: those that count; all of this user; `most`: how many
        days."""
        return await self._figures(user_id, {account.id: _days(account, most) for account in accounts})

    async def today(self, user_id: UUID, accounts: Sequence[Account], currency: str) -> str:
        """What the day has come to so far, in one sentence; "" for nothing."""
        days = await self.days(user_id, accounts, 1)
        return days[-1].sentence(currency) if days and days[-1].any else ""

    async def weeks(self, user_id: UUID, accounts: Sequence[Account], most: int, currency: str) -> list[Week]:
        """The weeks of these last days in which anything was, this one included, newest first."""
        found = await self._figures(user_id, {account.id: _weeks(account, most) for account in accounts})
        names = [f"Week of {each.day.day} {each.day:%B}" for each in found[:-1]] + ["This week"]
        return [
            Week(each.day, name, each.sentence(currency))
            for each, name in reversed(list(zip(found, names, strict=False)))
            if each.any
        ]

    async def _figures(self, user_id: UUID, wanted: Mapping[UUID, Sequence[_Period]]) -> list[Figures]:
        periods = [(account_id, *period) for account_id, given in wanted.items() for period in given]
        given: dict[str, Any] = {
            "user": user_id,
            "accounts": [account_id for account_id, *_ in periods],
            "days": [day for _, day, _, _ in periods],
            "starts": [starts for *_, starts, _ in periods],
            "ends": [ends for *_, ends in periods],
            "gone": WITHOUT_TEXT,
        }
        found: dict[date, dict[str, Any]] = {day: {} for day in sorted({day for _, day, _, _ in periods})}
        for query in ("mails", "decisions", "learned", "usage"):
            for row in await fetched(self._pool, _SQL[query], given):
                found[row["day"]] |= row
        for row in await fetched(self._pool, _SQL["edited"], given):
            kept = await asyncio.to_thread(survival, row["proposed"], row["approved"])
            found[row["day"]]["lost"] = found[row["day"]].get("lost", 0.0) + 1 - (kept.share or 0.0)
        return [Figures(**({"day": day} | figures)) for day, figures in found.items()]


def _days(account: Account, most: int) -> list[_Period]:
    return _periods(_midnight(account), timedelta(days=1), most)


def _weeks(account: Account, days: int) -> list[_Period]:
    """Those that hold any of the last days."""
    today = _midnight(account)
    return _periods(today - timedelta(days=today.weekday()), _WEEK, (days - 1 + 6 - today.weekday()) // 7 + 1)


def _periods(last: datetime, length: timedelta, most: int) -> list[_Period]:
    """By the account's own clock, whatever the clocks do meanwhile."""
    starts = [last - back * length for back in range(most - 1, -1, -1)]
    return [(start.date(), start, start + length) for start in starts]


def _midnight(account: Account) -> datetime:
    return datetime.now(account.zone).replace(hour=0, minute=0, second=0, microsecond=0)


def _money(sum_: float) -> str:
    return f"{sum_:,.2f}" if sum_ >= _LEAST_MONEY else f"less than {_LEAST_MONEY}"


def _counted(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


_LETTERS = statements("trail", "letters.sql")


@dataclass(frozen=True, slots=True)
class ApprovedLetter:
    kind: str
    at: datetime | None
    """When it was approved; None: not known."""
    proposed: str
    sent: str


async def approved_letters(pool: Pool, user_id: UUID, accounts: Sequence[UUID]) -> list[ApprovedLetter]:
    """Oldest first."""
    given = {"user": user_id, "accounts": list(accounts), "tool": LETTER, "gone": WITHOUT_TEXT}
    return await fetched_as(ApprovedLetter, pool, _LETTERS["approved"], given)
