"""The web application: which request goes where, and how a refusal looks."""

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from . import calendar, gmail, oauth
from .calendars import Calendars
from .errors import ApiError, invalid
from .mailbox import SandboxMailbox
from .outbox import Outbox


def build(mailbox: SandboxMailbox, outbox: Outbox, calendars: Calendars, login_days: float | None = None) -> FastAPI:
    """The application over one person's mailbox and calendars, whose logins last so many days, if not for ever."""
    # As they are: include_router would have them made anew for each application, at its first request.
    app = FastAPI(openapi_url=None, routes=[*oauth.router.routes, *gmail.router.routes, *calendar.router.routes])
    app.state.store = mailbox.store
    app.state.mailbox = mailbox
    app.state.outbox = outbox
    app.state.calendars = calendars
    app.state.login_days = login_days
    app.add_exception_handler(ApiError, _refused)
    app.add_exception_handler(RequestValidationError, _refused)
    app.add_exception_handler(HTTPException, _refused)
    return app


def _refused(request: Request, error: Exception) -> JSONResponse:
    shown = _as_api_error(error)
    return JSONResponse(shown.body(), shown.code)


def _as_api_error(error: Exception) -> ApiError:
    match error:
        case ApiError():
            return error
        case RequestValidationError():
            first = error.errors()[0]
            return invalid(f"Invalid value at '{first['loc'][-1]}': {first['msg']}")
        case HTTPException():
            return ApiError(error.status_code, "notFound" if error.status_code == 404 else "invalid", str(error.detail))
    raise error
