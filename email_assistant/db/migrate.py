"""Make this version's tables: our own (`schema.sql`), Procrastinate's, LangGraph's.

As no version was released, ours are made in one go, and never changed: the database keeps the hash of the file that
they are of, and one of another hash is refused. Those of the libraries are brought up to date by their own steps.
"""

import asyncio
import hashlib
import importlib.metadata
import importlib.resources
import importlib.util
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import cache
from pathlib import Path

import psycopg
from psycopg import sql

from email_assistant.db import pool

UNRELEASED = (
    "the database was made by an unreleased version with other tables, and is left as it is: start with a fresh home "
    "(EMAIL_ASSISTANT_HOME) or another DATABASE_URL, or use the version that made it"
)
"""What a person is told whose database this version can't use."""
_SCHEMA = Path(__file__).with_name("schema.sql")
_LOCK = 0x6D61696C  # one number for all processes of this program

_COMPLETE = """
select exists (select from schema_hash where hash = %s)
   and array(select file from procrastinate_versions) @> %s::text[]
   and exists (select from checkpoint_versions where version = %s)
   and not current_setting('transaction_read_only')::bool as complete"""
"""One that takes no writes is none: who goes on to migrate it is told so."""

_OLDEST_SERVER = 13  # https://procrastinate.readthedocs.io asks for it, and gen_random_uuid() came with it


@cache
def schema_hash() -> str:
    """Tells this version's tables from others."""
    return hashlib.sha256(_SCHEMA.read_bytes()).hexdigest()


async def is_ours(conn: pool.Connection) -> bool:
    """Whether the database has the tables of this version."""
    try:
        row = await (await conn.execute("select hash from schema_hash")).fetchone()
    except psycopg.errors.UndefinedTable:
        return False
    return row is not None and row["hash"] == schema_hash()


async def migrate(url: str, *, schema: str = pool.SCHEMA, wait_seconds: float | None = None) -> None:
    """Make what is missing, once, whichever process comes first. Safe to call at every start.

    Args:
        schema: where all tables are, or are made.
        wait_seconds: seconds to wait for another process that is at it; None: as long as it takes.

    Raises:
        DatabaseAway: it can't be reached.
        UnusableDatabase: it has tables of another version, or a person must change something first.
        LockNotAvailable: another process holds the tables.
    """
    try:
        async with _connect(url, schema) as conn:
            _check_version(conn)
            if await _is_complete(conn):
                return
            async with _exclusively(conn, wait_seconds):
                await _create_schema(conn, schema)
                await _make_ours(conn)
                await _apply_procrastinate(conn)
                await _apply_langgraph(url, schema)
    except psycopg.errors.DiskFull:
        raise pool.UnusableDatabase("the database's disk is full: free some space, then start again") from None
    except psycopg.errors.ReadOnlySqlTransaction:
        raise pool.UnusableDatabase(
            "the database takes no writes; name the primary server in DATABASE_URL, not a standby"
        ) from None
    except psycopg.errors.InsufficientPrivilege as error:
        raise pool.UnusableDatabase(
            f"the database's user lacks a right ({error.diag.message_primary}); {_grant(url)}"
        ) from None
    except psycopg.errors.LockNotAvailable:
        raise
    except psycopg.OperationalError as error:
        reason = str(error).strip().partition("\n")[0]
        raise pool.DatabaseAway(f"the database can't be used: {reason}; check {pool.named_in()}") from None


async def _is_complete(conn: pool.Connection) -> bool:
    """Whether nothing is missing: each command asks, and to load what would make it takes longer than most of them."""
    given = (schema_hash(), _procrastinate_files(), _langgraph_version())
    with suppress(psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName):
        row = await (await conn.execute(_COMPLETE, given)).fetchone()
        return bool(row and row["complete"])
    return False


def _procrastinate_files() -> list[str]:
    """The names of Procrastinate's upgrades, without importing it."""
    found = importlib.util.find_spec("procrastinate")
    assert found is not None
    [folder] = found.submodule_search_locations or []
    return sorted(file.name for file in Path(folder, "sql", "migrations").glob("*.sql"))


def _langgraph_version() -> str:
    return importlib.metadata.version("langgraph-checkpoint-postgres")


def _check_version(conn: pool.Connection) -> None:
    found = conn.info.server_version // 10000
    if found < _OLDEST_SERVER:
        raise pool.UnusableDatabase(f"the database server is PostgreSQL {found}; use {_OLDEST_SERVER} or newer")


async def _create_schema(conn: pool.Connection, schema: str) -> None:
    """Make the schema, unless somebody with more rights has: Postgres asks for the right even if it is there."""
    row = await (await conn.execute("select to_regnamespace(%s) is null as missing", (schema,))).fetchone()
    if row and row["missing"]:
        await conn.execute(sql.SQL("create schema if not exists {}").format(sql.Identifier(schema)))


def _grant(url: str) -> str:
    named = pool.parameters(url)
    return (
        f"have its administrator run: create schema {pool.SCHEMA} authorization {named.get('user') or 'USER'} "
        f"in database {named.get('dbname') or named.get('user') or 'DATABASE'}"
    )


@asynccontextmanager
async def _connect(url: str, schema: str) -> AsyncIterator[pool.Connection]:
    async with await psycopg.AsyncConnection.connect(url, **pool.connection_settings(url, schema)) as conn:
        yield conn


@asynccontextmanager
async def _exclusively(conn: pool.Connection, wait_seconds: float | None) -> AsyncIterator[None]:
    # Polled, because a session that waits inside pg_advisory_lock holds a snapshot, and LangGraph's
    # CREATE INDEX CONCURRENTLY waits for every older snapshot: the two would wait for each other.
    try:
        async with asyncio.timeout(wait_seconds):
            while True:
                row = await (await conn.execute("select pg_try_advisory_lock(%s) as ours", (_LOCK,))).fetchone()
                if row and row["ours"]:
                    break
                await asyncio.sleep(0.1)
    except TimeoutError:
        busy = f"another process has been bringing the database up to date for {wait_seconds:.0f} s"
        raise pool.UnusableDatabase(f"{busy}; try again once it is done") from None
    try:
        yield
    finally:
        await conn.execute("select pg_advisory_unlock(%s)", (_LOCK,))


async def _make_ours(conn: pool.Connection) -> None:
    """All of them, with their hash, in one transaction. Raises UnusableDatabase: there are others."""
    try:
        async with conn.transaction():
            await conn.execute(_SCHEMA.read_bytes())
            await conn.execute("insert into schema_hash values (%s)", (schema_hash(),))
    except (psycopg.errors.DuplicateTable, psycopg.errors.DuplicateFunction):
        if not await is_ours(conn):
            raise pool.UnusableDatabase(UNRELEASED) from None


async def _apply_procrastinate(conn: pool.Connection) -> None:
    """Procrastinate ships its upgrades as SQL files without a table of versions: that table is ours."""
    from procrastinate.schema import SchemaManager

    folder = importlib.resources.files("procrastinate.sql.migrations")
    files = sorted(f.name for f in folder.iterdir() if f.name.endswith(".sql"))
    async with conn.transaction():
        await conn.execute("create table if not exists procrastinate_versions (file text primary key)")
        rows = await (await conn.execute("select file from procrastinate_versions")).fetchall()
        known = {row["file"] for row in rows}
        if not known:
            await conn.execute(SchemaManager.get_schema().encode())
        else:
            for file in files:
                if file not in known:
                    await conn.execute(folder.joinpath(file).read_bytes())
        async with conn.cursor() as cursor:
            await cursor.executemany(
                "insert into procrastinate_versions values (%s) on conflict do nothing", [(f,) for f in files]
            )


async def _apply_langgraph(url: str, schema: str) -> None:
    from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
    from langgraph.store.postgres.aio import AsyncPostgresStore

    async with _connect(url, schema) as conn:
        await AsyncPostgresSaver(conn).setup()
        await AsyncPostgresStore(conn).setup()
        await conn.execute("create table if not exists checkpoint_versions (version text primary key)")
        await conn.execute(
            "insert into checkpoint_versions values (%s) on conflict do nothing", (_langgraph_version(),)
        )
