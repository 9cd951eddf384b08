"""What a rule would make of the newest mails, before it is one. Nothing is changed by it, in no mail and no rule."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial
from typing import Any, Final

from email_assistant.accounts.account import Account
from email_assistant.agents.mail.prompts import Classification, Triage, triage_prompt
from email_assistant.db.pool import Pool, fetched
from email_assistant.mail.excerpt import tokens
from email_assistant.memory.fires import COUNTED
from email_assistant.memory.profiles import Memory
from email_assistant.memory.rules import Rule, checked, numbered
from email_assistant.memory.senders import deciding, sender_rule
from email_assistant.model import Models
from email_assistant.model.several import several
from email_assistant.settings import Settings
from email_assistant.work.conversations import UnreadableMail, read_mails, triage_text
from email_assistant.work.sort_again import question

MOST_MAILS: Final = 200
_ANSWER: Final = 50  # tokens of one


@dataclass(frozen=True, slots=True)
class TriedMail:
    id: str
    """Gmail's."""
    sender: str
    subject: str
    was: Classification
    text: str
    """As triage is shown it."""
    forged: bool


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
    def __init__(self, pool: Pool, memory: Memory, models: Models, settings: Settings) -> None:
        self._pool = pool
        self._memory = memory
        self._models = models
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
        mails = await self._newest(account, most)
        for mail, sender in mails:
            old, new = (deciding(each, sender) for each in (before, rules))
            if new and (not old or old[0].classification != new[0].classification):
                told += [(mail, new[0].classification)] if new[0].classification != mail.was else []
            elif not new and (old or not sender_rule(tried)):
                to_ask.append(mail)
        prompt = triage_prompt(account, numbered(rules))
        asked = sum(tokens(prompt) + tokens(mail.text) for mail in to_ask)
        price = self._settings.prices.get(self._settings.model_for("triage"))
        answers = len(to_ask) * _ANSWER
        cost = price.of(asked, answers) if price else None
        return RuleTrial(account, rules, len(mails), told, to_ask, asked + answers, cost)

    async def ask(self, trial: RuleTrial) -> Sequence[tuple[TriedMail, Classification]]:
        """All mails that would be sorted otherwise, and as what, the model's word on the others included.

        Raises:
            BudgetSpent, ModelDown, ModelFault, ModelRefused, BadAnswer.
        """
        answers = dict[str, Classification]()

        async def ask(mail: TriedMail) -> None:
            asked = question(trial.account, trial.rules, mail.text, forged=mail.forged)
            found = await self._models.parse("triage", asked, Triage, "triage", account_id=trial.account.id)
            answers[mail.id] = found.classification

        await several(partial(ask, mail) for mail in trial.to_ask)
        asked = [(mail, answers[mail.id]) for mail in trial.to_ask]
        return [*trial.told, *((mail, answer) for mail, answer in asked if answer != mail.was)]

    async def _newest(self, account: Account, most: int) -> list[tuple[TriedMail, str]]:
        """Each with the address that rules go by."""
        rows = await fetched(
            self._pool,
            """select gmail_id, own, content, sender, subject, classification from mails
               where account_id = %s and not own and readable and has_text and classification is not null
               order by received_at desc, gmail_id desc limit %s""",
            (account.id, min(most, MOST_MAILS)),
        )
        return await asyncio.to_thread(lambda: [each for row in rows for each in _tried(account, row)])


def _tried(account: Account, row: Mapping[str, Any]) -> Iterator[tuple[TriedMail, str]]:
    with suppress(UnreadableMail):  # of which nothing can be told
        [stored] = read_mails([row])
        text = triage_text(stored, account.zone)
        forged = stored.mail.forged
        mail = TriedMail(row["gmail_id"], row["sender"], row["subject"], row["classification"], text, forged)
        yield mail, "" if forged else row["sender"]
