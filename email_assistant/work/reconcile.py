"""Follows what the person does in Gmail: an answer, a draft or a mail that they put away ends what waits here, and mail
that they bring back opens it again; and keeps the drafts that are left there for them."""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any
from uuid import UUID

from email_assistant.accounts.clients import Clients
from email_assistant.db import mails, runs, threads
from email_assistant.db.lease import Lease
from email_assistant.db.pool import Connection, Pool
from email_assistant.google.errors import NotFound
from email_assistant.google.gmail import Draft
from email_assistant.inbox.answers import Complete
from email_assistant.inbox.questions import Questions
from email_assistant.mail.message import Mail
from email_assistant.mail.parse import parse_gmail
from email_assistant.outgoing.effects import Ledger
from email_assistant.outgoing.entry import InDoubt, InGmail, NotYetClear
from email_assistant.outgoing.left_drafts import LeftDraft, LeftDrafts
from email_assistant.outgoing.letters import written_into
from email_assistant.tools.sending import is_left_as_draft, read_back, subject_of, written
from email_assistant.tools.spec import LETTER, Call, ServerDown, ToolError
from email_assistant.user_file import BadFile
from email_assistant.work.conversations import Conversation, ThreadMail
from email_assistant.work.rows import RunRow
from email_assistant.work.runs import Runs
from email_assistant.work.settle import Settler

ANSWERED = "you answered this yourself"
ANSWERED_IN_CHAT = "you had this answered in a chat"
DRAFTED = "you began an answer yourself"
TAKEN_OVER = "you changed, sent or discarded its draft in Gmail"

News = list[tuple[LeftDraft, InGmail]]


@dataclass(frozen=True)
class LookedAt:
    """A draft that was left for the person, as it is in Gmail now."""

    left: LeftDraft
    call: Call
    draft: Draft | None

    @cached_property
    def mail(self) -> Mail | None:
        return parse_gmail(self.draft.payload or {}) if self.draft else None

    @cached_property
    def text(self) -> str | None:
        """What the person has made of it; None: nothing."""
        return written_into(self.mail, self.left.mark or "", subject_of(self.call.run)) if self.mail else None


@dataclass(frozen=True)
class Reconciler:
    pool: Pool
    runs: Runs
    questions: Questions
    ledger: Ledger
    clients: Clients
    settler: Settler
    left_drafts: LeftDrafts
    complete: Complete
    asked_by: Callable[[UUID, Lease], Awaitable[Collection[str]]]
    """Ids of the questions that a run's graph still waits for."""

    async def before_apply(self, lease: Lease, conversation: Conversation, run: RunRow) -> bool:
        """Look into Gmail before a decision takes effect. True: the run must not be carried out, since the person has
        answered there themselves, which closes it, or has changed a draft that was left there, about which they are
        asked again. Nothing leaves the mailbox before that is known."""
        looked_at = await self._look(lease, conversation, run)
        to_send = await self.questions.to_be_done(run.id) if looked_at else {}
        if await self._ask_again_of(lease, conversation, looked_at, to_send) or await self._read_own(
            lease, conversation
        ):
            return True
        for each in looked_at:
            call_id = each.left.call_id
            if not await self._take_away(lease, each, to_send.get(call_id)) and call_id in to_send:
                found = await self._sent_instead(conversation, each.left) or InGmail("gone")
                return await self._ask_again(lease, [(each.left, found)])
        return False

    async def before_acting(self, lease: Lease, conversation: Conversation, run: RunRow) -> bool:
        """Whether the person has answered in Gmail since this run's answers were applied, of which nothing has happened
        yet; it is closed then."""
        if not await self._answers_to(conversation, run):
            return False
        await self.settle_effects(lease, conversation)
        if await self.ledger.has_happened(run.id) or not (answers := await self._answers_to(conversation, run)):
            return False
        reason = await self._answered_where(conversation, answers)
        async with self.pool.connection() as conn, conn.transaction():
            await lease.check(conn)
            await self.runs.closed_by_person(conn, [run.id], reason, max(m.received_at for m in answers))
        return True

    async def settle_effects(self, lease: Lease, conversation: Conversation) -> None:
        """Find out what became of effects that were started, before anything new begins. Raises NotYetClear."""
        if not conversation.is_unsettled:
            return
        started = await self.ledger.in_thread(conversation.id, "started")
        # One in doubt stays marked as unknown, and the next run is told.
        await self.settler.settle_all(started, conversation.account, lease, tolerated=(InDoubt,))

    async def _answers_to(self, conversation: Conversation, run: RunRow) -> list[ThreadMail]:
        """What the person wrote since the answers were applied: what they wrote before was read then."""
        if not any(m.own for m in conversation.new):
            return []
        ours = await self._ours(conversation)
        asked_at = conversation.mail(run.mail_id).received_at
        return [m for m in conversation.new if _is_by_hand(m, ours) and m.received_at >= asked_at]

    async def _ours(self, conversation: Conversation) -> set[str]:
        """Gmail's ids of what was sent in the conversation and ends nothing: by us, or by the person out of a draft
        that was left for them, which they are told beside the question that waits. Raises NotYetClear: another
        conversation, such as a bounce's, has a letter under way into this one, whose id is not stored yet."""
        if await self.ledger.is_sent_into(conversation.id):
            raise NotYetClear("a letter into this conversation is under way")
        told = await self.left_drafts.sent_by_person(conversation.id)
        return await self.ledger.own_ids(conversation.id) | told

    async def _answered_where(self, conversation: Conversation, answers: Sequence[ThreadMail]) -> str:
        """Why nothing is left to do. What they had sent from a chat is their word as much as what they typed."""
        from_chats = await self.ledger.sent_from_chats(conversation.id)
        return ANSWERED_IN_CHAT if all(m.gmail_id in from_chats for m in answers) else ANSWERED

    async def reconcile(self, lease: Lease, conversation: Conversation) -> bool:
        """Do the next thing that follows from what the person did in Gmail; False if nothing does.

        A decision that they took here counts for more than all but an answer of theirs.
        """
        return (
            await self._tend_drafts(lease, conversation)
            or await self._read_sent(lease, conversation)
            or await self._read_own(lease, conversation)
            or await self._read_draft(lease, conversation)
            or await self._read_put_away(lease, conversation)
            or await self._reopen_restored(lease, conversation)
        )

    async def _read_sent(self, lease: Lease, conversation: Conversation) -> bool:
        """Look whether what the person sent is a draft of ours that they had decided something about here, which may
        say what the one in Gmail does not."""
        run = conversation.run_in("waiting")
        if run is None or not run.answered or not any(m.own for m in conversation.new):
            return False
        looked_at = await self._look(lease, conversation, run)
        return await self._ask_again_of(lease, conversation, looked_at, await self.questions.to_be_done(run.id))

    async def _read_own(self, lease: Lease, conversation: Conversation) -> bool:
        """Take note of mail that the account sent; what the person wrote themselves ends the run that waits.

        A message of ours is told by the ledger, which has settled before this.
        """
        own = [m for m in conversation.new if m.own]
        if not own:
            return False
        ours = await self._ours(conversation)
        by_hand = [m for m in own if _is_by_hand(m, ours)]
        reason = await self._answered_where(conversation, by_hand) if by_hand else ""
        wrote_at = max((m.received_at for m in by_hand), default=None)
        answered = [
            run.id
            for run in conversation.open_runs
            if wrote_at and wrote_at >= conversation.mail(run.mail_id).received_at
        ]
        async with self.pool.connection() as conn, conn.transaction():
            await lease.check(conn)
            if answered:
                await self.runs.closed_by_person(conn, answered, reason, wrote_at)
            await mails.read_own(conn, conversation.id, wrote_at, reason)
        return True

    async def _read_draft(self, lease: Lease, conversation: Conversation) -> bool:
        """Look at a draft that somebody wrote or deleted in the conversation; the person's own ends what waits. What
        they make of one of ours becomes part of what they are asked."""
        run = conversation.run_in("waiting")
        if conversation.drafted is None or (run is None and conversation.run_in("running")):
            return False
        news = await self._news(conversation, await self._look(lease, conversation, run)) if run else []
        is_over = run is not None and not run.answered and any(found.is_over for _, found in news)
        reason = TAKEN_OVER if is_over else None
        if run and not run.answered and not news:
            reason = await self._said_by_draft(conversation, conversation.drafted)
        async with self.pool.connection() as conn, conn.transaction():
            await lease.check(conn)
            await threads.looked_at_draft(conn, conversation.id, conversation.drafted)
            if run and reason:
                await self.runs.closed_by_person(conn, [run.id], reason)
            else:
                await self._note(conn, news)
        return True

    async def _said_by_draft(self, conversation: Conversation, message_id: str) -> str | None:
        """Why nothing is left to do here, if the person wrote that draft.

        While their answer from a chat is under way, a draft is taken for its: its id may not be stored yet, since a
        chat works under a lease of its own.
        """
        gmail = (await self.clients.of(conversation.account)).gmail
        left = [draft.draft_id for draft in await self.left_drafts.of_thread(conversation.id) if draft.draft_id]
        ours = [await gmail.find_draft(i) for i in (*left, *await self.ledger.drafts_in(conversation.id))]
        if any(draft and draft.message_id == message_id for draft in ours):
            return None
        if await self.ledger.is_sent_into(conversation.id):
            return None
        try:
            message = await gmail.message(message_id)
        except NotFound:
            return None
        return DRAFTED if "DRAFT" in message.labels else None

    async def _look(self, lease: Lease, conversation: Conversation, run: RunRow) -> list[LookedAt]:
        """Look at the drafts that a run has left in Gmail."""
        left = await self.left_drafts.of_thread(conversation.id) if conversation.has_left_drafts else []
        return [await self._look_at(lease, conversation, each) for each in left if each.run_id == run.id]

    async def _look_at(self, lease: Lease, conversation: Conversation, left: LeftDraft) -> LookedAt:
        call = await self._call_of(lease, conversation, left)
        return LookedAt(left, call, await self.left_drafts.look(call.google.gmail, left))

    async def _news(self, conversation: Conversation, looked_at: Sequence[LookedAt]) -> News:
        """What the person has made of drafts since that was last heard of."""
        found = [(each.left, await self._found(conversation, each)) for each in looked_at]
        return [(left, now) for left, now in found if now and not now.is_known(left.found)]

    async def _found(self, conversation: Conversation, at: LookedAt) -> InGmail | None:
        """What the person has made of a draft; None: it is as we left it, or on its way, or gone by our own doing."""
        if at.draft is None and at.left.draft_id:
            sent = await self._sent_instead(conversation, at.left)
            return sent or (InGmail("gone") if at.left.state == "left" else None)
        if at.mail is None:
            return None
        if at.text is None:
            return InGmail("restored") if at.left.found else None
        return InGmail("changed", at.text, await self._as_ours(at.call, at.left, at.mail))

    async def _as_ours(self, call: Call, left: LeftDraft, draft: Mail) -> dict[str, Any] | None:
        """The arguments that say what a draft says."""
        args = read_back(call.run, call.account, left.args, draft)
        with suppress(ToolError, ServerDown, BadFile):
            return await self.complete(call.run, LETTER, args) if args else None
        return None

    async def _sent_instead(self, conversation: Conversation, left: LeftDraft) -> InGmail | None:
        """What the person has sent in Gmail since the mail came that a draft answers, if anything."""
        gmail = (await self.clients.of(conversation.account)).gmail
        [run] = [each for each in conversation.open_runs if each.id == left.run_id]
        since, ours = conversation.mail(run.mail_id).received_at, await self._ours(conversation)
        with suppress(NotFound):
            for message in reversed(await gmail.thread(conversation.gmail_id)):
                mail = parse_gmail(message.payload)
                by_hand = "SENT" in message.labels and message.id not in ours and not mail.auto_submitted
                if by_hand and message.internal_date >= since:
                    return InGmail("sent", mail.text, message=message.id)
        return None

    async def _ask_again_of(
        self, lease: Lease, conversation: Conversation, looked_at: Sequence[LookedAt], to_send: Collection[str]
    ) -> bool:
        """Ask the person again about those calls that they said to carry out and of whose drafts they have made
        something else; False: there are none."""
        news = await self._news(conversation, looked_at)
        return await self._ask_again(lease, [each for each in news if each[0].call_id in to_send])

    async def _ask_again(self, lease: Lease, news: News) -> bool:
        """Ask the person again, with what they have made of a draft; False: there is nothing of that kind."""
        if news:
            async with self.pool.connection() as conn, conn.transaction():
                await lease.check(conn)
                await self._note(conn, news)
        return bool(news)

    async def _note(self, conn: Connection, news: News) -> None:
        for left, found in news:
            await self.questions.ask_anew(conn, left.run_id, left.call_id, f"you had approved it, and {found.why}")
            await self.left_drafts.heard(conn, left, found)

    async def _tend_drafts(self, lease: Lease, conversation: Conversation) -> bool:
        """Leave at Gmail what is to be left there, and take away what is over."""
        if not conversation.has_left_drafts:
            return False
        for left in await self.left_drafts.of_thread(conversation.id):
            if left.state in ("wanted", "started") and left.waits:
                call = await self._call_of(lease, conversation, left)
                await self.left_drafts.leave(call.google.gmail, lease, left, partial(written, call, left.args))
                return True
            if not left.waits:
                await self._take_away(lease, await self._look_at(lease, conversation, left), None)
                return True
        return False

    async def _take_away(self, lease: Lease, at: LookedAt, to_send: Mapping[str, Any] | None) -> bool:
        """Delete a draft that is over; what the person has made of it stays, but for what is sent from here.

        Args:
            to_send: the arguments of what is sent from here instead.

        Returns:
            False if they have sent or discarded it just now.
        """
        heard = at.left.found or {}
        is_sent = to_send is not None and heard.get("text") == at.text and heard.get("args") == to_send
        draft = at.draft if at.text is None or is_sent else None
        return await self.left_drafts.take_away(at.call.google.gmail, lease, at.left, draft)

    async def _call_of(self, lease: Lease, conversation: Conversation, left: LeftDraft) -> Call:
        run, account = await self.runs.input_of(left.run_id), conversation.account
        return Call(run, left.call_id, account, await self.clients.of(account), lease)

    async def _read_put_away(self, lease: Lease, conversation: Conversation) -> bool:
        """What the person archived or deleted before they answered it here needs no answer."""
        away = {m.gmail_id: m.put_away for m in conversation.mails if m.put_away}
        run = conversation.run_in("waiting")
        reason = away.get(run.mail_id) if run and not run.answered else None
        untouched = any(m.gmail_id in away for m in (*conversation.new, *conversation.uncovered) if not m.own)
        if not reason and not untouched:
            return False
        async with self.pool.connection() as conn, conn.transaction():
            await lease.check(conn)
            if run and reason:
                at = conversation.mail(run.mail_id).received_at
                await self.runs.closed_by_putting_away(conn, run, reason, at)
            await mails.put_away(conn, conversation.id)
        return True

    async def _reopen_restored(self, lease: Lease, conversation: Conversation) -> bool:
        """What was closed because its mail left the inbox waits again when that is back: taken out of the archive, or
        out of Gmail's snooze. If anything else has happened since, that stands."""
        if conversation.back is None:
            return False
        if conversation.run_in("running"):  # it may be of mail that waited with what is back; then it is looked again
            return False
        run = await self.runs.input_of(conversation.back)
        reopens = await self._is_as_it_was(conversation, run)
        beside = [each.id for each in conversation.open_runs] if reopens else []
        items = await self.questions.closed_with(conversation.back) if reopens else []
        interrupts = await self.asked_by(conversation.back, lease) if items else ()
        waits = bool(items) and all(item.interrupt_id in interrupts for item in items)
        async with self.pool.connection() as conn, conn.transaction():
            await lease.check(conn, account_active=True)
            if waits:
                await self.questions.reopen(conn, conversation.back)
            if reopens:
                await self.runs.reopen(conn, conversation.back, waits=waits, beside=beside)
            await runs.never_reopen(conn, conversation.id)
            for item in items if waits and conversation.account.mode == "draft" else ():
                if is_left_as_draft(run, item.kind, item.args):
                    await self.left_drafts.want_again(conn, item.run_id, item.call_id, item.args)
        return True

    async def _is_as_it_was(self, conversation: Conversation, run: Mapping[str, Any]) -> bool:
        """Whether nothing has happened in a conversation since a run of it was closed: no mail but what needs nothing
        or had waited with it, no answer, no draft, and nothing that has taken up the mail again."""
        assert conversation.back
        mail, closed_at = conversation.mail(run["mail"]), await self.runs.ended_at(conversation.back)
        if mail.state != "done" or mail.run_id != conversation.back:
            return False
        if any(
            each.answered or conversation.mail(each.mail_id).received_at > closed_at for each in conversation.open_runs
        ):
            return False
        ours = await self.ledger.own_ids(conversation.id)
        others = [
            m for m in conversation.mails if m.run_id != conversation.back and (m.own or m.received_at > closed_at)
        ]
        since = [m for m in others if m.received_at >= mail.received_at]
        if any(_is_by_hand(m, ours) if m.own else m.classification != "ignore" for m in since):
            return False
        gmail = (await self.clients.of(conversation.account)).gmail
        return all(ref.thread_id != conversation.gmail_id for ref in await gmail.drafts())


def _is_by_hand(mail: ThreadMail, ours: Collection[str]) -> bool:
    """Whether the person wrote it: neither we, nor a program that says so, such as one that replies in a holiday."""
    return mail.own and mail.gmail_id not in ours and not mail.by_program
