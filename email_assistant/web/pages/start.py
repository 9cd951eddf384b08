"""The first steps on the page, until a person puts them away, and a day on which nothing is left: `first_steps.html`,
`empty.html`."""

from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request
from fastapi.responses import RedirectResponse, Response

from email_assistant.accounts.account import Account
from email_assistant.accounts.first_steps import FirstStep, first_steps
from email_assistant.app import App
from email_assistant.trail.activity import Activity
from email_assistant.web.routers import Assistant, ToldActivity, for_pages

_LONGEST = 400 * 24 * 3600  # seconds; browsers keep none longer (RFC 6265bis, section 5.5)
router = for_pages()


@dataclass(frozen=True, slots=True)
class Start:
    _app: App
    _activity: Activity
    _put_away: bool

    def steps(self, accounts: list[Account]) -> list[FirstStep]:
        """None where the person has put them away in this browser."""
        worked_on = [account for account in accounts if self._app.accounts.away(account) is None]
        return [] if self._put_away else first_steps(self._app.settings, worked_on)

    async def today(self, accounts: list[Account]) -> str:
        return await self._activity.today(self._app.user_id, accounts, self._app.settings.currency)


def _start(app: Assistant, activity: ToldActivity, request: Request) -> Start:
    return Start(app, activity, _cookie(app) in request.cookies)


Starting = Annotated[Start, Depends(_start)]


@router.post("/first-steps")
async def put_away(app: Assistant) -> Response:
    response = RedirectResponse("/", 303)
    response.set_cookie(_cookie(app), "put away", max_age=_LONGEST, httponly=True, samesite="strict")
    return response


def _cookie(app: App) -> str:
    """Its name is the home's: cookies know no ports."""
    return f"first_steps_{app.user_id.hex[:8]}"
