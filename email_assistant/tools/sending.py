"""Sending a letter exactly once. Draft first, so that a repeat can't send twice.

`drafts.create` → store the draft's id → `drafts.send`: Gmail sends a draft once and answers 404 to a repeat. After a
lost acknowledgement Gmail is looked at before anything is done again.
"""

from abc import abstractmethod
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from email_assistant.accounts.accounts import Accounts
from email_assistant.google.errors import Ambiguous, GoogleError, NotFound, RateLimited, Refused, said
from email_assistant.google.gmail import Draft, Gmail, Message
from email_assistant.mail.address import address_of
from email_assistant.mail.compose import mail_fingerprint
from email_assistant.mail.message import Mail
from email_assistant.mail.parse import parse_bytes, parse_gmail
from email_assistant.tools.effects import Effect, Ledger
from email_assistant.tools.senders import AliasGone
from email_assistant.tools.spec import Call, Tool, ToolError

_CLOCK_SKEW: Final = timedelta(minutes=10)
"""Google's clock may be this far from ours when a sent message is matched by time."""
_LOOKED_THROUGH: Final = 50
"""Of the newest sent mails, where the letter has no thread to look in; ours is among the first of those since then."""


@dataclass(frozen=True, slots=True)
class Letter:
    """A composed mail, and the Gmail thread that it belongs in."""

    raw: bytes
    mark: str
    """What it is recognised by in the mailbox."""
    thread: str | None
    """None: it begins a new one."""
    recipients: Sequence[str]

    @classmethod
    def of(cls, raw: bytes, thread: str | None, recipients: Sequence[str]) -> "Letter":
        return cls(raw, _mark(parse_bytes(raw), thread), thread, recipients)

    def is_in(self, payload: Mapping[str, Any]) -> bool:
        """Whether a message of the mailbox is this letter."""
        return _mark(parse_gmail(payload), self.thread) == self.mark


def _mark(mail: Mail, thread: str | None) -> str:
    """Where there is no thread, the subject tells a mail from others with the same text."""
    return mail_fingerprint(mail) if thread else f"{mail_fingerprint(mail)} {mail.subject}"


class SendingTool(Tool):
    """A tool that sends one letter; which one, and where to, its heirs say."""

    def __init__(self, ledger: Ledger, accounts: Accounts) -> None:
        self._ledger = ledger
        self._accounts = accounts

    @abstractmethod
    async def letter(self, call: Call, arguments: Mapping[str, Any]) -> Letter:
        """What these arguments stand for; at a repeat the same but for its date.

        Raises:
            ToolError: it can't be written, or no longer.
        """

    async def run(self, call: Call, arguments: dict[str, Any]) -> str:
        to = address_of(str(arguments.get("email_address") or ""))
        effect = await self._ledger.plan(call.run_id, call.id, self.spec.name, arguments, to)
        if effect.is_refused:
            raise ToolError(effect.result or "refused")
        if effect.state == "done":
            return effect.result or ""
        return await self._ledger.uninterrupted(self._send(call, effect, await self._letter(call, effect)))

    async def settle(self, call: Call, effect: Effect) -> None:
        if effect.draft_id is None:
            await self._ledger.fail(effect, "It was not sent.")
            return
        letter = await self._letter(call, effect)
        if await _take_away(call.google.gmail, effect.draft_id, letter):
            await self._ledger.fail(effect, "It was not sent.")
        else:
            await self._look_for_sent(call.google.gmail, effect, letter)

    async def _letter(self, call: Call, effect: Effect) -> Letter:
        """The letter; where it can no longer be written though it was begun, it isn't clear whether it was sent."""
        try:
            return await self.letter(call, effect.args)
        except ToolError as refusal:
            if isinstance(refusal, AliasGone):
                await self._accounts.drop_alias(call.account.id, refusal.address)
            if effect.state in ("started", "unknown"):
                await self._ledger.not_found(effect)
            raise

    async def _send(self, call: Call, effect: Effect, letter: Letter) -> str:
        gmail = call.google.gmail
        draft_id = effect.draft_id
        if effect.state == "started":
            if draft_id and await gmail.find_draft(draft_id) is None:
                return await self._look_for_sent(gmail, effect, letter)
            draft_id = draft_id or await self._adopt_draft(gmail, call, effect, letter)
        try:
            draft_id = draft_id or await self._create_draft(gmail, call, effect, letter)
            await self._ledger.start(effect, call.lease, into=letter.thread)
            sent = await gmail.send_draft(draft_id)
        except NotFound:
            if draft_id is None:
                raise ToolError(
                    await self._ledger.fail(effect, "The conversation is no longer in the mailbox.")
                ) from None
            return await self._look_for_sent(gmail, effect, letter)
        except Ambiguous:
            if found := await self._find_sent(gmail, effect, letter):
                return await self._sent(gmail, effect, letter, found)
            raise
        except RateLimited as limited:
            await self._ledger.bear(effect, limited)
            raise await self._refused(gmail, effect, limited, draft_id) from limited
        except Refused as refusal:
            # Gmail has also been seen to answer 400 where a draft was sent before.
            if draft_id and await gmail.find_draft(draft_id) is None:
                return await self._look_for_sent(gmail, effect, letter)
            raise await self._refused(gmail, effect, refusal, draft_id) from refusal
        return await self._sent(gmail, effect, letter, sent.id)

    async def _refused(self, gmail: Gmail, effect: Effect, refusal: GoogleError, draft_id: str | None) -> ToolError:
        """Gmail did not send it: the draft goes."""
        why = await self._ledger.fail(effect, f"Gmail refused to send it: {said(refusal)}")
        if draft_id:
            with suppress(GoogleError):
                await gmail.delete_draft(draft_id)
        return ToolError(why)

    async def _sent(self, gmail: Gmail, effect: Effect, letter: Letter, message_id: str) -> str:
        """It was sent. A draft whose creation broke off may have come to be after it was looked for."""
        with suppress(GoogleError):  # a copy among the drafts costs no sent mail
            await remove_copies(self._ledger, gmail, await self._ledger.get(effect.run_id, effect.call_id))
        return await self._ledger.finish(effect, message_id, sent_to(letter.recipients))

    async def _create_draft(self, gmail: Gmail, call: Call, effect: Effect, letter: Letter) -> str:
        await self._ledger.start(effect, call.lease, into=letter.thread)
        for orphan in effect.orphans:
            await gmail.delete_draft(orphan)
        draft = await gmail.create_draft(letter.raw, letter.thread)
        if not await self._ledger.keep_draft(effect, draft.id, call.lease):
            if await self._ledger.disown_draft(effect, draft.id):
                await gmail.delete_draft(draft.id)
            await self._ledger.start(effect, call.lease)  # raises LeaseLost: only a fenced worker can't keep its draft
        return draft.id

    async def _adopt_draft(self, gmail: Gmail, call: Call, effect: Effect, letter: Letter) -> str | None:
        """Find the draft that a crash left between its creation and the storing of its id."""
        await self._ledger.start(effect, call.lease, into=letter.thread)
        await self._ledger.lose_draft(effect, letter.mark)
        for draft in await _nobodys_drafts(self._ledger, gmail, effect, letter.thread):
            is_left = draft.id not in effect.orphans and _holds(draft, letter)
            if is_left and await self._ledger.keep_draft(effect, draft.id, call.lease):
                return draft.id
        return None

    async def _look_for_sent(self, gmail: Gmail, effect: Effect, letter: Letter) -> str:
        """The draft is gone: it was sent, or the person deleted it."""
        if found := await self._find_sent(gmail, effect, letter):
            return await self._sent(gmail, effect, letter, found)
        await self._ledger.not_found(effect)
        raise AssertionError("not_found always raises")

    async def _find_sent(self, gmail: Gmail, effect: Effect, letter: Letter) -> str | None:
        started = (await self._ledger.get(effect.run_id, effect.call_id)).started_at or datetime.now(UTC)
        since = started - _CLOCK_SKEW
        sent = _sent_in(gmail, letter.thread, since) if letter.thread else _sent_since(gmail, since)
        found = [message.id async for message in sent if letter.is_in(message.payload)]
        others = await self._ledger.claimed(effect.account_id, found)
        return next((message_id for message_id in found if message_id not in others), None)


async def remove_copies(ledger: Ledger, gmail: Gmail, effect: Effect) -> None:
    """Delete drafts of a letter that was sent: one whose creation was not answered may come to be later. Raises
    GoogleError."""
    if effect.lost_draft is None:
        return
    for draft in await _nobodys_drafts(ledger, gmail, effect, effect.gmail_thread):
        if draft.payload and _mark(parse_gmail(draft.payload), effect.gmail_thread) == effect.lost_draft:
            await gmail.delete_draft(draft.id)


async def _nobodys_drafts(ledger: Ledger, gmail: Gmail, effect: Effect, thread: str | None) -> list[Draft]:
    """Drafts of a conversation, or all if it is new, that no effect has made."""
    refs = [ref for ref in await gmail.drafts() if thread in (None, ref.thread_id)]
    others = await ledger.kept_drafts(effect.account_id, [ref.id for ref in refs])
    found = [await gmail.find_draft(ref.id) for ref in refs if ref.id not in others]
    return [draft for draft in found if draft]


async def _sent_in(gmail: Gmail, thread: str, since: datetime) -> AsyncIterator[Message]:
    """What the account has sent in a thread since then, oldest first."""
    with suppress(NotFound):
        for message in await gmail.thread(thread):
            if "SENT" in message.labels and message.internal_date >= since:
                yield message


async def _sent_since(gmail: Gmail, since: datetime) -> AsyncIterator[Message]:
    """What the account has sent since then, newest first."""
    for ref in (await gmail.list_messages(label_ids=["SENT"], max_results=_LOOKED_THROUGH)).refs:
        with suppress(NotFound):  # the person has deleted it just now
            message = await gmail.message(ref.id)
            if message.internal_date < since:
                return
            yield message


async def _take_away(gmail: Gmail, draft_id: str, letter: Letter) -> bool:
    """Make sure that a draft is never sent by a worker that is slow; False if it is gone already, and so may have been.

    What the person has made of it meanwhile is theirs.
    """
    draft = await gmail.find_draft(draft_id)
    if draft is None:
        return False
    is_changed = draft.payload is not None and not _holds(draft, letter)
    return is_changed or await gmail.delete_draft(draft_id)


def _holds(draft: Draft, letter: Letter) -> bool:
    return draft.payload is not None and letter.is_in(draft.payload)


def sent_to(recipients: Sequence[str]) -> str:
    """What the model is told of a letter that was sent."""
    return f"Sent to {', '.join(recipients)}."
