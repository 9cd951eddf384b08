"""All that changes `inbox_items` (its SQL: `rows.sql`), in the transaction of the side that calls it.

A row is `pending → decided → applied`, or `superseded`, or `expired`; undo is `decided → pending`. Every step is a
compare-and-set. `applied` is the point of no return, before any effect.
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from psycopg import AsyncCursor
from psycopg.types.json import Json

from email_assistant.db.lease import HELD, RowChange
from email_assistant.db.pool import Connection
from email_assistant.db.statements import statements
from email_assistant.inbox.items import Item
from email_assistant.inbox.listing import WORDS, words
from email_assistant.mail.message import NOT_KEPT
from email_assistant.outgoing.entry import WITHOUT_TEXT, Effect, server_at
from email_assistant.tools.spec import Conflicts

_SQL = statements("inbox", "rows.sql", words=WORDS)


async def _run(conn: Connection, statement: str, *parameters: object) -> AsyncCursor[dict[str, Any]]:
    return await conn.execute(statement.encode(), parameters)


def insert(run_id: UUID, mail_text: str, question: Mapping[str, Any], *, held: str = HELD) -> RowChange:
    """Make a row of a question of a run, by column. A repeat changes nothing; of what no interrupt asks, while it
    waits."""
    row = {**question, "args": Json(question["args"]), "teachable": question["teaches"]}
    statement = _SQL["insert"].format(columns=", ".join(row), values=", ".join(["%s"] * len(row)), held=held)
    return RowChange(statement, (mail_text, *words(mail_text, question["args"]), *row.values(), run_id))


async def insert_refused(conn: Connection, effect: Effect, mail_text: str, conflicts: Conflicts | None) -> None:
    """Show once more what was decided, as it is now, and why it was not done; while it waits, a repeat changes
    nothing."""
    at_its_time = (conflicts.events, conflicts.calendars) if conflicts else (None, [])
    shown = (mail_text, Json(effect.args), *at_its_time, bool(server_at(effect.place)), *words(mail_text, effect.args))
    await _run(conn, _SQL["insert_refused"], *shown, effect.result, effect.run_id, effect.call_id)


async def hold(
    conn: Connection, item_id: UUID, user_id: UUID, text: str, question: Mapping[str, Any], because: str
) -> None:
    """Make a row of a call of somebody else's agent, {call_id, action, args, doubts}."""
    args = question["args"]
    row = (item_id, user_id, text, question["call_id"], question["action"], Json(args))
    await _run(conn, _SQL["hold"], *row, Json(question["doubts"]), because, *words(text, args))


async def release(conn: Connection, item: Item, decision: Mapping[str, Any], by: str) -> bool:
    """Decide a held call, for good: its agent is told at once. False: it waits no more."""
    return (await _run(conn, _SQL["release"], Json(decision), by, item.id, item.user_id)).rowcount == 1


async def expire_held_call(conn: Connection, item_id: UUID) -> bool:
    """Close a held call for whose answer nobody waits; False: it was answered."""
    return (await _run(conn, _SQL["expire_held_call"], item_id)).rowcount == 1


async def times_asked(conn: Connection, run_id: UUID, call_id: str) -> int:
    """How often the person was asked about a call so far."""
    row = await (await _run(conn, _SQL["times_asked"], run_id, call_id)).fetchone()
    return int(row["n"]) if row else 0


async def decide(
    conn: Connection,
    item: Item,
    decision: Mapping[str, Any],
    by: str,
    window: timedelta,
    *,
    teaches: bool,
    typed: Sequence[str],
) -> datetime | None:
    """Decide a pending item; returns until when that can be undone, None if it is pending no more.

    Args:
        typed: addresses that the person put in by hand.
    """
    given = (Json(decision), by, window, teaches, list(typed))
    row = await (await _run(conn, _SQL["decide"], *given, item.id, item.user_id, item.asked)).fetchone()
    return row["undo_until"] if row else None


async def ask_once_more(conn: Connection, part: UUID, why: str, item: UUID | None, taken: Collection[UUID]) -> None:
    """Ask about an accepted part again because of the answer to an item, unless it is among those `taken` with it.

    Args:
        item: None: for another reason.
    """
    await _run(conn, _SQL["ask_once_more"], why, item, part, list(taken))


async def ask_anew(conn: Connection, run_id: UUID, call_id: str, why: str) -> None:
    """Ask about a call again: what was approved waits once more, and an answer to what was shown before is none."""
    for row in await (await _run(conn, _SQL["open_of_call"], run_id, call_id)).fetchall():
        await ask_once_more(conn, row["id"], why, None, [])
        await _run(conn, _SQL["count_up"], row["id"], row["status"])


async def undo(conn: Connection, user_id: UUID, item_id: UUID) -> bool:
    """Take a decision back if it can be, and give back the answers to what was asked about again because of it."""
    undone = (await _run(conn, _SQL["undo"], item_id, user_id)).rowcount == 1
    if undone:
        await _run(conn, _SQL["restore"], item_id, str(item_id))
    return undone


async def take_back(conn: Connection, account_id: UUID, why: str) -> int:
    """Ask again for what the person said to do in an account, and what is not being carried out yet; returns how many
    answers that were."""
    taken = await _run(conn, _SQL["take_back"], why, account_id)
    await _run(conn, _SQL["forget_restorable"], account_id)
    return taken.rowcount


async def snooze(conn: Connection, user_id: UUID, item_id: UUID, until: datetime | None) -> bool:
    return (await _run(conn, _SQL["snooze"], until, item_id, user_id)).rowcount == 1


async def apply(conn: Connection, run_id: UUID) -> list[UUID]:
    """Apply all of a run's decided items, or none while one is still open; returns which."""
    applied = await conn.execute(_SQL["apply"].encode(), {"run": run_id})
    return [row["id"] for row in await applied.fetchall()]


async def supersede(conn: Connection, run_ids: Sequence[UUID], by: UUID | None) -> None:
    """Close what still waits in these runs; the rows stay and show what took their place."""
    await _run(conn, _SQL["supersede"], by, list(run_ids))


async def reopen(conn: Connection, run_id: UUID) -> None:
    """Let what was closed with a run wait again, as if it had been asleep meanwhile."""
    await _run(conn, _SQL["reopen"], run_id)


async def expire(conn: Connection, run_id: UUID) -> None:
    """Close what still waits in a run that failed."""
    await _run(conn, _SQL["expire"], run_id)


async def learned(conn: Connection, item_id: UUID) -> None:
    await _run(conn, _SQL["learned"], item_id)


async def learn_later(conn: Connection, item_id: UUID, most_tries: int) -> bool:
    """Back off after a failed try; returns whether it was given up, after so many."""
    row = await (await _run(conn, _SQL["learn_later"], most_tries, item_id)).fetchone()
    return bool(row and row["given_up"])


async def blot_calls(conn: Connection, user_id: UUID, named: str) -> list[UUID]:
    """Take the words out of what other agents had asked, where any match a pattern; returns of which."""
    return [row["id"] for row in await (await _run(conn, _SQL["blot_calls"], user_id, named)).fetchall()]


async def redact_text(conn: Connection, thread_ids: Sequence[UUID]) -> None:
    """Take out what the items of these conversations say that are over; what was decided on whom stays."""
    given = {"threads": list(thread_ids), "note": NOT_KEPT, "instead": WITHOUT_TEXT}
    await conn.execute(_SQL["redact_text"].encode(), given)
