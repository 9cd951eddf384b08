"""`send_email_tool` of a chat: answer any mail in its conversation, or begin a new one."""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from pydantic import Field

from email_assistant.mail.address import Address, is_valid_address
from email_assistant.mail.charset import one_line
from email_assistant.mail.compose import compose_mail, reply_subject
from email_assistant.mail.message import references_of, reply_address
from email_assistant.tools.effects import Ledger
from email_assistant.tools.mailbox import AnyMail, Held
from email_assistant.tools.send_email import SendEmail
from email_assistant.tools.sending import Letter, SendingTool
from email_assistant.tools.spec import Call, Review, ToolError, ToolSpec


class WriteEmail(SendEmail):
    email_id: Annotated[str, Field(pattern=r"^[0-9A-Za-z_-]{1,100}$")] | None = None
    subject: str | None = Field(None, max_length=500)


SPEC = ToolSpec(
    name="send_email_tool",
    description="Send a mail. It answers the mail email_id; with null it begins a new conversation.",
    parameters={
        "properties": {
            "email_id": {"type": ["string", "null"]},
            "email_address": {"type": "string", "description": "To"},
            "additional_recipients": {"type": "array", "items": {"type": "string"}, "description": "Cc"},
            "subject": {"type": "string", "description": "Of a new conversation only"},
            "response_text": {"type": "string"},
        },
        "required": ["email_id", "email_address", "response_text"],
    },
    arguments=WriteEmail,
    review=Review("confirmation", ("accept", "edit", "ignore", "response")),
)


class WriteEmailTool(SendingTool):
    spec = SPEC

    def __init__(self, ledger: Ledger, mails: AnyMail) -> None:
        super().__init__(ledger)
        self._mails = mails

    async def complete(self, run: Mapping[str, Any], arguments: dict[str, Any]) -> dict[str, Any]:
        given = WriteEmail.model_validate(self.spec.parse(arguments).model_dump())
        answered = await self._mails.get(UUID(run["account_id"]), given.email_id) if given.email_id else None
        to = given.email_address or (_answers_go_to(answered) if answered else None)
        if not to:
            raise ToolError("email_address: say to whom")
        if wrong := [a for a in (to, *given.additional_recipients) if not is_valid_address(a)]:
            raise ToolError(f"not an e-mail address: {', '.join(wrong)}")
        return {
            "email_id": given.email_id,
            "email_address": to,
            **({"additional_recipients": given.additional_recipients} if given.additional_recipients else {}),
            "subject": _subject(given, answered),
            "response_text": given.response_text,
        }

    async def letter(self, call: Call, arguments: Mapping[str, Any]) -> Letter:
        given = WriteEmail.model_validate(arguments)
        account = call.account
        answered = await self._mails.get(account.id, given.email_id) if given.email_id else None
        recipients = [str(given.email_address), *given.additional_recipients]
        raw = compose_mail(
            to=recipients[:1],
            cc=recipients[1:],
            sender=Address(account.name, account.address),
            subject=_subject(given, answered),
            text=given.response_text,
            in_reply_to=answered.mail.message_id if answered else None,
            references=references_of(answered.mail) if answered else (),
            signature=account.signature or None,
            date=datetime.now(account.zone),
        )
        return Letter.of(raw, answered.thread if answered else None, recipients)


def _answers_go_to(answered: Held) -> str | None:
    """An answer to one's own mail goes where that went."""
    to = answered.mail.to if answered.own else (reply_address(answered.mail),)
    return next((address.email for address in to if address and is_valid_address(address.email)), None)


def _subject(given: WriteEmail, answered: Held | None) -> str:
    """Gmail takes a reply into its conversation only under that one's subject."""
    subject = one_line(given.subject or "")
    if answered is None:
        if not subject:
            raise ToolError("subject: a new conversation needs one; to answer a mail, give its email_id")
        return subject
    due = one_line(reply_subject(answered.mail.subject))
    if subject and reply_subject(subject) != due:
        raise ToolError("subject: an answer has that of its conversation; leave it out")
    return due
