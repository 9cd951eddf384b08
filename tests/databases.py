"""A database for each test: copied from one that is migrated once a run, and used again if its schema is as it was.

To make one takes Postgres a tenth of a second of its processor, and to connect a hundredth; so one is emptied on the
connection that emptied it before.
"""

import itertools
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, cached_property

import psycopg

TEMPLATE = "migrated"

_TABLES = """
select format('%I.%I', schemaname, tablename) from pg_tables
where schemaname in ('public', 'email_assistant') order by 1"""
_OTHERS_OUT = """
select pg_terminate_backend(pid, 5000) from pg_stat_activity
where datname = current_database() and pid <> pg_backend_pid()"""
_DEFINITIONS = (
    *("pg_attribute where attrelid >= 16384", "pg_constraint where oid >= 16384", "pg_trigger where not tgisinternal"),
    *("pg_proc where oid >= 16384", r"pg_namespace where nspname not like 'pg\_%'"),
    "pg_db_role_setting where setdatabase = (select oid from pg_database where datname = current_database())",
)
"""Whoever changes one leaves a row less there, or a row of a later transaction."""

Connection = psycopg.Connection[tuple[str]]


@dataclass
class _Database:
    name: str
    conn: Connection  # of nobody but us; open for as long as the database is there
    shape: str


class Databases:
    """Those of one server."""

    def __init__(self, server: str) -> None:
        """
        Args:
            server: the URL of its database `postgres`, in which the template is made already.
        """
        self._server = server
        self._numbers = itertools.count()
        self._free: list[_Database] = []

    @contextmanager
    def migrated(self) -> Iterator[str]:
        """The URL of one with this version's schema and no rows."""
        database = self._free.pop() if self._free else self._made()
        yield self._url(database.name)
        if self._is_as_before(database):
            self._free.append(database)
        else:
            database.conn.close()
            self._drop(database.name)

    @contextmanager
    def empty(self) -> Iterator[str]:
        """The URL of one that no version has migrated."""
        name = self._copied("template1")
        yield self._url(name)
        self._drop(name)

    def _made(self) -> _Database:
        name = self._copied(TEMPLATE)
        conn: Connection = psycopg.connect(self._url(name), autocommit=True, prepare_threshold=0)
        conn.execute("set session_replication_role = replica")  # without the triggers of foreign keys
        return _Database(name, conn, self._shape(conn))

    def _copied(self, template: str) -> str:
        name = f"test_{os.getpid()}_{next(self._numbers)}"
        # The other strategy has all that other tests have written go to the disk first.
        self._do(f'create database "{name}" template {template} strategy wal_log')
        return name

    def _drop(self, name: str) -> None:
        self._do(f'drop database "{name}" with (force)')

    def _is_as_before(self, database: _Database) -> bool:
        """Whether it could be emptied, and differs from the template in nothing then."""
        conn = database.conn
        try:
            conn.execute(_OTHERS_OUT)
            for (table,) in conn.execute(self._with_rows).fetchall():
                conn.execute(f"delete from {table}".encode())
            return self._shape(conn) == database.shape
        except psycopg.Error:
            return False

    @cached_property
    def _tables(self) -> tuple[list[str], list[str]]:
        """Those of the template without rows, and those with some."""
        name = self._copied(TEMPLATE)  # nobody may be connected to the template itself while it is copied
        with psycopg.connect(self._url(name), autocommit=True) as conn:
            tables = [table for (table,) in conn.execute(_TABLES)]
            filled = [table for table in tables if conn.execute(f"select 1 from {table}".encode()).fetchone()]
        self._drop(name)
        return [table for table in tables if table not in filled], filled

    @cached_property
    def _with_rows(self) -> bytes:
        """Asks which tables have rows that the template has not."""
        empty, _ = self._tables
        return " union all ".join(f"select '{table}' where exists (select from {table})" for table in empty).encode()

    def _shape(self, conn: Connection) -> str:
        """The definitions, and the rows that are there from the beginning."""
        _, filled = self._tables
        last = "count(*) || ' ' || coalesce(max(xmin::text::bigint), 0)"
        parts = [f"(select {last} from {each})" for each in _DEFINITIONS]
        parts += [f"(select md5(string_agg(t::text, ' ' order by t::text)) from {table} t)" for table in filled]
        row = conn.execute(f"select concat_ws(' ', {', '.join(parts)})".encode()).fetchone()
        assert row is not None
        return row[0]

    def _do(self, statement: str) -> None:
        with psycopg.connect(self._server, autocommit=True) as conn:
            conn.execute(statement.encode())

    def _url(self, name: str) -> str:
        return self._server.replace("/postgres?", f"/{name}?", 1)


@cache
def databases(server: str) -> Databases:
    """Those of this process."""
    return Databases(server)
