"""A mail as Gmail keeps it: its HTML and its files are not stored here, and asked for when somebody wants them."""

import asyncio
import base64
from http import HTTPStatus
from itertools import islice
from uuid import UUID

from email_assistant.accounts.account import UnknownAccount
from email_assistant.accounts.clients import Clients
from email_assistant.accounts.vault import VaultError
from email_assistant.errors import AssistantError
from email_assistant.google.account import GoogleAccount
from email_assistant.google.errors import GoogleError, NotFound
from email_assistant.google.gmail import Gmail, Message
from email_assistant.mail.contents import MOST_BYTES, File, MailContents, contents
from email_assistant.mail.parse import kept_apart

_APART = 3  # parts of one mail
_SECONDS = 8.0  # for a mail without its files; somebody waits for the page


class NoOriginal(AssistantError):
    """The mail, or its file, can't be had; the message says why."""

    status = HTTPStatus.BAD_GATEWAY


class NoSuchFile(AssistantError):
    status = HTTPStatus.NOT_FOUND


class TooLarge(AssistantError):
    status = HTTPStatus.REQUEST_ENTITY_TOO_LARGE


class Original:
    """One mail, as it is at Gmail now."""

    def __init__(self, client: GoogleAccount, mail_id: str, read: MailContents) -> None:
        self._client = client
        self._mail_id = mail_id
        self.contents = read

    def file(self, number: int) -> File:
        """Raises NoSuchFile."""
        if not 0 < number <= len(self.contents.files):
            raise NoSuchFile(f"this mail has no file {number}")
        return self.contents.files[number - 1]

    async def content(self, file: File) -> bytes:
        """What a file holds. Raises TooLarge, NoOriginal."""
        if (file.size or 0) > MOST_BYTES:
            raise TooLarge(f"this file has {file.told_size}; open the mail in Gmail to get it")
        if file.content is not None:
            return file.content
        try:
            return await self._client.gmail.attachment(self._mail_id, file.attachment_id)
        except GoogleError:
            raise NoOriginal("the file can't be had from Gmail just now; try again in a moment") from None


async def original(clients: Clients, account_id: UUID, mail_id: str | None) -> Original:
    """Ask Gmail for a mail. Raises NoSuchFile for what is about none, NoOriginal."""
    if mail_id is None:
        raise NoSuchFile("this is about no mail")
    try:
        async with asyncio.timeout(_SECONDS):
            client = await clients.get(account_id)
            message = await message_of(client.gmail, mail_id)
    except NotFound:
        raise NoOriginal("this mail is no longer in Gmail; its text is kept here") from None
    except (TimeoutError, GoogleError, VaultError, UnknownAccount):
        raise NoOriginal("the mail can't be had from Gmail just now; its text is kept here") from None
    return Original(client, mail_id, await asyncio.to_thread(contents, message.payload))


async def message_of(gmail: Gmail, mail_id: str) -> Message:
    """A mail with its text, its invitations and what it reports, though they be files. Raises GoogleError, and of these
    NotFound when it is gone."""
    message = await gmail.message(mail_id)
    for body in islice(kept_apart(message.payload), _APART):
        content = await gmail.attachment(mail_id, body["attachmentId"])
        body["data"] = base64.urlsafe_b64encode(content).decode("ascii")
    return message
