"""Letters that are sent under a key: one key is one letter, whatever dies and whenever.

Of a key only its hash is kept: a program may have put an address into it, and it stays as long as the account, since
the same key must never send again.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from hashlib import sha256
from typing import Any, Final, Literal

from email_assistant.accounts.account import Account
from email_assistant.google.errors import NotFound
from email_assistant.google.gmail import Gmail, Message
from email_assistant.mail.parse import parse_bytes
from email_assistant.outgoing.effects import Ledger
from email_assistant.outgoing.entry import Unsent
from email_assistant.outgoing.letters import Letter, Mailer, Posted, Write

Kind = Literal["program", "digest"]
"""Whose key it is; equal ones of different kinds are different keys."""
KEY: Final = "X-Email-Assistant-Key"
"""The header that such a letter is known by where the ledger is older than it. Its value tells nothing of the key."""
_TOLD: Final = "Sent."


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
        name = sha256(f"{account.id}/{kind}/{key}".encode()).hexdigest()
        entry = await self._ledger.plan_keyed(account.id, f"{kind}/{name}", kind, asked)

        async def named() -> Letter:
            letter = await write()
            return replace(letter, raw=f"{KEY}: {name}\r\n".encode() + letter.raw)

        if entry.state == "planned" and (sent := await _sent_unrecorded(gmail, account, name, write)):
            await self._ledger.finish(entry, sent.id, _TOLD, into=sent.thread_id)
            return Posted(sent.id, sent.thread_id, before=True)
        mailer = Mailer(self._ledger, gmail)
        try:
            return await mailer.send(entry, named, _TOLD)
        except Unsent as unsent:
            await mailer.take_back(entry)
            raise unsent.refusal from None


async def _sent_unrecorded(gmail: Gmail, account: Account, name: str, write: Write) -> Message | None:
    """The letter, if it was sent after the backup that was restored."""
    if account.unrecorded_since is None or account.unrecorded_until is None:
        return None
    after, before = (int(at.timestamp()) for at in (account.unrecorded_since, account.unrecorded_until))
    query = f"after:{after} before:{before + 1} to:{parse_bytes((await write()).raw).to[0].email}"
    token: str | None = None
    while True:
        page = await gmail.list_messages(query, ["SENT"], token)
        for ref in page.refs:
            with suppress(NotFound):  # the person has deleted it just now
                message = await gmail.message(ref.id)
                if name in _values(message, KEY):
                    return message
        token = page.next_page_token
        if token is None:
            return None


def _values(message: Message, header: str) -> list[str]:
    headers = message.payload.get("headers", ())
    return [each["value"].strip() for each in headers if each["name"].lower() == header.lower()]
