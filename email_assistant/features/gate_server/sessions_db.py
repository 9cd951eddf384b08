"""Sessions of other people's agents, and of our own, as `open_edison` keeps them: a SQLite file, made of what our
tables hold. A conversation by mail and a chat are each a session of ours, with Gmail's id or the chat's to find it by.
"""

import json
import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from email_assistant.gate.ledger import entry_in
from email_assistant.gate.policy import GateSession

_TABLE: Final = """create table mcp_sessions (
    id integer primary key, session_id text unique, correlation_id text, tool_calls json, data_access_summary json,
    agent_name text, agent_type text)"""

_INSERT: Final = "insert into mcp_sessions values (?, ?, ?, ?, ?, ?, ?)"
_OURS: Final = "email-assistant"

Row = Mapping[str, Any]


def sessions_db(sessions: Sequence[Row], calls: Sequence[Row], ran: Sequence[Row], own: Sequence[Row]) -> bytes:
    """The file's content. The arguments are `GateSessions.told`."""
    calls_of, ran_of = _by_session(calls), _by_session(ran)
    made = sqlite3.connect(":memory:")
    try:
        made.execute(_TABLE)
        for session in sessions:
            theirs = calls_of[session["name"]]
            last = theirs[-1] if theirs else {"agent_name": None, "agent_type": None}
            summary = _summary(session["created_at"], ran_of[session["name"]])
            row = (session["id"], session["name"], session["name"], _as_json(map(_call, theirs)), json.dumps(summary))
            made.execute(_INSERT, (*row, last["agent_name"], last["agent_type"]))
        for name, ours in _by_session(own).items():
            told, summary = _as_json(map(_own_call, ours)), _summary(ours[0]["at"], ours)
            row = (None, name, ours[0]["known_as"], told, json.dumps(summary))
            made.execute(_INSERT, (*row, _OURS, ours[0]["agent_type"]))
        made.commit()
        return bytes(made.serialize())
    finally:
        made.close()


def _by_session(rows: Sequence[Row]) -> Mapping[str, list[Row]]:
    found: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        found[row["name"]].append(row)
    return found


def _call(row: Row) -> dict[str, Any]:
    result = row["because"] if row["result"] is None else row["result"]
    return {
        "id": row["call_id"],
        "tool_name": row["tool"],
        "tool_description": "",
        "parameters": {"summary": row["arguments"], "result_summary": row["result"]},
        "timestamp": row["at"].isoformat(),
        "duration_ms": row["duration_ms"],
        "status": row["status"],
        "result": result,
    }


def _own_call(row: Row) -> dict[str, Any]:
    """A row is made when a call runs."""
    return {
        "id": row["call_id"],
        "tool_name": row["tool"],
        "tool_description": "",
        "parameters": {"summary": None, "result_summary": row["answer"]},
        "timestamp": row["at"].isoformat(),
        "duration_ms": None,
        "status": "ok",
        "result": row["answer"],
    }


def _as_json(calls: Iterable[dict[str, Any]]) -> str:
    return json.dumps(list(calls))


def _summary(began: datetime, ran: Sequence[Row]) -> dict[str, Any]:
    read = GateSession(calls=[entry_in(row) for row in ran])
    flags = read.flags
    return {
        "created_at": began.isoformat(),
        "lethal_trifecta": {
            "has_private_data_access": flags.private,
            "has_untrusted_content_exposure": flags.untrusted,
            "has_external_communication": flags.external,
            "trifecta_achieved": flags.all,
        },
        "acl": {"highest_acl_level": read.secrecy},
    }
