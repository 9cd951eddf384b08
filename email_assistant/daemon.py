"""The part that works by itself: polls, carries conversations on, learns, and looks for what was forgotten."""

import asyncio
import logging
import math
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

import psycopg
from apscheduler.schedulers.asyncio import AsyncIOScheduler

from email_assistant.accounts.account import UnknownAccount
from email_assistant.accounts.vault import VaultError
from email_assistant.agents.mail.graph import MailAgent
from email_assistant.agents.mail.own_letters import OwnLetters
from email_assistant.app import App, open_chat, open_models
from email_assistant.db.checkpoints import FencedSaver
from email_assistant.db.lease import LeaseLost, held
from email_assistant.db.pool import fetched_together
from email_assistant.errors import logged
from email_assistant.google.errors import GoogleError
from email_assistant.inbox.items import Invalid, Item
from email_assistant.inbox.mails import Correction
from email_assistant.memory.learn import TRIES_AT_A_FAULT, Learner, Lesson, ProfileChanged, teach_triage
from email_assistant.memory.trial import PastTrial
from email_assistant.meters import went_wrong
from email_assistant.model import BadAnswer, ModelDown, ModelFault, Models
from email_assistant.outgoing.left_drafts import LeftDrafts
from email_assistant.outgoing.letters import Mailer
from email_assistant.plugins import Job, chores, features
from email_assistant.settings import Settings
from email_assistant.sync.backfill import Backfill
from email_assistant.sync.mailbox import Mailboxes, Watches
from email_assistant.tracing import keep_langsmith_off, tracing
from email_assistant.usage import BudgetSpent
from email_assistant.work.by_mail import ByMail
from email_assistant.work.due import DueWork
from email_assistant.work.faults import classify, tried
from email_assistant.work.invoke import Invoker
from email_assistant.work.labels import Labels
from email_assistant.work.outcomes import Outcomes
from email_assistant.work.polling import Polling
from email_assistant.work.reconcile import Reconciler
from email_assistant.work.retention import Retention
from email_assistant.work.tasks import Due, Handlers

if TYPE_CHECKING:
    from langchain_core.callbacks import BaseCallbackHandler

    from email_assistant.agents.mail.run import Judge
    from email_assistant.model.tally import Tally
    from email_assistant.work.replay import Replay

log = logging.getLogger(__name__)


class Swept(NamedTuple):
    """What a sweep saw besides what it woke."""

    jobs: Sequence[Job] = ()
    """Those of features that are due."""
    watches: bool = False
    """Gmail is to be asked to tell of new mail."""
    next: float = math.inf
    """Seconds until the next job may begin that waits for its time."""


class Daemon:
    def __init__(self, app: App, callbacks: "Sequence[BaseCallbackHandler]" = ()) -> None:
        """`callbacks`: who is told of each run, as `tracing` gives them."""
        settings, names = app.settings, app.settings.class_labels
        waits = settings.when_spent == "wait"
        self.app = app
        self._scheduled: set[asyncio.Task[object]] = set()  # the scheduler's jobs that are under way
        self.due = DueWork(app.pool, settings.provider, app.holder, waits_when_spent=waits, labels=bool(names))
        self.mailboxes = Mailboxes(
            app.pool,
            app.accounts,
            app.clients,
            enqueue=app.queue.arrived,
            labels=names,
            max_tries=settings.max_tries,
        )
        self.polling = Polling(
            app.pool,
            app.accounts,
            self.mailboxes,
            backfill=app.queue.backfill,
            every=settings.poll_seconds,
            lease_seconds=settings.lease_seconds,
            heartbeat=app.queue.heartbeat,
        )
        self.backfill = Backfill(
            app.pool, app.accounts, app.clients, enqueue=app.queue.arrived, reach=timedelta(days=settings.backfill_days)
        )
        self.watches = Watches(app.accounts, app.clients, settings.push_topic)
        self.judge: Judge | None = next((each.judge(app, app.conversations) for each in features() if each.judge), None)
        drops_ended = settings.keep_checkpoints_days == 0
        saver = FencedSaver(app.pool, keeps_ends=not drops_ended)
        outcomes = Outcomes(app.pool, app.conversations)
        own_letters = OwnLetters(app.pool, app.gate) if settings.past_mail else None
        agent = mail_agent(app, app.models, self.judge, outcomes, own_letters)
        self.invoker = Invoker(agent.graph(saver).with_config(callbacks=list(callbacks)), app.questions)
        left_drafts = LeftDrafts(app.pool, settings.google_timeout_seconds)
        reconciler = Reconciler(
            pool=app.pool,
            runs=app.runs,
            questions=app.questions,
            ledger=app.ledger,
            clients=app.clients,
            settler=app.settler,
            left_drafts=left_drafts,
            complete=app.tools.complete,
            asked_by=self.invoker.pending,
        )
        by_mail = ByMail(
            pool=app.pool,
            conversations=app.conversations,
            runs=app.runs,
            questions=app.questions,
            recipients=app.recipients,
            accounts=app.accounts,
            clients=app.clients,
            tools=app.tools,
            evidence=app.evidence,
            left_drafts=left_drafts,
            reconciler=reconciler,
            invoker=self.invoker,
            labels=Labels(app.pool, app.accounts, app.clients, app.corrections, names),
            drops_ended=drops_ended,
            sync_thread=self.mailboxes.sync_thread,
        )
        self.driver = app.driver(by_mail, self.invoker, self.due)
        self.learner = Learner(app.memory, app.models, PastTrial(app.pool, app.what_if.sort_again))
        self.retention = Retention(app.pool, app.runs, saver, settings, app.memory)
        self.chat = open_chat(app, callbacks)

    async def run(self) -> None:
        """Schedule and work until cancelled."""
        async with asyncio.TaskGroup() as parts:
            parts.create_task(self.schedule())
            parts.create_task(self.work())

    async def schedule(self) -> None:
        """Look into mailboxes and for forgotten work, until cancelled. Any number of processes may do so at a time."""
        settings, now = self.app.settings, datetime.now(UTC)
        scheduler = AsyncIOScheduler(
            timezone="UTC", job_defaults={"coalesce": True, "max_instances": 1, "misfire_grace_time": None}
        )
        scheduler.add_job(self._begin_looks, "interval", seconds=settings.poll_seconds, next_run_time=now)
        scheduler.add_job(self._sweep_on, "interval", [scheduler], seconds=settings.sweep_seconds, next_run_time=now)
        for job in self._jobs:
            if job.seconds and (seconds := job.seconds(self.app)):
                scheduler.add_job(self.do, "interval", [job], seconds=seconds, next_run_time=now)
        async with asyncio.TaskGroup() as parts:
            parts.create_task(self.polling.keep())
            scheduler.start()
            try:
                while True:  # what a dead process left waits for no sweep
                    await self.app.holder.someone_died()
                    await tried("jobs of a dead process stay", self.app.queue.forget_dead(self.app.holder.dead))
                    await self._sweep_on(scheduler)
            finally:  # before the looks end: it begins no other
                scheduler.shutdown(wait=False)
                # It cancels them, and the loop's end would once more, which breaks off what psycopg does about the
                # first.
                await asyncio.gather(*self._scheduled - {asyncio.current_task()}, return_exceptions=True)

    def _note_scheduled(self) -> None:
        """The current task is awaited before the scheduler ends."""
        if task := asyncio.current_task():
            self._scheduled.add(task)
            task.add_done_callback(self._scheduled.discard)

    async def _begin_looks(self) -> None:
        self._note_scheduled()
        await tried("no poll", self.polling.begin())

    async def _sweep_on(self, scheduler: AsyncIOScheduler) -> None:
        """Sweep, and have done what that saw: each on its own, as a slow server would hold up the next look."""
        self._note_scheduled()
        swept = await self.sweep()
        for job in swept.jobs:
            scheduler.add_job(self.do, args=[job], id=job.fails_with, replace_existing=True)
        if swept.watches:
            scheduler.add_job(self.renew_watches, id="watches", replace_existing=True)
        if swept.next < self.app.settings.sweep_seconds:
            then = datetime.now(UTC) + timedelta(seconds=swept.next)
            scheduler.add_job(self._sweep_on, "date", [scheduler], run_date=then, id="next", replace_existing=True)

    async def work(self) -> None:
        """Do the queue's jobs until cancelled; then what runs is finished, or handed back after `stop_seconds`."""
        settings, queue = self.app.settings, self.app.queue
        handlers = Handlers(self.sync_account, self.backfill_account, self.advance, self.learn, self.tidy)
        await self.app.model_servers.ask_anew(settings.model_server)
        present = asyncio.create_task(self.app.presence.keep())
        try:
            await queue.work(
                handlers, self.app.presence.works_as, slots=settings.concurrency, stop_seconds=settings.stop_seconds
            )
        finally:
            await self.app.ledger.drain()
            present.cancel()
            await asyncio.gather(present, return_exceptions=True)

    async def advance(self, thread_id: UUID) -> None:
        """Carry one conversation on, by mail or by chat."""
        match await self.due.due_by(thread_id):
            case "mail":
                await self.driver.advance(thread_id, is_due=True)
            case "chat":
                await self.chat.driver.advance(thread_id, is_due=True)

    async def is_idle(self) -> bool:
        """Whether nothing moves, and nothing will without a person or new mail."""
        return await self.due.is_at_rest()

    async def poll(self) -> None:
        """Look into every mailbox once."""
        await self.polling.poll()

    async def sweep(self) -> Swept:
        """Wake what is due and was forgotten: dead workers, lost notifications, ended undo windows and back-offs."""
        app, provider = self.app, self.app.settings.provider
        swept = Swept()
        asked = {job: job.is_due(app) for job in self._jobs if job.is_due}

        async def look() -> None:
            nonlocal swept
            due, taught, corrected, reminded, [watches], *answers = await fetched_together(
                app.pool,
                self.due.look(),
                app.teaching.unlearned(provider),
                app.corrections.unlearned(provider),
                app.queue.reminder(),
                self.watches.some_due(),
                *asked.values(),
            )
            await app.queue.sweep((Due(**row) for row in due), {row["account_id"] for row in taught + corrected})
            following = [float(row["seconds"]) for row in reminded if row["seconds"] is not None]
            found = [job for job, [answer] in zip(asked, answers, strict=True) if answer["found"]]
            swept = Swept(found, watches["found"], min(following, default=math.inf))

        await tried("no sweep", look())
        return swept

    async def renew_watches(self) -> None:
        """Have Gmail tell of new mail by itself, where there is a topic for that."""
        await tried("no push", self.watches.renew_due())

    async def do(self, job: Job) -> None:
        """A feature's job. Not one of the queue, where a slow server would hold up work."""
        await tried(job.fails_with, job.run(self.app))

    @property
    def _jobs(self) -> list[Job]:
        return [job for each in chores() for job in each.jobs]

    async def sync_account(self, account_id: UUID) -> None:
        """Look for new mail in one mailbox."""
        await self.polling.look(account_id)

    async def backfill_account(self, account_id: UUID) -> None:
        """Fetch a batch of older mail; after a failure, the next look that goes well has it tried again."""
        try:
            async with held(self.app.pool, "older mail", account_id, self.app.settings.lease_seconds) as ours:
                more = ours and await self.backfill.run(account_id)
            if more:
                await self.app.queue.backfill(account_id)
        except (UnknownAccount, LeaseLost):
            return
        except (GoogleError, VaultError, psycopg.Error) as error:
            fault = classify(error)
            went_wrong("mailbox", error)
            name = await self.app.accounts.named(account_id)
            log.warning("%s: older mail: %s; the next look tries again", name, logged(error))
            if fault.needs_login:
                await self.app.accounts.set_state(account_id, "login", fault.reason)

    async def learn(self, account_id: UUID) -> None:
        """Learn from the person's corrections in the account and from their answers, one after the other."""
        for correction in await self.app.corrections.of(account_id):
            await self._learn_from_correction(correction)
        while item := await self.app.teaching.next_lesson(account_id):
            try:
                async with held(self.app.pool, "lesson", item.id, self.app.settings.lease_seconds) as ours:
                    if not ours:
                        return
                    await self._learn_from(item)
            except LeaseLost:
                return

    async def _learn_from_correction(self, correction: Correction) -> None:
        try:
            await teach_triage(self.app.memory, correction)
        except Invalid as error:
            log.warning("nothing learned from correction %s: %s", correction.id, error)
        await self.app.corrections.learned(correction)

    async def _learn_from(self, item: Item) -> None:
        teaching = self.app.teaching
        try:
            taught = await teaching.taught(item)
            lesson = await asyncio.to_thread(Lesson.of, item, taught)  # a conversation may be long
            if lesson is not None:
                await self.learner.learn(lesson)
        except (ModelDown, BudgetSpent, ProfileChanged):
            await teaching.learn_later(item.id, None)
        except Exception as error:
            tries = {ModelFault: TRIES_AT_A_FAULT, BadAnswer: 1}.get(type(error), self.app.settings.max_tries)
            if await teaching.learn_later(item.id, tries):
                log.warning("nothing learned from item %s: %s", item.id, type(error).__name__)
        else:
            await teaching.learned(item.id)

    async def tidy(self) -> None:
        """Close what nobody answered, and drop what is left of dead processes, old logins, and mail that is done."""
        await self.app.inbox.expire(self.app.settings.provider)
        await self.app.sessions.forget_expired()
        for each in chores():
            if each.tidy:
                await each.tidy(self.app)
        for effect in await self.app.ledger.lost_drafts():
            with suppress(UnknownAccount, VaultError, GoogleError):
                gmail = (await self.app.clients.get(effect.account_id)).gmail
                await Mailer(self.app.ledger, gmail).clear(effect)
        await self.app.queue.forget_dead()
        await self.retention.tidy()


@asynccontextmanager
async def open_daemon(app: App) -> AsyncIterator[Daemon]:
    """Everything that works by itself, opened on an open app."""
    keep_langsmith_off()
    async with tracing(app.settings) as callbacks:
        daemon = Daemon(app, callbacks)
        await app.accounts.forget_spent()
        await app.holder.open()
        try:
            yield daemon
        finally:
            if daemon.judge:
                await daemon.judge.aclose()


@asynccontextmanager
async def open_replay(
    app: App, settings: Settings, background: str | None = None
) -> "AsyncIterator[tuple[Replay, Tally]]":
    """What the models of these settings would make of mail that was worked on before, and the count of what they are
    asked for; it is in nobody's budget. `background`: as of `Replay`."""
    keep_langsmith_off()
    from email_assistant.work.replay import Replay

    async with open_models(settings) as (models, tally):
        agent, letters = mail_agent(app, models), settings.past_mail
        yield Replay(app.pool, app.conversations, agent, app.complete, background, shows_letters=letters), tally


def mail_agent(
    app: App,
    models: Models,
    judge: "Judge | None" = None,
    outcomes: Outcomes | None = None,
    own_letters: OwnLetters | None = None,
) -> MailAgent:
    return MailAgent(
        accounts=app.accounts,
        clients=app.clients,
        memory=app.memory,
        models=models,
        tools=app.tools,
        ledger=app.ledger,
        evidence=app.evidence,
        gate=app.gate,
        max_steps=app.settings.max_steps,
        after_triage=app.handover,
        habits=judge,
        outcomes=outcomes,
        sorts_by_rules=app.settings.when_spent == "rules",
        own_letters=own_letters,
    )
