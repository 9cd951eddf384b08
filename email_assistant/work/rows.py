"""A run of mail, or a turn of a chat, as it stands in the tables."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal, cast
from uuid import UUID

from psycopg.rows import kwargs_row

from email_assistant.accounts.account import Account
from email_assistant.db.checkpoints import ForeignCheckpoint
from email_assistant.db.pool import Connection, Pool, fetched

RunState = Literal["running", "waiting", "acting", "done", "failed", "superseded"]

WAITING = "waiting: "
"""Begins the reason of what is come back to by itself."""
OPEN = ("running", "waiting", "acting")
_RUNS = """
select r.id, coalesce(r.mail_id, '') as mail_id, r.attempt, r.input, r.account_id, t.chat_id, r.state, r.reason,
       r.answer, r.created_at, count(i.id) > 0 as waits,
       coalesce(bool_and(i.status = 'decided' and i.undo_until <= clock_timestamp()), false) as decided,
       coalesce(bool_or(i.status = 'decided'), false) as answered,
       coalesce(bool_or(i.status = 'pending'), false) as asks
from runs r join threads t on t.id = r.thread_id
left join inbox_items i on i.run_id = r.id and i.status in ('pending', 'decided')
where {} group by r.id, t.chat_id"""


@dataclass(frozen=True, slots=True)
class RunRow:
    id: UUID
    mail_id: str
    """Gmail's id of the mail that it answers; empty: it is a turn of a chat."""
    attempt: int
    """The how manieth of its mail; of a chat: which turn."""
    input: dict[str, Any]
    state: RunState
    reason: str | None
    answer: str | None
    """What the assistant said in the end of a turn."""
    created_at: datetime
    waits: bool = False
    """Something in it waits for the person, or for the end of an undo window."""
    decided: bool = False
    """All that waited is decided, and every undo window has passed."""
    answered: bool = False
    """Something in it was decided, and is not carried out."""
    asks: bool = False
    """Something in it waits for the person."""
    unreadable: bool = False
    """What it was given was damaged in the database, or changed by somebody else; `input` says what is known beside."""
    is_new: bool = False
    """It was made just now, by whoever goes on with it, so it has no checkpoints."""
    tries: int | None = None
    """The how manieth start of it comes now, where that was counted with what it starts from."""
    applied: Mapping[str, Mapping[str, Any]] | None = None
    """The answers by interrupt id, where whoever goes on with it has applied them just now."""

    @property
    def is_open(self) -> bool:
        return self.state in OPEN

    @property
    def is_at_work(self) -> bool:
        """It goes on by itself, now or when what keeps it has passed."""
        return self.is_open and not self.waits

    @property
    def hangs(self) -> bool:
        """It can't go on before the person has said something."""
        return self.waits and not self.decided

    @property
    def why(self) -> str | None:
        """Why it failed, was set aside, or can't go on now."""
        return self.reason.removeprefix(WAITING) if self.reason else None


@dataclass(frozen=True, slots=True)
class OpenRuns:
    """The runs of a conversation that have not ended."""

    account: Account
    open_runs: Sequence[RunRow]

    def run_in(self, state: RunState) -> RunRow | None:
        return next((run for run in self.open_runs if run.state == state), None)

    @property
    def run(self) -> RunRow | None:
        """The one to go on with."""
        return self.run_in("acting") or self.run_in("running") or self.run_in("waiting")


async def read_runs(conn: Connection, which: str, *parameters: object, last: str = "") -> list[RunRow]:
    """The runs `r` of threads `t` of which a condition in SQL holds.

    Args:
        last: their order, and how many.
    """
    async with conn.cursor(row_factory=kwargs_row(_row)) as cursor:
        await cursor.execute(f"{_RUNS.format(which)} {last}".encode(), parameters)
        return await cursor.fetchall()


class RunRows:
    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def open_in(self, thread_id: UUID) -> list[RunRow]:
        async with self._pool.connection() as conn:
            which = "r.thread_id = %s and r.state = any(%s)"
            return await read_runs(conn, which, thread_id, list(OPEN), last="order by r.created_at")

    async def input_of(self, run_id: UUID) -> dict[str, Any]:
        """What a run's graph was started with; of a turn that can't be read, what is known beside.

        Raises:
            ForeignCheckpoint: it is a run of mail that can't be read.
        """
        async with self._pool.connection() as conn:
            [run] = await read_runs(conn, "r.id = %s", run_id)
        if run.unreadable and run.mail_id:
            raise ForeignCheckpoint
        return run.input

    async def ended_at(self, run_id: UUID) -> datetime:
        [row] = await self._rows("select coalesce(ended_at, created_at) as at from runs where id = %s", run_id)
        return cast("datetime", row["at"])

    async def finished(self, before: timedelta) -> list[UUID]:
        """Runs that ended, begun longer ago than this, whose checkpoints are all still there, and of which the last is
        gone by: a chat remembers it, and a mail that comes back into the inbox goes on from it."""
        rows = await self._rows(
            """select id from runs where not pruned and created_at < clock_timestamp() - %s
               and state in ('done', 'superseded') and (mail_id is null or closed_with is not null) limit 1000""",
            before,
        )
        return [row["id"] for row in rows]

    async def over(self, before: timedelta) -> list[UUID]:
        """Runs of mail that ended longer ago than this, to which nobody comes back, and whose checkpoints are there."""
        rows = await self._rows(
            """select id from runs where not pruned and mail_id is not null and closed_with is null
               and state in ('done', 'failed', 'superseded')
               and coalesce(ended_at, created_at) <= clock_timestamp() - %s limit 1000""",
            before,
        )
        return [row["id"] for row in rows]

    async def _rows(self, query: str, *parameters: object) -> list[dict[str, Any]]:
        return await fetched(self._pool, query, parameters)


def _row(*, account_id: UUID, chat_id: str | None, **columns: Any) -> RunRow:
    given = columns.pop("input")
    if chat_id is None:
        return RunRow(input=given, unreadable=not isinstance(given, dict), **columns)
    known = {"agent": "chat", "id": str(columns["id"]), "account_id": str(account_id), "chat": chat_id}
    whole = isinstance(given, dict) and (
        all(given.get(name) == known[name] for name in ("id", "account_id", "chat"))
        and all(isinstance(given.get(name), str) for name in ("address", "request"))
    )
    known |= {"address": "", "request": ""}
    return RunRow(input=given if whole else known, unreadable=not whole, **columns)
