"""What a rule would make of the newest mails, before it is one, by the model that sorts mail. Nothing is changed by
it, in no mail and no rule."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial
from hashlib import sha256
from typing import Any, Final
from uuid import UUID

from langchain_core.messages import AnyMessage, HumanMessage, SystemMessage

from email_assistant.accounts.account import Account
from email_assistant.accounts.accounts import Accounts
from email_assistant.agents.mail.prompts import Classification, Triage, triage_prompt
from email_assistant.db.pool import Pool, fetched
from email_assistant.db.statements import statements
from email_assistant.mail.excerpt import tokens
from email_assistant.memory.profiles import Memory
from email_assistant.memory.rules import Rule, checked, numbered
from email_assistant.memory.senders import believed, deciding, sender_rule
from email_assistant.memory.trial import COUNTED
from email_assistant.model import Models
from email_assistant.model.asking import several
from email_assistant.settings import Settings
from email_assistant.work.conversations import StoredMail, UnreadableMail, read_mails, triage_text

_SQL = statements("work", "what_if.sql")
_ANSWER: Final = 50  # tokens of one


class SortAgain:
    """Implements `memory.trial.Sorter`. It asks as triage does, but with no earlier decisions of the person's: those on
    this very mail are what it is to be compared with."""

    def __init__(self, pool: Pool, accounts: Accounts, models: Models, settings: Settings) -> None:
        self._pool = pool
        self._accounts = accounts
        self._models = models
        self._model = settings.model_for("triage")

    async def __call__(
        self, account_id: UUID, rules: Sequence[Rule], mails: Sequence[str], *, anew: bool = False
    ) -> Mapping[str, Classification]:
        account = await self._accounts.get(account_id)
        asked = sha256(f"{self._model}\n{triage_prompt(account, numbered(rules))}".encode()).hexdigest()
        given = {"account": account_id, "mails": list(mails), "asked": asked, "anew": anew}
        rows = await fetched(self._pool, _SQL["mails"], given)
        found: dict[str, Classification] = {row["gmail_id"]: row["said"] for row in rows if row["said"]}
        unknown = [row for row in rows if not row["said"]]
        questions = await asyncio.to_thread(lambda: _questions(account, rules, unknown))

        async def ask(mail_id: str, question: Sequence[AnyMessage]) -> None:
            triage = await self._models.parse("triage", question, Triage, "triage", account_id=account_id)
            found[mail_id] = triage.classification
            async with self._pool.connection() as conn:
                kept = {"account": account_id, "mail": mail_id, "asked": asked, "said": triage.classification}
                await conn.execute(_SQL["keep"].encode(), kept)

        await several(partial(ask, mail_id, question) for mail_id, question in questions.items())
        return found


def _questions(
    account: Account, rules: Sequence[Rule], rows: Sequence[Mapping[str, Any]]
) -> Mapping[str, Sequence[AnyMessage]]:
    """What the model is asked about each mail."""
    return {
        mail.gmail_id: [
            SystemMessage(triage_prompt(account, numbered(believed(rules, forged=mail.mail.forged)))),
            HumanMessage(text),
        ]
        for mail, text in _shown(account, rows)
    }


def _shown(account: Account, rows: Sequence[Mapping[str, Any]]) -> Iterator[tuple[StoredMail, str]]:
    """Each mail that can be read, as triage shows it."""
    for row in rows:
        with suppress(UnreadableMail):  # of which nothing can be told
            [stored] = read_mails([row])
            yield stored, triage_text(stored, account.zone)


@dataclass(frozen=True, slots=True)
class TriedMail:
    id: str
    """Gmail's."""
    sender: str
    subject: str
    was: Classification


@dataclass(frozen=True, slots=True)
class RuleTrial:
    """A rule that is tried, and what is known of it before a model is asked."""

    account: Account
    rules: Sequence[Rule]
    """Those in force, and the one that is tried."""
    mails: int
    told: Sequence[tuple[TriedMail, Classification]]
    """What code can tell would be sorted otherwise, and as what."""
    to_ask: Sequence[TriedMail]
    """What only the model can tell of: a call each."""
    tokens: int
    """What that would take, about."""
    cost: Decimal | None
    """By the prices in the settings; None without a price."""


class WhatIf:
    def __init__(self, pool: Pool, memory: Memory, sort_again: SortAgain, settings: Settings) -> None:
        self._pool = pool
        self._memory = memory
        self.sort_again = sort_again
        self._settings = settings

    async def look(self, account: Account, text: str, most: int) -> RuleTrial:
        """What can be told without a model.

        Args:
            most: mails, the newest that were triaged and whose text is kept.

        Raises:
            Invalid: the text is no rule.
        """
        before = await self._memory.rules(account.id, COUNTED)
        tried = Rule("", checked(text), {"by": "trial"}, datetime.now(UTC).isoformat(), [], removed=False)
        rules, told, to_ask = [*before, tried], list[tuple[TriedMail, Classification]](), list[TriedMail]()
        rows = {row["gmail_id"]: row for row in await fetched(self._pool, _SQL["newest"], (account.id, most))}
        shown = await asyncio.to_thread(lambda: list(_shown(account, list(rows.values()))))
        asked = 0
        for stored, prompt in shown:
            row = rows[stored.gmail_id]
            mail = TriedMail(stored.gmail_id, row["sender"], row["subject"], row["classification"])
            sender = "" if stored.mail.forged else mail.sender  # by which rules go
            old, new = (deciding(each, sender) for each in (before, rules))
            if new and (not old or old[0].classification != new[0].classification):
                told += [(mail, new[0].classification)] if new[0].classification != mail.was else []
            elif not new and (old or not sender_rule(tried)):
                to_ask.append(mail)
                asked += tokens(prompt)
        asked += len(to_ask) * tokens(triage_prompt(account, numbered(rules)))
        price = self._settings.prices.get(self._settings.model_for("triage"))
        answers = len(to_ask) * _ANSWER
        cost = price.of(asked, answers) if price else None
        return RuleTrial(account, rules, len(shown), told, to_ask, asked + answers, cost)

    async def ask(self, trial: RuleTrial) -> Sequence[tuple[TriedMail, Classification]]:
        """All mails that would be sorted otherwise, and as what, the model's word on the others included.

        Raises:
            BudgetSpent, ModelDown, ModelFault, ModelRefused, BadAnswer.
        """
        asked = [mail.id for mail in trial.to_ask]
        answers = await self.sort_again(trial.account.id, trial.rules, asked, anew=True)
        found = [(mail, answers.get(mail.id, mail.was)) for mail in trial.to_ask]
        return [*trial.told, *((mail, answer) for mail, answer in found if answer != mail.was)]
