"""The row of a conversation: what changes it, in the caller's transaction, but its lease (`db/lease.py`)."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from uuid import UUID

from email_assistant.db.lease import HELD, RowChange
from email_assistant.db.pool import Connection

_LATER = """greatest(%s, clock_timestamp()
    + back_off({faults}, '1 second', '5 minutes'))"""
"""When to try again after so many faults: in a second at first, then in twice the time, up to five minutes."""


async def insert(conn: Connection, user_id: UUID, account_id: UUID, gmail_ids: Sequence[str]) -> dict[str, UUID]:
    """Gmail's conversations, made where there are none; those that are there stay as they are, and are not locked."""
    there = "select gmail_id, id from threads where account_id = %s and gmail_id = any(%s)"
    cursor = await conn.execute(
        f"""with made as (
                insert into threads (user_id, account_id, gmail_id) select %s, %s, unnest(%s::text[])
                on conflict (account_id, gmail_id) do nothing returning gmail_id, id)
            select gmail_id, id from made union all {there}""".encode(),
        (user_id, account_id, list(gmail_ids), account_id, list(gmail_ids)),
    )
    rows = await cursor.fetchall()
    if len(rows) < len(gmail_ids):  # another look at the mailbox has made some while this one waited for it
        rows = await (await conn.execute(there.encode(), (account_id, list(gmail_ids)))).fetchall()
    return {row["gmail_id"]: row["id"] for row in rows}


async def insert_chat(conn: Connection, user_id: UUID, account_id: UUID, chat_id: str) -> None:
    """Begin a chat; one that is there goes on as it is."""
    await conn.execute(
        """insert into threads (user_id, account_id, chat_id) values (%s, %s, %s)
           on conflict (user_id, chat_id) do nothing""",
        (user_id, account_id, chat_id),
    )


async def now_about(conn: Connection, thread_id: UUID, account_id: UUID) -> None:
    """A chat that was begun without a mailbox goes on about this one."""
    await conn.execute("update threads set account_id = %s where id = %s", (account_id, thread_id))


async def at_once(conn: Connection, account_id: UUID, thread_id: UUID) -> str | None:
    """Work on it waits out no back-off from before now. Locks it, after its account, whose mode nobody changes before
    the caller's transaction ends; returns that, None if either is gone."""
    cursor = await conn.execute(
        """with account as materialized (select id, mode from accounts where id = %s for share)
           update threads t set not_before = '-infinity' from account a where t.id = %s returning a.mode""",
        (account_id, thread_id),
    )
    row = await cursor.fetchone()
    return row["mode"] if row else None


async def anew(conn: Connection, thread_id: UUID) -> None:
    """Work on it begins at once, and its outages so far count no more."""
    await conn.execute("update threads set not_before = '-infinity', outages = 0 where id = %s", (thread_id,))


async def back_off(conn: Connection, thread_id: UUID, until: datetime | None, waits_for: str | None) -> None:
    """Work on it goes on later: each time after twice as long, and not before `until`.

    Args:
        waits_for: the server whose answer has it go on before that.
    """
    await conn.execute(
        f"""update threads set outages = outages + 1, waits_for = %s, not_before = {_LATER.format(faults="outages")}
            where id = %s""".encode(),
        (waits_for, until or datetime.now(UTC), thread_id),
    )


async def answered(conn: Connection, server: str | None) -> list[UUID]:
    """A server that was waited for answers, or any may (None): what waited for it goes on at once. Returns that."""
    cursor = await conn.execute(
        """update threads set not_before = '-infinity', outages = 0, waits_for = null
           where id in (select id from threads where waits_for is not null and waits_for = coalesce(%s, waits_for)
                        order by id for no key update)
           returning id""",
        (server,),
    )
    return [row["id"] for row in await cursor.fetchall()]


def went_well(thread_id: UUID) -> RowChange:
    """Work on a run came to rest, so its conversation's outages so far count no more."""
    return RowChange(
        f"update threads set outages = 0, waits_for = null where id = %s and outages > 0 and {HELD}", (thread_id,)
    )


async def label_later(conn: Connection, thread_id: UUID, until: datetime | None) -> None:
    """Its labels are set later, as `back_off` says."""
    await conn.execute(
        f"""update threads set label_faults = label_faults + 1, label_after = {_LATER.format(faults="label_faults")}
            where id = %s""".encode(),
        (until or datetime.now(UTC), thread_id),
    )


async def labelled(conn: Connection, thread_id: UUID) -> None:
    await conn.execute("update threads set label_faults = 0 where id = %s and label_faults > 0", (thread_id,))


async def complete(conn: Connection, thread_id: UUID) -> None:
    """All of its mail at Gmail is stored."""
    await conn.execute("update threads set complete = true where id = %s", (thread_id,))


async def drafted(conn: Connection, account_id: UUID, drafts: Mapping[str, str]) -> list[UUID]:
    """Note the messages of drafts, by Gmail's id of the conversation, where a run may heed them; returns where."""
    if not drafts:
        return []
    cursor = await conn.execute(
        """update threads t set drafted = n.message_id from unnest(%s::text[], %s::text[]) as n (thread_id, message_id)
           where t.account_id = %s and t.gmail_id = n.thread_id
           and exists (select from runs r where r.thread_id = t.id and r.state in ('running', 'waiting'))
           and not exists (select from runs r where r.thread_id = t.id and r.state = 'acting') returning t.id""",
        (list(drafts), list(drafts.values()), account_id),
    )
    return [row["id"] for row in await cursor.fetchall()]


async def looked_at_draft(conn: Connection, thread_id: UUID, message_id: str) -> None:
    await conn.execute("update threads set drafted = null where id = %s and drafted = %s", (thread_id, message_id))


async def forget(conn: Connection, thread_ids: Sequence[UUID]) -> None:
    """Delete conversations, and all that hangs on them."""
    await conn.execute("delete from threads where id = any(%s)", (list(thread_ids),))
