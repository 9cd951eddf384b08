"""`/api/mails` and `/api/accounts`: what came in, where, and what became of it."""

from typing import Annotated, cast

from fastapi import APIRouter, Depends, Query, Request

from email_assistant.inbox.items import PAGE
from email_assistant.inbox.mails import State
from email_assistant.trail.story import Trail
from email_assistant.web.dependencies import Assistant, BlankAsNone
from email_assistant.web.errors import documented
from email_assistant.web.inbox import MOST
from email_assistant.web.schemas import AccountPage, Correction, EventOut, MailOut, MailPage, TrailOut

Account = Annotated[
    str | None, BlankAsNone, Query(description="Its address; needed only where several have a mail of this id.")
]


def _trail(request: Request) -> Trail:
    return cast("Trail", request.app.state.trail)


router = APIRouter(prefix="/api", tags=["mails"])


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
    return MailPage.of(mails, following)


@router.post("/mails/{mail_id}/retry", responses=documented(401, 403, 404, 409, 422))
async def retry_mail(app: Assistant, mail_id: str, account: Account = None) -> MailOut:
    """Take a failed mail up again, with the class that it has. 409: it has not failed, or Gmail never gave it."""
    return MailOut.model_validate(await app.corrections.retry(app.user_id, mail_id, account))


@router.post("/mails/{mail_id}/correct", responses=documented(400, 401, 403, 404, 409, 413, 422))
async def correct_mail(app: Assistant, mail_id: str, correction: Correction, account: Account = None) -> MailOut:
    """Say what a mail should have been. It is worked on anew with that class, and a rule on its sender is learned.

    What waits because of the old class is superseded. 409: it is of that class, was not triaged, is being worked on, or
    an answer on it was taken already.
    """
    return MailOut.model_validate(
        await app.corrections.correct(app.user_id, mail_id, correction.classification, "api", account)
    )


@router.get("/mails/{mail_id}/trail", responses=documented(401, 404, 422))
async def show_trail(
    app: Assistant, trail: Annotated[Trail, Depends(_trail)], mail_id: str, account: Account = None
) -> TrailOut:
    """What happened to a mail, in order: its triage, proposals, answers, effects, lessons and failures."""
    mail = await app.mails.get(app.user_id, mail_id, account)
    events = await trail.of_mail(app.user_id, mail_id, mail.account)
    return TrailOut(mail=MailOut.model_validate(mail), events=[EventOut.model_validate(event) for event in events])


@router.get("/accounts", responses=documented(401))
async def list_accounts(app: Assistant) -> AccountPage:
    """The connected mailboxes, and today's use of models for each."""
    accounts = await app.accounts.of_user(app.user_id)
    return AccountPage.of([(account, await app.usage.today(account)) for account in accounts])
