"""`/api/mails` and `/api/accounts`: what came in, where, and what became of it."""

from typing import Annotated

from fastapi import APIRouter, Query

from email_assistant.inbox.items import PAGE
from email_assistant.inbox.mails import State
from email_assistant.servers.api.dependencies import Assistant, BlankAsNone
from email_assistant.servers.api.errors import documented
from email_assistant.servers.api.inbox import MOST
from email_assistant.servers.api.schemas import AccountPage, MailOut, MailPage

router = APIRouter(prefix="/api", tags=["mails"])


@router.get("/mails", responses=documented(401, 422))
async def list_mails(
    app: Assistant,
    state: Annotated[State | None, BlankAsNone] = None,
    account: Annotated[str | None, BlankAsNone] = None,
    cursor: Annotated[str | None, BlankAsNone] = None,
    limit: Annotated[int, Query(ge=1, le=MOST)] = PAGE,
) -> MailPage:
    """One page of all mail, newest first."""
    mails, following = await app.mails.page(app.user_id, state=state, account=account, cursor=cursor, limit=limit)
    return MailPage.of(mails, following)


@router.post("/mails/{mail_id}/retry", responses=documented(401, 403, 404, 409, 422))
async def retry_mail(app: Assistant, mail_id: str, account: Annotated[str | None, BlankAsNone] = None) -> MailOut:
    """Take a failed mail up again. The account is needed only where several have a mail of this id."""
    return MailOut.model_validate(await app.mails.retry(app.user_id, mail_id, account))


@router.get("/accounts", responses=documented(401))
async def list_accounts(app: Assistant) -> AccountPage:
    """The connected mailboxes, and today's use of models for each."""
    accounts = await app.accounts.of_user(app.user_id)
    return AccountPage.of([(account, await app.usage.today(account)) for account in accounts])
