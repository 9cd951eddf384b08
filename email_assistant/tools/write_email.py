"""`send_email_tool` of a chat: answer any mail in its conversation, or begin a new one."""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from pydantic import Field

from email_assistant.accounts.accounts import Accounts
from email_assistant.mail.address import address_of
from email_assistant.mail.charset import one_line
from email_assistant.mail.compose import compose_mail, reply_subject
from email_assistant.mail.message import references_of
from email_assistant.outgoing.effects import Ledger
from email_assistant.outgoing.letters import Letter
from email_assistant.tools import senders
from email_assistant.tools.mailbox import AnyMail, Held
from email_assistant.tools.send_email import LETTER, SendEmail
from email_assistant.tools.sending import SendingTool
from email_assistant.tools.spec import Call, Review, ToolError, ToolSpec


class WriteEmail(SendEmail):
    email_id: Annotated[str, Field(pattern=r"^[0-9A-Za-z_-]{1,100}$")] | None = None
    subject: str | None = Field(None, max_length=500)


SPEC = ToolSpec(
    name=LETTER,
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

    def __init__(self, ledger: Ledger, mails: AnyMail, accounts: Accounts) -> None:
        super().__init__(ledger, accounts)
        self._mails = mails

    async def complete(self, run: Mapping[str, Any], arguments: dict[str, Any]) -> dict[str, Any]:
        given = WriteEmail.model_validate(self.spec.parse(arguments).model_dump())
        account = await self._accounts.get(UUID(run["account_id"]))
        answered = await self._mails.get(account.id, given.email_id) if given.email_id else None
        wanted = senders.answered_at(account, answered.mail, own=answered.own) if answered else []
        to = given.email_address or next(iter(wanted), None)
        if not to:
            raise ToolError("email_address: say to whom")
        (to, copies), identity = senders.recipients(to, given.additional_recipients), account.new_mail_identity
        if answered:
            identity = senders.answers_as(account, answered.mail)
            addressed = senders.addressed_to(account, answered.mail)
            if "additional_recipients" not in arguments and address_of(to) == wanted[0].lower():
                to, copies = senders.recipients(to, [*copies, *wanted[1:]])
            copies = senders.without_oneself(account, copies, addressed)
            senders.check_not_oneself_alone(account, [to, *copies])
        senders.check_unchanged(account, given.from_address, identity)
        has_copies = bool(copies) or len(wanted) > 1  # that others were left out on purpose must not be forgotten
        return {
            "email_id": given.email_id,
            "email_address": to,
            **({"additional_recipients": copies} if has_copies else {}),
            "subject": _subject(given, answered),
            "response_text": given.response_text,
            **senders.argument_of(account, identity),
        }

    async def meaning(self, run: Mapping[str, Any], arguments: Mapping[str, Any]) -> object:
        return [await super().meaning(run, arguments), arguments["email_id"]]

    async def left_out(self, run: Mapping[str, Any], arguments: Mapping[str, Any]) -> list[str]:
        given = WriteEmail.model_validate(arguments)
        if not given.email_id:
            return []
        account = await self._accounts.get(UUID(run["account_id"]))
        answered = await self._mails.get(account.id, given.email_id)
        everyone = senders.everybody(account, answered.mail, own=answered.own)
        return senders.left_out(everyone[: senders.MOST_NAMED], max(0, len(everyone) - senders.MOST_NAMED), arguments)

    async def letter(self, call: Call, arguments: Mapping[str, Any]) -> Letter:
        given = WriteEmail.model_validate(arguments)
        account = call.account
        identity = await senders.permitted(call.google.gmail, account, given.from_address)
        answered = await self._mails.get(account.id, given.email_id) if given.email_id else None
        recipients = [str(given.email_address), *given.additional_recipients]
        raw = compose_mail(
            to=recipients[:1],
            cc=recipients[1:],
            sender=identity.mailbox,
            subject=_subject(given, answered),
            text=given.response_text,
            in_reply_to=answered.mail.message_id if answered else None,
            references=references_of(answered.mail) if answered else (),
            signature=identity.signature or None,
            date=datetime.now(account.zone),
        )
        return Letter(raw, answered.thread if answered else None)


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
