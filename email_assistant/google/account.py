"""One person's Google account: the entrance to this package."""

from collections.abc import Collection, Mapping
from contextlib import aclosing
from functools import partial
from typing import Any

from email_assistant.google.auth import Authorization, Exchange, oauth_uri
from email_assistant.google.calendar import Calendar
from email_assistant.google.client import GoogleClient, Wire, methods
from email_assistant.google.gmail import Gmail
from email_assistant.google.quota import Quota


class GoogleAccount:
    """Gmail and Calendar of one account, behind one login and one time limit a call."""

    def __init__(
        self,
        token: Mapping[str, Any],
        wire: Wire,
        *,
        timeout: float,
        exchange_token: Exchange | None = None,
        quota: Quota | None = None,
        busy_calendars: Collection[str] = (),
    ) -> None:
        """`token` is authorized-user JSON (ValueError if it is not).

        At a `wire` with a root, Gmail is at <root>/gmail/v1, Calendar at <root>/calendar/v3 and the token endpoint at
        <root>/token. `timeout` is the total seconds of one call, a renewal of the login and a wait for quota included.
        `exchange_token` renews the login for all processes at once; without it, it is renewed for this object alone.
        Without `quota` no call waits.
        `busy_calendars` belong to others and count as the person's time all the same.
        """
        authorization = Authorization(
            token, oauth_uri(wire.root, "token"), wire.transport, wire.threads, exchange_token
        )
        client = GoogleClient(authorization, wire, timeout, quota)
        self.gmail = Gmail(client, partial(methods, "gmail", "v1"))
        self.calendar = Calendar(client, partial(methods, "calendar", "v3"), busy_calendars)


async def address_of(token: Mapping[str, Any], root: str | None, seconds: float) -> str:
    """The mailbox that a login is for. Raises ValueError if it is none, GoogleError."""
    async with aclosing(Wire(root)) as wire:
        return (await GoogleAccount(token, wire, timeout=seconds).gmail.profile()).address
