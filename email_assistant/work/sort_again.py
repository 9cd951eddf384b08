"""The model that sorts mail, asked about mail of the past by other rules."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from hashlib import sha256
from typing import Any
from uuid import UUID

from langchain_core.messages import AnyMessage, HumanMessage, SystemMessage

from email_assistant.accounts.account import Account
from email_assistant.accounts.accounts import Accounts
from email_assistant.agents.mail.prompts import Classification, Triage, triage_prompt
from email_assistant.db.pool import Pool, fetched
from email_assistant.db.statements import statements
from email_assistant.memory.rules import Rule, numbered
from email_assistant.memory.senders import believed
from email_assistant.model import Models
from email_assistant.model.several import several
from email_assistant.settings import Settings
from email_assistant.work.conversations import UnreadableMail, read_mails, triage_text

_SQL = statements("work", "sort_again.sql")


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


def question(account: Account, rules: Sequence[Rule], text: str, *, forged: bool) -> list[AnyMessage]:
    """What the model is asked about a mail, `text` as triage shows it."""
    return [SystemMessage(triage_prompt(account, numbered(believed(rules, forged=forged)))), HumanMessage(text)]


def _questions(
    account: Account, rules: Sequence[Rule], rows: Sequence[Mapping[str, Any]]
) -> Mapping[str, Sequence[AnyMessage]]:
    found = {}
    for row in rows:
        with suppress(UnreadableMail):  # of which nothing can be told
            [stored] = read_mails([row])
            text = triage_text(stored, account.zone)
            found[stored.gmail_id] = question(account, rules, text, forged=stored.mail.forged)
    return found
