"""What the models were asked for and what it cost, and each account's budget for a day. All SQL on `model_usage`."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from email_assistant.accounts.account import Account
from email_assistant.accounts.accounts import Accounts
from email_assistant.db.pool import Connection, Pool, fetched
from email_assistant.errors import AssistantError
from email_assistant.settings import Settings


class BudgetSpent(AssistantError):
    """The account's budget for today is spent; the message says until when nothing is asked of a model."""

    passes = "by itself"
    is_plain = True


@dataclass(frozen=True, slots=True)
class Day:
    """One account's use of models since midnight of its own timezone, against its budget."""

    tokens: int
    """Prompt and completion tokens."""
    money: Decimal
    """By the prices in the settings, in their currency; 0 for models without a price."""
    most_tokens: int | None
    most_money: Decimal | None
    ends: datetime
    """The next midnight."""

    @property
    def spent(self) -> str | None:
        """What is spent, in words; None while something is left."""
        if self.most_tokens is not None and self.tokens >= self.most_tokens:
            return f"{self.tokens:,} of {self.most_tokens:,} tokens"
        if self.most_money is not None and self.money >= self.most_money:
            return f"{self.money:.2f} of {self.most_money:.2f} in money"
        return None


class Usage:
    def __init__(self, pool: Pool, accounts: Accounts, settings: Settings) -> None:
        self._pool = pool
        self._accounts = accounts
        self._settings = settings

    async def check(self, account_id: UUID | None) -> None:
        """Look before a call. What is asked for without an account is in no budget.

        Calls that are under way are not counted yet, so a day may end a few calls above.

        Raises:
            BudgetSpent: which the account's row then says too, until midnight.
            UnknownAccount.
        """
        if account_id is None or (self._settings.budget_tokens is None and self._settings.budget_money is None):
            return
        payer = await self._accounts.get(account_id)
        day = await self.today(payer)
        if day.spent:
            await self._accounts.spend(payer.id, day.ends)
            raise BudgetSpent(spent_notice(payer, day))

    async def today(self, account: Account) -> Day:
        midnight = datetime.now(account.zone).replace(hour=0, minute=0, second=0, microsecond=0)
        [row] = await self._rows(
            """select coalesce(sum(prompt_tokens::bigint + completion_tokens), 0)::bigint as tokens,
                      coalesce(sum(cost) filter (where cost between 0 and 1e9), 0) as money
               from model_usage where account_id = %s and at >= %s""",
            account.id,
            midnight,
        )
        ends = midnight + timedelta(days=1)  # by the wall clock, whatever the clocks do in between
        return Day(**row, most_tokens=self._settings.budget_tokens, most_money=self._settings.budget_money, ends=ends)

    async def record(
        self,
        account_id: UUID | None,
        run_id: UUID | None,
        role: str,
        model: str,
        prompt_tokens: int,
        completion_tokens: int,
    ) -> None:
        """Note an account's call. A crash of the database may forget the last ones: a note is not worth the wait for
        the disk."""
        price = self._settings.prices.get(model)
        cost = price.of(prompt_tokens, completion_tokens) if price else 0
        await self._rows(
            """insert into model_usage
                   (user_id, account_id, run_id, role, model, prompt_tokens, completion_tokens, cost)
               select user_id, id, %s, %s, %s, %s, %s, %s
               from accounts, set_config('synchronous_commit', 'off', true) where id = %s""",
            run_id,
            role,
            model,
            prompt_tokens,
            completion_tokens,
            cost,
            account_id,
        )

    async def since(self, user_id: UUID, at: datetime) -> dict[str, int]:
        """Model `calls`, their `prompt_tokens` and `completion_tokens`, and replies `sent`, since a time."""
        [row] = await self._rows(
            """select count(*) as calls, coalesce(sum(prompt_tokens), 0)::bigint as prompt_tokens,
                      coalesce(sum(completion_tokens), 0)::bigint as completion_tokens,
                      (select count(*) from effects where user_id = %s and tool = 'send_email_tool'
                       and state = 'done' and finished_at >= %s) as sent
               from model_usage where user_id = %s and at >= %s""",
            user_id,
            at,
            user_id,
            at,
        )
        return row

    async def _rows(self, query: str, *parameters: object) -> list[dict[str, Any]]:
        return await fetched(self._pool, query, parameters)


async def of_no_run(conn: Connection, run_ids: Sequence[UUID]) -> None:
    """What these runs cost stays counted, for no run in particular."""
    await conn.execute("update model_usage set run_id = null where run_id = any(%s)", (list(run_ids),))


def spent_notice(account: Account, day: Day) -> str:
    """One line for the person."""
    return (
        f"today's budget for the model is spent ({day.spent}); "
        f"it goes on at {day.ends:%H:%M} {account.timezone or 'UTC'}, or with a higher EMAIL_ASSISTANT_BUDGET_…"
    )
