"""Letters that are sent under a key: one key is one letter, whatever dies and whenever."""

from collections.abc import Mapping
from typing import Any, Literal

from email_assistant.accounts.account import Account
from email_assistant.google.gmail import Gmail
from email_assistant.outgoing.effects import Ledger
from email_assistant.outgoing.entry import Unsent
from email_assistant.outgoing.letters import Mailer, Posted, Write

Kind = Literal["program", "digest"]
"""Whose key it is; equal ones of different kinds are different keys."""


class KeyedOutbox:
    """The letters of every account that are sent by key."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    async def send(
        self, gmail: Gmail, account: Account, kind: Kind, key: str, asked: Mapping[str, Any], write: Write
    ) -> Posted:
        """Send the letter of this key, or say that it was sent.

        Args:
            asked: what it stands for, the same at each call with this key.
            write: composes it; called only where it has not been drafted yet.

        Raises:
            EffectMismatch: the key stands for another letter.
            NotYetClear, InDoubt: its draft is gone, and it is not in Sent, or not yet; nothing more is sent under this
                key.
            GoogleError, and what `write` raises.
        """
        entry = await self._ledger.plan_keyed(account.id, f"{kind}/{key}", kind, asked)
        mailer = Mailer(self._ledger, gmail)
        try:
            return await mailer.send(entry, write, "Sent.")
        except Unsent as unsent:
            await mailer.take_back(entry)
            raise unsent.refusal from None
