"""Who keeps account of what models are asked for; and a count of it, where no account pays and nothing is kept."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol
from uuid import UUID

from langchain_core.messages import AIMessage, AnyMessage

_CHARACTERS = 3
"""Characters of a token, on the cautious side for European languages."""


class Spending(Protocol):
    """Keeps account of what models are asked for."""

    async def check(self, account_id: UUID | None) -> None:
        """Look before a call whether it may be made. Raises BudgetSpent, UnknownAccount."""
        ...

    async def record(
        self,
        account_id: UUID | None,
        run_id: UUID | None,
        role: str,
        model: str,
        prompt_tokens: int,
        completion_tokens: int,
    ) -> None:
        """Note a call that was made."""
        ...


@dataclass
class Tally:
    """What there was so far."""

    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0

    async def check(self, account_id: UUID | None) -> None:
        """There is no budget."""

    async def record(
        self,
        account_id: UUID | None,
        run_id: UUID | None,
        role: str,
        model: str,
        prompt_tokens: int,
        completion_tokens: int,
    ) -> None:
        self.calls += 1
        self.prompt_tokens += prompt_tokens
        self.completion_tokens += completion_tokens


def tokens_used(messages: Sequence[AnyMessage], answer: AIMessage) -> tuple[int, int]:
    """Prompt and completion tokens, as the server counted them.

    Where it doesn't say, they are guessed from the characters: else a budget would never be spent.
    """
    used: Mapping[str, Any] = answer.usage_metadata or {}
    return (
        used.get("input_tokens") or sum(len(m.text) for m in messages) // _CHARACTERS,
        used.get("output_tokens") or len(answer.text) // _CHARACTERS,
    )
