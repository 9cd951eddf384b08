"""`/api/mails` and `/api/accounts`: what came in, where, and what became of it; `/api/export` and
`/api/mails/{id}/forget`: all that is stored of the person, to take along, and to let go."""

from datetime import UTC, datetime
from importlib.metadata import version
from typing import Annotated, Any, Self
from uuid import UUID

from fastapi import Query
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, Field

from email_assistant.db.export import zipped
from email_assistant.inbox.items import PAGE
from email_assistant.inbox.mails import Class, State
from email_assistant.trail.story import What
from email_assistant.web.errors import documented
from email_assistant.web.inbox import MOST
from email_assistant.web.routers import Assistant, BlankAsNone, ToldTrail, for_programs
from email_assistant.web.schemas import AccountOut, Given, MailOut, Told
from email_assistant.work.forgetting import WhatGoes

OfAccount = Annotated[
    str | None, BlankAsNone, Query(description="Its address; needed only where several have a mail of this id.")
]
router = for_programs("mails", "/api")
_ZIP: dict[int | str, dict[str, Any]] = {
    200: {"content": {"application/zip": {"schema": {"type": "string", "format": "binary"}}}}
}


class CorrectionIn(Given):
    """What a mail should have been."""

    classification: Class


class TrailEvent(Told):
    """One thing that happened to a mail."""

    at: datetime | None = Field(description="Null where no time was kept; such events come last.")
    what: What
    text: str = Field(description="One sentence.")
    by: str | None = Field(description="Where the person was, such as `web`; null if it was not the person.")
    run: UUID | None
    item: UUID | None
    detail: dict[str, Any] = Field(
        description="classified: classification, reason. corrected: was, classification. started, retried: attempt, "
        "given (the class, where it was known), calls, tokens, cost. proposed: kind, action, args. decided: kind, "
        "decision, changes ({argument: {before, after}}). superseded: superseded_by, and the reason of a run. sent, "
        "scheduled, done, refused, unclear: tool, state, external_id (Google's), result. learned: profile, rule, "
        "removed. failed: reason. judged: thought, confidence, decided, checked, truth, known_by. went by: profile, "
        "key, version, rule. left: state, external_id. planned: as done."
    )


class TrailOut(BaseModel):
    mail: MailOut
    events: list[TrailEvent]
    facts: list[str] = Field(description="What has no time: its label, what it cost, and how the logs name it.")


class AccountPage(BaseModel):
    items: list[AccountOut]
    next: None = None


class MailPage(BaseModel):
    items: list[MailOut]
    next: str | None = Field(description="Cursor of the next page; null on the last.")


@router.get("/mails", responses=documented(401, 422))
async def list_mails(
    app: Assistant,
    state: Annotated[State | None, BlankAsNone] = None,
    account: Annotated[str | None, BlankAsNone] = None,
    cursor: Annotated[str | None, BlankAsNone] = None,
    limit: Annotated[int, Query(ge=1, le=MOST)] = PAGE,
) -> MailPage:
    """One page of all mail, newest first, with its class, its state and the reason for both."""
    mails, following = await app.mails.page(app.user_id, state=state, account=account, cursor=cursor, limit=limit)
    return MailPage.model_validate({"items": mails, "next": following})


@router.post("/mails/{mail_id}/retry", responses=documented(401, 403, 404, 409, 422))
async def retry_mail(app: Assistant, mail_id: str, account: OfAccount = None) -> MailOut:
    """Take a failed mail up again, with the class that it has. 409: it has not failed, or Gmail never gave it."""
    return MailOut.model_validate(await app.corrections.retry(app.user_id, mail_id, account))


@router.post("/mails/{mail_id}/correct", responses=documented(400, 401, 403, 404, 409, 413, 422))
async def correct_mail(app: Assistant, mail_id: str, correction: CorrectionIn, account: OfAccount = None) -> MailOut:
    """Say what a mail should have been. It is worked on anew with that class, and a rule on its sender is learned.

    What waits because of the old class is superseded. 409: it is of that class, was not triaged, is being worked on, or
    an answer on it was taken already."""
    return MailOut.model_validate(
        await app.corrections.correct(app.user_id, mail_id, correction.classification, "api", account)
    )


@router.get("/mails/{mail_id}/trail", responses=documented(401, 404, 422))
async def show_trail(app: Assistant, trail: ToldTrail, mail_id: str, account: OfAccount = None) -> TrailOut:
    """What happened to a mail, in order: its triage, proposals, answers, effects, lessons and failures."""
    mail = await app.mails.get(app.user_id, mail_id, account)
    events = await trail.of_mail(app.user_id, mail_id, mail.account)
    facts = await trail.facts(app.user_id, mail_id, mail.account)
    return TrailOut.model_validate({"mail": mail, "events": events, "facts": facts})


@router.get("/accounts", responses=documented(401))
async def list_accounts(app: Assistant) -> AccountPage:
    """The connected mailboxes, and today's use of models for each."""
    accounts = await app.accounts.of_user(app.user_id)
    return AccountPage(items=[AccountOut.of(account, await app.usage.today(account)) for account in accounts])


class GoesOut(Told):
    """A conversation that goes as a whole."""

    id: UUID
    account: str
    chat: str | None
    sender: str | None
    subject: str | None
    mails: int
    waiting: int = Field(description="Items that wait for you.")
    decided: int = Field(description="Answers that are not carried out yet, and will not be.")
    done: int = Field(description="Letters and meetings, which stay where they are.")
    drafts: int = Field(description="Left in Gmail, where they stay.")


class ForgetOut(BaseModel):
    what: str
    forgotten: bool = Field(description="False: it is only told what would go.")
    conversations: list[GoesOut]
    rules: list[str]
    past_mails: int
    agents_calls: int = Field(description="Rows of other programs' agents' calls, whose words are taken out.")
    notes: list[str] = Field(description="What is left alone, and what to do about it.")
    refused: list[str] = Field(description="Why it can't be forgotten now.")

    @classmethod
    def of(cls, plan: WhatGoes, *, forgotten: bool) -> Self:
        return cls.model_validate({**plan.told, "forgotten": forgotten})


@router.get("/mails/{mail_id}/forget", responses=documented(401, 404, 422))
async def show_forget(app: Assistant, mail_id: str, account: OfAccount = None) -> ForgetOut:
    """What would go with a mail: its conversation, the chats that name it, and what was learned. Nothing changes."""
    forgets = app.forgetting
    plan = await forgets.plan(await forgets.of_mail(app.user_id, mail_id, account))
    return ForgetOut.of(plan, forgotten=False)


@router.post("/mails/{mail_id}/forget", responses=documented(401, 403, 404, 409, 422))
async def forget_mail(app: Assistant, mail_id: str, account: OfAccount = None) -> ForgetOut:
    """Delete a mail wherever anything of it is stored; it is not read from Gmail again, where nothing changes. 409: it
    is being worked on, or an open conversation has looked it up."""
    forgets = app.forgetting
    plan = await forgets.carry_out(await forgets.of_mail(app.user_id, mail_id, account))
    return ForgetOut.of(plan, forgotten=True)


@router.get("/export", response_class=StreamingResponse, responses={**_ZIP, **documented(401)})
async def export(app: Assistant) -> StreamingResponse:
    """All your data: a file of JSON lines for each table, and `manifest.json`. No key, token or login is in it."""
    name = f"email-assistant-{datetime.now(UTC):%Y-%m-%d}.zip"
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    pieces = zipped(app.pool, app.user_id, version("email-assistant"))
    return StreamingResponse(pieces, media_type="application/zip", headers=headers)
