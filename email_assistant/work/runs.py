"""All that is written of runs, of mail and of chats; of their mails' state; and of when a conversation is come back to.

A chat is a row of `threads` too; each request in it is a run: its turn.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import NAMESPACE_URL, UUID, uuid5

from psycopg.types.json import Json

from email_assistant.accounts.account import Account
from email_assistant.agents.chat.run import Turn
from email_assistant.agents.mail.prompts import Classification
from email_assistant.agents.mail.run import Run
from email_assistant.db import threads
from email_assistant.db.lease import Lease
from email_assistant.db.pool import Connection
from email_assistant.errors import AssistantError
from email_assistant.inbox.items import Conflict
from email_assistant.inbox.rows import supersede
from email_assistant.work.beside import BESIDE, UNTOLD
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
        await self._rows(
            """update runs set pruned = true
               where id in (select id from runs where id = any(%s) order by id for no key update)""",
            list(run_ids),
        )

    # A run begins

    async def start(self, lease: Lease, account: Account, given: Run) -> RunRow:
        """Make the run of a mail, ready to go on with. A mail that waits stays with its run until it is replaced.

        Args:
            given: what its graph is started with; its id is filled in.
        """
        mail_id = given["mail"]
        async with self._pool.connection() as conn, conn.transaction():
            await lease.check(conn)
            counted = "select count(*) as n from runs where thread_id = %s and mail_id = %s"
            [row] = await (await conn.execute(counted, (lease.thread_id, mail_id))).fetchall()
            attempt = int(row["n"]) + 1
            name = f"{account.id}/{given['thread']}/{mail_id}/{attempt}"
            run = await self._insert(conn, lease, account, name, mail_id, attempt, given)
            await conn.execute(
                """update mails set run_id = %s, state = 'triaging', reason = coalesce(triage_reason, 'being read')
                   where account_id = %s and gmail_id = %s and state <> 'waiting'""",
                (run.id, account.id, mail_id),
            )
        return run

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
        name = f"chat/{lease.thread_id}/{attempt}"
        if before and before[0].is_open:
            await self._make_way(conn, before[0], _id_of(name), may_act=before[0].id == held_up)
            await threads.anew(conn, lease.thread_id)  # a new request doesn't wait out a back-off from before it
        given = Turn(
            agent="chat", id="", account_id=str(account.id), address=account.address, chat=chat_id, request=request
        )
        return await self._insert(conn, lease, account, name, None, attempt, given)

    async def _insert(
        self,
        conn: Connection,
        lease: Lease,
        account: Account,
        name: str,
        mail_id: str | None,
        attempt: int,
        given: Mapping[str, Any],
    ) -> RunRow:
        run_id, is_turn = _id_of(name), mail_id is None
        whole = {**given, "id": str(run_id)}
        cursor = await conn.execute(
            """insert into runs (id, user_id, account_id, thread_id, mail_id, attempt, input, state, tries)
               values (%s, %s, %s, %s, %s, %s, %s, 'running', %s) returning created_at""",
            (run_id, account.user_id, account.id, lease.thread_id, mail_id, attempt, Json(whole), int(is_turn)),
        )
        [row] = await cursor.fetchall()
        at = row["created_at"]
        return RunRow(run_id, mail_id or "", attempt, whole, "running", None, None, at, is_new=is_turn)

    async def _make_way(self, conn: Connection, turn: RunRow, by: UUID, *, may_act: bool) -> None:
        if turn.state == "acting" and turn.waits and not turn.answered:
            raise Conflict(_ASKS)
        if turn.state != "waiting" and (turn.waits or not may_act):
            raise Conflict(_NOT_DONE if turn.why else _BUSY)
        if turn.answered:
            raise Conflict(_ANSWERED_IN_PART if turn.asks else _ANSWERED)
        await self._supersede(conn, [turn.id], "you asked for something else", by)

    # A run goes on

    async def start_work(self, lease: Lease, run: RunRow, most_tries: int) -> bool:
        """Count a try before it starts, of a run of mail as one of its mail, since the try may kill the process; False
        if there were enough."""
        async with self._pool.connection() as conn, conn.transaction():
            await lease.check(conn)
            cursor = await conn.execute(
                """with run as (update runs set tries = tries + 1 where id = %s returning account_id, mail_id, tries),
                        mail as (update mails m set tries = m.tries + 1 from run
                                 where m.account_id = run.account_id and m.gmail_id = run.mail_id returning m.tries)
                   select coalesce(mail.tries, run.tries) <= %s as may from run left join mail on true""",
                (run.id, most_tries),
            )
            row = await cursor.fetchone()
        return bool(row and row["may"])

    async def handed_back(self, lease: Lease, run: RunRow) -> None:
        """The process is stopping: the try that it broke off doesn't count. One that lost its lease does."""
        async with self._pool.connection() as conn, conn.transaction():
            await lease.check(conn)
            await self._untry(conn, run)

    async def back_off(
        self, lease: Lease, run: RunRow | None, reason: str, until: datetime | None, *, outage: bool
    ) -> None:
        """Come back later; an outage is nobody's fault, so it is not counted as a try."""
        why = f"{WAITING}{reason}"
        async with self._pool.connection() as conn, conn.transaction():
            await lease.check(conn)
            await threads.back_off(conn, lease.thread_id, until)
            if run is not None:
                await conn.execute("update runs set reason = %s where id = %s and mail_id is null", (why, run.id))
            if run is not None and outage:
                await self._untry(conn, run)
            await conn.execute(
                "update mails set reason = %s where thread_id = %s and state in ('new', 'triaging', 'acting')",
                (why, lease.thread_id),
            )

    async def _untry(self, conn: Connection, run: RunRow) -> None:
        await conn.execute(
            """with run as (update runs set tries = greatest(0, tries - 1) where id = %s returning account_id, mail_id)
               update mails m set tries = greatest(0, m.tries - 1) from run
               where m.account_id = run.account_id and m.gmail_id = run.mail_id""",
            (run.id,),
        )

    async def acting(self, conn: Connection, run_id: UUID) -> None:
        """Every answer is in and past its window: from here on the run acts."""
        await conn.execute("update runs set state = 'acting', reason = null, tries = 0 where id = %s", (run_id,))
        await conn.execute("update mails set state = 'acting' where run_id = %s", (run_id,))

    async def hangs(self, conn: Connection, run_id: UUID, reason: str) -> None:
        """The run can't act on before the person has said something."""
        await self.acting(conn, run_id)
        await conn.execute(
            "update mails set tries = 0, state = 'waiting', reason = %s where run_id = %s", (reason, run_id)
        )

    async def rested(self, conn: Connection, run_id: UUID, state: RunState, answer: str | None = None) -> None:
        """The graph came to rest: in front of a person, or at its end."""
        await threads.went_well(conn, run_id)
        await conn.execute(
            "update runs set state = %s, answer = %s, reason = null, tries = 0 where id = %s", (state, answer, run_id)
        )
        await conn.execute(
            f"""update mails m set tries = 0, reason = coalesce(m.triage_reason, m.reason), state = case
                    when %s = 'waiting' then 'waiting'
                    when m.classification <> 'ignore' and (r.input->>'triage_only')::boolean then 'triaging'
                    when {UNTOLD} then 'triaging' else 'done' end
                from runs r where r.id = m.run_id and r.id = %s""".encode(),
            (state, run_id),
        )

    async def fail(self, conn: Connection, run_id: UUID, reason: str, *, after: bool = False) -> None:
        """Set the run aside; its mails show the reason and can be retried.

        Args:
            after: the reason that is shown now came before, and is kept behind the new one.
        """
        why = """case when %(after)s then concat_ws(': ', %(why)s::text, regexp_replace({}, '^waiting: ', ''))
                 else %(why)s::text end"""
        given = {"after": after, "why": reason, "run": run_id}
        await conn.execute(
            f"update runs set state = 'failed', reason = {why.format('reason')} where id = %(run)s".encode(), given
        )
        await conn.execute(
            f"""update mails m set tries = 0, state = case when {UNTOLD} then 'triaging' else 'failed' end,
                       reason = case when {UNTOLD} then coalesce(m.triage_reason, m.reason)
                                else {why.format("m.reason")} end
                from runs r where r.id = %(run)s and m.account_id = r.account_id
                and (m.run_id = r.id or m.gmail_id = r.mail_id)""".encode(),
            given,
        )

    async def fail_all(self, conn: Connection, thread_id: UUID, reason: str) -> list[UUID]:
        """Set all that is open in a conversation aside; returns its runs."""
        cursor = await conn.execute(
            "select id from runs where thread_id = %s and state = any(%s) order by id", (thread_id, list(OPEN))
        )
        run_ids = [row["id"] for row in await cursor.fetchall()]
        for run_id in run_ids:
            await self.fail(conn, run_id, reason)
        await conn.execute(
            """update mails set state = 'failed', tries = 0, reason = %s
               where thread_id = %s and not own and state in ('new', 'triaging', 'waiting', 'acting')""",
            (reason, thread_id),
        )
        return run_ids

    async def _supersede(self, conn: Connection, run_ids: Sequence[UUID], reason: str, by: UUID | None) -> None:
        """Set runs aside, and what still waits in them."""
        await supersede(conn, run_ids, by)
        await conn.execute(
            "update runs set state = 'superseded', superseded_by = %s, reason = %s where id = any(%s)",
            (by, reason, list(run_ids)),
        )

    # What triage came to

    async def triaged(self, lease: Lease, run: Mapping[str, Any], classification: Classification, reason: str) -> None:
        """Store a mail's class, and why it has it."""
        async with self._pool.connection() as conn, conn.transaction():
            await lease.check(conn)
            await conn.execute(
                """update mails set classification = %(class)s,
                          triage_reason = coalesce(nullif(%(why)s, ''), triage_reason),
                          triaged_at = case when %(why)s = '' and triaged_at is not null then triaged_at
                                       else clock_timestamp() end,
                          labelled = case when classification = %(class)s then labelled end,
                          relabelled = case when classification = %(class)s then relabelled end,
                          reason = coalesce(nullif(%(why)s, ''), triage_reason, reason)
                   where account_id = %(account)s and gmail_id = %(mail)s""",
                {"class": classification, "why": reason, "account": run["account_id"], "mail": run["mail"]},
            )

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
        await self._supersede(conn, [run.id for run in replaced], "newer mail came", run_id)
        await conn.execute(
            """update mails set run_id = %s, state = 'triaging' where thread_id = %s and not own
               and (state = 'triaging' and classification in ('notify', 'respond')
                    or state = 'waiting' and run_id in (select id from runs where superseded_by = %s))""",
            (run_id, thread_id, run_id),
        )
        cursor = await conn.execute(
            """with recursive before as (
                   select id, created_at from runs where superseded_by = %s
                   union select r.id, r.created_at from runs r join before b on r.superseded_by = b.id)
               select id from before order by created_at""",
            (run_id,),
        )
        earlier = [row["id"] for row in await cursor.fetchall()]
        cursor = await conn.execute(
            "select gmail_id from mails where run_id = %s order by received_at, gmail_id", (run_id,)
        )
        return earlier, [row["gmail_id"] for row in await cursor.fetchall()]

    async def leave(self, conn: Connection, run_id: UUID) -> None:
        """Another mail is to be answered: that one's run covers what this run would have."""
        await conn.execute(
            "update mails set run_id = null, tries = 0 where run_id = %s and state = 'triaging'", (run_id,)
        )

    async def put_beside(self, lease: Lease) -> bool:
        """Let mail wait with the run that waits, where it asks less and is from somebody else, or is a stranger's while
        all is decided; False if none does."""
        async with self._pool.connection() as conn, conn.transaction():
            await lease.check(conn)
            cursor = await conn.execute(
                f"""update mails m set run_id = r.id, state = 'waiting', tries = 0 from runs r
                    where r.thread_id = %s and r.state = 'waiting' and m.thread_id = r.thread_id
                    and m.state = 'triaging' and {BESIDE}
                    and not exists (select from runs o where o.id = m.run_id
                                    and o.state in ('running', 'waiting', 'acting'))""".encode(),
                (lease.thread_id,),
            )
        return cursor.rowcount > 0

    # What the person did in Gmail

    async def closed_by_person(
        self, conn: Connection, run_ids: Sequence[UUID], reason: str, upto: datetime | None = None
    ) -> None:
        """The person did something about it in Gmail: nothing is left to do for these runs' mails.

        Mail that only waited with them is worked on by itself.

        Args:
            upto: mail that came later is worked on by itself, too.
        """
        await self._supersede(conn, run_ids, reason, by=None)
        await conn.execute(
            f"""update mails m set state = case when left_over then 'triaging' else 'done' end,
                       reason = case when left_over then coalesce(m.triage_reason, m.reason) else %s end
                from (select m.account_id, m.gmail_id, {UNTOLD} or (m.received_at > %s) is true as left_over
                      from mails m join runs r on r.id = m.run_id where r.id = any(%s)) as theirs
                where m.account_id = theirs.account_id and m.gmail_id = theirs.gmail_id""".encode(),
            (reason, upto, list(run_ids)),
        )

    async def closed_by_putting_away(self, conn: Connection, run: RunRow, reason: str, at: datetime) -> None:
        """The person put the mail away, of that time, that a run answers: nothing is left to do for it, unless the mail
        comes back."""
        await self.closed_by_person(conn, [run.id], reason, at)
        await conn.execute("update runs set closed_with = %s where id = %s", (run.mail_id, run.id))

    async def reopen(self, conn: Connection, run_id: UUID, *, waits: bool, beside: Sequence[UUID]) -> None:
        """The mail with which a run was closed is in the inbox again, and so is the run's work.

        Args:
            waits: it waits for the person as before; else another run is to be made of its mails.
            beside: runs of mails that waited with it, and were worked on by themselves once it was closed.
        """
        if waits:
            await self._supersede(conn, beside, "it waits with other mail again", run_id)
            await conn.execute(
                """update runs set state = 'waiting', reason = null, ended_at = null, pruned = false
                   where id = %s""",
                (run_id,),
            )
            await conn.execute(
                """update mails m set run_id = %s, state = 'waiting', tries = 0,
                          reason = coalesce(m.triage_reason, 'moved back into the inbox')
                   from runs r where r.id = m.run_id and not m.own and (r.id = any(%s)
                       or r.thread_id = m.thread_id and r.closed_with = m.gmail_id and r.id <> %s
                       and m.put_away is null and m.state = 'done' and m.classification = 'notify')
                   and r.thread_id = (select thread_id from runs where id = %s)""",
                (run_id, list(beside), run_id, run_id),
            )
        await conn.execute(
            """update mails set state = %s, tries = 0, reason = coalesce(triage_reason, 'moved back into the inbox')
               where run_id = %s and state = 'done' and not own and put_away is null""",
            ("waiting" if waits else "triaging", run_id),
        )

    async def never_reopen(self, conn: Connection, thread_id: UUID) -> None:
        """What was closed with mail that is in the inbox again stands as it does now."""
        await conn.execute(
            """update runs r set closed_with = null from mails m where r.thread_id = %s and m.put_away is null
               and m.account_id = r.account_id and m.gmail_id = r.closed_with""",
            (thread_id,),
        )

    async def put_away(self, conn: Connection, thread_id: UUID) -> None:
        """Mail that the person put away before any run worked on it needs no work."""
        await conn.execute(
            """update mails m set state = 'done', reason = put_away where thread_id = %s and not own
               and state in ('new', 'triaging') and put_away is not null
               and not exists (select from runs r where r.id = m.run_id and r.state in ('running', 'waiting', 'acting'))
            """,
            (thread_id,),
        )

    async def read_own(self, conn: Connection, thread_id: UUID, wrote_at: datetime | None, reason: str) -> None:
        """The account's own mail needs no work once it was looked at.

        Args:
            wrote_at: when the person wrote in the thread: mail from before, that no run works on, is answered.
        """
        await conn.execute(
            "update mails set state = 'done' where thread_id = %s and own and state = 'new'", (thread_id,)
        )
        await conn.execute(
            """update mails set state = 'done', reason = %s, triage_reason = %s
               where thread_id = %s and not own and state in ('new', 'triaging') and received_at <= %s
               and not exists (select from runs r where r.id = run_id and r.state in ('waiting', 'acting'))""",
            (reason, reason, thread_id, wrote_at),
        )


def _id_of(name: str) -> UUID:
    return uuid5(NAMESPACE_URL, f"email-assistant:{name}")
