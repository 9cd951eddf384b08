"""What a run, of mail or of a chat, goes through: what each step of it changes of the run, of its mails and of its
conversation.

A chat is a row of `threads` too; each request in it is a run: its turn.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any
from uuid import NAMESPACE_URL, UUID, uuid5

from email_assistant.accounts.account import Account
from email_assistant.agents.chat.graph import Turn
from email_assistant.agents.mail.run import Run
from email_assistant.db import checkpoints, mails, runs, threads
from email_assistant.db.lease import Lease, RowChange
from email_assistant.db.pool import Connection
from email_assistant.errors import AssistantError
from email_assistant.inbox import rows as items
from email_assistant.inbox.items import Conflict, Item
from email_assistant.inbox.questions import by_interrupt
from email_assistant.work.rows import OPEN, WAITING, RunRow, RunRows, RunState, read_runs

_BUSY = "the assistant is still at what you asked for before; wait for its answer"
_NOT_DONE = "what you decided before is not done yet; it is done by itself as soon as it can be, so wait for it"
_ANSWERED = "what you decided a moment ago is not carried out yet; wait for it, or undo it"
_ANSWERED_IN_PART = "what you decided waits for your answers on the rest of what it asks: answer the rest, or undo it"
_ASKS = "it asks you once more about what you decided before: answer that first"


class DecisionFirst(AssistantError):
    """A person's decision comes before newer mail."""


class Runs(RunRows):
    async def pruned(self, run_ids: Sequence[UUID]) -> None:
        async with self._pool.connection() as conn:
            await runs.pruned(conn, run_ids)

    # A run begins

    async def start(self, lease: Lease, account: Account, given: Run, attempt: int) -> RunRow:
        """Make the run of a mail, ready to go on with. A mail that waits stays with its run until it is replaced.

        Args:
            given: what its graph is started with; its id is filled in.
            attempt: the how manieth of its mail it is.
        """
        mail_id = given["mail"]
        run_id = _id_of(f"{account.id}/{given['thread']}/{mail_id}/{attempt}")
        whole = {**given, "id": str(run_id)}
        made = _made(lease, account, run_id, mail_id, attempt, whole, tries=0)
        async with self._pool.connection() as conn:
            tries, at = await mails.taken_up(conn, lease, run_id, mail_id, along=[made])
        return RunRow(run_id, mail_id, attempt, whole, "running", None, None, at, is_new=True, tries=tries)

    async def begin(
        self,
        conn: Connection,
        lease: Lease,
        account: Account,
        chat_id: str,
        request: str,
        *,
        held_up: UUID | None = None,
    ) -> RunRow:
        """Make the turn of a new request. What still waits in the chat is set aside, and can never be done.

        Args:
            held_up: a turn that can't go on now, and in which nothing is left to do that the person decided. It is set
                aside as well.

        Raises:
            Conflict: the turn before is being worked on, or something in it was decided and is not carried out yet.
        """
        await lease.check(conn)
        # The thread before its items, as whoever decides locks them: what is decided meanwhile is seen here.
        await conn.execute("select from threads where id = %s for no key update", (lease.thread_id,))
        newest = "order by r.attempt desc limit 1"
        before = await read_runs(conn, "r.thread_id = %s", lease.thread_id, last=newest)
        attempt = before[0].attempt + 1 if before else 1
        turn_id = _id_of(f"chat/{lease.thread_id}/{attempt}")
        if before and before[0].is_open:
            await self._make_way(conn, before[0], turn_id, may_act=before[0].id == held_up)
            await threads.anew(conn, lease.thread_id)  # a new request doesn't wait out a back-off from before it
        given: dict[str, Any] = {
            **Turn(
                agent="chat",
                id=str(turn_id),
                account_id=str(account.id),
                address=account.address,
                chat=chat_id,
                request=request,
            )
        }
        made = _made(lease, account, turn_id, None, attempt, given, tries=1)
        [row] = await lease.guarded(conn, made.statement, *made.parameters)
        return RunRow(turn_id, "", attempt, given, "running", None, None, row["created_at"], is_new=True, tries=1)

    async def _make_way(self, conn: Connection, turn: RunRow, by: UUID, *, may_act: bool) -> None:
        if turn.state == "acting" and turn.waits and not turn.answered:
            raise Conflict(_ASKS)
        if turn.state != "waiting" and (turn.waits or not may_act):
            raise Conflict(_NOT_DONE if turn.why else _BUSY)
        if turn.answered:
            raise Conflict(_ANSWERED_IN_PART if turn.asks else _ANSWERED)
        await supersede(conn, [turn.id], "you asked for something else", by)

    # A run goes on

    async def start_work(self, lease: Lease, run: RunRow) -> int:
        """Count a try before it starts, of a run of mail as one of its mail, since the try may kill the process;
        returns the how manieth it is."""
        if run.tries is not None:
            return run.tries
        async with self._pool.connection() as conn:
            tried = mails.tried(conn, lease, run.mail_id) if run.mail_id else runs.tried(conn, lease, run.id)
            return await tried

    async def handed_back(self, lease: Lease, run: RunRow) -> None:
        """The process is stopping: the try that it broke off doesn't count. One that lost its lease does."""
        async with self._pool.connection() as conn, conn.transaction():
            await lease.check(conn)
            await self._untry(conn, lease, run)

    async def back_off(
        self,
        lease: Lease,
        run: RunRow | None,
        reason: str,
        until: datetime | None,
        *,
        outage: bool,
        waits_for: str | None = None,
    ) -> None:
        """Come back later, or once a server answers; an outage is nobody's fault, so it is not counted as a try."""
        why = f"{WAITING}{reason}"
        async with self._pool.connection() as conn, conn.transaction():
            await lease.check(conn)
            await threads.back_off(conn, lease.thread_id, until, waits_for)
            if run is not None and not run.mail_id:
                await runs.held_up(conn, run.id, why)
            if run is not None and outage:
                await self._untry(conn, lease, run)
            await mails.held_up(conn, lease.thread_id, why)

    async def _untry(self, conn: Connection, lease: Lease, run: RunRow) -> None:
        if run.mail_id:
            await mails.not_tried(conn, lease.thread_id, run.mail_id)
        else:
            await runs.not_tried(conn, run.id)

    async def acting(self, conn: Connection, lease: Lease, run: RunRow, answers: Sequence[Item]) -> RunRow:
        """Every answer is in and past its window: from here on the run acts, of which this counts as a try."""
        tries = await mails.acting(conn, lease, run.id, run.mail_id, along=[runs.acting(run.id, tries=1)])
        counted = tries if run.mail_id else 1
        now = replace(run, state="acting", waits=False, decided=False, answered=False, tries=counted)
        return replace(now, applied=by_interrupt(answers))

    async def hangs(self, conn: Connection, lease: Lease, run_id: UUID, reason: str) -> None:
        """The run can't act on before the person has said something."""
        await mails.hang(conn, lease, run_id, reason, along=[runs.acting(run_id, tries=0)])

    async def rested(
        self,
        conn: Connection,
        lease: Lease,
        run_id: UUID,
        state: RunState,
        answer: str | None = None,
        *,
        drops: bool = False,
        along: Sequence[RowChange] = (),
    ) -> None:
        """The graph came to rest: in front of a person, or at its end.

        Args:
            drops: nobody goes on from here: its checkpoints go, and only together with that.
            along: what it asks.
        """
        dropped = checkpoints.dropped(run_id) if drops else ()
        row = runs.rested(run_id, state, answer, pruned=drops)
        along = [threads.went_well(lease.thread_id), row, *dropped, *along]
        await mails.rested(conn, lease, run_id, state, along=along)

    async def fail(self, conn: Connection, run_id: UUID, reason: str, *, after: bool = False) -> None:
        """Set the run aside; its mails show the reason and can be retried.

        Args:
            after: the reason that is shown now came before, and is kept behind the new one.
        """
        await runs.failed(conn, run_id, reason, after=after)
        await mails.failed(conn, run_id, reason, after=after)

    async def fail_all(self, conn: Connection, thread_id: UUID, reason: str) -> list[UUID]:
        """Set all that is open in a conversation aside; returns its runs."""
        cursor = await conn.execute(
            "select id from runs where thread_id = %s and state = any(%s) order by id", (thread_id, list(OPEN))
        )
        run_ids = [row["id"] for row in await cursor.fetchall()]
        for run_id in run_ids:
            await self.fail(conn, run_id, reason)
        await mails.all_failed(conn, thread_id, reason)
        return run_ids

    # What triage came to

    async def cover_alone(
        self, conn: Connection, lease: Lease, run_id: UUID, mail_id: str, thread_id: UUID
    ) -> list[str] | None:
        """Let a run cover all that is unanswered in its thread, where none was open when it was made, under the same
        lease; returns Gmail's ids of the mails, oldest first. None: another one of them is to be answered first, and
        all are left to its run. Raises LeaseLost.
        """
        covered, foremost = await mails.cover_alone(conn, lease, run_id, thread_id)
        if foremost == mail_id:
            return covered
        await mails.leave(conn, run_id)
        return None

    async def take_over(self, conn: Connection, run_id: UUID, thread_id: UUID) -> tuple[list[UUID], list[str]]:
        """Let a run cover all that is unanswered in its thread, in place of the runs that did, in which nothing waits
        any more. May be repeated.

        Returns:
            The runs it took the place of, directly or through others, and Gmail's ids of the mails that it covers; both
            oldest first.

        Raises:
            DecisionFirst: one of those runs has been decided for good and must act before.
        """
        which = "r.thread_id = %s and r.id <> %s and r.state in ('running', 'waiting')"
        replaced = await read_runs(conn, which, thread_id, run_id)
        if any(run.state == "waiting" and run.decided for run in replaced):
            raise DecisionFirst
        await supersede(conn, [run.id for run in replaced], "newer mail came", run_id)
        covered, _ = await mails.cover(conn, run_id, thread_id)
        cursor = await conn.execute(
            """with recursive before as (
                   select id, created_at from runs where superseded_by = %s
                   union select r.id, r.created_at from runs r join before b on r.superseded_by = b.id)
               select id from before order by created_at""",
            (run_id,),
        )
        earlier = [row["id"] for row in await cursor.fetchall()]
        return earlier, covered

    async def put_beside(self, lease: Lease) -> bool:
        """Let mail wait with the run that waits, as far as it may; False if none does."""
        async with self._pool.connection() as conn, conn.transaction():
            await lease.check(conn)
            return await mails.put_beside(conn, lease.thread_id)

    # What the person did in Gmail

    async def closed_by_person(
        self, conn: Connection, run_ids: Sequence[UUID], reason: str, upto: datetime | None = None
    ) -> None:
        """The person did something about it in Gmail: nothing is left to do for these runs' mails.

        Mail that only waited with them is worked on by itself.

        Args:
            upto: mail that came later is worked on by itself, too.
        """
        await supersede(conn, run_ids, reason, None)
        await mails.closed(conn, run_ids, reason, upto)

    async def closed_by_putting_away(self, conn: Connection, run: RunRow, reason: str, at: datetime) -> None:
        """The person put the mail away, of that time, that a run answers: nothing is left to do for it, unless the mail
        comes back."""
        await self.closed_by_person(conn, [run.id], reason, at)
        await runs.closed_with(conn, run.id, run.mail_id)

    async def reopen(self, conn: Connection, run_id: UUID, *, waits: bool, beside: Sequence[UUID]) -> None:
        """The mail with which a run was closed is in the inbox again, and so is the run's work.

        Args:
            waits: it waits for the person as before; else another run is to be made of its mails.
            beside: runs of mails that waited with it, and were worked on by themselves once it was closed.
        """
        if waits:
            await supersede(conn, beside, "it waits with other mail again", run_id)
            await runs.reopen(conn, run_id)
            await mails.wait_again(conn, run_id, beside)
        await mails.reopened(conn, run_id, "waiting" if waits else "triaging")


async def supersede(conn: Connection, run_ids: Sequence[UUID], reason: str, by: UUID | None) -> None:
    """Set runs aside, for another one if there is any, and what still waits in them."""
    await items.supersede(conn, run_ids, by)
    await runs.supersede(conn, run_ids, reason, by)


def _made(
    lease: Lease,
    account: Account,
    run_id: UUID,
    mail_id: str | None,
    attempt: int,
    given: Mapping[str, Any],
    tries: int,
) -> RowChange:
    return runs.insert(
        run_id,
        user_id=account.user_id,
        account_id=account.id,
        thread_id=lease.thread_id,
        mail_id=mail_id,
        attempt=attempt,
        given=given,
        tries=tries,
    )


def _id_of(name: str) -> UUID:
    return uuid5(NAMESPACE_URL, f"email-assistant:{name}")
