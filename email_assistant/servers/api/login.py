"""`/login` and `/logout`: give a browser its session, and take it away."""

from typing import Annotated

from fastapi import APIRouter, Form, Request
from fastapi.responses import RedirectResponse, Response

from email_assistant.servers.api.auth import Access, local_path, login_page, too_many_guesses
from email_assistant.servers.api.throttle import TooManyGuesses

router = APIRouter(include_in_schema=False)


@router.get("/login")
async def ask(request: Request) -> Response:
    return RedirectResponse("/", 303) if _access(request).is_allowed(request) else login_page("/")


@router.post("/login")
async def log_in(
    request: Request, token: Annotated[str, Form()] = "", following: Annotated[str, Form()] = "/"
) -> Response:
    access = _access(request)
    try:
        if not access.is_token(request, token.strip()):
            return login_page(local_path(following), "This is not the token.")
    except TooManyGuesses as refused:
        return too_many_guesses(request, refused)
    response = RedirectResponse(local_path(following), 303)
    access.log_in(response, https=request.url.scheme == "https")
    return response


@router.post("/logout")
async def log_out(request: Request) -> Response:
    response = RedirectResponse("/login", 303)
    _access(request).log_out(response)
    return response


def _access(request: Request) -> Access:
    access = request.app.state.access
    assert isinstance(access, Access)
    return access
