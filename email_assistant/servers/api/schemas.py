"""The JSON that the API takes and gives."""

from datetime import datetime
from typing import Any, Self
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from email_assistant.accounts.accounts import Account
from email_assistant.accounts.accounts import State as AccountState
from email_assistant.inbox.items import Item, Status
from email_assistant.inbox.mails import MailRow
from email_assistant.inbox.mails import State as MailState
from email_assistant.tools.spec import Answer, Kind
from email_assistant.usage import Day


class _Out(BaseModel):
    model_config = ConfigDict(from_attributes=True)


class Decision(BaseModel):
    """A person's answer to an item."""

    model_config = ConfigDict(extra="forbid")

    type: Answer
    args: dict[str, Any] | str | None = Field(
        None, description="For edit the tool's arguments, for response a text, else nothing."
    )


class ItemOut(_Out):
    """Something that waits, or waited, for a person."""

    id: UUID
    run: UUID = Field(validation_alias="run_id")
    call_id: str
    account: str
    mail_id: str = Field(description="Gmail's id of the mail that it is about.")
    kind: Kind
    action: str
    args: dict[str, Any]
    allowed: list[Answer]
    status: Status
    decision: Decision | None
    decided_at: datetime | None
    undo_until: datetime | None = Field(description="Until then the decision can be taken back.")
    superseded_by: UUID | None = Field(description="The run that took its place.")
    sender: str | None
    subject: str | None
    new_recipients: list[str] = Field(description="Addresses it would reach that were never written to before.")
    description: str = Field(description="The mail and the proposal as text, with HTML's characters escaped.")
    decided_by: str | None
    created_at: datetime


class ItemPage(BaseModel):
    items: list[ItemOut]
    next: str | None = Field(description="Cursor of the next page; null on the last.")

    @classmethod
    def of(cls, items: list[Item], following: str | None) -> Self:
        return cls(items=[ItemOut.model_validate(item) for item in items], next=following)


class MailOut(_Out):
    """A mail and what became of it."""

    id: str = Field(description="Gmail's id, unique in its account.")
    account: str
    thread: str
    sender: str
    subject: str
    received_at: datetime
    state: MailState
    classification: str | None
    reason: str | None


class MailPage(BaseModel):
    items: list[MailOut]
    next: str | None = Field(description="Cursor of the next page; null on the last.")

    @classmethod
    def of(cls, mails: list[MailRow], following: str | None) -> Self:
        return cls(items=[MailOut.model_validate(mail) for mail in mails], next=following)


class Today(_Out):
    """The use of models since midnight of the account's timezone, and what is allowed for the day."""

    tokens: int
    most_tokens: int | None
    money: float = Field(description="By EMAIL_ASSISTANT_PRICES, in their currency.")
    most_money: float | None


class AccountOut(BaseModel):
    """A connected mailbox."""

    address: str
    state: AccountState
    timezone: str | None
    last_sync: datetime | None
    last_error: str | None
    spent_until: datetime | None = Field(description="The day's budget for models is spent until then.")
    today: Today

    @classmethod
    def of(cls, account: Account, day: Day) -> Self:
        return cls(
            address=account.address,
            state=account.state,
            timezone=account.timezone,
            last_sync=account.listed_at,
            last_error=account.last_error,
            spent_until=account.spent_until,
            today=Today.model_validate(day),
        )


class AccountPage(BaseModel):
    items: list[AccountOut]
    next: None = None

    @classmethod
    def of(cls, accounts: list[tuple[Account, Day]]) -> Self:
        return cls(items=[AccountOut.of(account, day) for account, day in accounts])


class Health(BaseModel):
    status: str


class Problem(BaseModel):
    """Problem details (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str
