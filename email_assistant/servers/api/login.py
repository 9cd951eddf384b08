"""`/login`: gives a browser its session."""

from typing import Annotated

from fastapi import APIRouter, Form, Request
from fastapi.responses import RedirectResponse, Response

from email_assistant.servers.api.auth import Access, local_path, login_page

router = APIRouter(include_in_schema=False)


@router.get("/login")
async def ask(request: Request) -> Response:
    return RedirectResponse("/", 303) if _access(request).is_allowed(request) else login_page("/")


@router.post("/login")
async def log_in(
    request: Request, token: Annotated[str, Form()] = "", following: Annotated[str, Form()] = "/"
) -> Response:
    access = _access(request)
    if not access.is_token(token.strip()):
        return login_page(local_path(following), "This is not the token.")
    response = RedirectResponse(local_path(following), 303)
    access.log_in(response, https=request.url.scheme == "https")
    return response


def _access(request: Request) -> Access:
    access = request.app.state.access
    assert isinstance(access, Access)
    return access
