"""`/mails/{id}/forget`: what would go with a mail, before it goes."""

from typing import Annotated

from fastapi import Form
from fastapi.responses import RedirectResponse, Response

from email_assistant.app import App, forgetting
from email_assistant.inbox.items import Conflict
from email_assistant.web.dependencies import Assistant
from email_assistant.web.pages.listing import Text
from email_assistant.web.rendering import render
from email_assistant.web.routers import for_pages

router = for_pages()


@router.get("/mails/{mail_id}/forget")
async def preview(app: Assistant, mail_id: str, account: Text = None) -> Response:
    return await _preview(app, mail_id, account)


@router.post("/mails/{mail_id}/forget")
async def forget(app: Assistant, mail_id: str, account: Annotated[str, Form()]) -> Response:
    forgets = forgetting(app)
    try:
        await forgets.carry_out(await forgets.of_mail(app.user_id, mail_id, account))
    except Conflict as refusal:
        return await _preview(app, mail_id, account, refusal)
    return RedirectResponse("/mails", 303)


async def _preview(app: App, mail_id: str, account: str | None, refusal: Conflict | None = None) -> Response:
    mail = await app.mails.get(app.user_id, mail_id, account)
    forgets = forgetting(app)
    plan = await forgets.plan(await forgets.of_mail(app.user_id, mail_id, mail.account))
    return render("forget.html", refusal=refusal, mail=mail, plan=plan)
