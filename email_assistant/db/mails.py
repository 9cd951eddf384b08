"""The row of a mail: what changes it (its SQL: `mails.sql`), in the caller's transaction.

A mail is `new → triaging → waiting → acting → done`, or `failed`; whoever changes that has locked its conversation.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg import AsyncCursor

from email_assistant.db.lease import HELD, Lease, RowChange
from email_assistant.db.pool import Connection
from email_assistant.db.statements import statements

# A mail that asks less than the one that a run answers, and that somebody else wrote, or a program, waits with that
# run. What the person had answered asks for an answer, whatever it was taken for.
_ASKS_LESS = """m.classification = 'notify' and exists (
    select from mails its where its.account_id = r.account_id and its.gmail_id = r.mail_id
    and (its.sender <> m.sender
         or its.gmail_id <> m.gmail_id and 'true' in (m.content->>'auto_submitted', m.content->>'bulk'))
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
BESIDE = f"({_ASKS_LESS} or {_STRANGERS} and {_ALL_DECIDED})"
# At the end of the run it has been told if it stood beside what the person approved, and that was sent.
UNTOLD = f"""({_STRANGERS} or {_ASKS_LESS} and not exists (
    select from effects e join inbox_items i on i.run_id = e.run_id and i.call_id = e.call_id
    where e.run_id = r.id and e.state = 'done' and e.recipient is not null and i.decided_at > m.triaged_at))"""
# Nor has it been answered if somebody else asked for it than whom the run answers, and no letter of it reached them.
UNREACHED = """m.classification = 'respond' and exists (
    select from mails its where its.account_id = r.account_id and its.gmail_id = r.mail_id and its.sender <> m.sender)
    and not exists (select from effects e where e.run_id = r.id and e.state = 'done' and e.recipient is not null
                    and addresses_in(e.args) @> array[m.sender])"""


_SQL = statements("db", "mails.sql", beside=BESIDE, unreached=UNREACHED, untold=UNTOLD, held=HELD)


async def _run(conn: Connection, statement: str, **given: object) -> AsyncCursor[dict[str, Any]]:
    return await conn.execute(_SQL[statement].encode(), given)


async def _threads(cursor: AsyncCursor[dict[str, Any]]) -> list[UUID]:
    return [row["thread_id"] for row in await cursor.fetchall()]


# What comes from Gmail


async def insert(conn: Connection, user_id: UUID, account_id: UUID, rows: Sequence[Mapping[str, object]]) -> set[UUID]:
    """Make rows, each by column, in the order of Gmail's ids, but of no mail that is there, or is to stay forgotten;
    returns the conversations of those that are new.

    What a run of its conversation has sent, as far as the ledger knows by now, needs no look.
    """
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    made = await _run(conn, "insert", user=user_id, account=account_id, **columns)
    return {row["thread_id"] for row in await made.fetchall() if row["state"] == "new"}


async def given(conn: Connection, **row: object) -> UUID | None:
    """Gmail gave at last what it did not give before; returns its conversation, None if that was stored already."""
    found = await _threads(await _run(conn, "given", **row))
    return found[0] if found else None


async def asked_again(conn: Connection, account_id: UUID, gmail_ids: Sequence[str]) -> None:
    """Gmail still does not give them."""
    await _run(conn, "asked_again", account=account_id, mails=gmail_ids)


async def never_given(conn: Connection, account_id: UUID, gmail_ids: Sequence[str], why: str) -> None:
    """They are gone, and Gmail has not given them."""
    await _run(conn, "never_given", account=account_id, mails=gmail_ids, why=why)


async def moved_in(conn: Connection, account_id: UUID, gmail_ids: Sequence[str], was_out: str) -> list[UUID]:
    """Mail that was moved into the inbox, and that no run had to do with, makes work; returns its conversations.

    To be called before `moved`, which changes why it made none.

    Args:
        was_out: the reason of mail that was not in the inbox when it came.
    """
    if not gmail_ids:
        return []
    return await _threads(await _run(conn, "moved_in", account=account_id, mails=gmail_ids, was_out=was_out))


async def moved(conn: Connection, account_id: UUID, put_away: Mapping[str, str | None]) -> list[UUID]:
    """Note what the person did with mail, None where it is in the inbox again; returns where that is new."""
    if not put_away:
        return []
    given = {"mails": list(put_away), "whys": list(put_away.values())}
    return await _threads(await _run(conn, "moved", account=account_id, **given))


async def relabelled(conn: Connection, account_id: UUID, classes: Mapping[str, str]) -> list[UUID]:
    """Note the class whose label was put on mail, where it may have been the person; returns the conversations."""
    if not classes:
        return []
    given = {"mails": list(classes), "classes": list(classes.values())}
    return await _threads(await _run(conn, "relabelled", account=account_id, **given))


# Labels


async def labelled(conn: Connection, lease: Lease, gmail_id: str, label: str) -> None:
    """It carries the label of this class, or is given `none`. Raises LeaseLost."""
    await lease.guarded(conn, _SQL["labelled"], label, lease.thread_id, gmail_id)


async def not_relabelled(conn: Connection, account_id: UUID, gmail_id: str, classification: str | None) -> None:
    """What was noted of the label of a class tells nothing new."""
    await _run(conn, "not_relabelled", account=account_id, mail=gmail_id, classification=classification)


# What the person says of it


async def retry(conn: Connection, user_id: UUID, address: str, gmail_id: str) -> UUID | None:
    """Take a failed mail up again, with the class that it has; returns its conversation, None if it has not failed."""
    found = await _threads(await _run(conn, "retry", user=user_id, address=address, mail=gmail_id))
    return found[0] if found else None


async def correct(conn: Connection, account_id: UUID, gmail_id: str, classification: str, why: str) -> None:
    """It is of this class, by the person's word, and worked on accordingly."""
    await _run(conn, "correct", account=account_id, mail=gmail_id, why=why, classification=classification)


async def wait_no_more(conn: Connection, account_id: UUID, gmail_id: str) -> bool:
    """Take it from the waiting run of another mail; False if there is none."""
    return (await _run(conn, "wait_no_more", account=account_id, mail=gmail_id)).rowcount > 0


async def others_again(conn: Connection, run_id: UUID, gmail_id: str) -> None:
    """Work on the mails that waited with a run, but for this one."""
    await _run(conn, "others_again", run=run_id, mail=gmail_id)


async def redact_text(conn: Connection, thread_ids: Sequence[UUID], note: str) -> None:
    """Take out what the mails of these conversations say, and note that; who wrote to whom about what stays."""
    await _run(conn, "redact_text", threads=list(thread_ids), note=note)


# A run of it


async def taken_up(
    conn: Connection, lease: Lease, run_id: UUID, gmail_id: str, *, along: Sequence[RowChange]
) -> tuple[int, datetime]:
    """A run is made of it, and its first try counted; returns how many there were, and when it is.

    A mail that waits stays with the run that waits until that is replaced. Raises LeaseLost.
    """
    [row] = await lease.guarded(conn, _SQL["taken_up"], run_id, lease.thread_id, gmail_id, along=along)
    return row["tries"], row["at"]


async def tried(conn: Connection, lease: Lease, gmail_id: str) -> int:
    """Count a try; returns how many there were. Raises LeaseLost."""
    [row] = await lease.guarded(conn, _SQL["tried"], lease.thread_id, gmail_id)
    return int(row["tries"])


async def not_tried(conn: Connection, thread_id: UUID, gmail_id: str) -> None:
    """The last try doesn't count."""
    await _run(conn, "not_tried", thread=thread_id, mail=gmail_id)


async def triaged(
    conn: Connection, lease: Lease, gmail_id: str, classification: str, why: str, stage: str | None, *,
    along: Sequence[RowChange],
) -> None:  # fmt: skip
    """Store its class; an empty reason leaves the one that is known, and when it was triaged.

    Args:
        stage: who gave it; None leaves what is known.

    Raises:
        LeaseLost.
    """
    await lease.guarded(conn, _SQL["triaged"], classification, why, stage, lease.thread_id, gmail_id, along=along)


async def cover(conn: Connection, run_id: UUID, thread_id: UUID) -> tuple[list[str], str | None]:
    """Let a run answer all that is unanswered in its conversation, in place of the runs that it superseded; returns
    Gmail's ids of all that it answers, oldest first, and of the newest of the highest class among them."""
    rows = await (await _run(conn, "cover", run=run_id, thread=thread_id)).fetchall()
    return [row["gmail_id"] for row in rows], rows[0]["foremost"] if rows else None


async def cover_alone(conn: Connection, lease: Lease, run_id: UUID, thread_id: UUID) -> tuple[list[str], str | None]:
    """The same, where no run was open when it was made. Raises LeaseLost."""
    rows = await lease.guarded(conn, _SQL["cover_alone"], run_id, thread_id)
    rows.sort(key=lambda row: (row["received_at"], row["gmail_id"]))
    answered = [row for row in rows if row["classification"] == "respond"] or rows
    return [row["gmail_id"] for row in rows], answered[-1]["gmail_id"] if answered else None


async def leave(conn: Connection, run_id: UUID) -> None:
    """The run of another mail will answer what this one would have."""
    await _run(conn, "leave", run=run_id)


async def put_beside(conn: Connection, thread_id: UUID) -> bool:
    """Let mail wait with the run that waits, where it asks less and is from somebody else, or is a stranger's while
    all is decided; False if none does."""
    return (await _run(conn, "put_beside", thread=thread_id)).rowcount > 0


async def held_up(conn: Connection, thread_id: UUID, why: str) -> None:
    """Show with all that is at work in a conversation why it goes on later."""
    await _run(conn, "held_up", thread=thread_id, why=why)


async def acting(
    conn: Connection, lease: Lease, run_id: UUID, gmail_id: str, *, along: Sequence[RowChange]
) -> int | None:
    """Its run acts. A try of the mail that this answers is counted; returns how many there were, None if it is not
    among the run's. Raises LeaseLost."""
    rows = await lease.guarded(conn, _SQL["acting"], gmail_id, run_id, along=along)
    return next((row["tries"] for row in rows if row["gmail_id"] == gmail_id), None)


async def hang(conn: Connection, lease: Lease, run_id: UUID, why: str, *, along: Sequence[RowChange]) -> None:
    """Its run can't act on before the person has said something. Raises LeaseLost."""
    await lease.guarded(conn, _SQL["hang"], why, run_id, along=along)


async def rested(conn: Connection, lease: Lease, run_id: UUID, state: str, *, along: Sequence[RowChange]) -> None:
    """Its run waits for the person, or has ended, which leaves what the run was not told of to another.

    Raises LeaseLost.
    """
    await lease.guarded(conn, _SQL["rested"], state, run_id, along=along)


async def failed(conn: Connection, run_id: UUID, why: str, *, after: bool) -> None:
    """Its run has failed; what the run was not told of is left to another.

    Args:
        after: the reason that is shown now came before, and is kept behind the new one.
    """
    await _run(conn, "failed", run=run_id, why=why, after=after)


async def all_failed(conn: Connection, thread_id: UUID, why: str) -> None:
    """Nothing can be worked on in a conversation."""
    await _run(conn, "all_failed", thread=thread_id, why=why)


# What the person did in Gmail


async def closed(conn: Connection, run_ids: Sequence[UUID], why: str, upto: datetime | None) -> None:
    """Nothing is left to do for the mails of these runs, but for those that came later than `upto`, if it is given, or
    that the run was not told of: they are worked on by themselves."""
    await _run(conn, "closed", runs=list(run_ids), why=why, upto=upto)


async def wait_again(conn: Connection, run_id: UUID, beside: Sequence[UUID]) -> None:
    """Let mail wait with a run that is open again: that of the runs `beside` it, and what other runs were closed with
    and only notifies."""
    await _run(conn, "wait_again", run=run_id, beside=list(beside))


async def reopened(conn: Connection, run_id: UUID, state: str) -> None:
    """The mails with which a run was closed are in the inbox again."""
    await _run(conn, "reopened", run=run_id, state=state)


async def put_away(conn: Connection, thread_id: UUID) -> None:
    """Mail that the person put away before any run worked on it needs no work."""
    await _run(conn, "put_away", thread=thread_id)


async def read_own(conn: Connection, thread_id: UUID, wrote_at: datetime | None, why: str) -> None:
    """The account's own mail needs no work once it was looked at.

    Args:
        wrote_at: when the person wrote in the conversation: mail from before, that no run works on, is answered.
    """
    await _run(conn, "own_read", thread=thread_id)
    await _run(conn, "answered", thread=thread_id, wrote_at=wrote_at, why=why)
