"""Rehearsals that a page has begun: each goes on in this process, whoever looks, and what it has read stays when it
ends."""

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal
from uuid import UUID

from email_assistant.accounts.account import Account
from email_assistant.app import App, past_mails, rehearsed_letters
from email_assistant.inbox.items import Conflict
from email_assistant.rehearsal.cost import Estimate, estimate
from email_assistant.rehearsal.own import Period, rehearsed
from email_assistant.rehearsal.recorded import Recorded
from email_assistant.rehearsal.report import Rehearsed
from email_assistant.rehearsal.walk import Judged, Walked
from email_assistant.work.faults import classify
from email_assistant.work.rehearsed_letters import LettersBesideSent, ProposedLetter, newest_answered

log = logging.getLogger(__name__)

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
    began: float = field(default_factory=time.monotonic)  # what is being done
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
        return (time.monotonic() - self.began) * (self.total - self.done) / self.done if self.done else None

    def begin(self, doing: Doing, total: int) -> None:
        self.doing, self.done, self.total, self.began = doing, 0, total, time.monotonic()

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
        self._past = past_mails(app)

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

    def answered(self, one: OneRehearsal, budget: int) -> list[Judged]:
        """The mails that letters would be proposed to."""
        return newest_answered(one.walked.judged, budget) if one.walked else []

    async def stop(self, account: Account) -> None:
        """What was read stays."""
        one = self.of(account)
        if one and one.task and one.doing:
            one.doing = None
            one.task.cancel()
            await asyncio.gather(one.task, return_exceptions=True)

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

    async def _draft(self, account: Account, one: OneRehearsal, wanted: list[Judged]) -> None:
        settings, letters = self._app.settings, list[ProposedLetter]()
        one.begin("drafting", len(wanted))
        one.letters = LettersBesideSent(settings.model_for("response"), settings.model_stand_in, letters)
        async for letter in rehearsed_letters(self._app).propose(account, one.entries, wanted):
            letters.append(letter)
            one.progress(len(letters))
