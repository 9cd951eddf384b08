"""Carry one conversation, by mail or by chat, as far as it goes without a person.

Every call looks at the tables first, under the conversation's lease, and so may be repeated, doubled or killed
anywhere.
"""

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, ClassVar, Generic, Protocol, TypeVar
from uuid import UUID

from email_assistant.accounts.accounts import Accounts
from email_assistant.db.checkpoints import ForeignCheckpoint, read_once
from email_assistant.db.lease import Lease, LeaseLost, held
from email_assistant.db.pool import Connection, Pool
from email_assistant.db.presence import Holder
from email_assistant.errors import logged
from email_assistant.google.quota import Urgency, calls_are
from email_assistant.inbox.items import Item
from email_assistant.inbox.questions import Questions
from email_assistant.meters import went_wrong
from email_assistant.outgoing.effects import Ledger
from email_assistant.outgoing.entry import Declined, Effect, InDoubt, NotYetClear
from email_assistant.spans import span
from email_assistant.telemetry import about, now_about
from email_assistant.tools.spec import NO_CONFLICTS, Call, Conflicts, LinkNeeded
from email_assistant.work.conversations import UnreadableMail
from email_assistant.work.faults import Fault, LostInterrupt, classify, to_come
from email_assistant.work.invoke import Invoker, Outcome, Watch
from email_assistant.work.rows import OpenRuns, RunRow
from email_assistant.work.runs import DecisionFirst, Runs
from email_assistant.work.settle import Settler, is_accepted, resolve, with_args_anew

log = logging.getLogger(__name__)

S = TypeVar("S", bound=OpenRuns)


class _Did(Enum):
    """What became of a step."""

    NOTHING = "nothing is left, or nothing that can be done now"
    SOMETHING = "it is to be looked what is left"
    ALL = "nothing is left of what was seen; what has come since makes the conversation due"


class Workflow(ABC, Generic[S]):
    """The steps that a conversation by mail and one by chat each do in their own way."""

    name: ClassVar[str]
    urgency: ClassVar[Urgency]
    """Of what is called at Google while no decision of a person is carried out."""

    def about(self, lease: Lease, at: S) -> str:
        """The id that the log names what comes next by."""
        return str(lease.thread_id)

    @abstractmethod
    async def look(self, lease: Lease) -> S | None:
        """Where the conversation stands; None: nothing may be done in it, or is to be done.

        Raises:
            ForeignCheckpoint: it can't be read.
        """

    async def catch_up(self, lease: Lease, at: S, run: RunRow) -> S | None:
        """Where it stands after what the person did elsewhere; None: they have ended this run, which is decided."""
        return at

    async def reconcile(self, lease: Lease, at: S) -> bool:
        """Do the next thing that comes before the run's work; False if there is none."""
        return False

    async def begin(self, lease: Lease, at: S) -> RunRow | None:
        """Make the run that is to be gone on with, where none is; None: there is nothing to do."""
        return None

    async def apply_answers(self, conn: Connection, lease: Lease, at: S, run: RunRow, answers: Sequence[Item]) -> bool:
        """Carry out answers, which have been applied just now, that are none to the run's graph; whether it goes on."""
        return True

    @abstractmethod
    async def invoke(self, lease: Lease, at: S, run: RunRow, watch: Watch | None) -> Outcome:
        """Run the graph from where it stands."""

    @abstractmethod
    async def rest(self, lease: Lease, at: S, run: RunRow, outcome: Outcome) -> None:
        """Store what the run waits for, or that it has ended."""

    def was_all(self, at: S, run: RunRow) -> bool:
        """Whether this run, which has come to rest, was the only work."""
        return False

    @abstractmethod
    async def shown(self, at: S, run: RunRow) -> str:
        """What the run is about, as its items show it."""

    async def conflicts(self, lease: Lease, at: S, run: RunRow, call: Mapping[str, Any]) -> Conflicts | None:
        """What stands at the time of a call, {call_id, action, args}; None: that can't be known now."""
        return NO_CONFLICTS

    async def fault_to_wait_out(self, run: RunRow, error: Exception, fault: Fault) -> Fault | None:
        """What keeps the run for a while; None: it has failed for good.

        Raises:
            the error: nothing can be written, or by nobody here; the run is taken up again.
        """
        return fault if fault.passing else None

    async def finish(self, lease: Lease) -> bool:
        """Do what may wait until all else is done; whether anything was."""
        return False


class Tools(Protocol):
    """The tools of a workflow's agent."""

    async def complete(self, run: Mapping[str, Any], name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Arguments checked and completed for a run. Raises ToolError, ServerDown."""
        ...

    def said(self, name: str) -> Collection[str]:
        """Those arguments of a call that only say what it is about: `complete` says them anew."""
        ...

    async def left_out(self, run: Mapping[str, Any], name: str, arguments: Mapping[str, Any]) -> list[str]:
        """Who of the answered mail's people would get nothing of a call. Raises ToolError, GoogleError."""
        ...

    async def settle(self, call: Call, effect: Effect) -> None:
        """Find out what became of an effect that was started. Raises NotYetClear, InDoubt."""
        ...


@dataclass(frozen=True)
class Driver(Generic[S]):
    workflow: Workflow[S]
    pool: Pool
    runs: Runs
    questions: Questions
    ledger: Ledger
    accounts: Accounts
    settler: Settler
    tools: Tools
    invoker: Invoker
    is_due: Callable[[UUID], Awaitable[bool]]
    lease_seconds: float
    holder: Holder
    max_tries: int

    async def advance(self, thread_id: UUID, *, is_due: bool = False) -> None:
        """Do all there is to do now. Whoever finds the lease taken leaves: its holder looks again when it is done.

        Args:
            is_due: the caller has seen just now that there is something.
        """
        worked = True
        with about(None):
            while worked and (is_due or await self.is_due(thread_id)):
                is_due = False
                try:
                    async with held(self.pool, "conversation", thread_id, self.lease_seconds, self.holder) as lease:
                        worked = lease is not None and await self.work(lease)
                except LeaseLost:
                    log.info("conversation %s: taken over by another worker, or its account is paused", thread_id)
                    return

    async def work(self, lease: Lease, watch: Watch | None = None, at: S | None = None) -> bool:
        """Do all there is to do now, under a lease; whether there was anything.

        Args:
            watch: told of what happens, as it does.
            at: where the conversation stands, if the caller has seen to that.
        """
        worked = False
        with calls_are(self.workflow.urgency), read_once():
            while (did := await self._step(lease, watch, at)) is _Did.SOMETHING:
                worked, at = True, None
            return await self.workflow.finish(lease) or worked or did is _Did.ALL

    async def _step(self, lease: Lease, watch: Watch | None, at: S | None) -> _Did:
        """Do the next thing."""
        try:
            at = at or await self.workflow.look(lease)
        except ForeignCheckpoint as error:
            await self._give_up(lease, error)
            return _Did.NOTHING
        if at is None:
            return _Did.NOTHING
        id_ = self.workflow.about(lease, at)
        now_about(id_)
        try:
            with span(self.workflow.name, id=id_):
                return await self._next(lease, at, watch)
        except LeaseLost:
            raise
        except DecisionFirst:
            return _Did.SOMETHING
        except UnreadableMail as error:
            await self._give_up(lease, error)
            return _Did.NOTHING
        except Exception as error:
            await self._failed(lease, at, error)
            return _Did.NOTHING

    async def _next(self, lease: Lease, at: S, watch: Watch | None) -> _Did:
        if acting := at.run_in("acting"):
            with calls_are(Urgency.PERSON):
                if acting.hangs:
                    return _Did.NOTHING
                now = await self.workflow.catch_up(lease, at, acting)
                return await self._act(lease, now, acting, watch) if now else _Did.SOMETHING
        waiting = at.run_in("waiting")
        if waiting and waiting.decided:
            with calls_are(Urgency.PERSON):
                now = await self.workflow.catch_up(lease, at, waiting)
                return await self._apply(lease, now, waiting, watch) if now else _Did.SOMETHING
        if await self.workflow.reconcile(lease, at):
            return _Did.SOMETHING
        run = at.run_in("running") or await self.workflow.begin(lease, at)
        return await self._go_on(lease, at, run, watch) if run else _Did.NOTHING

    async def _apply(self, lease: Lease, at: S, run: RunRow, watch: Watch | None) -> _Did:
        """The point of no return: all answers of the run at once, and only with the account active; then act."""
        with span("decide"):
            asked = await self.invoker.pending(run.id, lease)
            async with self.pool.connection() as conn, conn.transaction():
                await lease.check(conn, account_active=True)
                answers = await self.questions.apply(conn, run.id)
                if not asked.issuperset(answer.interrupt_id for answer in answers if answer.interrupt_id):
                    raise LostInterrupt("what was answered is not asked any more")
                acts = bool(answers) and await self.workflow.apply_answers(conn, lease, at, run, answers)
                acting = await self.runs.acting(conn, lease, run, answers) if acts else None
        return await self._go_on(lease, at, acting, watch) if acting else _Did.SOMETHING

    async def _act(self, lease: Lease, at: S, run: RunRow, watch: Watch | None) -> _Did:
        """Go on with a run that has applied answers. If it hangs on an effect that was refused, or is in doubt, a
        person's word comes first."""
        if run.decided:
            # What was in doubt may have shown up while the person thought about it.
            unknown = [each for each in await self.ledger.hanging_in(run.id) if each.state == "unknown"]
            await self.settler.settle_all(unknown, at.account, lease, tolerated=(NotYetClear, InDoubt))
            async with self.pool.connection() as conn, conn.transaction():
                await lease.check(conn, account_active=True)
                items = await self.questions.apply(conn, run.id)
                await resolve(self.ledger, conn, items)
            if any(item.kind == "link" and not is_accepted(item) for item in items):
                await self._fail(lease, run, "you did not open the link that a tool needs")
                return _Did.SOMETHING
        for effect in await self.ledger.hanging_in(run.id):
            raise InDoubt(effect.call_id)
        return await self._go_on(lease, at, run, watch)

    async def _go_on(self, lease: Lease, at: S, run: RunRow, watch: Watch | None) -> _Did:
        """Run the graph until it waits for a person or ends, and store which of the two."""
        if await self.runs.start_work(lease, run) > self.max_tries:
            await self._fail(lease, run, f"given up after {self.max_tries} tries", after=True)
            return _Did.SOMETHING
        log.info("worked on")
        try:
            await self.workflow.rest(lease, at, run, await self.workflow.invoke(lease, at, run, watch))
        except asyncio.CancelledError:
            with suppress(LeaseLost):
                await self.runs.handed_back(lease, run)
            raise
        return _Did.ALL if self.workflow.was_all(at, run) else _Did.SOMETHING

    async def _failed(self, lease: Lease, at: S, error: Exception) -> None:
        """Put a failure where the person sees it, and decide when to come back."""
        # A step may have started or applied a run since it looked.
        now = OpenRuns(at.account, await self.runs.open_in(lease.thread_id))
        run = now.run_in("acting") or now.run_in("running") or at.run
        if isinstance(error, InDoubt | Declined) and run is not None:
            await self._ask_again(lease, at, run)
            return
        if isinstance(error, LinkNeeded) and run is not None:
            await self._ask_to_open(lease, at, run, error)
            return
        went_wrong("work", error)
        fault = classify(error)
        outlasted = await self.workflow.fault_to_wait_out(run, error, fault) if run is not None else fault
        log.warning(
            "conversation %s of %s: %s; %s",
            lease.thread_id,
            at.account.address,
            logged(error),
            to_come(outlasted or replace(fault, passes="never")),
            exc_info=fault.unexpected,
        )
        if fault.needs_login:
            await self.accounts.set_state(at.account.id, "login", fault.reason)
        if run is not None and outlasted is None:
            await self._fail(lease, run, fault.reason)
        else:
            lasting = outlasted or fault
            await self.runs.back_off(
                lease, run, lasting.reason, lasting.until, outage=lasting.outage, waits_for=lasting.waits_for
            )

    async def _fail(self, lease: Lease, run: RunRow, reason: str, *, after: bool = False) -> None:
        async with self.pool.connection() as conn, conn.transaction():
            await lease.check(conn)
            await self.questions.expire_run(conn, run.id)
            await self.runs.fail(conn, run.id, reason, after=after)

    async def _give_up(self, lease: Lease, error: ForeignCheckpoint) -> None:
        """Set all of a conversation aside that can't be read."""
        log.warning("conversation %s: %s; it is set aside", lease.thread_id, ForeignCheckpoint.__name__)
        async with self.pool.connection() as conn, conn.transaction():
            await lease.check(conn)
            for run_id in await self.runs.fail_all(conn, lease.thread_id, str(error)):
                await self.questions.expire_run(conn, run_id)

    async def _ask_again(self, lease: Lease, at: S, run: RunRow) -> None:
        shown = await self.workflow.shown(at, run)
        hanging = await self.ledger.hanging_in(run.id)
        effects = [await with_args_anew(self.tools, run.input, effect) for effect in hanging]
        refused = next((effect.result for effect in effects if effect.state == "refused"), None)
        calls = [{"call_id": each.call_id, "action": each.tool, "args": each.args} for each in effects]
        found = [await self.workflow.conflicts(lease, at, run, call) for call in calls]
        async with self.pool.connection() as conn, conn.transaction():
            await lease.check(conn)
            for effect, conflicts in zip(effects, found, strict=True):
                await self.questions.ask_again(conn, effect, shown, conflicts)
            await self.runs.hangs(conn, lease, run.id, refused or "it is unclear whether an action happened")

    async def _ask_to_open(self, lease: Lease, at: S, run: RunRow, link: LinkNeeded) -> None:
        shown = await self.workflow.shown(at, run)
        async with self.pool.connection() as conn, conn.transaction():
            await lease.check(conn)
            await self.questions.ask_to_open(conn, run.id, link.url, link.message, shown)
            await self.runs.hangs(conn, lease, run.id, "a tool needs you to open a link")
