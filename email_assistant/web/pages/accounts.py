"""`/accounts`: the mailboxes, their state and today's use of models; and what features say there."""

from typing import Annotated, Literal

from fastapi import Form
from fastapi.responses import RedirectResponse, Response

from email_assistant.accounts.account import Mode
from email_assistant.app import App
from email_assistant.inbox.items import Conflict
from email_assistant.inbox.standing import taken_back
from email_assistant.plugins import mailbox_pages, sites
from email_assistant.web.rendering import render
from email_assistant.web.routers import Assistant, for_pages
from email_assistant.web.wording import MODES

router = for_pages()


@router.get("/accounts")
async def accounts(app: Assistant, taken_back: int = 0) -> Response:
    """`taken_back`: how many answers the change of mode that led here took back."""
    return await _page(app, back=taken_back)


@router.post("/accounts/state")
async def set_state(
    app: Assistant, account: Annotated[str, Form()], state: Annotated[Literal["active", "paused"], Form()]
) -> Response:
    """Pause an account, or resume one that is paused."""
    chosen = await app.accounts.find(app.user_id, account)
    if chosen.state not in ("active", "paused", "stopped"):
        return await _page(app, Conflict(f"{chosen.address} is neither active nor paused"))
    await app.accounts.set_state(chosen.id, state)
    return RedirectResponse("/accounts", 303)


@router.post("/accounts/mode")
async def change_mode(app: Assistant, account: Annotated[str, Form()], mode: Annotated[Mode, Form()]) -> Response:
    """Say what becomes of an account's proposals."""
    chosen = await app.accounts.find(app.user_id, account)
    back = await app.inbox.set_mode(app.accounts, chosen, mode)
    return RedirectResponse(f"/accounts?taken_back={back}" if back else "/accounts", 303)


async def _page(app: App, refusal: Conflict | None = None, back: int = 0) -> Response:
    found = await app.accounts.of_user(app.user_id)
    return render(
        "accounts.html",
        refusal=refusal,
        told=taken_back(back) if back > 0 else None,
        modes=MODES,
        past_mail=app.settings.past_mail,
        accounts=[(account, await app.usage.today(account)) for account in found],
        mailbox_pages=mailbox_pages(),
        sections=[await each.on_accounts(app) for each in sites() if each.on_accounts],
    )
