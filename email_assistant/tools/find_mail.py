"""`find_mail`: mail that the assistant has sorted, and what became of it."""

from collections.abc import Awaitable, Sequence
from datetime import datetime
from typing import Any, Literal, Protocol
from uuid import UUID

from pydantic import Field

from email_assistant.tools.rows import row, told
from email_assistant.tools.spec import Arguments, Call, Tool, ToolSpec

_MOST = 20

Class = Literal["ignore", "notify", "respond"]


class SortedMail(Protocol):
    @property
    def id(self) -> str: ...
    @property
    def sender(self) -> str: ...
    @property
    def subject(self) -> str: ...
    @property
    def received_at(self) -> datetime: ...
    @property
    def state(self) -> str: ...
    @property
    def classification(self) -> str | None: ...
    @property
    def reason(self) -> str | None: ...


class Find(Protocol):
    def __call__(
        self, user_id: UUID, account_id: UUID, words: str, classification: Class | None, most: int
    ) -> Awaitable[Sequence[SortedMail]]:
        """Mail of an account in which all of the words stand, newest first."""
        ...


class FindMail(Arguments):
    words: str = Field(max_length=500)
    classification: Class | None = None


class FindMailTool(Tool):
    spec = ToolSpec(
        name="find_mail",
        description="Received mail with all these words in sender, subject or text, newest first: "
        "id, date, sender, subject, class, state, reason.",
        parameters={
            "properties": {
                "words": {"type": "string", "description": "Empty: any"},
                "classification": {"type": "string", "enum": ["ignore", "notify", "respond"]},
            },
            "required": ["words"],
        },
        arguments=FindMail,
        review=None,
    )

    def __init__(self, find: Find) -> None:
        self._find = find

    async def run(self, call: Call, arguments: dict[str, Any]) -> str:
        given = FindMail.model_validate(arguments)
        user_id, account_id = call.account.user_id, call.account.id
        found = await self._find(user_id, account_id, given.words, given.classification, _MOST)
        return told([_line(mail, call) for mail in found], "No such mail.")


def _line(mail: SortedMail, call: Call) -> str:
    return row(
        mail.id,
        f"{mail.received_at.astimezone(call.account.zone):%Y-%m-%d %H:%M}",
        mail.sender,
        mail.subject or "(no subject)",
        mail.classification or "not sorted",
        mail.state,
        mail.reason or "",
    )
