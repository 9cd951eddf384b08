"""Mail that a program sends under a key of its own choice: one key is one mail, whatever dies and whenever.

`drafts.create` → store the draft's id → `drafts.send`: Gmail sends a draft once and answers 404 to a repeat. A row's
draft is stored once and never replaced, and only that one may be sent; so two processes at the same row are harmless.
All SQL on `outbox` stands here.
"""

import hashlib
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from psycopg.rows import class_row

from email_assistant.accounts.account import Account
from email_assistant.db.pool import Pool
from email_assistant.google.errors import Ambiguous, NotFound, Refused
from email_assistant.google.gmail import Gmail, MessageRef
from email_assistant.mail.compose import mail_fingerprint
from email_assistant.mail.message import Mail
from email_assistant.mail.parse import parse_bytes, parse_gmail

_CLOCK_SKEW: Final = timedelta(minutes=10)
"""Google's clock may be this far from ours."""
_LOOKED_THROUGH: Final = 50
"""Of the newest sent mails; ours is among the first of those since it was begun."""


class KeyTaken(Exception):
    """Another mail was sent, or begun, under this key."""


class DraftGone(Exception):
    """The mail's draft is gone, and it is not in Sent, or not yet: nothing more is sent under this key."""


@dataclass(frozen=True, slots=True)
class Letter:
    """A composed mail, and the Gmail thread that it belongs in; None begins a new one."""

    raw: bytes
    thread_id: str | None


@dataclass(frozen=True, slots=True)
class Posted:
    """A mail that was sent."""

    message_id: str
    thread_id: str
    before: bool
    """It was sent by an earlier call."""


@dataclass(frozen=True, slots=True)
class _Row:
    key: str
    args_hash: str
    mark: str | None
    draft_id: str | None
    message_id: str | None
    thread_id: str | None
    started_at: datetime


_COLUMNS = "key, args_hash, mark, draft_id, message_id, thread_id, started_at"


class KeyedOutbox:
    """The mails of every account that were sent by key."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def send(
        self,
        gmail: Gmail,
        account: Account,
        key: str,
        args: Mapping[str, Any],
        compose: Callable[[], Awaitable[Letter]],
    ) -> Posted:
        """Send the mail of this key, or say that it was sent.

        Args:
            args: what the caller asked for, the same at each call with this key.
            compose: makes the mail of it; called only where it has not been drafted yet.

        Raises:
            KeyTaken, DraftGone, GoogleError, and what `compose` raises.
        """
        row = await self._begun(account, key, args)
        if row.message_id and row.thread_id:
            return Posted(row.message_id, row.thread_id, before=True)
        draft_id = row.draft_id or await self._drafted(gmail, account, row, compose)
        row = await self._row(account, key)
        try:
            sent = await gmail.send_draft(draft_id)
        except (NotFound, Ambiguous, Refused) as error:
            # Gmail has also been seen to answer 400 where a draft was sent before.
            if isinstance(error, Refused) and await gmail.find_draft(draft_id):
                raise
            found = await self._find_sent(gmail, account, row)
            if found is None:
                raise error if isinstance(error, Ambiguous) else DraftGone(key) from None
            return await self._keep_sent(account, key, found, before=not isinstance(error, Ambiguous))
        return await self._keep_sent(account, key, sent, before=False)

    async def _begun(self, account: Account, key: str, args: Mapping[str, Any]) -> _Row:
        digest = hashlib.sha256(json.dumps(args, sort_keys=True).encode()).hexdigest()
        async with self._pool.connection() as conn:
            await conn.execute(
                """insert into outbox (account_id, key, user_id, args_hash)
                   select id, %s, user_id, %s from accounts where id = %s on conflict do nothing""",
                (key, digest, account.id),
            )
        row = await self._row(account, key)
        if row.args_hash != digest:
            raise KeyTaken(key)
        return row

    async def _drafted(
        self, gmail: Gmail, account: Account, row: _Row, compose: Callable[[], Awaitable[Letter]]
    ) -> str:
        """The one draft that may be sent: one that an earlier call left behind, or a new one."""
        if row.mark and (left := await self._left_draft(gmail, account, row.mark)):
            return await self._keep_draft(gmail, account, row.key, left)
        letter = await compose()
        mark = _mark(parse_bytes(letter.raw))
        await self._set(account, row.key, "mark = %s", mark)
        try:
            draft_id = (await gmail.create_draft(letter.raw, letter.thread_id)).id
        except Ambiguous:
            left = await self._left_draft(gmail, account, mark)
            if left is None:
                raise
            draft_id = left
        return await self._keep_draft(gmail, account, row.key, draft_id)

    async def _left_draft(self, gmail: Gmail, account: Account, mark: str) -> str | None:
        """A draft of this mail that is stored nowhere: a crash came between its creation and the storing of its id."""
        known = await self._known(account, "draft_id")
        for ref in await gmail.drafts():
            if ref.id in known:
                continue
            draft = await gmail.find_draft(ref.id)  # None: the person has deleted it, or sent it, just now
            if draft and draft.payload is not None and _mark(parse_gmail(draft.payload)) == mark:
                return ref.id
        return None

    async def _keep_draft(self, gmail: Gmail, account: Account, key: str, draft_id: str) -> str:
        """Store the draft that may be sent. Where another call has stored one, that is it, and this one is deleted."""
        await self._set(account, key, "draft_id = coalesce(draft_id, %s)", draft_id)
        stored = (await self._row(account, key)).draft_id
        assert stored is not None
        if stored != draft_id:
            await gmail.delete_draft(draft_id)
        return stored

    async def _find_sent(self, gmail: Gmail, account: Account, row: _Row) -> MessageRef | None:
        """The mail, once its draft is gone or Gmail's answer is lost: another call has sent it, or it is in Sent."""
        now = await self._row(account, row.key)
        if now.message_id and now.thread_id:
            return MessageRef(now.message_id, now.thread_id)
        known = await self._known(account, "message_id")
        for ref in (await gmail.list_messages(label_ids=["SENT"], max_results=_LOOKED_THROUGH)).refs:
            try:
                message = await gmail.message(ref.id)
            except NotFound:  # the person has deleted it just now
                continue
            if message.internal_date < row.started_at - _CLOCK_SKEW:
                break
            if message.id not in known and _mark(parse_gmail(message.payload)) == row.mark:
                return ref
        return None

    async def _keep_sent(self, account: Account, key: str, sent: MessageRef, *, before: bool) -> Posted:
        await self._set(account, key, "message_id = %s, thread_id = %s", sent.id, sent.thread_id)
        return Posted(sent.id, sent.thread_id, before)

    async def _set(self, account: Account, key: str, change: str, *values: str) -> None:
        """Change what is not settled yet."""
        async with self._pool.connection() as conn:
            await conn.execute(
                f"update outbox set {change} where account_id = %s and key = %s and message_id is null".encode(),
                (*values, account.id, key),
            )

    async def _row(self, account: Account, key: str) -> _Row:
        async with self._pool.connection() as conn, conn.cursor(row_factory=class_row(_Row)) as cursor:
            await cursor.execute(
                f"select {_COLUMNS} from outbox where account_id = %s and key = %s".encode(), (account.id, key)
            )
            [row] = await cursor.fetchall()
        return row

    async def _known(self, account: Account, column: str) -> set[str]:
        """Google's ids that stand for mails of this account already."""
        async with self._pool.connection() as conn:
            cursor = await conn.execute(
                f"select {column} as id from outbox where account_id = %s and {column} is not null".encode(),
                (account.id,),
            )
            return {row["id"] for row in await cursor.fetchall()}


def _mark(mail: Mail) -> str:
    """Equal for the mail as composed, as drafted and as sent."""
    return hashlib.sha256(f"{mail_fingerprint(mail)}\0{mail.subject}".encode()).hexdigest()
