"""The person's own decisions on mail like one that is to be triaged. What a model or the program thought is none."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from email_assistant.agents.mail.prompts import Classification, Precedent
from email_assistant.db.lease import Lease
from email_assistant.db.pool import Pool, fetched_as
from email_assistant.db.statements import statements
from email_assistant.triage.correspondence import subject_of_conversation
from email_assistant.work.conversations import Conversations

_MOST: Final = 3
_LIKE: Final = 0.5
"""The share of the words of two subjects that both must have, where somebody else wrote."""
_WORD: Final = re.compile(r"[^\W\d_]+")
_SQL = statements("work", "precedents.sql")


@dataclass(frozen=True, slots=True)
class _Decided:
    sender: str
    subject: str
    truth: Classification


class Precedents:
    """Implements `agents.mail.run.Recall`."""

    def __init__(self, pool: Pool, conversations: Conversations) -> None:
        self._pool = pool
        self._conversations = conversations

    async def __call__(self, run: Mapping[str, Any], lease: Lease) -> Sequence[Precedent]:
        """A few of them, those most like the run's mail first."""
        conversation = self._conversations.under(lease)
        mail = await self._conversations.letter(conversation, run["mail"])
        sender = mail.sender.email.lower() if mail.sender else ""
        return await precedents(self._pool, conversation.account.id, run["mail"], sender, mail.subject)


async def precedents(
    pool: Pool, account_id: UUID, mail_id: str, sender: str, subject: str, *, known_by: datetime | None = None
) -> Sequence[Precedent]:
    """A few decisions on other mail, those most like this one first. `known_by`: nothing later is looked at."""
    words = _words(subject)
    given = {"account": account_id, "mail": mail_id, "by": known_by}
    decided = await fetched_as(_Decided, pool, _SQL["decided"], given)
    like = [(each.sender == sender, _shared(words, _words(each.subject)), each) for each in decided]
    near = [each for each in like if each[0] or each[1] >= _LIKE]
    near.sort(key=lambda each: each[:2], reverse=True)
    return [Precedent(each.truth, each.subject, same) for same, _, each in near[:_MOST]]


def _words(subject: str) -> frozenset[str]:
    return frozenset(_WORD.findall(subject_of_conversation(subject)))


def _shared(some: Collection[str], others: frozenset[str]) -> float:
    return len(others.intersection(some)) / len(others.union(some)) if others and some else 0.0
