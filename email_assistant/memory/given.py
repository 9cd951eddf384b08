"""The preferences that a new mailbox begins with: tone and hours, as they suit anybody. None of them sorts mail, and
none lets anything be sent."""

from collections.abc import Mapping, Sequence
from typing import Final
from uuid import UUID

from email_assistant.memory.profiles import Memory
from email_assistant.memory.rules import GIVEN, Profile

_PREFERENCES: Final[Mapping[Profile, Sequence[str]]] = {
    "response_preferences": (
        "Write in the language of the mail that is answered.",
        "Be friendly and to the point, in plain sentences.",
    ),
    "cal_preferences": (
        "A meeting takes 30 minutes, unless somebody names another length.",
        "Propose times on workdays, within working hours.",
    ),
}


async def give(memory: Memory, account_id: UUID) -> None:
    """Begin the profiles of a new mailbox. One that ever held a rule, be it removed by now, stays as it is."""
    for profile, texts in _PREFERENCES.items():
        if not await memory.history(account_id, profile):
            for text in texts:
                await memory.add(account_id, profile, text, GIVEN, did="Given to begin with.")
