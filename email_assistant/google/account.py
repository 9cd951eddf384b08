"""One person's Google account: the entrance to this package."""

from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from email_assistant.google.auth import Authorization, Exchange, oauth_uri
from email_assistant.google.calendar import Calendar
from email_assistant.google.client import THREADS, GoogleClient, build_service
from email_assistant.google.gmail import Gmail
from email_assistant.google.quota import Quota
from email_assistant.google.transport import Transport


class GoogleAccount:
    """Gmail and Calendar of one account, behind one login, one connection pool and one time limit a call."""

    def __init__(
        self,
        token: Mapping[str, Any],
        *,
        root: str | None,
        timeout: float,
        exchange_token: Exchange | None = None,
        quota: Quota | None = None,
        busy_calendars: Collection[str] = (),
    ) -> None:
        """`token` is authorized-user JSON (ValueError if it is not).

        `root` None is Google itself; else Gmail is at <root>/gmail/v1, Calendar at <root>/calendar/v3 and the token
        endpoint at <root>/token. `timeout` is the total seconds of one call, a renewal of the login and a wait for
        quota included. `exchange_token` renews the login for all processes at once; without it, it is renewed for this
        object alone. Without `quota` no call waits.
        `busy_calendars` belong to others and count as the person's time all the same.
        """
        transport = Transport(connections=THREADS)
        threads = ThreadPoolExecutor(THREADS, thread_name_prefix="google")
        authorization = Authorization(token, oauth_uri(root, "token"), transport, threads, exchange_token)
        self._client = GoogleClient(authorization, transport, threads, timeout, quota)
        self.gmail = Gmail(self._client, build_service("gmail", "v1", root))
        self.calendar = Calendar(self._client, build_service("calendar", "v3", root), busy_calendars)

    async def aclose(self) -> None:
        """Wait for the calls under way, then close the connections."""
        await self._client.aclose()


async def address_of(token: Mapping[str, Any], root: str | None, seconds: float) -> str:
    """The mailbox that a login is for. Raises ValueError if it is none, GoogleError."""
    account = GoogleAccount(token, root=root, timeout=seconds)
    try:
        return (await account.gmail.profile()).address
    finally:
        await account.aclose()
