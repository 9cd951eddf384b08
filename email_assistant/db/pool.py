"""Connections to Postgres: one pool a process, all of our tables in one schema."""

from typing import Any

from psycopg import AsyncConnection, conninfo
from psycopg.rows import DictRow, dict_row
from psycopg_pool import AsyncConnectionPool

SCHEMA = "email_assistant"

Connection = AsyncConnection[DictRow]
Pool = AsyncConnectionPool[Connection]


def session_settings(url: str) -> dict[str, Any]:
    """Keyword arguments that every connection of this program opens with.

    Statements are never prepared, so that a transaction pooler may stand in between.
    """
    options = f"{conninfo.conninfo_to_dict(url).get('options') or ''} -c search_path={SCHEMA},public -c timezone=UTC"
    return {"prepare_threshold": None, "options": options.strip(), "application_name": "email-assistant"}


def connection_settings(url: str) -> dict[str, Any]:
    """`session_settings`, with the autocommit and dict rows that LangGraph's saver and store ask for."""
    return {**session_settings(url), "autocommit": True, "row_factory": dict_row}


def make_pool(url: str, *, size: int) -> Pool:
    """Make a pool, not yet open. A connection is checked before it is lent, so a restarted server costs no error."""
    return AsyncConnectionPool(
        url,
        kwargs=connection_settings(url),
        min_size=1,
        max_size=size,
        open=False,
        timeout=30,
        check=AsyncConnectionPool.check_connection,
    )
