"""Bring the database to this version's schema: our plain SQL files, Procrastinate's, LangGraph's."""

import asyncio
import importlib.metadata
import importlib.resources
import importlib.util
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from urllib.parse import urlencode

import psycopg
from psycopg import sql

from email_assistant.db import pool

MIGRATIONS = Path(__file__).parent / "migrations"
_LOCK = 0x6D61696C  # one number for all processes of this program

_COMPLETE = """
select array(select migration_id::text from _yoyo_migration) @> %s::text[]
   and array(select file from procrastinate_versions) @> %s::text[]
   and exists (select from checkpoint_versions where version = %s)
   and not current_setting('transaction_read_only')::bool as complete"""
"""One that takes no writes is none: who goes on to migrate it is told so."""

_OLDEST_SERVER = 13  # https://procrastinate.readthedocs.io asks for it, and gen_random_uuid() came with it


def known_migrations(folder: Path = MIGRATIONS) -> set[str]:
    """The names of ours, as the database keeps them."""
    return {file.stem for file in folder.glob("*.sql")}


async def not_applied(of: pool.Pool) -> set[str]:
    """Those of ours that the database does not have."""
    try:
        rows = await pool.fetched(of, "select migration_id from _yoyo_migration")
    except psycopg.errors.UndefinedTable:
        return known_migrations()
    return known_migrations() - {row["migration_id"] for row in rows}


async def migrate(
    url: str,
    folder: Path = MIGRATIONS,
    *,
    schema: str = pool.SCHEMA,
    names: Collection[str] | None = None,
    patience: float | None = None,
) -> None:
    """Apply what is missing, once, whichever process comes first. Safe to call at every start.

    Processes of the version before may be at work: what they read and write must be left to them.

    Args:
        schema: where all tables are, or are made.
        names: only these of ours, as in `known_migrations`; None: all.
        patience: seconds to wait for another process that is at it; None: as long as it takes.

    Raises:
        UnusableDatabase: it can't be reached, or a person must change something first.
        LockNotAvailable: another process holds the tables.
    """
    try:
        async with _connect(url, schema) as conn:
            _check_version(conn)
            if names is None and await _is_complete(conn, folder):
                return
            async with _exclusively(conn, patience):
                await _create_schema(conn, schema)
                await asyncio.to_thread(_apply_ours, url, folder, schema, names)
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
        raise pool.UnusableDatabase(f"the database can't be used: {reason}; check {pool.named_in()}") from None


async def _is_complete(conn: pool.Connection, folder: Path) -> bool:
    """Whether nothing is missing: each command asks, and to load what would apply it takes longer than most of them."""
    given = (sorted(known_migrations(folder)), _procrastinate_files(), _langgraph_version())
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
async def _exclusively(conn: pool.Connection, patience: float | None) -> AsyncIterator[None]:
    # Polled, because a session that waits inside pg_advisory_lock holds a snapshot, and LangGraph's
    # CREATE INDEX CONCURRENTLY waits for every older snapshot: the two would wait for each other.
    try:
        async with asyncio.timeout(patience):
            while True:
                row = await (await conn.execute("select pg_try_advisory_lock(%s) as ours", (_LOCK,))).fetchone()
                if row and row["ours"]:
                    break
                await asyncio.sleep(0.1)
    except TimeoutError:
        raise pool.UnusableDatabase(
            f"another process has been bringing the database up to date for {patience:.0f} s; try again once it is done"
        ) from None
    try:
        yield
    finally:
        await conn.execute("select pg_advisory_unlock(%s)", (_LOCK,))


def _apply_ours(url: str, folder: Path, schema: str, names: Collection[str] | None) -> None:
    from yoyo import get_backend, read_migrations

    wanted = read_migrations(str(folder)).filter(lambda migration: names is None or migration.id in names)
    backend = get_backend(_yoyo_url(url, schema))
    try:
        # Without yoyo's own lock, a row that would outlive a killed process; and with each migration noted where it is
        # applied, which yoyo does in a second transaction: a process that died between them left a database for good
        # to which the same was to be applied again.
        for migration in backend.to_apply(wanted):
            with backend.transaction():
                migration.process_steps(backend, "apply")
                backend.mark_one(migration, log=False)
    finally:
        backend.connection.close()


def _yoyo_url(url: str, schema: str) -> str:
    given = {key: value for key, value in pool.parameters(url).items() if value is not None}
    return f"postgresql+psycopg:///?{urlencode(given | {'schema': schema, 'client_encoding': pool.ENCODING})}"


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
