"""What pages are handed beside the services: who tells the story of a mail, and of the days."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Annotated, cast

from fastapi import Depends, Request

from email_assistant.memory.lessons import Learned
from email_assistant.trail.activity import Activity
from email_assistant.trail.context import Contexts
from email_assistant.trail.story import Trail
from email_assistant.web.dependencies import Assistant
from email_assistant.web.memory import Rules

Telling = Callable[[], Awaitable[list[Learned]]]
"""What was learned and not told on a page yet; once asked for, it counts as told."""


async def nothing() -> list[Learned]:
    """Told by a page that answers a form: nothing."""
    return []


def _contexts(request: Request) -> Contexts:
    return cast("Contexts", request.app.state.contexts)


def _news(app: Assistant, memory: Rules) -> Telling:
    return partial(memory.lessons.news, app.user_id, "web")


def _trail(request: Request) -> Trail:
    return cast("Trail", request.app.state.trail)


def _activity(request: Request) -> Activity:
    return cast("Activity", request.app.state.activity)


ToldContexts = Annotated[Contexts, Depends(_contexts)]
ToldTrail = Annotated[Trail, Depends(_trail)]
ToldActivity = Annotated[Activity, Depends(_activity)]
News = Annotated[Telling, Depends(_news)]  # called last, when nothing stands in the way of the page
