"""From triage to the response agent: store the class, take the conversation over, open the agent's work."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from email_assistant.accounts.accounts import Accounts
from email_assistant.accounts.clients import Clients
from email_assistant.agents.mail.prompts import Classification, Triage, conversation_message
from email_assistant.agents.mail.run import Settled
from email_assistant.db.lease import Lease
from email_assistant.db.pool import Pool
from email_assistant.inbox.items import Inbox
from email_assistant.outgoing.effects import Ledger
from email_assistant.sync.mails import store_earlier
from email_assistant.work.conversations import Conversations, StoredMail, conversation_text


class Handover:
    """Implements `agents.mail.graph.Settle`; every step may be repeated after a crash."""

    def __init__(
        self,
        pool: Pool,
        conversations: Conversations,
        inbox: Inbox,
        ledger: Ledger,
        accounts: Accounts,
        clients: Clients,
        *,
        replies_per_day: int,
    ) -> None:
        self._pool = pool
        self._conversations = conversations
        self._inbox = inbox
        self._ledger = ledger
        self._accounts = accounts
        self._clients = clients
        self._replies_per_day = replies_per_day

    async def __call__(
        self, run: Mapping[str, Any], classification: Classification, reason: str, lease: Lease
    ) -> Settled:
        run_id = UUID(run["id"])
        if classification != "ignore" and await self._is_noise(run, lease):
            classification, reason = "ignore", "automatic mail, while something waits in this conversation"
        if classification == "respond" and (why := await self._may_not_answer(run)):
            classification, reason = "notify", why
        await self._conversations.triaged(lease, run, classification, reason)
        if classification == "ignore" or run["triage_only"]:
            return Settled("ignore")
        is_foremost = await self._conversations.foremost(lease.thread_id) == run["mail"]
        async with self._pool.connection() as conn, conn.transaction():
            await lease.check(conn)
            if not is_foremost:
                await self._conversations.leave(conn, run_id)
                return Settled("ignore")
            await self._inbox.supersede(
                conn, await self._conversations.replaced_by(conn, run_id, lease.thread_id), by=run_id
            )
            earlier, covered = await self._conversations.take_over(conn, run_id, lease.thread_id)
        instructions, draft = await self._inbox.said_in(earlier)
        opening = conversation_message(
            await self._conversation(run, covered, lease),
            await self._done(lease.thread_id),
            draft,
            instructions,
            came_after=_came_after(run["mail"], covered),
        )
        return Settled(classification, opening, tuple(m.gmail_id for m in covered))

    async def classified(self, run: Mapping[str, Any]) -> Triage | None:
        known = await self._conversations.classified(UUID(run["id"]))
        return Triage(classification=known[0], reasoning=known[1]) if known else None

    async def covered(self, run: Mapping[str, Any]) -> Sequence[str]:
        return await self._conversations.covered(UUID(run["id"]))

    async def _is_noise(self, run: Mapping[str, Any], lease: Lease) -> bool:
        """Automatic mail is never answered, so it doesn't take the place of mail or a draft that waits."""
        conversation = await self._conversations.load(lease.thread_id)
        if conversation is None:
            return False
        others_wait = any(m.gmail_id != run["mail"] for m in conversation.uncovered)
        if conversation.run_in("waiting") is None and not others_wait:
            return False
        mail = conversation.mail(run["mail"]).mail
        return mail.auto_submitted or mail.bulk

    async def _may_not_answer(self, run: Mapping[str, Any]) -> str | None:
        """Why no draft may be made: automatic and bulk mail, and whoever was answered too often (reply loops)."""
        if run["automatic"]:
            return "automatic or bulk mail: shown, never answered"
        to = run["reply"]["to"]
        if not to:
            return "it names no address to reply to"
        since = datetime.now(UTC) - timedelta(days=1)
        sent = await self._ledger.replies_since(UUID(run["account_id"]), to.lower(), since)
        if sent >= self._replies_per_day:
            return f"{to} was answered {sent} times within a day: shown only, in case it is a loop"
        return None

    async def _conversation(self, run: Mapping[str, Any], covered: Sequence[StoredMail], lease: Lease) -> str:
        account = await self._accounts.get(UUID(run["account_id"]))
        mails = await self._conversations.mails(lease.thread_id)
        first = mails[0].mail
        has_earlier = bool(first.references or first.in_reply_to)
        if has_earlier and not await self._conversations.is_complete(lease.thread_id):
            await self._fetch_earlier(run, lease.thread_id)
            mails = await self._conversations.mails(lease.thread_id)
        return conversation_text(mails, run["mail"], covered[-1].gmail_id, account.zone)

    async def _fetch_earlier(self, run: Mapping[str, Any], thread_id: UUID) -> None:
        """Get the mails of an old thread that came before the account was watched, once."""
        account = await self._accounts.get(UUID(run["account_id"]))
        client = await self._clients.get(account.id)
        await store_earlier(self._pool, account, await client.gmail.thread(run["thread"]))
        await self._conversations.mark_complete(thread_id)

    async def _done(self, thread_id: UUID) -> list[str]:
        done = [effect.result or effect.tool for effect in await self._ledger.done_in(thread_id)]
        doubtful = await self._ledger.doubtful_in(thread_id)
        return done + [f"{effect.tool}, of which it is not known whether it happened" for effect in doubtful]


def _came_after(mail_id: str, covered: Sequence[StoredMail]) -> list[str]:
    """Gmail's ids of the mails that came after the one to be answered, oldest first."""
    ids = [m.gmail_id for m in covered]
    return ids[ids.index(mail_id) + 1 :]
