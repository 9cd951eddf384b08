"""Rules that were read once, for as long as one run of mail goes on."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from uuid import UUID

from email_assistant.memory.rules import Profile, Rule

at_hand: ContextVar[dict[UUID, dict[Profile, list[Rule]]] | None] = ContextVar("rules that were read", default=None)
"""By account, those in force."""


@contextmanager
def rules_at_hand() -> Iterator[None]:
    """Within the block, by tasks started in it too, rules that are asked for are those in force as they were read
    first."""
    token = at_hand.set({})
    try:
        yield
    finally:
        at_hand.reset(token)
