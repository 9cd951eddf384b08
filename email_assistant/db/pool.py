"""Connections to Postgres: one pool a process, all of our tables in one schema."""

import asyncio
import os
import select
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import psycopg
from psycopg import AsyncClientCursor, AsyncConnection, AsyncCursor, conninfo
from psycopg.abc import RV, PQGen
from psycopg.rows import AsyncRowFactory, DictRow, Row, class_row, dict_row
from psycopg_pool import AsyncConnectionPool
from psycopg_pool.abc import ACT

from email_assistant.db.values import ADAPTERS
from email_assistant.errors import AssistantError

SCHEMA = "email_assistant"
ENCODING = "UTF8"
"""Of what connections are told and say, whatever the environment, the server or the role has as its default."""
TABLES_HELD = "another process holds the database's tables, and has for ten seconds; nothing was changed, try again"
"""What a person is told who waited in vain."""
POOLED_BY_TRANSACTION = (
    "DATABASE_URL leads to a pooler in transaction mode, where connections lose their settings and locks: "
    "put it into session mode, or name the server itself"
)

Connection = AsyncConnection[DictRow]
Parameters = Sequence[object] | Mapping[str, object]
Statement = tuple[str, Parameters]
"""With what it is given."""
T = TypeVar("T")
_LOOK_AFTER_SECONDS = 5.0
_PLAN_ONCE = "-c plan_cache_mode=force_generic_plan"
"""Else Postgres plans a statement anew for the values given, five times at least and for as long as that seems to pay
(https://www.postgresql.org/docs/current/sql-prepare.html, notes): most of what a mail cost it."""
_MOST_PREPARED = 400
"""Statements of a connection whose plans are kept. A process that does everything has some hundreds, and the library
keeps 100."""
_RENEWED_SECONDS = 600
"""How old a connection gets. libpq keeps room in each for the largest message that it has ever carried
(`pqCheckInBufferSpace` of its fe-misc.c): a pool that had met mails of 4 MB held 200 MB of it."""


class StoppablePool(AsyncConnectionPool[ACT]):
    """A pool whose waits can be cancelled, and that lends first what came back last.

    It waits by `asyncio.wait_for`, which before Python 3.12 drops a cancellation that comes together with the
    connection (https://github.com/python/cpython/issues/86296): a worker that was told to stop then worked on.

    Each connection has Postgres plan each statement once; in turns, as the library lends them, all of them would."""

    async def getconn(self, timeout: float | None = None) -> ACT:  # noqa: ASYNC109 - the library's own
        before = _cancellations()
        self._pool.rotate()  # it takes the first, and puts what comes back behind the last
        conn = await super().getconn(timeout)
        if _cancellations() > before:
            await self.putconn(conn)
            raise asyncio.CancelledError
        return conn


def _cancellations() -> int:
    task = asyncio.current_task()
    return task.cancelling() if task else 0


class ListeningConnection(AsyncConnection[Row]):
    """For what waits for notifications. psycopg looks after each that waits ten times a second, so that Ctrl-C is heard
    (`psycopg.waiting`); asyncio hears it anyway, and an idle program did little else."""

    async def wait(self, gen: PQGen[RV], interval: float = _LOOK_AFTER_SECONDS, timeout: float | None = None) -> RV:  # noqa: ASYNC109 - the library's own
        return await super().wait(gen, interval, timeout)


Pool = StoppablePool[Connection]

AWAY = (psycopg.OperationalError, psycopg.InterfaceError, psycopg.errors.IdleInTransactionSessionTimeout)
"""What is raised where the database can't be reached or has ended a connection, be it for a transaction in which a
process stood still."""


_EXAMPLE = "postgresql://user:password@host:5432/database"


class UnusableDatabase(AssistantError):
    """The database can't be used; the message says why and what to do, and quotes no password."""


class DatabaseAway(UnusableDatabase):
    """It can't be reached, or its server is ending."""


def parameters(url: str) -> dict[str, Any]:
    """What a libpq URL says, by libpq's names. Raises UnusableDatabase: it is none, or a piece of a password has
    strayed into another part of it."""
    try:
        found = conninfo.conninfo_to_dict(url)
    except psycopg.ProgrammingError as error:
        # libpq quotes what it can't read; the name of an option is no secret unless a password may have spilt there.
        said = f" ({error})" if "query parameter" in str(error) and "@" not in url.partition("?")[2] else ""
        raise UnusableDatabase(f"DATABASE_URL can't be read{said}; it looks like {_EXAMPLE}") from None
    places = str(found.get("host") or "") + str(found.get("dbname") or "")
    ports = str(found.get("port") or "").replace(",", "")
    if "@" in places or (ports and not ports.isdecimal()):
        raise UnusableDatabase(
            f"DATABASE_URL can't be read: it looks like {_EXAMPLE}, and in a password @ is written %40, / %2F, : %3A"
        )
    try:
        conninfo.timeout_from_conninfo(found)
    except psycopg.ProgrammingError:
        raise UnusableDatabase(
            "connect_timeout in DATABASE_URL, or PGCONNECT_TIMEOUT in the environment, takes a number of seconds"
        ) from None
    return found


def named_in() -> str:
    """Where a person looks who has set what leads to no database: their URL, and the variables that libpq heeds too."""
    variables = ", ".join(sorted(name for name in os.environ if name.startswith("PG")))
    return f"DATABASE_URL, and {variables} in the environment" if variables else "DATABASE_URL"


def session_settings(url: str, schema: str = SCHEMA) -> dict[str, Any]:
    """Keyword arguments that every connection of this program opens with. Raises UnusableDatabase."""
    options = f"{parameters(url).get('options') or ''} -c search_path={schema},public -c timezone=UTC"
    return {
        "options": options.strip(),
        "application_name": "email-assistant",
        "client_encoding": ENCODING,
        "context": ADAPTERS,
    }


def connection_settings(url: str, schema: str = SCHEMA) -> dict[str, Any]:
    """`session_settings`, with the autocommit and dict rows that LangGraph's saver and store ask for."""
    return {**session_settings(url, schema), "autocommit": True, "row_factory": dict_row}


def make_pool(url: str, *, size: int, idle_seconds: float) -> Pool:
    """Make a pool, not yet open. `idle_seconds`: how long a transaction may wait for its process. One that was stopped,
    with its machine or by SIGSTOP, would else hold its locks for good: its kernel still answers the server's
    keepalives."""
    idle = f"-c idle_in_transaction_session_timeout={idle_seconds * 1000:.0f}"
    settings = connection_settings(url)
    return Pool(
        url,
        kwargs={**settings, "options": f"{settings['options']} {idle} {_PLAN_ONCE}", "prepare_threshold": 0},
        configure=_keep_plans,
        min_size=1,
        max_size=size,
        open=False,
        timeout=30,
        max_lifetime=_RENEWED_SECONDS,
        check=_check_if_spoken_to,
    )


async def _keep_plans(conn: Connection) -> None:
    conn.prepared_max = _MOST_PREPARED


async def fetched(pool: Pool, query: str, parameters: Parameters = ()) -> list[dict[str, Any]]:
    """The rows of one statement, run by itself; none of one that gives no rows."""
    async with pool.connection() as conn:
        cursor = await conn.execute(query.encode(), parameters)
        return await cursor.fetchall() if cursor.description else []


async def fetched_together(pool: Pool, *statements: Statement) -> list[list[dict[str, Any]]]:
    """The rows of each of several statements, asked for in one trip and one transaction."""
    async with pool.connection() as conn:
        async with conn.pipeline():
            cursors = [await conn.execute(query.encode(), parameters) for query, parameters in statements]
        return [await cursor.fetchall() if cursor.description else [] for cursor in cursors]


async def fetched_as(
    kind: type[T], pool: Pool, query: str, parameters: Parameters = (), *, plan_anew: bool = False
) -> list[T]:
    """Likewise, each row as an object of a class whose arguments are named as the columns."""
    async with pool.connection() as conn:
        return await rows_of(conn, class_row(kind), query, parameters, plan_anew=plan_anew)


async def rows_of(
    conn: Connection, made: AsyncRowFactory[T], query: str, parameters: Parameters, *, plan_anew: bool
) -> list[T]:
    """The rows of one statement.

    Args:
        plan_anew: have Postgres plan for these very values, as a list or a search needs it: which index serves it best
            depends on the status that is wanted, and on how rare a word is.
    """
    of = AsyncClientCursor if plan_anew else AsyncCursor
    async with of(conn, row_factory=made) as cursor:
        await cursor.execute(query.encode(), parameters)
        return await cursor.fetchall()


async def shares_sessions(pool: Pool) -> bool:
    """Whether a pooler in transaction mode stands before the server: two connections then meet in one session of it."""
    async with pool.connection() as one, pool.connection() as other:
        first = await _session_of(one)
        async with other.transaction():
            return await _session_of(other) == first


async def _session_of(conn: Connection) -> int:
    row = await (await conn.execute("select pg_backend_pid() as pid", prepare=False)).fetchone()
    assert row is not None
    return int(row["pid"])


async def _check_if_spoken_to(conn: Connection) -> None:
    """Try a connection before it is lent if its server has said something meanwhile, such as farewell: so a server that
    was restarted costs no error. To try every one took half of all exchanges with the database."""
    poll = select.poll()
    poll.register(conn.fileno(), select.POLLIN)
    if poll.poll(0):
        await Pool.check_connection(conn)
