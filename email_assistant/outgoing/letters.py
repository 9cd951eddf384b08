"""The one way in which a letter leaves. Draft first, so that a repeat can't send twice.

`drafts.create` → store the draft's id → `drafts.send`: Gmail sends a draft once and answers 404 to a repeat. A row's
draft is stored once, and only that one may be sent. It goes out as it was made, whatever the person has made of it in
Gmail meanwhile; what they wrote is kept. After a lost acknowledgement, or one that names another message, Gmail is
looked at before anything is done again.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any, Final

from email_assistant.db.lease import Lease, LeaseLost
from email_assistant.google.errors import Ambiguous, GoogleError, NotFound, RateLimited, Refused
from email_assistant.google.gmail import Draft, Gmail, Message, MessageRef
from email_assistant.mail.charset import one_line
from email_assistant.mail.compose import mail_fingerprint
from email_assistant.mail.message import Mail
from email_assistant.mail.parse import parse_bytes, parse_gmail
from email_assistant.outgoing.effects import Ledger
from email_assistant.outgoing.entry import Entry, Unsent

_CLOCK_SKEW: Final = timedelta(minutes=10)
"""Google's clock may be this far from ours when a sent message is matched by time."""
_LOOKED_THROUGH: Final = 50
"""How many of the newest sent mails are read, if the letter begins a thread."""


@dataclass(frozen=True, slots=True)
class Letter:
    """A composed mail, and the Gmail thread that it belongs in."""

    raw: bytes
    thread: str | None
    """None: it begins a new one."""

    @property
    def mark(self) -> str:
        """What it is recognised by in the mailbox: a hash. Where there is no thread, the subject tells a mail from
        others with the same text."""
        in_thread, alone = _marks(parse_bytes(self.raw))
        return in_thread if self.thread else alone


Write = Callable[[], Awaitable[Letter]]
"""Composes the letter; at a repeat the same but for its date."""


@dataclass(frozen=True, slots=True)
class Posted:
    """A letter that was sent."""

    message_id: str
    thread_id: str
    before: bool
    """False: this try sent it, even if Gmail's answer was lost. True: the ledger says that it was sent, or it was found
    in Sent as its draft was gone or Gmail named another message."""


@dataclass(frozen=True, slots=True)
class Mailer:
    """
    Args:
        lease: that of the conversation which the letter is part of, if it is of one. Without, several may be at it at
            once: one of their drafts is stored, and the others' go.
    """

    ledger: Ledger
    gmail: Gmail
    lease: Lease | None = None

    async def send(self, entry: Entry, write: Write, told: str) -> Posted:
        """Send it, or say that it was sent.

        Args:
            write: asked only as far as no draft is there yet.
            told: the sentence that is kept as its result once it is sent; a model reads it.

        Raises:
            Unsent: Gmail did not take it.
            NotYetClear, InDoubt: its draft is gone, and it is not in Sent, or not yet.
            LeaseLost, GoogleError, and what `write` raises.
        """
        try:
            return await self._send(entry, write, told)
        except LeaseLost:
            now = await self.ledger.now(entry)
            if self.lease or now.state != "done":
                raise
            return Posted(now.external_id or "", now.sent_thread or "", before=True)

    async def settle(self, entry: Entry, write: Write, told: str) -> None:
        """Find out whether it was sent; if not, delete its draft, so that it never is. Raises as `send`.

        A draft that the person has changed meanwhile is theirs, and stays.
        """
        mark = await self._mark(entry, write)
        if entry.draft_id:
            draft = await self.gmail.find_draft(entry.draft_id)
            if draft is None or (is_letter(draft.payload, mark) and not await self.gmail.delete_draft(draft.id)):
                await self._look(entry, mark, told)
                return
        else:
            await self.ledger.lose_draft(entry, mark)
            # The person may have found that draft, and sent it.
            if found := await self._find_sent(entry, mark):
                await self._sent(entry, found.id, found.thread_id, told, before=True)
                return
        await self.clear(await self.ledger.now(entry))
        await self.ledger.fail(entry, "It was not sent.")

    async def take_back(self, entry: Entry) -> None:
        """Delete the draft of a letter that Gmail did not take.

        A later try makes a new draft, unless the effect's state is `failed`. A draft that the person has changed is
        theirs, and stays.
        """
        now = await self.ledger.now(entry)
        with suppress(GoogleError):
            held = await self.gmail.find_draft(now.draft_id) if now.draft_id and not now.is_refused else None
            if held and (not is_letter(held.payload, now.mark or "") or await self.gmail.delete_draft(held.id)):
                await self.ledger.put_back(now)
            await self.clear(now)

    async def clear(self, entry: Entry) -> None:
        """Delete drafts of this letter that nobody may send: that of a refused letter, and one whose creation was not
        answered, which may appear later. Raises GoogleError.

        A draft that the person has changed is theirs, and stays.
        """
        if entry.lost_draft:
            for draft in await self._unkept(entry, entry.gmail_thread, entry.lost_draft):
                if draft.id == entry.draft_id or await self.ledger.disown_draft(entry, draft.id):
                    await self.gmail.delete_draft(draft.id)

    async def _send(self, entry: Entry, write: Write, told: str) -> Posted:
        draft_id = entry.draft_id
        if entry.state == "done":
            return Posted(entry.external_id or "", entry.sent_thread or "", before=True)
        if entry.state != "planned":
            mark = await self._mark(entry, write)
            if draft_id and await self.gmail.find_draft(draft_id) is None:
                return await self._look(entry, mark, told)
            draft_id = draft_id or await self._adopt(entry, mark)
        try:
            letter = None
            if draft_id is None:
                letter = await write()
                draft_id = await self._create(entry, letter)
            sent = await self._send_as_made(entry, draft_id, letter, write)
        except NotFound as gone:
            if draft_id is None:
                raise Unsent(gone) from gone
            return await self._look(entry, await self._mark(entry, write), told)
        except Ambiguous:
            if found := await self._find_sent(entry, await self._mark(entry, write)):
                return await self._sent(entry, found.id, found.thread_id, told, before=False)
            raise
        except RateLimited as limited:
            raise Unsent(limited) from limited
        except Refused as refusal:
            # Gmail has also been seen to answer 400 where a draft was sent before.
            if draft_id and await self.gmail.find_draft(draft_id) is None:
                return await self._look(entry, await self._mark(entry, write), told)
            raise Unsent(refusal) from refusal
        mark = await self._mark(entry, write)
        if not await self._is_sent(sent.id, mark):
            return await self._look(entry, mark, told)
        return await self._sent(entry, sent.id, sent.thread_id, told, before=False)

    async def _send_as_made(self, entry: Entry, draft_id: str, letter: Letter | None, write: Write) -> MessageRef:
        """Send a draft as it was made, and keep what the person has made of it.

        Args:
            letter: what it was made of; None: that was an earlier try.
        """
        raw = (await self.gmail.raw_draft(draft_id)).raw or b""
        held, now = parse_bytes(raw), await self.ledger.now(entry)
        if letter is None and self.lease is None and written_into(held, now.mark or "", held.subject) is None:
            # What is sent by a key may be composed in other words by now.
            letter = Letter(raw, now.gmail_thread)
        letter = letter or await write()
        if text := written_into(held, now.mark or "", parse_bytes(letter.raw).subject):
            await self.ledger.keep_words(entry, text)
        await self.ledger.start(entry, self.lease, mark=letter.mark)
        return await self.gmail.send_draft(draft_id, letter.raw, letter.thread)

    async def _is_sent(self, message_id: str, mark: str) -> bool:
        """Whether this is the letter, and was sent: Gmail says so of a message, and it could be any."""
        try:
            message = await self.gmail.message(message_id)
        except (NotFound, Refused):
            return False
        return "SENT" in message.labels and is_letter(message.payload, mark)

    async def _mark(self, entry: Entry, write: Write) -> str:
        return (await self.ledger.now(entry)).mark or (await write()).mark

    async def _create(self, entry: Entry, letter: Letter) -> str:
        """Make the draft, and store it."""
        await self.ledger.start(entry, self.lease, mark=letter.mark, into=letter.thread)
        for orphan in entry.orphans:
            await self.gmail.delete_draft(orphan)
        try:
            draft_id = (await self.gmail.create_draft(letter.raw, letter.thread)).id
        except Ambiguous:
            # What a conversation began is taken up again by itself; who sends under a key wants to know now.
            if self.lease or not (adopted := await self._adopt(entry, letter.mark)):
                raise
            return adopted
        except (NotFound, Refused):
            # It has been seen to be there though this was the answer.
            await self.ledger.lose_draft(entry, letter.mark)
            raise
        return await self._keep(entry, draft_id)

    async def _keep(self, entry: Entry, draft_id: str) -> str:
        """Store a draft, or delete it if another worker has stored one; returns that then, if it may be sent.

        Raises:
            LeaseLost: it may not.
        """
        if await self.ledger.keep_draft(entry, draft_id, self.lease):
            return draft_id
        if await self.ledger.disown_draft(entry, draft_id):
            await self.gmail.delete_draft(draft_id)
        await self.ledger.start(entry, self.lease)  # raises LeaseLost for a fenced worker
        return (await self.ledger.now(entry)).draft_id or draft_id

    async def _adopt(self, entry: Entry, mark: str) -> str | None:
        """Find the draft that a crash left between its creation and the storing of its id."""
        await self.ledger.start(entry, self.lease, mark=mark)
        await self.ledger.lose_draft(entry, mark)
        now = await self.ledger.now(entry)
        for draft in await self._unkept(now, now.gmail_thread, mark):
            if await self.ledger.keep_draft(now, draft.id, self.lease):
                return draft.id
        return None

    async def _unkept(self, entry: Entry, thread: str | None, mark: str) -> list[Draft]:
        """Drafts at Gmail that look like this letter and that no row of the ledger keeps. If this row was refused, its
        own draft too."""
        kept = await self.ledger.kept_drafts(entry.account_id)
        if entry.is_refused:
            kept -= {entry.draft_id}
        return [draft async for draft in drafts_of(self.gmail, thread, mark, kept)]

    async def _look(self, entry: Entry, mark: str, told: str) -> Posted:
        """Look in Sent for the letter, as its draft is gone or Gmail named another message. Raises as `not_found`."""
        found = await self._find_sent(entry, mark)
        if found is None:
            await self.ledger.not_found(entry, await self._sent_by_person(entry))
        return await self._sent(entry, found.id, found.thread_id, told, before=True)

    async def _find_sent(self, entry: Entry, mark: str) -> Message | None:
        now = await self.ledger.now(entry)
        since = (now.started_at or datetime.now(UTC)) - _CLOCK_SKEW
        sent = _sent_in(self.gmail, now.gmail_thread, since) if now.gmail_thread else _sent_since(self.gmail, since)
        found = [message async for message in sent if is_letter(message.payload, mark)]
        others = await self.ledger.claimed(entry.account_id, [message.id for message in found])
        return next((m for m in found if m.id == now.external_id or m.id not in others), None)

    async def _sent_by_person(self, entry: Entry) -> str | None:
        """The text of the newest mail that the person has sent in this conversation since we started the letter. Our
        draft is gone, so we take it for that draft."""
        now = await self.ledger.now(entry)
        if now.gmail_thread is None or now.started_at is None:
            return None
        since = now.started_at.replace(microsecond=0)  # Gmail's times have no fractions
        sent = [message async for message in _sent_in(self.gmail, now.gmail_thread, since)]
        ours = await self.ledger.claimed(entry.account_id, [message.id for message in sent])
        mails = [parse_gmail(message.payload) for message in reversed(sent) if message.id not in ours]
        return next((mail.text for mail in mails if not mail.auto_submitted), None)

    async def _sent(self, entry: Entry, message_id: str, thread: str, told: str, *, before: bool) -> Posted:
        """It was sent. A draft whose creation broke off may have come to be after it was looked for; had this one's
        broken off, it would be looked for later (`Ledger.lost_drafts`)."""
        with suppress(GoogleError):  # a copy among the drafts costs no sent mail
            await self.clear(entry if entry.state == "planned" else await self.ledger.now(entry))
        await self.ledger.finish(entry, message_id, told, into=thread)
        return Posted(message_id, thread, before)


def is_letter(payload: Mapping[str, Any] | None, mark: str) -> bool:
    """Whether a message of the mailbox is the letter of this mark."""
    return payload is not None and _is_like(parse_gmail(payload), mark)


def written_into(draft: Mail, mark: str, subject: str) -> str | None:
    """What the person has made of a draft of ours, as they read it; None: it is as we made it.

    Args:
        mark: what that is recognised by.
        subject: that of ours.
    """
    files = [each.name for each in draft.attachments]
    is_renamed = one_line(draft.subject) != one_line(subject)
    if _is_like(draft, mark) and not (is_renamed or draft.bcc or files):
        return None
    heads = [("To", draft.to), ("Cc", draft.cc), ("Bcc", draft.bcc)]
    lines = [f"{name}: {', '.join(each.email for each in people)}" for name, people in heads if people]
    lines += [f"Subject: {draft.subject}"] if is_renamed else []
    lines += [f"Attached: {', '.join(files)}"] if files else []
    return "\n".join([*lines, "", draft.text])


def _is_like(mail: Mail, mark: str) -> bool:
    return mark in _marks(mail)


def _marks(mail: Mail) -> tuple[str, str]:
    """Of a mail in a thread, and of one that begins its own."""
    fingerprint = mail_fingerprint(mail)
    return fingerprint, sha256(f"{fingerprint} {mail.subject}".encode()).hexdigest()


async def drafts_of(gmail: Gmail, thread: str | None, mark: str, but: set[str]) -> AsyncIterator[Draft]:
    """Drafts of a letter, in its thread or anywhere if it begins one.

    Args:
        but: ids of drafts that are not looked at.
    """
    for ref in await gmail.drafts():
        if thread in (None, ref.thread_id) and ref.id not in but:
            draft = await gmail.find_draft(ref.id)  # None: the person has deleted it, or sent it, just now
            if draft and is_letter(draft.payload, mark):
                yield draft


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
