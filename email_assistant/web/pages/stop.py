"""`/stop` and `/go-on`, from every page: one button stops everything, and one has it go on."""

from urllib.parse import urlsplit

from fastapi import Request
from fastapi.responses import RedirectResponse, Response

from email_assistant.web import status as programs
from email_assistant.web.auth import local_path
from email_assistant.web.routers import Assistant, for_pages

router = for_pages()


@router.post("/stop")
async def stop(app: Assistant, request: Request) -> Response:
    await programs.stop(app)
    return _back(request)


@router.post("/go-on")
async def go_on(app: Assistant, request: Request) -> Response:
    await programs.go_on(app)
    return _back(request)


def _back(request: Request) -> Response:
    """To the page where it was pressed; a browser says which, to us alone."""
    pressed = urlsplit(request.headers.get("referer", ""))
    is_ours = pressed.netloc == request.url.netloc
    return RedirectResponse(local_path(f"{pressed.path}?{pressed.query}".removesuffix("?")) if is_ours else "/", 303)
