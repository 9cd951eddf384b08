"""What a page tells at its head of what was learned."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Annotated

from fastapi import Depends

from email_assistant.memory.lessons import Learned
from email_assistant.web.dependencies import Assistant
from email_assistant.web.memory import Rules

Telling = Callable[[], Awaitable[list[Learned]]]
"""What was learned and not told on a page yet; once asked for, it counts as told."""


async def nothing() -> list[Learned]:
    """Told by a page that answers a form: nothing."""
    return []


def _news(app: Assistant, memory: Rules) -> Telling:
    return partial(memory.lessons.news, app.user_id, "web")


News = Annotated[Telling, Depends(_news)]  # called last, when nothing stands in the way of the page
