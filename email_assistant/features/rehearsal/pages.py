"""`/rehearsal`: what would have been shown of one's own past mail, begun here, watched, and told in plain words."""

import asyncio
import csv
import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time
from io import StringIO
from pathlib import Path
from time import monotonic
from typing import Annotated, Any, Literal
from uuid import UUID

from fastapi import Depends, Form
from fastapi.responses import RedirectResponse, Response
from pydantic import Field

from email_assistant.accounts.account import Account, UnknownAccount
from email_assistant.app import App
from email_assistant.features.rehearsal.cost import Estimate, drafting, estimate, written
from email_assistant.features.rehearsal.letters import (
    LettersBesideSent,
    ProposedLetter,
    RehearsedLetters,
    newest_answered,
)
from email_assistant.features.rehearsal.report import USUAL_MONTHS, Period, Rehearsed, rehearsed, rows_of_scores
from email_assistant.features.rehearsal.walk import Prediction, Walked
from email_assistant.inbox.items import Conflict
from email_assistant.plugins import MailboxPage, Site
from email_assistant.sync.past_mails import Recorded
from email_assistant.web.pages.listing import Text, link
from email_assistant.web.rendering import render
from email_assistant.web.routers import Assistant, BlankAsNone, for_pages
from email_assistant.work.faults import classify

log = logging.getLogger(__name__)
_LOOK_AGAIN = "2"  # seconds, while something goes on
_MOST_LETTERS = 100
_PAGE = Path(__file__).with_name("page.html")

router = for_pages("/rehearsal")
Doing = Literal["reading", "judging", "drafting"]


class _Ended(Exception):
    """Nobody wants the walk any more."""


@dataclass(slots=True)
class OneRehearsal:
    """An account's, as far as it is."""

    period: Period
    doing: Doing | None = "reading"  # None: nothing any more
    done: int = 0
    total: int = 0
    began: float = field(default_factory=monotonic)  # what is being done
    fault: str = ""  # why it ended early, for the person
    own: frozenset[str] = frozenset()
    entries: list[Recorded] = field(default_factory=list)
    walked: Walked | None = None
    found: Rehearsed | None = None
    cost: Estimate | None = None
    letters: LettersBesideSent | None = None
    task: "asyncio.Task[None] | None" = None

    @property
    def seconds_left(self) -> float | None:
        """At the pace so far; None until that is known."""
        return (monotonic() - self.began) * (self.total - self.done) / self.done if self.done else None

    def begin(self, doing: Doing, total: int) -> None:
        self.doing, self.done, self.total, self.began = doing, 0, total, monotonic()

    def progress(self, done: int) -> None:
        """Raises _Ended in the thread that walks."""
        if self.doing is None:
            raise _Ended
        self.done = done


class Rehearsals:
    """One for each account at a time; the last one is kept until the process ends, or the person has it forgotten."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._of: dict[UUID, OneRehearsal] = {}
        self._past = app.past_mails

    def of(self, account: Account) -> OneRehearsal | None:
        return self._of.get(account.id)

    async def kept(self, account: Account) -> int:
        """How many past mails are kept."""
        return await self._past.kept(account.id)

    def start(self, account: Account, period: Period) -> None:
        """Begin, or go on. Raises Conflict: one is under way."""
        if (known := self.of(account)) and known.doing:
            raise Conflict("a rehearsal is under way already: wait until it is done, or stop it and start again")
        self._of[account.id] = one = OneRehearsal(period)
        self._begin(one, lambda: self._rehearse(account, one))

    def draft(self, account: Account, budget: int) -> None:
        """Have letters proposed to the newest answered mails of a rehearsal that is done."""
        one = self.of(account)
        if one and one.doing is None and one.walked:
            one.fault, one.letters = "", None
            one.begin("drafting", 0)
            self._begin(one, lambda: self._draft(account, one, self.answered(one, budget)))

    def answered(self, one: OneRehearsal, budget: int) -> list[Prediction]:
        """The mails that letters would be proposed to."""
        return newest_answered(one.walked.judged, budget) if one.walked else []

    async def stop(self, account: Account) -> None:
        """What was read stays."""
        if one := self.of(account):
            await self._stop(one)

    async def _stop(self, one: OneRehearsal) -> None:
        if one.task and one.doing:
            one.doing = None
            one.task.cancel()
            await asyncio.gather(one.task, return_exceptions=True)

    async def aclose(self) -> None:
        for one in self._of.values():
            await self._stop(one)

    async def forget(self, account: Account) -> None:
        """Delete what was read, and what was found in it."""
        await self.stop(account)
        self._of.pop(account.id, None)
        await self._past.forget(account.id)

    def _begin(self, one: OneRehearsal, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        async def to_its_end() -> None:
            try:
                await work()
            except _Ended:
                pass
            except Exception as error:
                fault = classify(error)
                one.fault = "something went wrong; please report it" if fault.unexpected else fault.reason
                if fault.unexpected:
                    log.error("a rehearsal ended: %s", type(error).__name__)
            finally:
                one.doing = None

        one.task = asyncio.create_task(to_its_end())

    async def _rehearse(self, account: Account, one: OneRehearsal) -> None:
        since = one.period.since(datetime.now(UTC))
        to_read = await self._past.look(account, since)
        one.begin("reading", len(to_read.missing))
        await self._past.fetch(account, to_read.missing, one.progress)
        one.own, one.entries = to_read.own, await self._past.history(account, to_read.own, since)
        one.begin("judging", len(one.entries))
        walked, one.found = await asyncio.to_thread(rehearsed, one.entries, one.own, one.period, one.progress)
        one.cost = estimate(walked.counted, self._app.settings)
        one.walked = walked

    async def _draft(self, account: Account, one: OneRehearsal, wanted: list[Prediction]) -> None:
        settings, letters = self._app.settings, list[ProposedLetter]()
        one.begin("drafting", len(wanted))
        one.letters = LettersBesideSent(settings.model_for("response"), settings.model_stand_in, letters)
        async for letter in RehearsedLetters.of(self._app).propose(account, one.entries, wanted):
            letters.append(letter)
            one.progress(len(letters))


def site() -> Site:
    return Site(
        routers=(router,),
        of_mailbox=MailboxPage(
            path="/rehearsal",
            asks="Would it have shown you the right mail of the last months?",
            offers="Try it on your past mail",
        ),
    )


def _begun(app: Assistant) -> "Rehearsals":
    return app.part(Rehearsals)


Begun = Annotated["Rehearsals", Depends(_begun)]
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
        _PAGE,
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
