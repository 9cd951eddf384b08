"""`send_email_tool` of the mail agent: reply in the run's thread."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from pydantic import Field

from email_assistant.mail.address import Address, is_valid_address
from email_assistant.mail.compose import compose_reply
from email_assistant.tools.sending import Letter, SendingTool
from email_assistant.tools.spec import Arguments, Call, Review, StringList, ToolError, ToolSpec


class SendEmail(Arguments):
    email_id: str | None = None
    response_text: str = Field(min_length=1)
    email_address: str | None = None
    additional_recipients: StringList = Field(default_factory=list)


SPEC = ToolSpec(
    name="send_email_tool",
    description="Reply in this conversation: the text only, without a subject.",
    parameters={
        "properties": {
            "email_id": {"type": "string"},
            "response_text": {"type": "string"},
            "email_address": {"type": "string", "description": "To"},
            "additional_recipients": {"type": "array", "items": {"type": "string"}, "description": "Cc"},
        },
        "required": ["response_text", "email_address"],
    },
    arguments=SendEmail,
    review=Review("draft", ("accept", "edit", "ignore", "response")),
)


class SendEmailTool(SendingTool):
    spec = SPEC

    async def complete(self, run: Mapping[str, Any], arguments: dict[str, Any]) -> dict[str, Any]:
        given = SendEmail.model_validate(self.spec.parse(arguments).model_dump())
        if given.email_id and given.email_id not in run["mails"]:
            raise ToolError(f"email_id: this run answers {run['mail']}, not {given.email_id}")
        to = given.email_address or run["reply"]["to"]
        if not to:
            raise ToolError("email_address: the mail names no address to reply to")
        if wrong := [a for a in (to, *given.additional_recipients) if not is_valid_address(a)]:
            raise ToolError(f"not an e-mail address: {', '.join(wrong)}")
        return {**arguments, "email_address": to} | (
            {"additional_recipients": given.additional_recipients} if given.additional_recipients else {}
        )

    async def letter(self, call: Call, arguments: Mapping[str, Any]) -> Letter:
        return compose(call, SendEmail.model_validate(arguments))


def compose(call: Call, given: SendEmail) -> Letter:
    """The message that these arguments stand for."""
    run, account = call.run, call.account
    recipients = [str(given.email_address), *given.additional_recipients]
    raw = compose_reply(
        to=recipients[:1],
        cc=recipients[1:],
        sender=Address(account.name, account.address),
        subject=run["reply"]["subject"],
        text=given.response_text,
        in_reply_to=run["reply"]["in_reply_to"],
        references=run["reply"]["references"],
        signature=account.signature or None,
        date=datetime.now(account.zone),
    )
    return Letter.of(raw, run["thread"], recipients)
