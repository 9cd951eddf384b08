"""`/login`, `/logout` and `/sessions`: give a browser its session, show who has one, and take it away."""

from contextlib import suppress
from typing import Annotated
from uuid import UUID

from fastapi import Depends, Form, Request
from fastapi.responses import RedirectResponse, Response

from email_assistant.accounts.sessions import NoSession
from email_assistant.web.auth import Access, local_path, login_page, onward, with_token
from email_assistant.web.rendering import render
from email_assistant.web.routers import Assistant, say_how_it_stands, served, undocumented

router = undocumented()


Entry = Annotated[Access, served("access")]


@router.get("/login")
async def ask(request: Request, access: Entry) -> Response:
    if await access.is_allowed(request):
        return RedirectResponse("/", 303)
    return login_page("/", may_stay=access.elsewhere(request) is not None)


@router.post("/login")
async def log_in(
    request: Request,
    access: Entry,
    token: Annotated[str, Form()] = "",
    following: Annotated[str, Form()] = "/",
    stay: Annotated[bool, Form()] = False,
) -> Response:
    """Give the browser a session, at the home's own name if there is one and it is not said to be of no use."""
    token, elsewhere = token.strip(), access.elsewhere(request)
    if not access.is_token(token):
        return login_page(local_path(following), "This is not the token.", may_stay=elsewhere is not None)
    if elsewhere and not stay:
        return onward(elsewhere + with_token(local_path(following), token), f"{elsewhere}/")
    response = RedirectResponse(local_path(following), 303)
    await access.log_in(request, response)
    return response


@router.post("/logout")
async def log_out(
    request: Request, app: Assistant, access: Entry, everywhere: Annotated[bool, Form()] = False
) -> Response:
    """End this browser's session, or everybody's."""
    response = RedirectResponse("/login", 303)
    session = await access.session(request)
    if everywhere:
        await app.sessions.end_all(app.user_id)
    elif session:
        with suppress(NoSession):  # another page of it was faster
            await app.sessions.end(app.user_id, session.id)
    access.forget(request, response)
    return response


@router.get("/sessions", dependencies=[Depends(say_how_it_stands)])
async def show(request: Request, app: Assistant, access: Entry) -> Response:
    return render(
        "sessions.html",
        sessions=await app.sessions.of_user(app.user_id),
        current=await access.session(request),
        is_asked_for=access.is_asked_for,
    )


@router.post("/sessions/end")
async def end(app: Assistant, session: Annotated[UUID, Form()]) -> Response:
    """Log one browser out."""
    with suppress(NoSession):  # it is out already
        await app.sessions.end(app.user_id, session)
    return RedirectResponse("/sessions", 303)
