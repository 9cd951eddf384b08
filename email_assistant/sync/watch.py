"""Gmail's own notices of new mail, if the person has a topic for them: asked for in time, and ended when not wanted.

They only wake the poll, which goes on without them.
"""

import logging
from datetime import UTC, datetime, timedelta
from uuid import UUID

from email_assistant.accounts.account import UnknownAccount
from email_assistant.accounts.accounts import Accounts
from email_assistant.accounts.clients import Clients
from email_assistant.accounts.vault import VaultError
from email_assistant.db.pool import Statement
from email_assistant.errors import logged
from email_assistant.google.errors import GoogleError, NotFound, Refused

log = logging.getLogger(__name__)

_RENEW_EVERY = timedelta(days=1)  # as Google recommends; a watch ends after seven
_TRY_AGAIN = timedelta(minutes=5)
_AFTER_REFUSAL = timedelta(hours=1)


class Watches:
    """
    Args:
        topic: the Pub/Sub topic that Gmail is to tell; None ends what was asked for before.
    """

    def __init__(self, accounts: Accounts, clients: Clients, topic: str | None) -> None:
        self._accounts = accounts
        self._clients = clients
        self._topic = topic

    def some_due(self) -> Statement:
        """What gives, as `found`, whether there is anything for `renew_due`."""
        return self._accounts.some_watches_due(self._topic)

    async def renew_due(self) -> None:
        """Ask for, or end, what is due in any account. Of several processes one does it."""
        for account_id in await self._accounts.claim_watches(self._topic, _TRY_AGAIN):
            try:
                await self._renew(account_id)
            except (Refused, NotFound) as refusal:
                why = (
                    f"Gmail does not push to {self._topic} ({refusal}): let gmail-api-push@system.gserviceaccount.com "
                    "publish to it; until then mail is looked for as without push"
                )
                await self._accounts.not_watched(account_id, why, datetime.now(UTC) + _AFTER_REFUSAL)
            except (GoogleError, VaultError, UnknownAccount) as error:  # tried again when the claim has run out
                name = await self._accounts.named(account_id)
                log.warning("%s: no push: %s; it is asked for again by itself", name, logged(error))

    async def _renew(self, account_id: UUID) -> None:
        gmail = (await self._clients.get(account_id)).gmail
        if self._topic is None:
            await gmail.stop_watch()
            await self._accounts.not_watched(account_id, None, datetime.now(UTC))
            return
        until = await gmail.watch(self._topic)
        now = datetime.now(UTC)
        await self._accounts.watched(account_id, until, now + max(_TRY_AGAIN, min(_RENEW_EVERY, (until - now) / 2)))
