"""The gate's log: what it decided and what ran, each row sealed with the one before it. Triggers of the database write
it; it is sealed afterwards, so that no call waits for another's row."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from email_assistant.db.pool import Connection, Pool, Statement, fetched, fetched_as
from email_assistant.db.statements import statements

_SQL = statements("gate", "log.sql")
_MOST: Final = 100


@dataclass(frozen=True, slots=True)
class Flaw:
    place: int | None
    """Of the row in the log, counted from 1; None: it has none."""
    what: str
    """What the row tells: begun, ran, answered, ended."""
    row_id: str
    """Of what it tells of."""
    why: str


@dataclass(frozen=True, slots=True)
class Checked:
    rows: int
    seal: str
    """Of the last row, in hexadecimal. Who has written it down elsewhere can tell whether all of it was made anew."""
    faults: list[Flaw]
    """The first of each kind."""
    forgotten: int
    """So many rows say of others that the person had forgotten what those tell of: that can't be looked at any more."""


SEAL: Statement = (_SQL["seal"], ())
"""Seals what is new. What is altered from then on, `check` finds."""


async def check(pool: Pool) -> Checked:
    """Seal what is new, then look for rows that were altered, or are missing, in the log and in what it tells of."""
    await fetched(pool, *SEAL)
    found = [await fetched_as(Flaw, pool, _SQL[kind], (_MOST,)) for kind in ("broken", "changed", "unlogged")]
    last = next(iter(await fetched(pool, _SQL["last"])), None)
    faults = [fault for kind in found for fault in kind]
    if last is None:
        return Checked(0, "", faults, 0)
    return Checked(last["place"], last["seal"], faults, last["forgotten"])


async def forget(conn: Connection, kind: str, rows: Sequence[object]) -> None:
    """Note of what the log tells of that the person had it forgotten, in the caller's transaction. `kind`: as
    `Flaw.what` has it; `rows`: ids of what goes, or is blotted out."""
    await conn.execute(_SQL["forget"].encode(), (kind, [str(each) for each in rows]))
