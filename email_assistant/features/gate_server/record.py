"""What agents of others asked the gate, for the person who looks back: sessions and their calls, newest first."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal, Self
from uuid import UUID

from email_assistant.db.pool import Pool, fetched
from email_assistant.db.statements import statements
from email_assistant.gate.call import Labels
from email_assistant.gate.ledger import entry_in
from email_assistant.gate.policy import GateSession
from email_assistant.inbox.items import NoItem
from email_assistant.inbox.standing import answered_where

PAGE: Final = 50
_SQL = statements("features/gate_server", "record.sql")

Outcome = Literal[
    "waits for you", "did not run", "failed", "done", "asked about, and not answered", "not said how it ended"
]


@dataclass(frozen=True, slots=True)
class AgentSession:
    id: int
    name: str
    agent: str | None
    """The name that the agent gave itself."""
    began: datetime
    last: datetime | None
    """When it last asked."""
    calls: int
    waiting: int
    """Calls that wait for the person."""
    did: Sequence[str]
    """What its calls have touched so far, in words."""


@dataclass(frozen=True, slots=True)
class CallOnRecord:
    id: int
    call_id: str
    tool: str
    at: datetime
    arguments: str | None
    touches: Sequence[str]
    """What its tool touches, in words; empty: nothing, or nobody has said."""
    asked: bool
    """A person was to decide it."""
    reason: str
    """Why it was allowed, asked about or refused."""
    outcome: Outcome
    why_not: str | None
    """Why it did not run."""
    decided: str | None
    """Where the person answered it, such as "in the terminal"; None: they have not."""
    duration_ms: float | None
    item: UUID | None

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Self:
        labels = entry_in({**row, "server": None, "external": False, "cleared": False}).labels
        return cls(
            row["id"],
            row["call_id"],
            row["tool"].removeprefix("agent_"),
            row["at"],
            row["arguments"],
            _touched(labels) if labels else (),
            row["verdict"] == "ask",
            row["reason"],
            _outcome(row),
            row["because"],
            answered_where(row["decided_by"]) if row["decided_at"] else None,
            row["duration_ms"],
            row["item_id"],
        )


class Record:
    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def sessions(self, user_id: UUID, before: int | None = None, name: str | None = None) -> list[AgentSession]:
        """A page of sessions. `before`: older than this id."""
        rows = await fetched(
            self._pool, _SQL["sessions"], {"user": user_id, "before": before, "name": name, "most": PAGE}
        )
        ran = await fetched(self._pool, _SQL["ran"], {"sessions": [row["id"] for row in rows]})
        return [
            AgentSession(**row, did=_did([each for each in ran if each["session_id"] == row["id"]])) for row in rows
        ]

    async def session(self, user_id: UUID, name: str) -> AgentSession:
        """The session with this name. Raises NoItem."""
        for found in await self.sessions(user_id, name=name):
            return found
        raise NoItem(f"there is no session {name}")

    async def calls(self, session: AgentSession, before: int | None = None) -> list[CallOnRecord]:
        """A page of the session's calls. `before`: older than this id."""
        given = {"session": session.id, "before": before, "most": PAGE}
        return [CallOnRecord.of(row) for row in await fetched(self._pool, _SQL["calls"], given)]


def _outcome(row: Mapping[str, Any]) -> Outcome:
    match row["status"]:
        case "blocked":
            return "did not run"
        case "error":
            return "failed"
        case "ok":
            return "done"
        case _:
            if row["ran"]:
                return "not said how it ended"
            return "waits for you" if row["item_status"] == "pending" else "asked about, and not answered"


def _did(ran: Sequence[Mapping[str, Any]]) -> list[str]:
    flags = GateSession(calls=[entry_in(row) for row in ran]).flags
    named = {
        "read what is yours alone": flags.private,
        "read what strangers wrote": flags.untrusted,
        "reached others with what you had not said": flags.external,
    }
    return [words for words, is_so in named.items() if is_so]


def _touched(labels: Labels) -> list[str]:
    named = {
        "reads what is yours alone": labels.read_private_data,
        "reads what strangers wrote": labels.read_untrusted_public_data,
        "changes something": labels.write_operation,
        "reaches others": bool(labels.external),
    }
    return [words for words, is_so in named.items() if is_so]
