"""One person's Google account: the entrance to this package."""

from collections.abc import Mapping
from typing import Any

from email_assistant.google.auth import Authorization
from email_assistant.google.calendar import Calendar
from email_assistant.google.client import THREADS, Client, SaveToken, build_service
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
        save_token: SaveToken | None = None,
        quota: Quota | None = None,
    ) -> None:
        """`token` is authorized-user JSON (ValueError if it is not).

        `root` None is Google itself; else Gmail is at <root>/gmail/v1, Calendar at <root>/calendar/v3 and the token
        endpoint at <root>/token. `timeout` is the total seconds of one call, a renewal of the login and a wait
        for quota included. `save_token` is given each renewed token once. Without `quota` no call waits.
        """
        transport = Transport(connections=THREADS)
        token_uri = None if root is None else f"{root.rstrip('/')}/token"
        self._client = Client(Authorization(token, token_uri, transport), transport, timeout, save_token, quota)
        self.gmail = Gmail(self._client, build_service("gmail", "v1", root))
        self.calendar = Calendar(self._client, build_service("calendar", "v3", root))

    async def aclose(self) -> None:
        """Wait for the calls under way, then close the connections."""
        await self._client.aclose()
