"""What routes are handed: the program's services, and ids from the path."""

from typing import Annotated, Any, cast
from uuid import UUID

from fastapi import Depends, Request
from pydantic import BeforeValidator

from email_assistant.accounts.sessions import Session
from email_assistant.app import App
from email_assistant.inbox.items import NoItem
from email_assistant.metrics.gauges import Gauges
from email_assistant.trail.activity import Activity
from email_assistant.trail.context import Contexts
from email_assistant.trail.story import Trail


def served(name: str) -> Any:
    """What the server keeps in its state under this name, as a dependency. It is async, since FastAPI hands what is not
    to a thread."""

    async def found(request: Request) -> Any:
        return getattr(request.app.state, name)

    return Depends(found)


def _session(request: Request) -> Session | None:
    return cast("Session | None", getattr(request.state, "session", None))


def _item_id(item_id: str) -> UUID:
    """Raises NoItem for what can't be an id at all."""
    try:
        return UUID(item_id)
    except ValueError:
        raise NoItem(f"there is no item {item_id}") from None


Assistant = Annotated[App, served("assistant")]
ToldActivity = Annotated[Activity, served("activity")]
ToldGauges = Annotated[Gauges, served("gauges")]
ToldContexts = Annotated[Contexts, served("contexts")]
ToldTrail = Annotated[Trail, served("trail")]
LoggedIn = Annotated[Session | None, Depends(_session)]
"""The session that let the request in; None if it came with the token, or none is asked for."""
ItemId = Annotated[UUID, Depends(_item_id)]
BlankAsNone = BeforeValidator(lambda value: value or None)
"""For a query parameter: a filter that a form left empty is no filter."""
