"""`/mails`: all mail and what became of it; the story of one, a second try, the person's word on its class, and what
would go with it before it is forgotten."""

from typing import Annotated

from fastapi import Form
from fastapi.responses import RedirectResponse, Response

from email_assistant.app import App
from email_assistant.inbox.items import Conflict
from email_assistant.inbox.mails import CLASSES, STATES, Class, State
from email_assistant.trail.context import Contexts
from email_assistant.trail.story import Trail
from email_assistant.web.pages.answered import BY, News, Telling, nothing
from email_assistant.web.pages.listing import Text, link, zones
from email_assistant.web.rendering import render
from email_assistant.web.routers import Assistant, BlankAsNone, ToldContexts, ToldTrail, for_pages
from email_assistant.web.wording import SORTED
from email_assistant.web.wording import STATES as STATES_IN_WORDS

router = for_pages()


@router.get("/mails")
async def mails(
    app: Assistant,
    news: News,
    state: Annotated[State | None, BlankAsNone] = None,
    account: Text = None,
    cursor: Text = None,
) -> Response:
    return await _page(app, state, account, cursor, news=news)


@router.post("/mails/{mail_id}/retry")
async def retry(app: Assistant, mail_id: str, account: Annotated[str, Form()]) -> Response:
    try:
        await app.corrections.retry(app.user_id, mail_id, account)
    except Conflict as refusal:
        return await _page(app, refusal=refusal)
    return RedirectResponse("/mails", 303)


@router.get("/mails/{mail_id}/trail")
async def story(
    app: Assistant, trail: ToldTrail, contexts: ToldContexts, news: News, mail_id: str, account: Text = None
) -> Response:
    return await _story(app, trail, contexts, mail_id, account, news=news)


@router.post("/mails/{mail_id}/correct")
async def correct(
    app: Assistant,
    trail: ToldTrail,
    contexts: ToldContexts,
    mail_id: str,
    account: Annotated[str, Form()],
    classification: Annotated[Class, Form()],
) -> Response:
    """Say what the mail should have been; it is worked on anew, and a rule on its sender is learned."""
    try:
        await app.corrections.correct(app.user_id, mail_id, classification, BY, account)
    except Conflict as refusal:
        return await _story(app, trail, contexts, mail_id, account, refusal)
    return RedirectResponse(link(f"/mails/{mail_id}/trail", account=account), 303)


async def _page(
    app: App,
    state: State | None = None,
    account: str | None = None,
    cursor: str | None = None,
    refusal: Conflict | None = None,
    news: Telling = nothing,
) -> Response:
    rows, following = await app.mails.page(app.user_id, state=state, account=account, cursor=cursor)
    accounts = await app.accounts.of_user(app.user_id)
    return render(
        "mails.html",
        refusal=refusal,
        mails=rows,
        state=state,
        states=[("", "all"), *((each, STATES_IN_WORDS[each]) for each in STATES)],
        said=STATES_IN_WORDS,
        sorted=SORTED,
        account=account,
        accounts=accounts,
        zones=zones(accounts),
        here=link("/mails", state=state, account=account, cursor=cursor),
        following=link("/mails", state=state, account=account, cursor=following) if following else None,
        news=await news(),
    )


async def _story(
    app: App,
    trail: Trail,
    contexts: Contexts,
    mail_id: str,
    account: str | None,
    refusal: Conflict | None = None,
    news: Telling = nothing,
) -> Response:
    mail = await app.mails.get(app.user_id, mail_id, account)
    owner = await app.accounts.find(app.user_id, mail.account)
    return render(
        "trail.html",
        refusal=refusal,
        mail=mail,
        letter=await contexts.letter(app.user_id, owner.id, mail.id),
        zone=owner.zone,
        classes=CLASSES,
        said=STATES_IN_WORDS,
        sorted=SORTED,
        events=await trail.of_mail(app.user_id, mail_id, mail.account),
        facts=await trail.facts(app.user_id, mail_id, mail.account),
        news=await news(),
    )


@router.get("/mails/{mail_id}/forget")
async def preview(app: Assistant, mail_id: str, account: Text = None) -> Response:
    return await _preview(app, mail_id, account)


@router.post("/mails/{mail_id}/forget")
async def forget(app: Assistant, mail_id: str, account: Annotated[str, Form()]) -> Response:
    forgets = app.forgetting
    try:
        await forgets.carry_out(await forgets.of_mail(app.user_id, mail_id, account))
    except Conflict as refusal:
        return await _preview(app, mail_id, account, refusal)
    return RedirectResponse("/mails", 303)


async def _preview(app: App, mail_id: str, account: str | None, refusal: Conflict | None = None) -> Response:
    mail = await app.mails.get(app.user_id, mail_id, account)
    forgets = app.forgetting
    plan = await forgets.plan(await forgets.of_mail(app.user_id, mail_id, mail.account))
    return render("forget.html", refusal=refusal, mail=mail, plan=plan)
