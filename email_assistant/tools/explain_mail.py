"""`explain_mail`: what happened to one mail, and why."""

from collections.abc import Awaitable, Sequence
from datetime import tzinfo
from typing import Any, Protocol
from uuid import UUID

from pydantic import Field

from email_assistant.mail.prompt import one_line
from email_assistant.tools.rows import told
from email_assistant.tools.spec import Arguments, Call, Tool, ToolError, ToolSpec


class Event(Protocol):
    def line(self, zone: tzinfo | None = None) -> str:
        """When it was, and what."""
        ...


class Story(Protocol):
    def __call__(self, user_id: UUID, mail_id: str, account: str) -> Awaitable[Sequence[Event]]:
        """What happened to a mail of an account, in order. Raises LookupError if there is no such mail."""
        ...


class ExplainMail(Arguments):
    mail_id: str = Field(min_length=1, max_length=100)


class ExplainMailTool(Tool):
    spec = ToolSpec(
        name="explain_mail",
        description="What happened to a mail, step by step, and why it was sorted as it was.",
        parameters={"properties": {"mail_id": {"type": "string"}}, "required": ["mail_id"]},
        arguments=ExplainMail,
        review=None,
    )

    def __init__(self, story: Story) -> None:
        self._story = story

    async def run(self, call: Call, arguments: dict[str, Any]) -> str:
        given, account = ExplainMail.model_validate(arguments), call.account
        try:
            events = await self._story(account.user_id, given.mail_id, account.address)
        except LookupError:
            raise ToolError("mail_id: the assistant knows no such mail; find_mail gives ids") from None
        return told([one_line(event.line(account.zone)) for event in events], "Nothing happened to it.")
