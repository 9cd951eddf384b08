"""Mail that came in and what became of it, as the person sees it. What the account sent is not listed."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, get_args
from uuid import UUID

from psycopg.rows import class_row

from email_assistant.db.lease import Lease
from email_assistant.db.pool import Connection, Pool
from email_assistant.inbox.items import PAGE, Conflict, Enqueue, NoItem, supersede
from email_assistant.inbox.pages import make_cursor, read_cursor
from email_assistant.inbox.search import of_words

State = Literal["new", "triaging", "waiting", "acting", "done", "failed"]
STATES: tuple[State, ...] = get_args(State)
Class = Literal["ignore", "notify", "respond"]
CLASSES: tuple[Class, ...] = get_args(Class)

CORRECTED = "you said so"
"""How the reason of a class begins that the person gave."""

_COLUMNS = """m.gmail_id as id, a.address as account, t.gmail_id as thread, m.sender, m.subject, m.received_at,
    m.state, m.classification, m.reason"""
_TABLES = "mails m join accounts a on a.id = m.account_id join threads t on t.id = m.thread_id"


@dataclass(frozen=True, slots=True)
class MailRow:
    id: str
    """Gmail's id, unique in its account."""
    account: str
    thread: str
    """Gmail's id of the conversation."""
    sender: str
    subject: str
    received_at: datetime
    state: State
    classification: str | None
    reason: str | None


@dataclass(frozen=True, slots=True)
class Correction:
    """The person's word on what a mail is."""

    id: UUID
    account_id: UUID
    mail_id: str
    sender: str
    subject: str
    by: str
    """Where it was given, such as "cli"."""
    classification: Class
    at: datetime
    triaged_as: Class
    """The class that the mail had before the person said anything."""


class Mails:
    def __init__(self, pool: Pool, *, enqueue: Enqueue) -> None:
        self._pool = pool
        self._enqueue = enqueue

    async def page(
        self,
        user_id: UUID,
        *,
        state: State | None = None,
        account: str | None = None,
        cursor: str | None = None,
        limit: int = PAGE,
    ) -> tuple[list[MailRow], str | None]:
        """One page, newest first, and the cursor of the next page if there is one. Raises BadCursor."""
        where: list[str] = ["m.user_id = %s and not m.own"]
        parameters: list[Any] = [user_id]
        if state:
            where.append("m.state = %s")
            parameters.append(state)
        if account:
            where.append("a.address = %s")
            parameters.append(account.lower())
        if cursor:
            where.append("(m.received_at, m.gmail_id) < (%s, %s)")
            parameters += read_cursor(cursor)
        rows = await self._mails(
            f"{' and '.join(where)} order by m.received_at desc, m.gmail_id desc limit %s", *parameters, limit + 1
        )
        more = len(rows) > limit
        return rows[:limit], make_cursor(rows[limit - 1].received_at, rows[limit - 1].id) if more else None

    async def find(
        self, user_id: UUID, account_id: UUID, words: str, classification: Class | None, most: int
    ) -> list[MailRow]:
        """An account's mails in whose sender, subject or text stand all of the words, or what begins so; newest first.

        Args:
            words: none finds any mail.
            classification: None finds any class, and mail without one.
        """
        where: list[str] = ["m.user_id = %s and m.account_id = %s and not m.own"]
        parameters: list[Any] = [user_id, account_id]
        if query := of_words(words):
            where.append("mail_words(m.sender, m.subject, m.content) @@ to_tsquery('simple', %s)")
            parameters.append(query)
        if classification:
            where.append("m.classification = %s")
            parameters.append(classification)
        return await self._mails(
            f"{' and '.join(where)} order by m.received_at desc, m.gmail_id desc limit %s", *parameters, most
        )

    async def get(self, user_id: UUID, mail_id: str, account: str | None = None) -> MailRow:
        """One mail.

        Raises:
            NoItem: no such mail, or one in several accounts and none was named.
        """
        found = await self._mails(
            "m.user_id = %s and m.gmail_id = %s and a.address = coalesce(%s, a.address)",
            user_id,
            mail_id,
            account.lower() if account else None,
        )
        if len(found) != 1:
            raise NoItem(
                f"there is no mail {mail_id}" if not found else f"several accounts have a mail {mail_id}: name one"
            )
        return found[0]

    async def retry(self, user_id: UUID, mail_id: str, account: str | None = None) -> MailRow:
        """Take a failed mail up again, with the class that it has.

        Raises:
            NoItem: no such mail, or one in several accounts and none was named.
            Conflict: it has not failed.
        """
        found = await self.get(user_id, mail_id, account)
        async with self._pool.connection() as conn, conn.transaction():
            await conn.execute(
                """select from threads t join mails m on m.thread_id = t.id join accounts a on a.id = m.account_id
                   where a.address = %s and m.user_id = %s and m.gmail_id = %s for no key update of t""",
                (found.account, user_id, mail_id),
            )
            cursor = await conn.execute(
                """update mails m set tries = 0, reason = 'tried again', put_away = null,
                          state = case when classification in ('notify', 'respond') then 'triaging' else 'new' end
                   from accounts a where a.id = m.account_id and a.address = %s and m.user_id = %s and m.gmail_id = %s
                   and m.state = 'failed' and m.readable returning m.thread_id""",
                (found.account, user_id, mail_id),
            )
            row = await cursor.fetchone()
            if row is None:
                if found.state == "failed":
                    raise Conflict("Gmail did not give this mail, so there is nothing to work on; open it in Gmail")
                raise Conflict(f"this mail is {found.state}; only failed mail can be tried again")
            await conn.execute(
                "update threads set not_before = '-infinity', outages = 0 where id = %s", (row["thread_id"],)
            )
            await self._enqueue(conn, row["thread_id"], None)
        return await self.get(user_id, mail_id, found.account)

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
        """
        found = await self.get(user_id, mail_id, account)
        if found.classification == classification:
            raise Conflict(f"this mail is {classification} already")
        async with self._pool.connection() as conn, conn.transaction():
            await conn.execute(
                "select from accounts where user_id = %s and address = %s for key share", (user_id, found.account)
            )
            thread_id, account_id = await self._rested(conn, user_id, found)
            await self._carry_out(conn, account_id, mail_id, classification, by)
            await self._enqueue(conn, thread_id, None)
        return await self.get(user_id, mail_id, found.account)

    async def correct_under(
        self, conn: Connection, lease: Lease, account_id: UUID, mail_id: str, classification: Class, by: str
    ) -> None:
        """`correct`, in the caller's transaction, by whoever works on the conversation.

        Raises:
            Conflict: a run of the conversation, or an answer on the mail that was taken, comes first.
            LeaseLost.
        """
        await lease.check(conn)
        cursor = await conn.execute(
            """select from mails where account_id = %s and gmail_id = %s and thread_id = %s
               and state in ('waiting', 'done', 'failed') and classification is not null
               and not exists (select from runs where thread_id = %s and state in ('running', 'acting'))""",
            (account_id, mail_id, lease.thread_id, lease.thread_id),
        )
        if await cursor.fetchone() is None:
            raise Conflict("its conversation is being worked on")
        await self._carry_out(conn, account_id, mail_id, classification, by)

    async def unlearned(self, provider: str) -> list[UUID]:
        """Accounts with corrections that something may still be learned from, now."""
        async with self._pool.connection() as conn:
            cursor = await conn.execute(
                """select distinct c.account_id from corrections c join accounts a on a.id = c.account_id
                   where c.learned_at is null and a.provider = %s and a.state = 'active'""",
                (provider,),
            )
            return [row["account_id"] for row in await cursor.fetchall()]

    async def corrections(self, account_id: UUID) -> list[Correction]:
        """Corrections that nothing was learned from yet, oldest first; of each mail only the last word counts."""
        async with self._pool.connection() as conn, conn.cursor(row_factory=class_row(Correction)) as cursor:
            await cursor.execute(
                """select distinct on (c.mail_id) c.id, c.account_id, c.mail_id, m.sender, m.subject, c.by,
                          c.classification, c.at,
                          (select f.was from corrections f where f.account_id = c.account_id and f.mail_id = c.mail_id
                           order by f.at limit 1) as triaged_as
                   from corrections c join mails m on m.account_id = c.account_id and m.gmail_id = c.mail_id
                   where c.account_id = %s and c.learned_at is null order by c.mail_id, c.at desc""",
                (account_id,),
            )
            return sorted(await cursor.fetchall(), key=lambda correction: correction.at)

    async def learned(self, correction: Correction) -> None:
        """Nothing is left to learn from this correction, and from earlier ones of its mail."""
        async with self._pool.connection() as conn:
            await conn.execute(
                """update corrections set learned_at = clock_timestamp()
                   where id in (select id from corrections where account_id = %s and mail_id = %s and at <= %s
                                and learned_at is null order by id for no key update)""",
                (correction.account_id, correction.mail_id, correction.at),
            )

    async def _rested(self, conn: Connection, user_id: UUID, mail: MailRow) -> tuple[UUID, UUID]:
        """The mail's conversation and account; nobody works on it, and nobody takes it up before the caller's end."""
        cursor = await conn.execute(
            """update threads t set not_before = '-infinity', outages = 0 from mails m, accounts a
               where m.thread_id = t.id and a.id = m.account_id and a.address = %s and m.user_id = %s
               and m.gmail_id = %s and m.state in ('waiting', 'done', 'failed') and m.readable
               and m.classification is not null and a.state <> 'removing' and t.lease_until < clock_timestamp()
               and not exists (select from runs r where r.thread_id = t.id and r.state in ('running', 'acting'))
               returning t.id, t.account_id""",
            (mail.account, user_id, mail.id),
        )
        row = await cursor.fetchone()
        if row is not None:
            return row["id"], row["account_id"]
        if mail.classification is None:
            raise Conflict(f"this mail was not triaged, so there is nothing to correct ({mail.reason or mail.state})")
        raise Conflict("its conversation is being worked on; try again when it rests")

    async def _carry_out(
        self, conn: Connection, account_id: UUID, mail_id: str, classification: Class, by: str
    ) -> None:
        await self._reopen(conn, account_id, mail_id, classification)
        # Its class counts for more than that it left the inbox: what had closed with it does not come back with it.
        await conn.execute(
            "update runs set closed_with = null where account_id = %s and closed_with = %s", (account_id, mail_id)
        )
        await conn.execute(
            """insert into corrections (user_id, account_id, mail_id, by, classification, was, because, triaged_at)
               select user_id, account_id, gmail_id, %s, %s, classification, triage_reason, triaged_at from mails
               where account_id = %s and gmail_id = %s""",
            (by, classification, account_id, mail_id),
        )
        await conn.execute(
            """update mails set classification = %(class)s, triage_reason = %(why)s, reason = %(why)s, tries = 0,
                      triaged_at = statement_timestamp(), labelled = null, relabelled = null,
                      put_away = null,
                      state = case when %(class)s = 'ignore' then 'done' else 'triaging' end
               where account_id = %(account)s and gmail_id = %(mail)s""",
            {
                "class": classification,
                "why": f"{CORRECTED}: {classification}",
                "account": account_id,
                "mail": mail_id,
            },
        )

    async def _reopen(self, conn: Connection, account_id: UUID, mail_id: str, classification: Class) -> None:
        """Close the run that answers the mail, if it waits; other mails of that run are to be worked on again.

        A run that answers another mail needs no closing for one that is to be ignored.
        """
        if classification == "ignore":
            left = await conn.execute(
                """update mails m set run_id = null from runs r where m.account_id = %s and m.gmail_id = %s
                   and r.id = m.run_id and r.state = 'waiting' and r.mail_id <> m.gmail_id""",
                (account_id, mail_id),
            )
            if left.rowcount:
                return
        cursor = await conn.execute(
            """select r.id from mails m join runs r on r.id = m.run_id
               where m.account_id = %s and m.gmail_id = %s and r.state = 'waiting'""",
            (account_id, mail_id),
        )
        run = await cursor.fetchone()
        if run is None:
            return
        cursor = await conn.execute(
            """select status from inbox_items where run_id = %s and status in ('pending', 'decided')
               order by id for no key update""",
            (run["id"],),
        )
        if any(row["status"] == "decided" for row in await cursor.fetchall()):
            raise Conflict("an answer on this mail was taken; undo it first, or wait until it is carried out")
        await supersede(conn, [run["id"]], None)
        await conn.execute(
            "update runs set state = 'superseded', reason = %s where id = %s", ("you corrected its class", run["id"])
        )
        await conn.execute(
            "update mails set state = 'triaging' where run_id = %s and state = 'waiting' and gmail_id <> %s",
            (run["id"], mail_id),
        )

    async def counts(self, user_id: UUID) -> dict[str, dict[str, int]]:
        """Numbers of mails `by_state` and `by_classification`, the account's own mail left out."""
        async with self._pool.connection() as conn:
            cursor = await conn.execute(
                """select state, coalesce(classification, 'none') as classification, count(*) as n
                   from mails where user_id = %s and not own group by 1, 2""",
                (user_id,),
            )
            rows = await cursor.fetchall()
        counts: dict[str, dict[str, int]] = {"by_state": {}, "by_classification": {}}
        for row in rows:
            for group, key in (("by_state", row["state"]), ("by_classification", row["classification"])):
                counts[group][key] = counts[group].get(key, 0) + row["n"]
        return counts

    async def _mails(self, where: str, *parameters: object) -> list[MailRow]:
        async with self._pool.connection() as conn, conn.cursor(row_factory=class_row(MailRow)) as cursor:
            await cursor.execute(f"select {_COLUMNS} from {_TABLES} where {where}".encode(), parameters)
            return await cursor.fetchall()
