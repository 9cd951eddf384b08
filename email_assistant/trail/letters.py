"""What was proposed to the person as a letter, and what they made of it."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from email_assistant.db.pool import Pool, fetched_as
from email_assistant.db.statements import statements
from email_assistant.outgoing.entry import WITHOUT_TEXT
from email_assistant.tools.send_email import LETTER

_SQL = statements("trail", "letters.sql")


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
    return await fetched_as(ApprovedLetter, pool, _SQL["approved"], given)
