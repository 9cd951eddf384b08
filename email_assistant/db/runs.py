"""The row of a run, of a mail or a chat: what changes it (its SQL: `runs.sql`), in the caller's transaction."""

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from psycopg import AsyncCursor
from psycopg.types.json import Json

from email_assistant.db.lease import HELD, Lease, RowChange
from email_assistant.db.pool import Connection
from email_assistant.db.statements import statements

_SQL = statements("db", "runs.sql", held=HELD)


async def _run(conn: Connection, statement: str, **given: object) -> AsyncCursor[dict[str, Any]]:
    return await conn.execute(_SQL[statement].encode(), given)


def insert(
    run_id: UUID,
    *,
    user_id: UUID,
    account_id: UUID,
    thread_id: UUID,
    mail_id: str | None,
    attempt: int,
    given: Mapping[str, Any],
    tries: int,
) -> RowChange:
    """Make a row; its statement returns when."""
    return RowChange(
        _SQL["insert"], (run_id, user_id, account_id, thread_id, mail_id, attempt, Json(dict(given)), tries)
    )


async def tried(conn: Connection, lease: Lease, run_id: UUID) -> int:
    """Count a try of a turn (a mail's run leaves that to its mail); returns how many there were. Raises LeaseLost."""
    [row] = await lease.guarded(conn, _SQL["tried"], run_id)
    return int(row["tries"])


async def not_tried(conn: Connection, run_id: UUID) -> None:
    """The last try doesn't count."""
    await _run(conn, "not_tried", run=run_id)


async def held_up(conn: Connection, run_id: UUID, why: str) -> None:
    """It goes on later."""
    await _run(conn, "held_up", run=run_id, why=why)


def acting(run_id: UUID, tries: int) -> RowChange:
    """Every answer is in and past its window.

    Args:
        tries: how often it was started since then.
    """
    return RowChange(_SQL["acting"], (tries, run_id))


def rested(run_id: UUID, state: str, answer: str | None, *, pruned: bool) -> RowChange:
    """
    Args:
        pruned: its checkpoints are deleted along with it.
    """
    return RowChange(_SQL["rested"], (state, answer, pruned, run_id))


async def failed(conn: Connection, run_id: UUID, why: str, *, after: bool) -> None:
    """
    Args:
        after: the reason that is there now came before, and is kept behind the new one.
    """
    await _run(conn, "failed", run=run_id, why=why, after=after)


async def supersede(conn: Connection, run_ids: Sequence[UUID], why: str, by: UUID | None) -> None:
    """Set them aside, for another run if there is one; what waits in them is the caller's to close."""
    await _run(conn, "supersede", runs=list(run_ids), why=why, by=by)


async def closed_with(conn: Connection, run_id: UUID, gmail_id: str) -> None:
    """It is open again when this mail comes back into the inbox."""
    await _run(conn, "closed_with", run=run_id, mail=gmail_id)


async def reopen(conn: Connection, run_id: UUID) -> None:
    """It waits for the person again."""
    await _run(conn, "reopen", run=run_id)


async def never_reopen(conn: Connection, thread_id: UUID) -> None:
    """What was closed with mail that is in the inbox again stands as it does now."""
    await _run(conn, "never_reopen", thread=thread_id)


async def not_closed_with(conn: Connection, account_id: UUID, gmail_id: str) -> None:
    """What was closed with this mail does not come back with it."""
    await _run(conn, "not_closed_with", account=account_id, mail=gmail_id)


async def pruned(conn: Connection, run_ids: Sequence[UUID]) -> None:
    """Their checkpoints are deleted, or all but the last."""
    await _run(conn, "pruned", runs=list(run_ids))


async def redact_text(conn: Connection, thread_ids: Sequence[UUID]) -> list[UUID]:
    """Take out what the runs of these conversations were told of their mail, and that any may be open again; returns
    which."""
    cursor = await _run(conn, "redact_text", threads=list(thread_ids))
    return [row["id"] for row in await cursor.fetchall()]
