"""From triage to the response agent: store the class, take the conversation over, open the agent's work. A mail that
may not be answered, or whose sender was answered too often today, is only shown."""

import asyncio
import logging
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from email_assistant.accounts.clients import Clients
from email_assistant.agents.mail.prompts import conversation_message
from email_assistant.agents.mail.run import Sorted, Triaged
from email_assistant.db import mails, threads
from email_assistant.db.lease import Lease
from email_assistant.db.pool import Pool
from email_assistant.inbox.questions import Questions
from email_assistant.memory import trial
from email_assistant.meters import meters
from email_assistant.outgoing.effects import Ledger
from email_assistant.sync.mails import store_earlier
from email_assistant.work.conversations import Conversation, Conversations, conversation_text
from email_assistant.work.outcomes import recorded
from email_assistant.work.runs import Runs

log = logging.getLogger(__name__)


class Handover:
    """Implements `agents.mail.graph.AfterTriage`; every step may be repeated after a crash."""

    def __init__(
        self,
        pool: Pool,
        conversations: Conversations,
        runs: Runs,
        questions: Questions,
        ledger: Ledger,
        clients: Clients,
        *,
        replies_per_day: int,
    ) -> None:
        self._pool = pool
        self._conversations = conversations
        self._runs = runs
        self._questions = questions
        self._ledger = ledger
        self._clients = clients
        self._replies_per_day = replies_per_day

    async def __call__(self, run: Mapping[str, Any], triaged: Sorted, lease: Lease) -> Triaged:
        run_id, stage = UUID(run["id"]), triaged.stage
        classification, reason = triaged.classification, triaged.reason
        if classification == "respond" and (why := await self._may_not_answer(run)):
            classification, reason, stage = "notify", why, "fixed"
        used = trial.noted(UUID(run["account_id"]), run["mail"], triaged.fired)
        judged = [recorded(lease.thread_id, run["mail"], triaged.thought)] if stage != "report" else []
        async with self._pool.connection() as conn:
            await mails.triaged(conn, lease, run["mail"], classification, reason, stage, along=[*used, *judged])
        if stage:
            log.info("sorted: %s, by %s", classification, stage)
            meters().sorted.labels(classification, stage).inc()
        if classification == "ignore" or run["triage_only"]:
            return Triaged("ignore")
        conversation = self._conversations.under(lease)
        earlier, covered = await self._covered(run, run_id, conversation, lease)
        if covered is None:
            return Triaged("ignore")
        if stage == "report":  # what is done about it is not the model's, to which the conversation is told
            return Triaged(classification)
        instructions, draft = await self._questions.said_in(earlier) if earlier else ([], None)
        opening = conversation_message(
            await self._conversation(run, covered, conversation),
            await self._done(lease.thread_id) if conversation.effects else [],
            draft,
            instructions,
            came_after=came_after(run["mail"], covered),
        )
        return Triaged(classification, opening)

    async def _covered(
        self, run: Mapping[str, Any], run_id: UUID, conversation: Conversation, lease: Lease
    ) -> tuple[list[UUID], list[str] | None]:
        """The runs that this one takes the place of, and the mails that it covers; None: they are left to another's."""
        if not conversation.open_runs:
            async with self._pool.connection() as conn:
                return [], await self._runs.cover_alone(conn, lease, run_id, run["mail"], lease.thread_id)
        is_foremost = await self._conversations.foremost(lease.thread_id) == run["mail"]
        async with self._pool.connection() as conn, conn.transaction():
            await lease.check(conn)
            if is_foremost:
                return await self._runs.take_over(conn, run_id, lease.thread_id)
            await mails.leave(conn, run_id)
            return [], None

    def classified(self, run: Mapping[str, Any], lease: Lease) -> Sorted | None:
        known = self._conversations.under(lease).mail(run["mail"]).classification
        return Sorted(known) if known else None

    async def covered(self, run: Mapping[str, Any]) -> Sequence[str]:
        return await self._conversations.covered(UUID(run["id"]))

    def is_overtaken(self, covered: Collection[str], lease: Lease) -> bool:
        new = self._conversations.under(lease).new
        return any(not mail.own and mail.gmail_id not in covered for mail in new)

    async def _may_not_answer(self, run: Mapping[str, Any]) -> str | None:
        """Why no draft may be made: as `never_answered` says, or whoever was answered too often (reply loops)."""
        if why := never_answered(run):
            return why
        to = str(run["reply"]["to"])
        since = datetime.now(UTC) - timedelta(days=1)
        sent = await self._ledger.replies_since(UUID(run["account_id"]), to.lower(), since)
        if sent >= self._replies_per_day:
            return f"{to} was answered {sent} times within a day: shown only, in case it is a loop"
        return None

    async def _conversation(self, run: Mapping[str, Any], covered: Sequence[str], conversation: Conversation) -> str:
        letters = await self._conversations.letters(conversation)
        first = letters[0].mail
        if (first.references or first.in_reply_to) and not conversation.complete:
            await self._fetch_earlier(conversation)
            conversation.letters[:] = letters = await self._conversations.read(conversation.id)
        zone = conversation.account.zone
        return await asyncio.to_thread(conversation_text, letters, run["mail"], covered[-1], zone)

    async def _fetch_earlier(self, conversation: Conversation) -> None:
        """Get the mails of an old thread that came before the account was watched, once."""
        client = await self._clients.of(conversation.account)
        await store_earlier(self._pool, conversation.account, await client.gmail.thread(conversation.gmail_id))
        async with self._pool.connection() as conn:
            await threads.complete(conn, conversation.id)

    async def _done(self, thread_id: UUID) -> list[str]:
        done = [effect.result or effect.tool for effect in await self._ledger.in_thread(thread_id, "done")]
        doubtful = await self._ledger.in_thread(thread_id, "unknown")
        return done + [f"{effect.tool}, of which it is not known whether it happened" for effect in doubtful]


def never_answered(run: Mapping[str, Any]) -> str | None:
    """Why a run's mail gets no draft, whatever its class."""
    if run["automatic"]:
        return "automatic or bulk mail: shown, never answered"
    return None if run["reply"]["to"] else "it names no address to reply to"


def came_after(mail_id: str, covered: Sequence[str]) -> Sequence[str]:
    """Gmail's ids of the mails that came after the one to be answered, oldest first."""
    return covered[covered.index(mail_id) + 1 :]
