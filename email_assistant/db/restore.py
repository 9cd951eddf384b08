"""A backup put in place of what the database holds: its rows, in tables that this program makes itself.

They are made and filled beside those that are there, and in the end take the others' place in one transaction. Nothing
that stands in the file is executed, and no name from it reaches SQL that the database has not.
"""

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql

from email_assistant.db.backup import WITHOUT_ROWS, BackupError, Block, blocks_of, read_backup
from email_assistant.db.migrate import migrate
from email_assistant.db.pool import SCHEMA, TABLES_HELD, UnusableDatabase, session_settings
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


_BESIDE = f"{SCHEMA}_restored"
_LOCK = 0x6D61696D  # one number for all restores, beside the one of `migrate`
_REASON = "restored from a backup while this was being carried out: look in Gmail whether it was, then try again"
_ASKED_BECAUSE = "a backup was restored from before what you decided was done"
_CLOCK_SKEW = "10 minutes"  # Google's clock may be this far from ours

Columns = Mapping[str, set[str]]  # what rows of each table can be given

# What was decided or under way when the backup was taken may have been carried out since. So nothing is carried out
# from it: a decision is asked for again, and a run in the middle of its actions is put before the person. Mail that was
# sent since is found by the next look into its thread; what was sent under a key, by a look into Sent before anything
# is sent under that key. A draft that was to be left at Gmail is not: the reply still waits in the inbox. Jobs are not
# restored at all; neither are logins, of which one that was ended since, or that somebody wrote into the file, would
# open the inbox.
_STAND_STILL = f"""
update inbox_items set status = 'expired' where status in ('pending', 'decided')
    and run_id in (select id from runs where state = 'acting');
update mails set state = 'failed', tries = 0, reason = '{_REASON}'
    where run_id in (select id from runs where state = 'acting');
update runs set state = 'failed', reason = '{_REASON}' where state = 'acting';
update inbox_items set status = 'pending', decision = null, decided_by = null, decided_at = null, undo_until = null,
    taken_back = case when decision->>'type' in ('edit', 'response') then decision end,
    asked_because = '{_ASKED_BECAUSE}'
    where status = 'decided';
update inbox_items set reopened = jsonb_set(reopened::jsonb, '{{item}}', 'null')::json
    where status = 'pending' and json_typeof(reopened) = 'object';
update left_drafts set state = 'gone' where state in ('wanted', 'started');
update threads set lease_until = '-infinity', not_before = '-infinity', holder = null;
update accounts set syncing_until = '-infinity', backfilling_until = '-infinity',
    unrecorded_since = least(unrecorded_since, coalesce(listed_at, triage_since) - interval '{_CLOCK_SKEW}'),
    unrecorded_until = clock_timestamp() + interval '{_CLOCK_SKEW}';
update inbox_items set learning_until = '-infinity' where learning_until > '-infinity';
delete from sessions;
delete from presences;
"""


async def restore(url: str, source: Path, *, replace: bool, wait_seconds: float | None = None) -> None:
    """Put a backup in place of what the database holds: all of it, or nothing. `replace`: even if accounts are
    connected there; `wait_seconds`: for another process that brings tables up to date; None: as long as it takes.
    Raises BackupError, AtWork: nothing was changed."""
    read_backup(source)
    with _alone(url) as conn, _explained(source):
        await until_at_rest(conn)
        _check_accounts(conn, replace=replace)
        try:
            await migrate(url, schema=_BESIDE, wait_seconds=wait_seconds)
            await asyncio.to_thread(_fill, url, source)
            await until_at_rest(conn)  # the connections of that may be seen for a moment longer
            await asyncio.to_thread(_put_in_place, url, replace=replace)
        finally:
            _drop_beside(conn)


@contextmanager
def _alone(url: str) -> Iterator[psycopg.Connection]:
    """A connection while which is open no other restore goes on; what one that died has left is cleared away."""
    with psycopg.connect(url, autocommit=True) as conn:
        row = conn.execute(
            """select pg_try_advisory_lock(%s), has_database_privilege(current_database(), 'create'),
                      format('grant create on database %%I to %%I', current_database(), current_user)""",
            (_LOCK,),
        ).fetchone()
        assert row is not None
        is_ours, may_create, grant = row
        if not is_ours:
            raise BackupError("another restore is at work on this database: wait for it")
        if not may_create:
            raise BackupError(f"the database's user may not create a schema: have its administrator run: {grant}")
        _drop_beside(conn)
        yield conn


def _drop_beside(conn: psycopg.Connection) -> None:
    conn.execute(sql.SQL("drop schema if exists {} cascade").format(sql.Identifier(_BESIDE)))


@contextmanager
def _explained(source: Path) -> Iterator[None]:
    try:
        yield
    except UnusableDatabase as error:
        raise BackupError(str(error)) from None
    except psycopg.errors.DiskFull:
        raise BackupError("the database's disk is full: free some space, then restore again") from None
    except (psycopg.DataError, psycopg.IntegrityError, psycopg.ProgrammingError) as error:
        # Only the kind of error: its words quote rows.
        raise BackupError(f"{source} is no backup of this program, or is damaged ({type(error).__name__})") from None
    except psycopg.errors.LockNotAvailable:
        raise BackupError(TABLES_HELD) from None
    except psycopg.Error as error:
        raise BackupError(f"the database broke off: {str(error).partition(chr(10))[0]}") from None


def _check_accounts(conn: psycopg.Connection, *, replace: bool) -> None:
    cursor = conn.execute("select to_regclass(%s) is not null", (f"{SCHEMA}.accounts",))
    if not ((row := cursor.fetchone()) and row[0]):
        return
    cursor = conn.execute(f"select count(*) from {SCHEMA}.accounts where provider <> 'none'".encode())
    if (row := cursor.fetchone()) and row[0] and not replace:
        raise BackupError("accounts are connected here already: --replace puts the backup in their place")


@contextmanager
def _beside(url: str) -> Iterator[psycopg.Connection]:
    """A connection that sees the new tables, in one transaction. It doesn't count as the program at work."""
    settings = {**session_settings(url, _BESIDE), "application_name": "email-assistant restore"}
    with psycopg.connect(url, **settings) as conn:
        yield conn


def _fill(url: str, source: Path) -> None:
    """Copy the rows as `psql` would: foreign keys come after all rows, and no trigger tells that something happened."""
    with _beside(url) as conn, blocks_of(source) as blocks:
        tables = _tables(conn)
        keys = _foreign_keys(conn, tables)
        for table, name, _ in keys:
            _alter(conn, table, sql.SQL("drop constraint {}").format(sql.Identifier(name)))
        for table in tables:
            _alter(conn, table, sql.SQL("disable trigger user"))
            conn.execute(
                sql.SQL("delete from {}").format(sql.Identifier(table))
            )  # what was put there as they were made
        missing = tables.keys() - {WITHOUT_ROWS}
        for block in blocks:
            if block.table in tables:
                _copy(conn, block, tables)
                missing -= {block.table}
        if missing:  # `pg_dump` names empty tables too
            raise BackupError(f"{source} is damaged: of {', '.join(sorted(missing))} it holds nothing")
        for table, name, definition in keys:
            _alter(conn, table, sql.SQL("add constraint {} {}").format(sql.Identifier(name), definition))
        for table in tables:
            _alter(conn, table, sql.SQL("enable trigger user"))
        _set_sequences(conn, tables)


def _tables(conn: psycopg.Connection) -> Columns:
    """The tables that a backup has rows for: not the books of versions, nor the queue, whose jobs are wake-ups."""
    cursor = conn.execute(
        r"""select c.relname, array_agg(a.attname::text) from pg_class c join pg_attribute a on a.attrelid = c.oid
            where c.relnamespace = %s::regnamespace and c.relkind = 'r' and a.attnum > 0 and not a.attisdropped
              and a.attgenerated = ''
              and c.relname !~ '^(procrastinate_|checkpoint_versions$|schema_hash$)|_migrations$'
            group by c.relname""",
        (_BESIDE,),
    )
    return {table: set(columns) for table, columns in cursor}


def _foreign_keys(conn: psycopg.Connection, tables: Columns) -> list[tuple[str, str, sql.SQL]]:
    """Table, name and definition of each, in the catalog's own words."""
    cursor = conn.execute(
        """select c.relname, k.conname, pg_get_constraintdef(k.oid) from pg_constraint k
           join pg_class c on c.oid = k.conrelid
           where k.contype = 'f' and k.connamespace = %s::regnamespace and c.relname = any(%s)""",
        (_BESIDE, list(tables)),
    )
    return [(table, name, sql.SQL(definition)) for table, name, definition in cursor]


def _alter(conn: psycopg.Connection, table: str, how: sql.Composable) -> None:
    conn.execute(sql.SQL("alter table {} {}").format(sql.Identifier(table), how))


def _copy(conn: psycopg.Connection, block: Block, tables: Columns) -> None:
    if not tables[block.table].issuperset(block.columns):
        raise BackupError(f"the backup is damaged, or of other libraries: it has more of {block.table}")
    statement = sql.SQL("copy {} ({}) from stdin").format(
        sql.Identifier(block.table), sql.SQL(", ").join(map(sql.Identifier, block.columns))
    )
    with conn.cursor().copy(statement) as copy:
        for row in block.rows:
            copy.write(row)


def _set_sequences(conn: psycopg.Connection, tables: Columns) -> None:
    """Let each go on after the greatest number that was given."""
    cursor: psycopg.Cursor[Any] = conn.execute(
        """select s.relname, t.relname, a.attname from pg_depend d
           join pg_class s on s.oid = d.objid and s.relkind = 'S' join pg_class t on t.oid = d.refobjid
           join pg_attribute a on a.attrelid = t.oid and a.attnum = d.refobjsubid
           where t.relnamespace = %s::regnamespace and t.relname = any(%s)""",
        (_BESIDE, list(tables)),
    )
    for sequence, table, column in cursor.fetchall():
        conn.execute(
            sql.SQL("select setval({}::regclass, coalesce(max({}), 0) + 1, false) from {}").format(
                sql.Literal(sequence), sql.Identifier(column), sql.Identifier(table)
            )
        )


def _put_in_place(url: str, *, replace: bool) -> None:
    with _beside(url) as conn:
        check_at_rest(conn)
        _check_accounts(conn, replace=replace)
        conn.execute(_STAND_STILL.encode())
        conn.execute(sql.SQL("drop schema if exists {} cascade").format(sql.Identifier(SCHEMA)))
        conn.execute(sql.SQL("alter schema {} rename to {}").format(sql.Identifier(_BESIDE), sql.Identifier(SCHEMA)))
