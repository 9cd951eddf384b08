"""Any mail of an account's mailbox, by Gmail's id: one that is stored here, else Gmail's own."""

import asyncio
from dataclasses import dataclass
from uuid import UUID

from pydantic import TypeAdapter

from email_assistant.accounts.clients import Clients
from email_assistant.db.pool import Pool, fetched
from email_assistant.google.errors import NotFound, Refused
from email_assistant.mail.message import Mail
from email_assistant.mail.parse import parse_gmail
from email_assistant.tools.spec import ToolError

_MAIL = TypeAdapter(Mail)


@dataclass(frozen=True, slots=True)
class Held:
    """A mail, and where in the mailbox it is."""

    mail: Mail
    thread: str  # Gmail's id of the conversation
    own: bool  # sent by the account itself


class AnyMail:
    def __init__(self, pool: Pool, clients: Clients) -> None:
        self._pool = pool
        self._clients = clients

    async def get(self, account_id: UUID, mail_id: str) -> Held:
        """Raises ToolError: this mailbox has no such mail; GoogleError: Gmail can't be asked."""
        return await self._stored(account_id, mail_id) or await self._at_gmail(account_id, mail_id)

    async def _stored(self, account_id: UUID, mail_id: str) -> Held | None:
        query = """select m.content, t.gmail_id as thread, m.own from mails m join threads t on t.id = m.thread_id
                   where m.account_id = %s and m.gmail_id = %s and m.readable"""
        for row in await fetched(self._pool, query, (account_id, mail_id)):
            return Held(_MAIL.validate_python(row["content"]), row["thread"], row["own"])
        return None

    async def _at_gmail(self, account_id: UUID, mail_id: str) -> Held:
        gmail = (await self._clients.get(account_id)).gmail
        try:
            message = await gmail.message(mail_id)
        except (NotFound, Refused):  # what is no id at all is refused
            raise ToolError(f"email_id: there is no mail {mail_id} in this mailbox, or no longer") from None
        if "DRAFT" in message.labels:
            raise ToolError(f"email_id: {mail_id} is a draft")
        mail = await asyncio.to_thread(parse_gmail, message.payload)
        return Held(mail, message.thread_id, "SENT" in message.labels)
