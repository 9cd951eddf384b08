"""What routes are handed: the program's services, and ids from the path."""

from typing import Annotated, Protocol, cast
from uuid import UUID

from fastapi import Depends, Request
from pydantic import BeforeValidator

from email_assistant.accounts.accounts import Accounts
from email_assistant.accounts.clients import Clients
from email_assistant.accounts.sessions import Session, Sessions
from email_assistant.db.pool import Pool
from email_assistant.db.presence import Presence
from email_assistant.inbox.items import Inbox, NoItem
from email_assistant.inbox.mails import Mails
from email_assistant.notify.channels import Channels
from email_assistant.notify.digest import Digests
from email_assistant.notify.notices import Notices
from email_assistant.tools.overview import Overview
from email_assistant.tools.registry import Registry
from email_assistant.usage import Usage
from email_assistant.work.tasks import Queue


class Services(Protocol):
    """What pages and API work with; opened, and closed, by whoever serves them."""

    @property
    def pool(self) -> Pool: ...
    @property
    def presence(self) -> Presence: ...
    @property
    def queue(self) -> Queue: ...
    @property
    def accounts(self) -> Accounts: ...
    @property
    def clients(self) -> Clients: ...
    @property
    def inbox(self) -> Inbox: ...
    @property
    def mails(self) -> Mails: ...
    @property
    def usage(self) -> Usage: ...
    @property
    def tools(self) -> Registry: ...
    @property
    def overview(self) -> Overview: ...
    @property
    def channels(self) -> Channels: ...
    @property
    def notices(self) -> Notices: ...
    @property
    def digests(self) -> Digests: ...
    @property
    def sessions(self) -> Sessions: ...
    @property
    def user_id(self) -> UUID: ...


def _services(request: Request) -> Services:
    return cast("Services", request.app.state.assistant)


def _session(request: Request) -> Session | None:
    return cast("Session | None", getattr(request.state, "session", None))


def _item_id(item_id: str) -> UUID:
    """Raises NoItem for what can't be an id at all."""
    try:
        return UUID(item_id)
    except ValueError:
        raise NoItem(f"there is no item {item_id}") from None


Assistant = Annotated[Services, Depends(_services)]
LoggedIn = Annotated[Session | None, Depends(_session)]
"""The session that let the request in; None if it came with the token, or none is asked for."""
ItemId = Annotated[UUID, Depends(_item_id)]
BlankAsNone = BeforeValidator(lambda value: value or None)
"""For a query parameter: a filter that a form left empty is no filter."""
