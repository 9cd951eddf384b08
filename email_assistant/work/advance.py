"""Carry one conversation by mail as far as it goes without a person.

Every call looks at the tables first, under the conversation's lease, and so may be repeated, doubled or killed
anywhere.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from langgraph.types import Interrupt

from email_assistant.accounts.accounts import Accounts
from email_assistant.accounts.clients import Clients
from email_assistant.db.holder import Holder
from email_assistant.db.lease import Lease, LeaseLost, held
from email_assistant.db.pool import Pool
from email_assistant.db.serializer import ForeignCheckpoint
from email_assistant.google.errors import NotFound, Refused
from email_assistant.google.quota import Urgency, calls_are
from email_assistant.inbox.describe import mail_as_text
from email_assistant.inbox.items import Asked, Inbox, Item
from email_assistant.inbox.recipients import Recipients
from email_assistant.outgoing.effects import Ledger
from email_assistant.outgoing.entry import Declined, InDoubt, NotYetClear
from email_assistant.outgoing.left_drafts import LeftDrafts
from email_assistant.tools.registry import Registry
from email_assistant.tools.spec import NO_CONFLICTS, Call, Conflicts, LinkNeeded
from email_assistant.work.again import as_it_can_be, resolve
from email_assistant.work.conversations import Conversation, Conversations, DecisionFirst, RunRow
from email_assistant.work.due import DueWork
from email_assistant.work.faults import LostInterrupt, MailboxUnreadable, classify
from email_assistant.work.heed import Heed
from email_assistant.work.invoke import Invoker
from email_assistant.work.labels import Labels

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Advancer:
    pool: Pool
    conversations: Conversations
    due: DueWork
    inbox: Inbox
    recipients: Recipients
    ledger: Ledger
    accounts: Accounts
    clients: Clients
    tools: Registry
    left_drafts: LeftDrafts
    heed: Heed
    invoker: Invoker
    labels: Labels
    sync_thread: Callable[[UUID, str], Awaitable[None]]
    """Fetches what is new in a Gmail thread: what the person did there comes before what they decided here."""
    lease_seconds: float
    holder: Holder
    max_tries: int

    async def advance(self, thread_id: UUID) -> None:
        """Do all there is to do now. Whoever finds the lease taken leaves: its holder looks again when it is done."""
        worked = True
        while worked and await self.due.is_due(thread_id):
            worked = False
            try:
                async with held(self.pool, "conversation", thread_id, self.lease_seconds, self.holder) as lease:
                    while lease and await self._step(lease):
                        worked = True
                    if lease and await self.labels.settle(lease):
                        worked = True
            except LeaseLost:
                log.info("conversation %s: taken over by another worker, or its account is paused", thread_id)
                return

    async def _step(self, lease: Lease) -> bool:
        """Do the next thing; False when there is nothing left, or nothing that can be done now."""
        try:
            conversation = await self.conversations.load(lease.thread_id)
        except ForeignCheckpoint as error:
            await self._give_up(lease, str(error))
            return False
        if conversation is None:
            return False
        acting = conversation.run_in("acting")
        run = acting or conversation.run_in("running") or conversation.run_in("waiting")
        try:
            if acting:
                with calls_are(Urgency.PERSON):
                    return await self._take_up(lease, conversation, acting)
            await self.heed.settle_effects(lease, conversation)
            return await self._next(lease, conversation)
        except LeaseLost:
            raise
        except DecisionFirst:
            return True
        except Exception as error:
            await self._failed(lease, conversation, run, error)
            return False

    async def _next(self, lease: Lease, conversation: Conversation) -> bool:
        waiting = conversation.run_in("waiting")
        if waiting and waiting.decided:
            with calls_are(Urgency.PERSON):
                await self._sync(conversation)
                conversation = await self.conversations.load(lease.thread_id) or conversation
                with _mailbox_is_read():
                    closed = await self.heed.before_decision(lease, conversation, waiting)
                return closed or await self._apply(lease, waiting)
        with _mailbox_is_read():
            heeded = await self.heed.person(lease, conversation)
        if heeded:
            return True
        if running := conversation.run_in("running"):
            await self._go_on(lease, conversation, running)
            return True
        if waiting and conversation.uncovered and await self.conversations.put_beside(lease):
            return True
        if following := conversation.next_mail:
            mail, triage_only = following
            account = await self.accounts.get(conversation.account_id)
            await self.conversations.start(lease, conversation, mail, account, triage_only=triage_only)
            return True
        return False

    async def _sync(self, conversation: Conversation) -> None:
        with _mailbox_is_read():
            await self.sync_thread(conversation.account_id, conversation.gmail_id)

    async def _apply(self, lease: Lease, run: RunRow) -> bool:
        """The point of no return: all answers of the run at once, and only with the account active; then act."""
        if not await self.inbox.decided(run.id) <= await self.invoker.pending(run.id, lease):
            raise LostInterrupt("the run does not wait for the answer that was given")
        async with self.pool.connection() as conn, conn.transaction():
            await lease.check(conn, account_active=True)
            if await self.inbox.apply(conn, run.id):
                await self.conversations.acting(conn, run.id)
        conversation = await self.conversations.load(lease.thread_id)
        acting = conversation.run_in("acting") if conversation else None
        return await self._act(lease, conversation, acting) if conversation and acting else True

    async def _take_up(self, lease: Lease, conversation: Conversation, run: RunRow) -> bool:
        """Act on answers that were given a while ago, unless the person has answered by hand since."""
        if not run.waits or run.decided:
            await self._sync(conversation)
            conversation = await self.conversations.load(lease.thread_id) or conversation
            if await self.heed.before_acting(lease, conversation, run):
                return True
        return await self._act(lease, conversation, run)

    async def _act(self, lease: Lease, conversation: Conversation, run: RunRow) -> bool:
        """Go on with a run that has applied answers. If it hangs on an effect that was refused, or is in doubt, a
        person's word comes first."""
        if run.waits and not run.decided:
            return False
        if run.decided:
            await self._look_once_more(lease, conversation, run)
            async with self.pool.connection() as conn, conn.transaction():
                await lease.check(conn, account_active=True)
                items = await self.inbox.apply(conn, run.id)
                await resolve(self.ledger, conn, items)
            if any(item.kind == "link" and not _is_accepted(item) for item in items):
                await self._fail(lease, run, "you did not open the link that a tool needs")
                return True
        for effect in await self.ledger.hanging_in(run.id):
            raise InDoubt(effect.call_id)
        await self._go_on(lease, conversation, run)
        return True

    async def _go_on(self, lease: Lease, conversation: Conversation, run: RunRow) -> None:
        """Run the graph from where it stands until it waits for a person or ends, and store which of the two."""
        if not await self.conversations.start_work(lease, run, self.max_tries):
            await self._fail(lease, run, f"given up after {self.max_tries} tries", after=True)
            return
        try:
            outcome = await self.invoker.invoke(run.id, {"run": run.input}, lease, begun=run.state == "acting")
            asked = [await self._asked(lease, conversation, run, question) for question in outcome.questions]
        except asyncio.CancelledError:
            with suppress(LeaseLost):
                await self.conversations.handed_back(lease, run)
            raise
        mail_text = mail_as_text(conversation.mail(run.mail_id).mail)
        account = await self.accounts.get(conversation.account_id)
        async with self.pool.connection() as conn, conn.transaction():
            await lease.check(conn)
            await self.inbox.project(conn, run.id, mail_text, asked)
            if account.mode == "draft":
                for question in asked:
                    if question.value["kind"] == "draft":
                        await self.left_drafts.want(conn, run.id, question.value["call_id"], question.value["args"])
            await self.conversations.progressed(conn, run, "waiting" if asked else "done")

    async def _look_once_more(self, lease: Lease, conversation: Conversation, run: RunRow) -> None:
        """What was in doubt may have shown up while the person thought about it."""
        account = await self.accounts.get(conversation.account_id)
        client = await self.clients.get(account.id)
        for effect in await self.ledger.unknown_in(run.id):
            with suppress(NotYetClear, InDoubt):
                await self.tools.settle(Call(run.input, effect.call_id, account, client, lease), effect)

    async def _failed(self, lease: Lease, conversation: Conversation, run: RunRow | None, error: Exception) -> None:
        """Put a failure where the person sees it, and decide when to come back."""
        current = await self._current(lease, run)
        if isinstance(error, InDoubt | Declined) and current is not None:
            await self._ask_again(lease, conversation, current)
            return
        if isinstance(error, LinkNeeded) and current is not None:
            await self._ask_to_open(lease, conversation, current, error)
            return
        fault = classify(error)
        log.warning("conversation %s: %s", conversation.id, type(error).__name__, exc_info=fault.unexpected)
        if fault.login:
            await self.accounts.set_state(conversation.account_id, "login", fault.reason)
        if current is not None and not fault.passing:
            await self._fail(lease, current, fault.reason)
        else:
            await self.conversations.back_off(lease, current, fault.reason, fault.until, outage=fault.outage)

    async def _fail(self, lease: Lease, run: RunRow, reason: str, *, after: bool = False) -> None:
        async with self.pool.connection() as conn, conn.transaction():
            await lease.check(conn)
            await self.inbox.expire_run(conn, run.id)
            await self.conversations.fail(conn, run.id, reason, after=after)

    async def _give_up(self, lease: Lease, reason: str) -> None:
        """Set all of a conversation aside that can't be read."""
        log.warning("conversation %s: %s", lease.thread_id, ForeignCheckpoint.__name__)
        async with self.pool.connection() as conn, conn.transaction():
            await lease.check(conn)
            for run_id in await self.conversations.fail_all(conn, lease.thread_id, reason):
                await self.inbox.expire_run(conn, run_id)

    async def _current(self, lease: Lease, run: RunRow | None) -> RunRow | None:
        """The run that was being worked on; a step may have started or applied one since it looked."""
        conversation = await self.conversations.load(lease.thread_id)
        if conversation is None:
            return run
        return conversation.run_in("acting") or conversation.run_in("running") or run

    async def _ask_again(self, lease: Lease, conversation: Conversation, run: RunRow) -> None:
        mail_text = mail_as_text(conversation.mail(run.mail_id).mail)
        hanging = await self.ledger.hanging_in(run.id)
        effects = [await as_it_can_be(self.tools, run.input, effect) for effect in hanging]
        refused = next((effect.result for effect in effects if effect.state == "refused"), None)
        async with self.pool.connection() as conn, conn.transaction():
            await lease.check(conn)
            for effect in effects:
                await self.inbox.ask_again(conn, effect, mail_text)
            await self.conversations.hangs(conn, run.id, refused or "it is unclear whether an action happened")

    async def _ask_to_open(self, lease: Lease, conversation: Conversation, run: RunRow, link: LinkNeeded) -> None:
        mail_text = mail_as_text(conversation.mail(run.mail_id).mail)
        async with self.pool.connection() as conn, conn.transaction():
            await lease.check(conn)
            await self.inbox.ask_to_open(conn, run.id, link.url, link.message, mail_text)
            await self.conversations.acting(conn, run.id)
            await self.conversations.hangs(conn, run.id, "a tool needs you to open a link")

    async def _asked(self, lease: Lease, conversation: Conversation, run: RunRow, interrupt: Interrupt) -> Asked:
        value: Mapping[str, Any] = interrupt.value
        account = await self.accounts.get(conversation.account_id)
        answered, around = conversation.mail(run.mail_id).mail, [stored.mail for stored in conversation.mails]
        found = await self._conflicts(lease, run, value) if value["kind"] == "meeting" else NO_CONFLICTS
        return Asked(
            interrupt.id,
            value,
            judged=await self.recipients.judge(account, value["args"], answered, around),
            conflicts=found.events if found else None,
            calendars=found.calendars if found else [],
            left_out=await self.tools.left_out(run.input, value["action"], value["args"])
            if value["kind"] == "draft"
            else [],
        )

    async def _conflicts(self, lease: Lease, run: RunRow, value: Mapping[str, Any]) -> Conflicts | None:
        """What stands at the time of a proposed meeting; None if the calendar can't be read, which holds nothing up."""
        try:
            account = await self.accounts.get(UUID(run.input["account_id"]))
            call = Call(run.input, value["call_id"], account, await self.clients.get(account.id), lease)
            return await self.tools.conflicts(call, value["action"], value["args"])
        except Exception as error:
            log.warning("run %s: no look into the calendar (%s)", run.id, type(error).__name__)
            return None


def _is_accepted(item: Item) -> bool:
    return (item.decision or {}).get("type") == "accept"


@contextmanager
def _mailbox_is_read() -> Iterator[None]:
    """Nothing that is wrong with the mailbox now may cost a decision, or what waits: it stays until it can be read."""
    try:
        yield
    except (Refused, NotFound) as refusal:
        raise MailboxUnreadable(f"the mailbox can't be read: {refusal}") from refusal
