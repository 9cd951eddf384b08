"""Whether the program is at work on a database: for what must have it alone."""

import asyncio

import psycopg

from email_assistant.errors import AssistantError

_PARTING_SECONDS = 10.0  # so long a busy server may take to see that a process which has just ended is gone
_LOOK_SECONDS = 0.05


class AtWork(AssistantError):
    """The program is at work on the database, and must be stopped first."""


async def until_at_rest(conn: psycopg.Connection) -> None:
    """Wait for the connections of processes that have just ended. Raises AtWork: there are others."""
    clock = asyncio.get_running_loop().time
    end = clock() + _PARTING_SECONDS
    while clock() < end:
        if not _is_at_work(conn):
            return
        await asyncio.sleep(_LOOK_SECONDS)
    check_at_rest(conn)


def check_at_rest(conn: psycopg.Connection) -> None:
    """Raises AtWork."""
    if _is_at_work(conn):
        raise AtWork("the program is at work on this database: stop `up` and all workers first")


def _is_at_work(conn: psycopg.Connection) -> bool:
    cursor = conn.execute(
        """select exists (select from pg_stat_activity where datname = current_database()
                          and pid <> pg_backend_pid() and application_name = 'email-assistant')"""
    )
    [(is_at_work,)] = cursor.fetchall()
    return bool(is_at_work)
