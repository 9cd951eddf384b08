"""What is to be done next in a conversation, read from the tables. All SQL on `runs` and on the state of mails."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal
from uuid import NAMESPACE_URL, UUID, uuid5
from zoneinfo import ZoneInfo

from psycopg.types.json import Json
from pydantic import TypeAdapter, ValidationError

from email_assistant.accounts.account import Account
from email_assistant.agents.mail.prompts import Classification
from email_assistant.agents.mail.run import ReplyNeeds, Run
from email_assistant.db.lease import Lease
from email_assistant.db.pool import Connection, Pool
from email_assistant.db.serializer import ForeignCheckpoint
from email_assistant.mail.excerpt import tokens
from email_assistant.mail.message import Mail, references_of
from email_assistant.mail.prompt import FEW_LISTED, MOST_LISTED, for_prompt
from email_assistant.tools.senders import MOST_NAMED, addressed_to, answered_at, everybody

RunState = Literal["running", "waiting", "acting", "done", "failed", "superseded"]

_MAIL = TypeAdapter(Mail)
_TRIAGE_TOKENS = 1400
"""Of a mail's text, as all of these; headers come on top."""
_TRIAGE_TOKENS_OF_BULK = 560
_DRAFTING_TOKENS = 3000
"""Of all mails together."""
_ANSWERED_TOKENS = 2000
"""Of the mail to be answered, where there are others."""
_OTHER_TOKENS = 600
_OTHER_MAILS = 8

# A mail that asks less than the one that a run answers, and that somebody else wrote, waits with that run. What the
# person had answered asks for an answer, whatever it was taken for.
_ASKS_LESS = """m.classification = 'notify' and exists (
    select from mails its where its.account_id = r.account_id and its.gmail_id = r.mail_id and its.sender <> m.sender
    and (its.classification = 'respond'
         or exists (select from inbox_items i where i.run_id = r.id and i.kind <> 'notification')))"""
# So does one of a stranger that came later: nobody whom the person has ever written to, and who had no part in the
# conversation before.
_STRANGERS = """m.classification = 'respond' and m.triaged_at > r.created_at
    and exists (select from mails its where its.account_id = r.account_id and its.gmail_id = r.mail_id
                and its.sender <> m.sender)
    and not exists (select from mails o where o.account_id = m.account_id and o.own
                    and recipients_of(o.content) @> array[m.sender])
    and not exists (select from asked_recipients a where a.account_id = m.account_id and a.address = m.sender
                    and a.written)
    and not exists (select from mails o where o.thread_id = m.thread_id and o.gmail_id <> m.gmail_id
                    and (o.received_at, o.gmail_id) < (m.received_at, m.gmail_id)
                    and (o.sender = m.sender or recipients_of(o.content) @> array[m.sender]))"""
# But only while all is decided: nobody who is let into a conversation can stop what the person has said is to be done.
_ALL_DECIDED = """exists (select from inbox_items i where i.run_id = r.id and i.status = 'decided'
            and i.decision->>'type' in ('accept', 'edit'))
    and not exists (select from inbox_items i where i.run_id = r.id and i.status = 'pending')"""
_BESIDE = f"({_ASKS_LESS} or {_STRANGERS} and {_ALL_DECIDED})"
# At the end of the run it has been told if it stood beside what the person approved, and that was sent.
_UNTOLD = f"""({_STRANGERS} or {_ASKS_LESS} and not exists (
    select from effects e join inbox_items i on i.run_id = e.run_id and i.call_id = e.call_id
    where e.run_id = r.id and e.state = 'done' and e.recipient is not null and i.decided_at > m.triaged_at))"""
_FOREMOST = f"""
select m.gmail_id from mails m
where m.thread_id = %s and not m.own and m.state in ('triaging', 'waiting')
  and m.classification in ('notify', 'respond')
  and not exists (select from runs r where r.thread_id = m.thread_id and r.state = 'waiting' and {_BESIDE})
order by m.classification = 'respond' desc, m.received_at desc, m.gmail_id desc limit 1"""


class DecisionFirst(Exception):
    """A person's decision comes before newer mail."""


@dataclass(frozen=True, slots=True)
class RunRow:
    id: UUID
    mail_id: str
    input: dict[str, Any]
    state: RunState
    waits: bool
    """Something in it waits for a person, or for the end of an undo window."""
    decided: bool
    """All that waited is decided, and every undo window has passed."""
    answered: bool
    """Something in it was decided, and may still be taken back."""


@dataclass(frozen=True, slots=True)
class StoredMail:
    gmail_id: str
    own: bool
    """Sent by the account itself."""
    state: str
    classification: Classification | None
    run_id: UUID | None
    received_at: datetime
    put_away: str | None
    """What the person did with it in Gmail, so that it needs no work."""
    mail: Mail


@dataclass(frozen=True, slots=True)
class Conversation:
    """One Gmail thread with everything that decides what comes next."""

    id: UUID
    account_id: UUID
    gmail_id: str
    mails: Sequence[StoredMail]
    """Oldest first."""
    open_runs: Sequence[RunRow]
    drafted: str | None
    """Gmail's message id of a draft that was written or deleted in it, and not looked at yet."""
    back: UUID | None
    """Of the runs that ended when a mail was put away in Gmail which is in the inbox again by now, the newest of those
    whose mail asks most."""
    foremost: str | None
    """Gmail's id of the mail to be answered: the newest of the highest class among the unanswered ones."""

    def run_in(self, state: RunState) -> RunRow | None:
        return next((run for run in self.open_runs if run.state == state), None)

    @property
    def new(self) -> list[StoredMail]:
        return [m for m in self.mails if m.state == "new"]

    @property
    def uncovered(self) -> list[StoredMail]:
        """Triaged mails that no open run answers."""
        open_ids = {run.id for run in self.open_runs}
        return [m for m in self.mails if m.state == "triaging" and m.run_id not in open_ids]

    @property
    def next_mail(self) -> tuple[StoredMail, bool] | None:
        """The mail to start a run for, and whether that run only triages; None if there is none.

        New mail is triaged oldest first. When all is, the foremost mail's run covers the others, those of a run that
        waits included.
        """
        if new := self.new:
            return new[0], len(new) > 1
        if self.uncovered and self.foremost:
            return self.mail(self.foremost), False
        return None

    def mail(self, gmail_id: str) -> StoredMail:
        return {m.gmail_id: m for m in self.mails}[gmail_id]


class Conversations:
    def __init__(self, pool: Pool, provider: str) -> None:
        self._pool = pool
        self._provider = provider

    async def of_account(self, account_id: UUID) -> list[UUID]:
        rows = await self._rows("select id from threads where account_id = %s", account_id)
        return [row["id"] for row in rows]

    async def load(self, thread_id: UUID) -> Conversation | None:
        """The conversation as it stands; None if its account is gone or not to be worked on.

        Raises:
            ForeignCheckpoint: it can't be read.
        """
        rows = await self._rows(
            """select t.account_id, t.gmail_id, t.drafted, (
                   select r.id from runs r join mails m on m.account_id = r.account_id and m.gmail_id = r.closed_with
                   where r.thread_id = t.id and m.put_away is null
                   order by m.classification = 'respond' desc, r.created_at desc limit 1) as back
               from threads t join accounts a on a.id = t.account_id
               where t.id = %s and a.state = 'active' and a.provider = %s""",
            thread_id,
            self._provider,
        )
        if not rows:
            return None
        runs = await self._rows(
            """select r.id, r.mail_id, r.input, r.state, count(i.id) > 0 as waits,
                      coalesce(bool_and(i.status = 'decided' and i.undo_until <= clock_timestamp()), false) as decided,
                      coalesce(bool_or(i.status = 'decided'), false) as answered
               from runs r left join inbox_items i on i.run_id = r.id and i.status in ('pending', 'decided')
               where r.thread_id = %s and r.state in ('running', 'waiting', 'acting') group by r.id
               order by r.created_at""",
            thread_id,
        )
        if not all(isinstance(run["input"], dict) for run in runs):
            raise ForeignCheckpoint
        return Conversation(
            thread_id,
            rows[0]["account_id"],
            rows[0]["gmail_id"],
            await self.mails(thread_id),
            [RunRow(**row) for row in runs],
            rows[0]["drafted"],
            rows[0]["back"],
            await self.foremost(thread_id),
        )

    async def foremost(self, thread_id: UUID) -> str | None:
        """Gmail's id of the newest mail of the highest class among a thread's unanswered ones.

        Those that wait with the run of another mail are left out.
        """
        rows = await self._rows(_FOREMOST, thread_id)
        return rows[0]["gmail_id"] if rows else None

    async def mails(self, thread_id: UUID) -> list[StoredMail]:
        rows = await self._rows(
            """select gmail_id, own, state, classification, run_id, received_at, put_away, content from mails
               where thread_id = %s order by received_at, gmail_id""",
            thread_id,
        )
        try:
            return [StoredMail(mail=_MAIL.validate_python(row.pop("content")), **row) for row in rows]
        except ValidationError:
            raise ForeignCheckpoint from None

    async def start(
        self, lease: Lease, conversation: Conversation, mail: StoredMail, account: Account, *, triage_only: bool
    ) -> None:
        """Make the run of this mail, ready to go on with. A mail that waits stays with its run until it is replaced."""
        async with self._pool.connection() as conn, conn.transaction():
            await lease.check(conn)
            cursor = await conn.execute(
                "select count(*) as n from runs where thread_id = %s and mail_id = %s", (conversation.id, mail.gmail_id)
            )
            row = await cursor.fetchone()
            attempt = int(row["n"]) + 1 if row else 1
            run_id = _run_id(account.id, conversation.gmail_id, mail.gmail_id, attempt)
            run = _make_run(run_id, conversation, mail, account, triage_only=triage_only)
            await conn.execute(
                """insert into runs (id, user_id, account_id, thread_id, mail_id, attempt, input, state)
                   values (%s, %s, %s, %s, %s, %s, %s, 'running')""",
                (run_id, account.user_id, account.id, conversation.id, mail.gmail_id, attempt, Json(run)),
            )
            await conn.execute(
                """update mails set run_id = %s, state = 'triaging', reason = coalesce(triage_reason, 'being read')
                   where account_id = %s and gmail_id = %s and state <> 'waiting'""",
                (run_id, account.id, mail.gmail_id),
            )

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

    async def classified(self, run_id: UUID) -> tuple[Classification, str] | None:
        """The class of a run's own mail, and why, if this run has come so far before."""
        rows = await self._rows(
            """select m.classification, coalesce(m.triage_reason, '') as reason
               from runs r join mails m on m.account_id = r.account_id and m.gmail_id = r.mail_id
               where r.id = %s and m.classification is not null""",
            run_id,
        )
        return (rows[0]["classification"], rows[0]["reason"]) if rows else None

    async def replaced_by(self, conn: Connection, run_id: UUID, thread_id: UUID) -> list[UUID]:
        """The runs that a run is about to take the place of; what still waits in them is to be closed before.

        Raises:
            DecisionFirst: one of them has been decided for good and must act before.
        """
        cursor = await conn.execute(
            """select r.id from runs r join inbox_items i on i.run_id = r.id and i.status in ('pending', 'decided')
               where r.thread_id = %s and r.id <> %s and r.state = 'waiting' group by r.id
               having bool_and(i.status = 'decided' and i.undo_until <= clock_timestamp())""",
            (thread_id, run_id),
        )
        if await cursor.fetchone():
            raise DecisionFirst
        cursor = await conn.execute(
            "select id from runs where thread_id = %s and id <> %s and state in ('running', 'waiting')",
            (thread_id, run_id),
        )
        return [row["id"] for row in await cursor.fetchall()]

    async def take_over(self, conn: Connection, run_id: UUID, thread_id: UUID) -> tuple[list[UUID], list[StoredMail]]:
        """Let a run cover all that is unanswered in its thread, in place of the runs that did. May be repeated.

        Returns:
            The runs it took the place of, oldest first, directly or through others, and the mails that it covers.
        """
        await conn.execute(
            """update runs set state = 'superseded', superseded_by = %s, reason = 'newer mail came'
               where thread_id = %s and id <> %s and state in ('running', 'waiting')""",
            (run_id, thread_id, run_id),
        )
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
        mails = await self.mails(thread_id)
        cursor = await conn.execute("select gmail_id from mails where run_id = %s", (run_id,))
        covered = {row["gmail_id"] for row in await cursor.fetchall()}
        return earlier, [m for m in mails if m.gmail_id in covered]

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
                    and m.state = 'triaging' and {_BESIDE}
                    and not exists (select from runs o where o.id = m.run_id
                                    and o.state in ('running', 'waiting', 'acting'))""".encode(),
                (lease.thread_id,),
            )
        return cursor.rowcount > 0

    async def covered(self, run_id: UUID) -> list[str]:
        """Gmail's ids of the mails that a run answers, were it to end now."""
        rows = await self._rows(
            f"""select m.gmail_id from mails m join runs r on r.id = m.run_id
                where r.id = %s and not {_UNTOLD} order by m.received_at, m.gmail_id""",
            run_id,
        )
        return [row["gmail_id"] for row in rows]

    async def start_work(self, lease: Lease, run: RunRow, most_tries: int) -> bool:
        """Count a try at this run before it starts, since the try may kill the process; False if there were enough."""
        async with self._pool.connection() as conn, conn.transaction():
            await lease.check(conn)
            cursor = await conn.execute(
                """update mails set tries = tries + 1 where account_id = (select account_id from runs where id = %s)
                   and gmail_id = %s returning tries""",
                (run.id, run.mail_id),
            )
            row = await cursor.fetchone()
        return row is not None and int(row["tries"]) <= most_tries

    async def progressed(self, conn: Connection, run: RunRow, state: RunState) -> None:
        """The graph came to rest: in front of a person, or at its end."""
        await conn.execute("update runs set state = %s where id = %s", (state, run.id))
        await conn.execute(
            "update threads set outages = 0 where id = (select thread_id from runs where id = %s)", (run.id,)
        )
        await conn.execute(
            f"""update mails m set tries = 0, reason = coalesce(m.triage_reason, m.reason), state = case
                    when %s = 'waiting' then 'waiting'
                    when m.classification <> 'ignore' and (r.input->>'triage_only')::boolean then 'triaging'
                    when {_UNTOLD} then 'triaging' else 'done' end
                from runs r where r.id = m.run_id and r.id = %s""".encode(),
            (state, run.id),
        )

    async def acting(self, conn: Connection, run_id: UUID) -> None:
        """Every answer is in and past its window: from here on the run acts."""
        await conn.execute("update runs set state = 'acting' where id = %s", (run_id,))
        await conn.execute("update mails set state = 'acting' where run_id = %s", (run_id,))

    async def hangs(self, conn: Connection, run_id: UUID, reason: str) -> None:
        """The run can't act on before the person has said something."""
        await conn.execute(
            "update mails set tries = 0, state = 'waiting', reason = %s where run_id = %s", (reason, run_id)
        )

    async def closed_by_person(
        self, conn: Connection, run_ids: Iterable[UUID], reason: str, upto: datetime | None = None
    ) -> None:
        """The person did something about it in Gmail: nothing is left to do for these runs' mails.

        Mail that only waited with them is worked on by itself.

        Args:
            upto: mail that came later is worked on by itself, too.
        """
        ids = list(run_ids)
        await conn.execute("update runs set state = 'superseded', reason = %s where id = any(%s)", (reason, ids))
        await conn.execute(
            f"""update mails m set state = case when left_over then 'triaging' else 'done' end,
                       reason = case when left_over then coalesce(m.triage_reason, m.reason) else %s end
                from (select m.account_id, m.gmail_id, {_UNTOLD} or (m.received_at > %s) is true as left_over
                      from mails m join runs r on r.id = m.run_id where r.id = any(%s)) as theirs
                where m.account_id = theirs.account_id and m.gmail_id = theirs.gmail_id""".encode(),
            (reason, upto, ids),
        )

    async def closed_by_putting_away(self, conn: Connection, run_id: UUID, mail: StoredMail, reason: str) -> None:
        """The person put the mail that a run answers away: nothing is left to do for it, unless the mail comes back."""
        await self.closed_by_person(conn, [run_id], reason, mail.received_at)
        await conn.execute("update runs set closed_with = %s where id = %s", (mail.gmail_id, run_id))

    async def ended_at(self, run_id: UUID) -> datetime:
        rows = await self._rows("select coalesce(ended_at, created_at) as at from runs where id = %s", run_id)
        at: datetime = rows[0]["at"]
        return at

    async def reopen(self, conn: Connection, run_id: UUID, *, waits: bool, beside: Sequence[UUID]) -> None:
        """The mail with which a run was closed is in the inbox again, and so is the run's work.

        Args:
            waits: it waits for the person as before; else another run is to be made of its mails.
            beside: runs of mails that waited with it, and were worked on by themselves once it was closed.
        """
        if waits:
            await conn.execute(
                """update runs set state = 'superseded', superseded_by = %s, reason = 'it waits with other mail again'
                   where id = any(%s)""",
                (run_id, list(beside)),
            )
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

    async def looked_at_draft(self, conn: Connection, thread_id: UUID, message_id: str) -> None:
        await conn.execute("update threads set drafted = null where id = %s and drafted = %s", (thread_id, message_id))

    async def read_own(self, conn: Connection, thread_id: UUID) -> None:
        """The account's own mail needs no work once it was looked at."""
        await conn.execute(
            "update mails set state = 'done' where thread_id = %s and own and state = 'new'", (thread_id,)
        )

    async def answered_before(self, conn: Connection, thread_id: UUID, at: datetime, reason: str) -> None:
        """The person wrote in the thread at that time: mail from before, that no run works on, is answered."""
        await conn.execute(
            """update mails set state = 'done', reason = %s, triage_reason = %s
               where thread_id = %s and not own and state in ('new', 'triaging') and received_at <= %s
               and not exists (select from runs r where r.id = run_id and r.state in ('waiting', 'acting'))""",
            (reason, reason, thread_id, at),
        )

    async def fail(self, conn: Connection, run_id: UUID, reason: str, *, after: bool = False) -> None:
        """Set the run aside; its mails show the reason and can be retried.

        Args:
            after: the reason that the mails show now came before, and is kept behind the new one.
        """
        await conn.execute("update runs set state = 'failed', reason = %s where id = %s", (reason, run_id))
        await conn.execute(
            f"""update mails m set tries = 0, state = case when {_UNTOLD} then 'triaging' else 'failed' end,
                       reason = case when {_UNTOLD} then coalesce(m.triage_reason, m.reason) when %s
                                then concat_ws(': ', %s::text, regexp_replace(m.reason, '^waiting: ', '')) else %s end
                from runs r where r.id = %s and m.account_id = r.account_id
                and (m.run_id = r.id or m.gmail_id = r.mail_id)""".encode(),
            (after, reason, reason, run_id),
        )

    async def fail_all(self, conn: Connection, thread_id: UUID, reason: str) -> list[UUID]:
        """Set all that is open in a conversation aside; returns its runs."""
        cursor = await conn.execute(
            "select id from runs where thread_id = %s and state in ('running', 'waiting', 'acting') order by id",
            (thread_id,),
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

    async def input_of(self, run_id: UUID) -> dict[str, Any]:
        """Raises ForeignCheckpoint."""
        rows = await self._rows("select input from runs where id = %s", run_id)
        found = rows[0]["input"]
        if not isinstance(found, dict):
            raise ForeignCheckpoint
        return found

    async def back_off(
        self, lease: Lease, run: RunRow | None, reason: str, until: datetime | None, *, outage: bool
    ) -> None:
        """Come back later; an outage is nobody's fault, so it is not counted as a try at the mail."""
        async with self._pool.connection() as conn, conn.transaction():
            await lease.check(conn)
            await conn.execute(
                """update threads set outages = outages + 1, not_before = greatest(%s, clock_timestamp()
                          + back_off(outages, '1 second', '5 minutes'))
                   where id = %s""",
                (until or datetime.now(UTC), lease.thread_id),
            )
            await conn.execute(
                """update mails set reason = %s where thread_id = %s and state in ('new', 'triaging', 'acting')""",
                (f"waiting: {reason}", lease.thread_id),
            )
            if run is not None and outage:
                await self._untry(conn, run)

    async def handed_back(self, lease: Lease, run: RunRow) -> None:
        """The process is stopping: the try that it broke off doesn't count. One that lost its lease does."""
        async with self._pool.connection() as conn, conn.transaction():
            await lease.check(conn)
            await self._untry(conn, run)

    async def _untry(self, conn: Connection, run: RunRow) -> None:
        await conn.execute(
            """update mails set tries = greatest(0, tries - 1)
               where account_id = (select account_id from runs where id = %s) and gmail_id = %s""",
            (run.id, run.mail_id),
        )

    async def finished(self, before: timedelta) -> list[UUID]:
        """Runs that ended, begun longer ago than this, whose checkpoints are all still there."""
        rows = await self._rows(
            """select id from runs where not pruned and created_at < clock_timestamp() - %s
               and state in ('done', 'superseded') limit 1000""",
            before,
        )
        return [row["id"] for row in rows]

    async def pruned(self, run_ids: Sequence[UUID]) -> None:
        await self._rows(
            """update runs set pruned = true
               where id in (select id from runs where id = any(%s) order by id for no key update)""",
            list(run_ids),
        )

    async def mark_complete(self, thread_id: UUID) -> None:
        await self._rows("update threads set complete = true where id = %s", thread_id)

    async def is_complete(self, thread_id: UUID) -> bool:
        rows = await self._rows("select complete from threads where id = %s", thread_id)
        return bool(rows and rows[0]["complete"])

    async def _rows(self, query: str, *parameters: object) -> list[dict[str, Any]]:
        async with self._pool.connection() as conn:
            cursor = await conn.execute(query.encode(), parameters)
            return await cursor.fetchall() if cursor.description else []


def _run_id(account: UUID, thread: str, mail: str, attempt: int) -> UUID:
    return uuid5(NAMESPACE_URL, f"email-assistant:{account}/{thread}/{mail}/{attempt}")


def _make_run(
    run_id: UUID, conversation: Conversation, stored: StoredMail, account: Account, *, triage_only: bool
) -> Run:
    mail = stored.mail
    to = answered_at(account, mail, own=stored.own)
    everyone = everybody(account, mail, own=stored.own)
    return Run(
        id=str(run_id),
        account_id=str(account.id),
        address=account.address,
        thread=conversation.gmail_id,
        mail=stored.gmail_id,
        mails=[m.gmail_id for m in conversation.mails],
        text=triage_text(stored, account.zone),
        reply=ReplyNeeds(
            to=to[0] if to else None,
            also_to=to[1:],
            everyone=everyone[:MOST_NAMED],
            more=max(0, len(everyone) - MOST_NAMED),
            addressed=addressed_to(account, mail),
            subject=mail.subject,
            in_reply_to=mail.message_id,
            references=list(references_of(mail)),
        ),
        invitation=next((m.mail.event.uid for m in reversed(conversation.mails) if m.mail.event), None),
        automatic=mail.auto_submitted or mail.bulk,
        given=stored.classification,
        triage_only=triage_only,
    )


def triage_text(stored: StoredMail, zone: ZoneInfo) -> str:
    """What triage is shown of a mail."""
    limit = _TRIAGE_TOKENS_OF_BULK if stored.mail.bulk else _TRIAGE_TOKENS
    return for_prompt(stored.mail, stored.gmail_id, timezone=zone, limit=limit, measure=tokens)


def conversation_text(mails: Sequence[StoredMail], answered: str, newest: str, zone: ZoneInfo) -> str:
    """The thread up to a newest mail, each mail delimited; the one to be answered stands last and has most room."""
    upto = [m.gmail_id for m in mails].index(newest) + 1
    others = [m for m in mails[:upto] if m.gmail_id != answered][-_OTHER_MAILS:]
    [its] = [m for m in mails if m.gmail_id == answered]
    limits = {answered: _ANSWERED_TOKENS if others else _DRAFTING_TOKENS}
    left = _DRAFTING_TOKENS - min(tokens(its.mail.body), _ANSWERED_TOKENS)
    for number, m in enumerate(reversed(others)):  # what one leaves of its share is for those before it
        limits[m.gmail_id] = min(left // (len(others) - number), _OTHER_TOKENS)
        left -= min(tokens(m.mail.body), limits[m.gmail_id])
    return "\n".join(
        for_prompt(
            m.mail,
            m.gmail_id,
            timezone=zone,
            limit=limits[m.gmail_id],
            measure=tokens,
            people=MOST_LISTED if m is its else FEW_LISTED,  # whoever answers all must see them all
        )
        for m in [*others, its]
    )
