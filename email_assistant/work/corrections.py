"""What the person says of mail: that it is of another class, or that it is to be tried again."""

from uuid import UUID

from psycopg.rows import class_row

from email_assistant.db import mails, runs, threads
from email_assistant.db.lease import Lease
from email_assistant.db.pool import Connection, Pool, Statement
from email_assistant.db.statements import statements
from email_assistant.inbox.items import Conflict
from email_assistant.inbox.mails import CORRECTED, Class, Correction, MailRow, Mails
from email_assistant.inbox.person import Enqueue
from email_assistant.inbox.questions import Questions
from email_assistant.mail.message import NOT_KEPT
from email_assistant.work import outcomes

_SQL = statements("work", "corrections.sql")


class NothingToAnswer(Conflict):
    """The text of a mail was kept for its time: what was written of it would be of its sender and subject alone."""

    def __init__(self) -> None:
        super().__init__(
            "the text of this mail is no longer kept here, so no reply to it is proposed: answer it in Gmail"
        )


class Corrections:
    def __init__(self, pool: Pool, mails: Mails, questions: Questions, *, enqueue: Enqueue) -> None:
        self._pool = pool
        self._mails = mails
        self._questions = questions
        self._enqueue = enqueue

    async def retry(self, user_id: UUID, mail_id: str, account: str | None = None) -> MailRow:
        """Take a failed mail up again, with the class that it has.

        Raises:
            NoItem: no such mail, or one in several accounts and none was named.
            Conflict: it has not failed.
        """
        found = await self._mails.get(user_id, mail_id, account)
        async with self._pool.connection() as conn, conn.transaction():
            await conn.execute(_SQL["lock"].encode(), (found.account, user_id, mail_id))
            thread_id = await mails.retry(conn, user_id, found.account, mail_id)
            if thread_id is None and found.state == "failed":
                raise Conflict("Gmail did not give this mail yet and is asked again by itself; open it in Gmail")
            if thread_id is None:
                raise Conflict(f"this mail is {found.state}; only failed mail can be tried again")
            await threads.anew(conn, thread_id)
            await self._enqueue(conn, thread_id, None)
        return await self._mails.get(user_id, mail_id, found.account)

    async def correct(
        self, user_id: UUID, mail_id: str, classification: Class, by: str, account: str | None = None
    ) -> MailRow:
        """Carry out the person's word on what a mail is: another run of it is started, with that class.

        What waits because of the old class is superseded. What was sent is not taken back.

        Args:
            by: where it was given, such as "cli".

        Raises:
            NoItem: no such mail, or one in several accounts and none was named.
            Conflict: it is of that class, was not triaged, or is being worked on; or an answer on it was taken already.
            NothingToAnswer: it is to be answered, and its text is not kept.
        """
        found = await self._mails.get(user_id, mail_id, account)
        if found.classification == classification:
            raise Conflict(f"this mail is {classification} already")
        async with self._pool.connection() as conn, conn.transaction():
            await conn.execute(
                "select from accounts where user_id = %s and address = %s for key share", (user_id, found.account)
            )
            thread_id, account_id = await self._rested(conn, user_id, found)
            await self._carry_out(conn, account_id, mail_id, classification, by)
            await threads.anew(conn, thread_id)
            await self._enqueue(conn, thread_id, None)
        return await self._mails.get(user_id, mail_id, found.account)

    async def correct_under(
        self, conn: Connection, lease: Lease, account_id: UUID, mail_id: str, classification: Class, by: str
    ) -> None:
        """`correct`, in the caller's transaction, by whoever works on the conversation.

        Raises:
            Conflict: a run of the conversation, or an answer on the mail that was taken, comes first.
            NothingToAnswer: it is to be answered, and its text is not kept.
            LeaseLost.
        """
        await lease.check(conn)
        cursor = await conn.execute(
            _SQL["may_correct"].encode(), (account_id, mail_id, lease.thread_id, lease.thread_id)
        )
        if await cursor.fetchone() is None:
            raise Conflict("its conversation is being worked on")
        await self._carry_out(conn, account_id, mail_id, classification, by)

    @staticmethod
    def unlearned(provider: str) -> Statement:
        """What gives accounts with corrections that something may still be learned from, now."""
        return _SQL["unlearned"], (provider,)

    async def of(self, account_id: UUID) -> list[Correction]:
        """Corrections that nothing was learned from yet, oldest first; of each mail only the last word counts."""
        async with self._pool.connection() as conn, conn.cursor(row_factory=class_row(Correction)) as cursor:
            await cursor.execute(_SQL["to_learn"].encode(), (account_id,))
            return sorted(await cursor.fetchall(), key=lambda correction: correction.at)

    async def learned(self, correction: Correction) -> None:
        """Nothing is left to learn from this correction, and from earlier ones of its mail."""
        async with self._pool.connection() as conn:
            await conn.execute(_SQL["learned"].encode(), (correction.account_id, correction.mail_id, correction.at))

    async def _rested(self, conn: Connection, user_id: UUID, mail: MailRow) -> tuple[UUID, UUID]:
        """The mail's conversation and account; nobody works on it, and nobody takes it up before the caller's end."""
        cursor = await conn.execute(_SQL["lock_rested"].encode(), (mail.account, user_id, mail.id))
        row = await cursor.fetchone()
        if row is not None:
            return row["id"], row["account_id"]
        if mail.classification is None:
            raise Conflict(f"this mail was not triaged, so there is nothing to correct ({mail.reason or mail.state})")
        raise Conflict("its conversation is being worked on; try again when it rests")

    async def _carry_out(
        self, conn: Connection, account_id: UUID, mail_id: str, classification: Class, by: str
    ) -> None:
        cursor = await conn.execute(_SQL["without_text"].encode(), (account_id, mail_id, NOT_KEPT))
        if classification == "respond" and await cursor.fetchone() is not None:
            raise NothingToAnswer
        await self._reopen(conn, account_id, mail_id, classification)
        # Its class counts for more than that it left the inbox: what had closed with it does not come back with it.
        await runs.not_closed_with(conn, account_id, mail_id)
        await conn.execute(_SQL["keep"].encode(), (by, classification, account_id, mail_id))
        await mails.correct(conn, account_id, mail_id, classification, f"{CORRECTED}: {classification}")
        await outcomes.corrected(conn, account_id, mail_id, classification)

    async def _reopen(self, conn: Connection, account_id: UUID, mail_id: str, classification: Class) -> None:
        """Close the run that answers the mail, if it waits; other mails of that run are to be worked on again.

        A run that answers another mail needs no closing for one that is to be ignored.
        """
        if classification == "ignore" and await mails.wait_no_more(conn, account_id, mail_id):
            return
        cursor = await conn.execute(_SQL["waiting_run"].encode(), (account_id, mail_id))
        run = await cursor.fetchone()
        if run is None:
            return
        cursor = await conn.execute(_SQL["lock_open"].encode(), (run["id"],))
        if any(row["status"] == "decided" for row in await cursor.fetchall()):
            raise Conflict("an answer on this mail was taken; undo it first, or wait until it is carried out")
        await self._questions.supersede(conn, [run["id"]], None)
        await runs.supersede(conn, [run["id"]], "you corrected its class", None)
        await mails.others_again(conn, run["id"], mail_id)
