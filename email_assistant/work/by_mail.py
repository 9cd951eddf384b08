"""How a conversation by mail goes on: what the person does in Gmail comes first, then mail by mail."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, cast

from langgraph.types import Interrupt

from email_assistant.accounts.account import Account
from email_assistant.accounts.accounts import Accounts
from email_assistant.accounts.clients import Clients
from email_assistant.agents.mail.run import Run
from email_assistant.bounces.undelivered import as_asked, told_by
from email_assistant.db.lease import Lease
from email_assistant.db.pool import Pool
from email_assistant.gate.policy import GateSession
from email_assistant.google.errors import NotFound, Refused
from email_assistant.google.quota import Urgency
from email_assistant.inbox.questions import Asked, Questions
from email_assistant.inbox.recipients import Recipients
from email_assistant.mail.prompt import mail_as_text
from email_assistant.memory.rules import cached_rules
from email_assistant.outgoing.left_drafts import LeftDrafts
from email_assistant.tools.registry import Registry
from email_assistant.tools.sending import is_left_as_draft
from email_assistant.tools.spec import MEETING, NO_CONFLICTS, Call, Conflicts
from email_assistant.work.conversations import Conversation, Conversations, given_to_run, quoted_alone
from email_assistant.work.driver import Workflow
from email_assistant.work.evidence import Evidence, outsiders
from email_assistant.work.faults import MailboxUnreadable
from email_assistant.work.invoke import Invoker, Outcome, Watch
from email_assistant.work.labels import Labels
from email_assistant.work.reconcile import Reconciler
from email_assistant.work.rows import RunRow
from email_assistant.work.runs import Runs

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ByMail(Workflow[Conversation]):
    name = "mail"
    urgency = Urgency.MAIL

    pool: Pool
    conversations: Conversations
    runs: Runs
    questions: Questions
    recipients: Recipients
    accounts: Accounts
    clients: Clients
    tools: Registry
    evidence: Evidence
    left_drafts: LeftDrafts
    reconciler: Reconciler
    invoker: Invoker
    labels: Labels
    drops_ended: bool
    """Whether the checkpoints of a run go as soon as it has ended."""
    sync_thread: Callable[[Account, str], Awaitable[bool]]
    """Fetches what is new in a Gmail thread: what the person did there comes before what they decided here. False:
    nothing was since the account's cursor."""

    async def look(self, lease: Lease) -> Conversation | None:
        return await self.conversations.load(lease.thread_id)

    def about(self, lease: Lease, at: Conversation) -> str:
        """The mail that is worked on next, by Gmail's id."""
        waiting = at.run_in("waiting")
        decided = waiting if waiting and waiting.decided else None
        if run := at.run_in("acting") or decided or at.run_in("running"):
            return run.mail_id
        mail = at.next_mail[0] if at.next_mail else at.mails[-1] if at.mails else None
        return mail.gmail_id if mail else super().about(lease, at)

    async def catch_up(self, lease: Lease, at: Conversation, run: RunRow) -> Conversation | None:
        if run.state == "waiting":
            await self.reconciler.settle_effects(lease, at)
        with _mailbox_is_read():
            has_news = await self.sync_thread(at.account, at.gmail_id)
        now = (await self.conversations.load(lease.thread_id) if has_news else None) or at
        if run.state == "acting":
            return None if await self.reconciler.before_acting(lease, now, run) else now
        with _mailbox_is_read():
            return None if await self.reconciler.before_apply(lease, now, run) else now

    async def reconcile(self, lease: Lease, at: Conversation) -> bool:
        await self.reconciler.settle_effects(lease, at)
        with _mailbox_is_read():
            if await self.reconciler.reconcile(lease, at):
                return True
        rests = at.run_in("running") is None and at.run_in("waiting") is not None
        return rests and bool(at.uncovered) and await self.runs.put_beside(lease)

    async def begin(self, lease: Lease, at: Conversation) -> RunRow | None:
        if at.next_mail is None:
            return None
        mail, triage_only = at.next_mail
        letters = await self.conversations.letters(at)
        given = await asyncio.to_thread(given_to_run, at, letters, mail, triage_only=triage_only)
        its = await self.conversations.letter(at, mail.gmail_id)
        if told := await told_by(self.pool, at.account.id, mail.gmail_id, its):
            given = cast("Run", {**given, **told, "triage_only": False})
        return await self.runs.start(lease, at.account, given, mail.runs + 1)

    async def invoke(self, lease: Lease, at: Conversation, run: RunRow, watch: Watch | None) -> Outcome:
        with self.conversations.cached(lease, at), self.accounts.cached(at.account), cached_rules():
            given = {"run": run.input}
            begun = run.state == "acting"
            return await self.invoker.invoke(
                run.id, given, lease, begun=begun, is_new=run.is_new, applied=run.applied, watch=watch
            )

    async def rest(self, lease: Lease, at: Conversation, run: RunRow, outcome: Outcome) -> None:
        if not outcome.questions:
            async with self.pool.connection() as conn:
                await self.runs.rested(conn, lease, run.id, "done", drops=self.drops_ended)
            log.info("done")
            return
        session = await self._judged_by(at, run, [question.value for question in outcome.questions])
        asked = [await self._asked(lease, at, run, question, session) for question in outcome.questions]
        shown = await self.shown(at, run)
        values = [question.value for question in asked]
        drafts = [each for each in values if is_left_as_draft(run.input, each["kind"], each["args"])]
        leaves_drafts = drafts and (await self.accounts.get(at.account.id)).mode == "draft"
        is_first = run.attempt == 1 and not any(m.runs for m in at.mails if m.gmail_id != run.mail_id)
        async with self.pool.connection() as conn, conn.transaction() if leaves_drafts else nullcontext():
            made = await self.questions.projected(conn, run.id, shown, asked, is_first=is_first)
            if leaves_drafts:
                await lease.check(conn)
            for value in drafts if leaves_drafts else ():
                await self.left_drafts.want(conn, run.id, value["call_id"], value["args"])
            await self.runs.rested(conn, lease, run.id, "waiting", along=made)
        log.info("waits for the person: %s", ", ".join(question.value["kind"] for question in asked))

    def was_all(self, at: Conversation, run: RunRow) -> bool:
        others = [m for m in at.mails if m.is_open and m.gmail_id != run.mail_id]
        drafts = at.drafted or at.has_left_drafts or at.account.mode == "draft"
        return not others and not drafts and at.back is None

    async def shown(self, at: Conversation, run: RunRow) -> str:
        if told := run.input.get("undelivered"):
            return str(told["shown"])
        letters = await self.conversations.letters(at)
        [its] = [letter for letter in letters if letter.gmail_id == run.mail_id]
        kept = await asyncio.to_thread(quoted_alone, its, letters)
        return await asyncio.to_thread(mail_as_text, its.mail, kept)

    async def conflicts(self, lease: Lease, at: Conversation, run: RunRow, call: Mapping[str, Any]) -> Conflicts | None:
        """None if the calendar can't be read, which holds nothing up."""
        if call["action"] != MEETING:
            return NO_CONFLICTS
        try:
            its = Call(run.input, call["call_id"], at.account, await self.clients.of(at.account), lease)
            return await self.tools.conflicts(its, call["action"], call["args"])
        except Exception as error:
            log.warning("run %s: no look into the calendar (%s)", run.id, type(error).__name__)
            return None

    async def finish(self, lease: Lease) -> bool:
        return await self.labels.set_due(lease)

    async def _judged_by(self, at: Conversation, run: RunRow, asked: Sequence[Mapping[str, Any]]) -> GateSession:
        """What the gate has judged these calls by just now, or would, where they were judged before a restart."""
        session = at.judged.get(asked[0]["call_id"])
        if session is not None and all(at.judged.get(value["call_id"]) is session for value in asked):
            return session
        letters = await self.conversations.letters(at)
        return await self.evidence.of(run.input, [value["args"] for value in asked], letters)

    async def _asked(
        self, lease: Lease, at: Conversation, run: RunRow, interrupt: Interrupt, session: GateSession
    ) -> Asked:
        value: Mapping[str, Any] = interrupt.value
        if told := run.input.get("undelivered"):  # it is the person's own letter: they said what it says, and to whom
            judged = await self.recipients.judge(at.account, value["args"], None)
            return Asked(interrupt.id, as_asked(told, value), judged, conflicts=[])
        answered = await self.conversations.letter(at, run.mail_id)
        letters = await self.conversations.letters(at)
        around = [letter.mail for letter in letters]
        found = await self.conflicts(lease, at, run, value)
        return Asked(
            interrupt.id,
            value,
            judged=await self.recipients.judge(
                at.account, value["args"], answered, around, outsiders(value["args"], letters, session)
            ),
            conflicts=found.events if found else None,
            calendars=found.calendars if found else [],
            left_out=await self.tools.left_out(run.input, value["action"], value["args"])
            if value["kind"] == "draft"
            else [],
            doubts=await self.evidence.doubts_about(value, at.account, session),
        )


@contextmanager
def _mailbox_is_read() -> Iterator[None]:
    """Nothing that is wrong with the mailbox now may cost a decision, or what waits: it stays until it can be read."""
    try:
        yield
    except (Refused, NotFound) as refusal:
        raise MailboxUnreadable(f"the mailbox can't be read: {refusal}") from refusal
