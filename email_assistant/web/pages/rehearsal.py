"""`/rehearsal`: what would have been shown of one's own past mail, begun here, watched, and told in plain words."""

import csv
from datetime import UTC, date, datetime, time
from io import StringIO
from typing import Annotated

from fastapi import Form
from fastapi.responses import RedirectResponse, Response
from pydantic import Field

from email_assistant.accounts.account import Account, UnknownAccount
from email_assistant.app import App
from email_assistant.inbox.items import Conflict
from email_assistant.rehearsal.cost import drafting, written
from email_assistant.rehearsal.own import USUAL_MONTHS, Period
from email_assistant.rehearsal.report import rows_of_scores
from email_assistant.web.dependencies import Assistant, BlankAsNone, served
from email_assistant.web.pages.listing import Text, link
from email_assistant.web.rehearsals import Rehearsals
from email_assistant.web.rendering import render
from email_assistant.web.routers import for_pages

_LOOK_AGAIN = "2"  # seconds, while something goes on
_MOST_LETTERS = 100

router = for_pages("/rehearsal")

Begun = Annotated[Rehearsals, served("rehearsals")]
Of = Annotated[str, Form(alias="account")]


@router.get("")
async def show(app: Assistant, begun: Begun, account: Text = None) -> Response:
    return await _page(app, begun, account)


@router.post("")
async def start(
    app: Assistant,
    begun: Begun,
    account: Of,
    months: Annotated[Annotated[int, Field(ge=1, le=120)] | None, BlankAsNone, Form()] = None,
    until: Annotated[date | None, BlankAsNone, Form()] = None,
) -> Response:
    """Begin, or go on. `until`: in place of the months, a day after which mail is judged."""
    chosen = await _of(app, account)
    if until:
        period = Period(None, datetime.combine(until, time(), UTC))
    else:
        period = Period(None if months in (None, USUAL_MONTHS) else months)
    try:
        begun.start(chosen, period)
    except Conflict as refusal:
        return await _page(app, begun, account, refusal)
    return _back(chosen)


@router.post("/stop")
async def stop(app: Assistant, begun: Begun, account: Of) -> Response:
    chosen = await _of(app, account)
    await begun.stop(chosen)
    return _back(chosen)


@router.post("/forget")
async def forget(app: Assistant, begun: Begun, account: Of) -> Response:
    """Delete what was read."""
    chosen = await _of(app, account)
    await begun.forget(chosen)
    return _back(chosen)


@router.post("/letters")
async def letters(
    app: Assistant,
    begun: Begun,
    account: Of,
    budget: Annotated[int, Form(ge=1, le=_MOST_LETTERS)],
    *,
    agreed: Annotated[bool, Form()] = False,
) -> Response:
    """Have letters proposed, once the person has `agreed` to what that costs."""
    chosen = await _of(app, account)
    if not app.settings.has_model:
        return await _page(app, begun, account, Conflict("there is no model to ask"))
    if not agreed:
        return await _page(app, begun, account, budget=budget)
    begun.draft(chosen, budget)
    return _back(chosen)


@router.get("/scores.csv")
async def scores(app: Assistant, begun: Begun, account: Annotated[str, Text]) -> Response:
    """What was thought of each mail, by its Message-ID."""
    one = begun.of(await _of(app, account))
    if one is None or one.walked is None:
        raise Conflict("there is no rehearsal whose scores could be told: start one first")
    text = StringIO(newline="")
    csv.writer(text).writerows(rows_of_scores(one.walked.judged))
    return Response(text.getvalue(), media_type="text/csv; charset=utf-8")


async def _of(app: App, address: str) -> Account:
    return app.accounts.here(await app.accounts.find(app.user_id, address))


def _back(account: Account) -> Response:
    return RedirectResponse(link("/rehearsal", account=account.address), 303)


async def _page(
    app: App, begun: Rehearsals, address: str | None, refusal: Conflict | None = None, budget: int | None = None
) -> Response:
    """`budget`: so many letters are asked for, and not agreed to yet."""
    accounts = [each for each in await app.accounts.of_user(app.user_id) if app.accounts.away(each) is None]
    try:
        account = await _of(app, address) if address else await app.accounts.first(app.user_id)
    except UnknownAccount:
        if address:
            raise
        account = None
    one = begun.of(account) if account else None
    wanted = begun.answered(one, budget) if one and budget else []
    money = drafting(wanted, app.settings)
    return render(
        "rehearsal.html",
        headers={"Refresh": _LOOK_AGAIN} if one and one.doing else None,
        refusal=refusal,
        accounts=accounts,
        account=account,
        kept=await begun.kept(account) if account else 0,
        one=one,
        months=USUAL_MONTHS,
        wanted=len(wanted),
        costs="" if money is None else written(money, app.settings.currency),
        model=app.settings.model_for("response"),
        canned=app.settings.model_stand_in,
        has_model=app.settings.has_model,
    )
