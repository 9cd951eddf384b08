"""What a person has seen of each tool of somebody else's server.

A tool is trusted as it was at first sight, since the person named its server. One that has changed since may tell the
model other things, so it is not used until the person has seen it.
"""

import hashlib
import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from mcp import types
from psycopg.types.json import Json

from email_assistant.db.pool import Pool, fetched
from email_assistant.db.statements import statements


@dataclass(frozen=True, slots=True)
class SeenTool:
    """A tool as it was accepted, and as its server tells it now."""

    server: str
    tool: str
    hash: str
    description: str
    schema: dict[str, Any]
    seen_at: datetime  # when it was accepted, or first seen
    new_hash: str | None  # of what it has become; None: it is as accepted
    new_description: str | None
    new_schema: dict[str, Any] | None
    changed_at: datetime | None

    @property
    def has_changed(self) -> bool:
        return self.new_hash is not None


_SQL = statements("tools/mcp", "seen.sql")


class SeenTools:
    def __init__(self, pool: Pool, user_id: UUID) -> None:
        self._pool = pool
        self._user_id = user_id
        self._trusted: dict[tuple[str, str], types.Tool] = {}
        """Tools as they were told when they were looked at last, and were as accepted."""

    async def look(self, server: str, tool: types.Tool) -> bool:
        """Take note of a tool as it is told now. Returns whether it may be used: it is new, or as it was accepted."""
        if self._trusted.get((server, tool.name)) is tool:
            return True
        description, digest = tool.description or "", _hash(tool)
        given = {"user": self._user_id, "server": server, "tool": tool.name, "hash": digest}
        told = {"description": description.replace("\0", ""), "schema": Json(_storable(tool.inputSchema))}
        [row] = await fetched(self._pool, _SQL["look"], given | told)
        if row["new_hash"] is not None:
            return False
        self._trusted[server, tool.name] = tool
        return True

    async def find(self, server: str, tool: str) -> SeenTool | None:
        rows = await fetched(self._pool, _SQL["find"], (self._user_id, server, tool))
        return _seen(**rows[0]) if rows else None

    async def accept(self, server: str, tool: str, new_hash: str) -> bool:
        """Use it as it is now; False if it isn't any more what the person was shown."""
        return bool(await fetched(self._pool, _SQL["accept"], (self._user_id, server, tool, new_hash)))


def _seen(*, schema: Any, new_schema: Any, **columns: Any) -> SeenTool:
    """A schema that is none was changed in the database by somebody else; it counts for nothing, and is shown empty."""
    told = {name: each if isinstance(each, dict) else {} for name, each in (("old", schema), ("new", new_schema))}
    return SeenTool(schema=told["old"], new_schema=None if new_schema is None else told["new"], **columns)


def _hash(tool: types.Tool) -> str:
    """Of all that the model is told of it."""
    told = [tool.description, tool.inputSchema]
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()


def _storable(part: Any) -> Any:
    """Without the character that Postgres has no text for."""
    match part:
        case dict():
            return {key.replace("\0", ""): _storable(inner) for key, inner in part.items()}
        case list():
            return [_storable(inner) for inner in part]
        case str():
            return part.replace("\0", "")
        case _:
            return part
