"""The calls that ran, what they told, and the gate's log of both.

A row of `gate_calls`, of which this is the one writer, is made where a call runs, never where it is judged, and before
it does: whatever dies then, nothing was read that is not noted. Triggers of the database write the log; it is sealed
afterwards, each row with the one before it, so that no call waits for another's row.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final
from uuid import UUID

from psycopg.types.json import Json

from email_assistant.db.lease import LeaseLost
from email_assistant.db.pool import Connection, Pool, Statement, fetched, fetched_as
from email_assistant.db.statements import statements
from email_assistant.gate.call import Labels
from email_assistant.gate.policy import GateEntry

_PRIVATE: Final = Labels.model_validate(
    {"write_operation": False, "read_private_data": True, "read_untrusted_public_data": False, "acl": "PRIVATE"}
)
PROMPT: Final = GateEntry(
    "background and rules",
    _PRIVATE,
    external=False,
    cleared=True,
)
"""What a prompt itself tells of the person, as a call that read it."""
OWN_LETTERS: Final = replace(PROMPT, tool="own letters")
"""What a prompt tells of letters that the person sent before."""
LONGEST: Final = 50_000  # characters of an answer; what stands behind them has no source

_RUNS: Final = """insert into gate_calls (user_id, session_id, call_id, tool, labels, external, cleared)
    select s.user_id, s.id, b.call_id, b.tool, b.labels, b.external, b.cleared
    from gate_requests b join gate_sessions s on s.id = b.session_id where b.call_id = %(call)s or b.item_id = %(item)s
    on conflict do nothing"""


class GateLedger:
    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def append(self, run_id: UUID, call_id: str, entry: GateEntry) -> None:
        """A call is about to run; one that is made again is noted already.

        Raises:
            LeaseLost: the person has stopped everything, or paused the account.
        """
        labels = Json(entry.labels.model_dump()) if entry.labels else None
        may_run = await fetched(
            self._pool,
            """with account as (
                   select a.id from accounts a where a.id = (select account_id from runs where id = %s)
                   and a.state not in ('paused', 'stopped', 'removing') for share),
               noted as (
                   insert into gate_calls (user_id, account_id, thread_id, run_id, call_id, tool, server, labels,
                                           external, cleared)
                   select r.user_id, r.account_id, r.thread_id, r.id, %s, %s, %s, %s, %s, %s
                   from runs r join account a on a.id = r.account_id where r.id = %s
                   on conflict (run_id, call_id) do nothing)
               select id from account""",
            (run_id, call_id, entry.tool, entry.server, labels, entry.external, entry.cleared, run_id),
        )
        if not may_run:
            raise LeaseLost

    async def answered(self, run_id: UUID, call_id: str, text: str) -> None:
        """What the model is about to be told of a call."""
        query = "update gate_calls set answer = %s where run_id = %s and call_id = %s"
        await fetched(self._pool, query, (text[:LONGEST], run_id, call_id))


async def runs(conn: Connection, call_id: str) -> None:
    """A call of somebody else's agent, that was allowed just now, is about to run."""
    await conn.execute(_RUNS.encode(), {"call": call_id, "item": None})


async def released(conn: Connection, item: UUID) -> None:
    """So is one that a person approved: what it touches counts from now on, whether or not its agent still comes to
    it."""
    await conn.execute(_RUNS.encode(), {"call": None, "item": item})


def entry_in(row: Mapping[str, Any]) -> GateEntry:
    """A row as the policy sees it. Labels that this program never writes are none."""
    try:
        labels = Labels.model_validate(row["labels"]) if row["labels"] is not None else None
    except ValueError:
        labels = None
    return GateEntry(row["tool"], labels, row["external"], row["cleared"], row["server"])


async def blot(conn: Connection, run_ids: Sequence[UUID]) -> None:
    """Forget what the model was told in these runs; that a call was made stays."""
    await conn.execute("update gate_calls set answer = null where run_id = any(%s)", (list(run_ids),))


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
