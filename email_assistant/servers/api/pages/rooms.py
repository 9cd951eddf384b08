"""What pages are handed beside the services: who tells the story of a mail, and of the days."""

from typing import Annotated, cast

from fastapi import Depends, Request

from email_assistant.trail.activity import Activity
from email_assistant.trail.context import Contexts
from email_assistant.trail.story import Trail


def _contexts(request: Request) -> Contexts:
    return cast("Contexts", request.app.state.contexts)


def _trail(request: Request) -> Trail:
    return cast("Trail", request.app.state.trail)


def _activity(request: Request) -> Activity:
    return cast("Activity", request.app.state.activity)


ToldContexts = Annotated[Contexts, Depends(_contexts)]
ToldTrail = Annotated[Trail, Depends(_trail)]
ToldActivity = Annotated[Activity, Depends(_activity)]
