"""What there is to do before the assistant works on a person's own mail, and whether it is done; and a day on which
nothing is left: `first_steps.html`, `empty.html`."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request
from fastapi.responses import RedirectResponse, Response

from email_assistant.accounts.account import Account
from email_assistant.app import App
from email_assistant.settings import Settings
from email_assistant.trail.activity import Activity
from email_assistant.web.routers import Assistant, ToldActivity, for_pages

_LONGEST = 400 * 24 * 3600  # seconds; browsers keep none longer (RFC 6265bis, section 5.5)
router = for_pages()


@dataclass(frozen=True, slots=True)
class FirstStep:
    title: str
    done: bool
    says: str
    """What is the case; of what is not done, what to do."""

    @property
    def line(self) -> str:
        return f"{'✓' if self.done else '○'} {self.title}: {self.says}"


def first_steps(settings: Settings, accounts: Sequence[Account]) -> list[FirstStep]:
    """Each of them; none once all are done. `accounts`: those that may be worked on here."""
    steps = list(_steps(settings, accounts))
    return [] if all(step.done for step in steps) else steps


def _steps(settings: Settings, accounts: Sequence[Account]) -> Iterator[FirstStep]:
    in_place = settings.mailbox_stand_in
    own = [account for account in accounts if account.state in ("active", "paused") and not in_place]
    connected = f"Connected: {', '.join(account.address for account in own)}"
    to_connect = "`email-assistant auth login --client-secret FILE` connects yours"
    yield FirstStep("Connect your mailbox", bool(own), connected if own else _instead_of(in_place, to_connect))
    in_place = settings.model_stand_in
    chosen = settings.has_model and not in_place
    read_by = f"{settings.model_for('triage')} reads your mail"
    to_choose = "Set OPENAI_API_KEY, or OPENAI_BASE_URL for a server of your own, or GOOGLE_API_KEY alone"
    yield FirstStep("Choose a model", chosen, read_by if chosen else _instead_of(in_place, to_choose))
    yield _trusting(own)
    if own:
        says = "On the page Memory: your role, tone and languages, which are read with every mail"
        yield FirstStep("Say who you are", all(account.introduced for account in own), says)


def _instead_of(stand_in: str, to_do: str) -> str:
    return f"{stand_in.rstrip('.')}. {to_do}" if stand_in else to_do


def _trusting(own: Sequence[Account]) -> FirstStep:
    title = "Watch it in shadow mode, then let it send"
    if trusted := next((account for account in own if account.mode != "shadow"), None):
        does = "does what you accept" if trusted.mode == "send" else "leaves drafts in Gmail"
        return FirstStep(title, True, f"For {trusted.address} it {does}")
    if not own:
        return FirstStep(title, False, "A new mailbox begins there: you see what would be done, and nothing is sent")
    to_end = f"`email-assistant account mode {own[0].address} send` ends it"
    return FirstStep(title, False, f"On: nothing is sent or changed in Gmail. When you like what you see, {to_end}")


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
