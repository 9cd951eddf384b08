"""Where a chat has read private data, which no tool of somebody else may be handed unasked.

It only grows, and is noted before a call runs, and before a prompt tells of the person: whatever dies then, nothing was
read that is not noted.
"""

from typing import Final
from uuid import UUID

from email_assistant.db import threads
from email_assistant.db.pool import Pool, fetched

_UNKNOWN: Final = frozenset({"unknown"})


class Heard:
    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def of_run(self, run_id: UUID) -> frozenset[str]:
        """What was read in the chat of a turn so far; of one that an older version began, something."""
        query = "select t.heard from threads t join runs r on r.thread_id = t.id where r.id = %s"
        rows = await fetched(self._pool, query, (run_id,))
        return frozenset(rows[0]["heard"]) if rows and rows[0]["heard"] is not None else _UNKNOWN

    async def note(self, run_id: UUID, source: str) -> None:
        """The model of this turn is about to be told what stands there."""
        async with self._pool.connection() as conn:
            await threads.heard(conn, run_id, source)
