"""Sessions of other people's agents as `open_edison` keeps them: a SQLite file, made of what our tables hold."""

import json
import sqlite3
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Final

from email_assistant.gate.ledger import entry_in
from email_assistant.gate.policy import GateSession

_TABLE: Final = """create table mcp_sessions (
    id integer primary key, session_id text unique, correlation_id text, tool_calls json, data_access_summary json,
    agent_name text, agent_type text)"""

Row = Mapping[str, Any]


def sessions_db(sessions: Sequence[Row], calls: Sequence[Row], ran: Sequence[Row]) -> bytes:
    """The file's content. The arguments are `GateSessions.told`."""
    calls_of, ran_of = _by_session(calls), _by_session(ran)
    made = sqlite3.connect(":memory:")
    try:
        made.execute(_TABLE)
        for session in sessions:
            own = calls_of[session["name"]]
            last = own[-1] if own else {"agent_name": None, "agent_type": None}
            told = json.dumps([_call(call) for call in own])
            summary = json.dumps(_summary(session, ran_of[session["name"]]))
            row = (session["id"], session["name"], session["name"], told, summary)
            made.execute(
                "insert into mcp_sessions values (?, ?, ?, ?, ?, ?, ?)", (*row, last["agent_name"], last["agent_type"])
            )
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


def _summary(session: Row, ran: Sequence[Row]) -> dict[str, Any]:
    read = GateSession(calls=[entry_in(row) for row in ran])
    flags = read.flags
    return {
        "created_at": session["created_at"].isoformat(),
        "lethal_trifecta": {
            "has_private_data_access": flags.private,
            "has_untrusted_content_exposure": flags.untrusted,
            "has_external_communication": flags.external,
            "trifecta_achieved": flags.all,
        },
        "acl": {"highest_acl_level": read.secrecy},
    }
