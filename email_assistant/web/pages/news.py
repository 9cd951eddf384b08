"""What a page tells at its head of what was learned, and of what waits for the person's word."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated

from fastapi import Depends

from email_assistant.memory.held import HeldLesson
from email_assistant.memory.lessons import Learned
from email_assistant.web.dependencies import Assistant
from email_assistant.web.memory import Rules

Telling = Callable[[], Awaitable[Sequence[Learned | HeldLesson]]]
"""What was learned and not told on a page yet; once asked for, it counts as told. What is held is told until they have
answered."""


async def nothing() -> Sequence[Learned | HeldLesson]:
    """Told by a page that answers a form: nothing."""
    return []


def _news(app: Assistant, memory: Rules) -> Telling:
    async def told() -> Sequence[Learned | HeldLesson]:
        return [*await memory.lessons.news(app.user_id, "web"), *await memory.held.page(app.user_id)]

    return told


News = Annotated[Telling, Depends(_news)]  # called last, when nothing stands in the way of the page
