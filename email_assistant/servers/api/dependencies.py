"""What routes are handed: the open app, and ids from the path."""

from typing import Annotated
from uuid import UUID

from fastapi import Depends, Request
from pydantic import BeforeValidator

from email_assistant.app import App
from email_assistant.inbox.items import NoItem


def _app(request: Request) -> App:
    app = request.app.state.assistant
    assert isinstance(app, App)
    return app


def _item_id(item_id: str) -> UUID:
    """Raises NoItem for what can't be an id at all."""
    try:
        return UUID(item_id)
    except ValueError:
        raise NoItem(f"there is no item {item_id}") from None


Assistant = Annotated[App, Depends(_app)]
ItemId = Annotated[UUID, Depends(_item_id)]
BlankAsNone = BeforeValidator(lambda value: value or None)
"""For a query parameter: a filter that a form left empty is no filter."""
