"""Draft mode: a proposed reply is left at Gmail as a draft in its thread, for the person to send or discard there.

Such a draft is never sent by us, nor written into. When what it stands for is over, it is deleted, unless the person
has changed it: what they have made of it, as last heard of, is part of what they are asked. All SQL on `left_drafts`
stands here.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from psycopg.rows import class_row
from psycopg.types.json import Json

from email_assistant.db.lease import HELD, Lease, LeaseLost
from email_assistant.db.pool import Connection, Pool, fetched
from email_assistant.google.errors import NotFound, Refused
from email_assistant.google.gmail import Draft, Gmail
from email_assistant.outgoing.entry import WITHOUT_TEXT, InGmail, NotYetClear
from email_assistant.outgoing.letters import Letter, drafts_of


@dataclass(frozen=True, slots=True)
class LeftDraft:
    run_id: UUID
    call_id: str
    args: dict[str, Any]
    state: Literal["wanted", "started", "left", "ending"]
    """`ending`: it was about to be deleted, and so may be gone by our own doing."""
    draft_id: str | None
    mark: str | None
    """What it is recognised by as we left it; what we would write now may differ, by the signature for one."""
    found: dict[str, Any] | None
    """What the person has made of it in Gmail, as last heard of (`InGmail`); None: it is as we left it."""
    thread: str
    """Gmail's id of it."""
    waits: bool
    """The proposal still waits for the person."""
    busy_until: datetime | None
    """A worker that is gone may be creating it until then; None: it is over."""


class LeftDrafts:
    """
    Args:
        write_deadline: seconds that one write to Google takes at most; a lease must outlast it for a write to start.
    """

    def __init__(self, pool: Pool, write_deadline: float) -> None:
        self._pool = pool
        self._deadline = write_deadline

    async def want(self, conn: Connection, run_id: UUID, call_id: str, args: Mapping[str, Any]) -> None:
        """Have this reply left at Gmail; a repeat changes nothing."""
        await conn.execute(
            """insert into left_drafts (run_id, call_id, user_id, account_id, thread_id, args)
               select id, %s, user_id, account_id, thread_id, %s from runs where id = %s on conflict do nothing""",
            (call_id, Json(dict(args)), run_id),
        )

    async def want_again(self, conn: Connection, run_id: UUID, call_id: str, args: Mapping[str, Any]) -> None:
        """Have a reply left at Gmail that waits again, and whose draft was taken away meanwhile."""
        await self.want(conn, run_id, call_id, args)
        await conn.execute(
            """update left_drafts set state = 'wanted', draft_id = null, mark = null, found = null
               where run_id = %s and call_id = %s and state = 'gone'""",
            (run_id, call_id),
        )

    @staticmethod
    async def redact_text(conn: Connection, thread_ids: Sequence[UUID]) -> None:
        """Take out what these conversations' drafts say that are at Gmail no more."""
        query = """update left_drafts set args = without_text(args, %s), found = null
                   where thread_id = any(%s) and state = 'gone'"""
        await conn.execute(query, (WITHOUT_TEXT, list(thread_ids)))

    async def of_thread(self, thread_id: UUID) -> list[LeftDraft]:
        """Those that are at Gmail, or are to be."""
        async with self._pool.connection() as conn, conn.cursor(row_factory=class_row(LeftDraft)) as cursor:
            await cursor.execute(
                """select d.run_id, d.call_id, d.args, d.state, d.draft_id, d.mark, d.found, (
                       select t.gmail_id from threads t where t.id = d.thread_id) as thread, exists (
                       select from inbox_items i where i.run_id = d.run_id and i.call_id = d.call_id
                       and i.status in ('pending', 'decided')) as waits, (
                       select over.at from threads t,
                              (select d.last_started_at + make_interval(secs => %s) as at) as over
                       where t.id = d.thread_id and d.epoch <= t.cut_short and over.at > clock_timestamp()
                   ) as busy_until
                   from left_drafts d where d.thread_id = %s and d.state <> 'gone'""",
                (self._deadline, thread_id),
            )
            return await cursor.fetchall()

    async def leave(
        self, gmail: Gmail, lease: Lease, left: LeftDraft, write: Callable[[], Awaitable[Letter | None]]
    ) -> None:
        """Create the draft, or find the one that a crash left before its id was stored; in shadow mode none is made.

        Args:
            write: composes it; None: it can't be written any more.

        Raises:
            NotYetClear: that one may still be on its way.
        """
        _expect_over(left)
        try:
            if (reply := await write()) is None:
                await self._gone(left)
                return
            draft_id = await _find(gmail, left) if left.state == "started" else None
            if not await self._start(lease, left, left.mark if draft_id else reply.mark, creates=draft_id is None):
                return
            draft_id = draft_id or (await gmail.create_draft(reply.raw, reply.thread)).id
        except (NotFound, Refused):  # the item still waits; only the copy at Gmail can't be had
            await self._gone(left)
            return
        if not await self._keep(lease, left, draft_id):
            await gmail.delete_draft(draft_id)

    async def look(self, gmail: Gmail, left: LeftDraft) -> Draft | None:
        """The draft as it lies there; None: it was sent or discarded, or was never made.

        Raises:
            NotYetClear: it may still be on its way.
        """
        _expect_over(left)
        draft_id = await _find(gmail, left) if left.state == "started" else left.draft_id
        return await gmail.find_draft(draft_id) if draft_id else None

    async def take_away(self, gmail: Gmail, lease: Lease, left: LeftDraft, draft: Draft | None) -> bool:
        """Delete the draft; False if the person has sent or discarded it just now.

        Args:
            draft: as it was looked at just now; None: nothing is to be deleted, for there is none, or it is theirs.
        """
        if draft is None:
            await self._gone(left)
            return True
        await self._end(lease, left, draft.id)
        if not await gmail.delete_draft(draft.id):
            return False
        await self._gone(left, deleted=True)
        return True

    async def heard(self, conn: Connection, left: LeftDraft, found: InGmail) -> None:
        """Note what the person has made of it; one that is not there any more is over."""
        await conn.execute(
            """update left_drafts set found = %s, state = case when %s then 'gone' else state end
               where run_id = %s and call_id = %s""",
            (None if found.did == "restored" else Json(asdict(found)), found.is_over, left.run_id, left.call_id),
        )

    async def sent_by_person(self, thread_id: UUID) -> set[str]:
        """Gmail's ids of what the person has made of such drafts and sent, as their items say."""
        query = "select found->>'message' as id from left_drafts where thread_id = %s and found->>'did' = 'sent'"
        return {str(row["id"]) for row in await fetched(self._pool, query, (thread_id,))}

    async def _start(self, lease: Lease, left: LeftDraft, mark: str | None, *, creates: bool) -> bool:
        """Mark it started, immediately before the outside call; False if it may not be created any more."""
        async with self._pool.connection() as conn, conn.transaction():
            await lease.check(conn, margin=self._deadline, account_active=True)
            cursor = await conn.execute(
                """update left_drafts d set epoch = %s, mark = %s, last_started_at = clock_timestamp(),
                          state = case when %s and a.mode = 'shadow' then 'gone' else 'started' end
                   from accounts a where a.id = d.account_id and d.run_id = %s and d.call_id = %s
                   and d.state in ('wanted', 'started') returning d.state""",
                (lease.epoch, mark, creates, left.run_id, left.call_id),
            )
            row = await cursor.fetchone()
            if row is None:
                raise LeaseLost(f"the draft of call {left.call_id} was left by another worker")
        return bool(row["state"] == "started")

    async def _end(self, lease: Lease, left: LeftDraft, draft_id: str) -> None:
        """Note that it is about to be deleted: that it is gone later must not be taken for the person's doing."""
        ending = "update left_drafts set state = 'ending', draft_id = %s where run_id = %s and call_id = %s"
        async with self._pool.connection() as conn:
            await lease.guarded(
                conn,
                f"{ending} and {HELD} returning call_id",
                draft_id,
                left.run_id,
                left.call_id,
                account_active=True,
            )

    async def _keep(self, lease: Lease, left: LeftDraft, draft_id: str) -> bool:
        """Store the draft's id; False if another worker has taken over."""
        async with self._pool.connection() as conn:
            cursor = await conn.execute(
                """update left_drafts set state = 'left', draft_id = %s
                   where run_id = %s and call_id = %s and state = 'started' and epoch = %s""",
                (draft_id, left.run_id, left.call_id, lease.epoch),
            )
        return cursor.rowcount == 1

    async def _gone(self, left: LeftDraft, *, deleted: bool = False) -> None:
        async with self._pool.connection() as conn:
            await conn.execute(
                """update left_drafts set state = 'gone', found = case when not %s then found end
                   where run_id = %s and call_id = %s""",
                (deleted, left.run_id, left.call_id),
            )


def _expect_over(left: LeftDraft) -> None:
    if left.state == "started" and left.busy_until:
        raise NotYetClear("its draft was under way when the program ended; looking in a moment", left.busy_until)


async def _find(gmail: Gmail, left: LeftDraft) -> str | None:
    return await anext((draft.id async for draft in drafts_of(gmail, left.thread, left.mark or "", set())), None)
