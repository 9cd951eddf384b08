"""A database for each test: copied from one that is migrated once a run, and used again if its schema is as it was.

To make one and to drop it takes a tenth of a second on a machine that does nothing else; to empty one, a hundredth.
"""

import itertools
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache, cached_property

import psycopg

TEMPLATE = "migrated"

_TABLES = """
select format('%I.%I', schemaname, tablename) from pg_tables
where schemaname in ('public', 'email_assistant') order by 1"""
_OTHERS_OUT = """
select pg_terminate_backend(pid, 5000) from pg_stat_activity
where datname = current_database() and pid <> pg_backend_pid()"""
_DEFINITIONS = """
select format('%s %s %s %s %s', attrelid::regclass, attname, atttypid::regtype, atttypmod, attnotnull) as line
    from pg_attribute join pg_class c on c.oid = attrelid
    where relnamespace in (select oid from pg_namespace where nspname in ('public', 'email_assistant')) and attnum > 0
union all select nspname || coalesce(nspacl::text, '') from pg_namespace where nspname not like 'pg\\_%'
union all select conrelid::regclass::text || pg_get_constraintdef(oid) from pg_constraint where oid >= 16384
union all select pg_get_triggerdef(oid) || tgenabled::text from pg_trigger where not tgisinternal
union all select proname || md5(prosrc) from pg_proc where oid >= 16384
union all select setconfig::text from pg_db_role_setting join pg_database d on d.oid = setdatabase
    where datname = current_database()"""


class Databases:
    """Those of one server."""

    def __init__(self, server: str) -> None:
        """
        Args:
            server: the URL of its database `postgres`, in which the template is made already.
        """
        self._server = server
        self._numbers = itertools.count()
        self._free: list[str] = []

    @contextmanager
    def migrated(self) -> Iterator[str]:
        """The URL of one with this version's schema and no rows."""
        name = self._free.pop() if self._free else self._made(TEMPLATE)
        yield self._url(name)
        if self._is_as_before(name):
            self._free.append(name)
        else:
            self._do(f'drop database "{name}" with (force)')

    @contextmanager
    def empty(self) -> Iterator[str]:
        """The URL of one that no version has migrated."""
        name = self._made("template1")
        yield self._url(name)
        self._do(f'drop database "{name}" with (force)')

    def _made(self, template: str) -> str:
        name = f"test_{os.getpid()}_{next(self._numbers)}"
        self._do(f'create database "{name}" template {template} strategy file_copy')
        return name

    def _is_as_before(self, name: str) -> bool:
        """Whether it could be emptied, and differs from the template in nothing then."""
        tables, filled, expected = self._template
        try:
            with psycopg.connect(self._url(name), autocommit=True) as conn:
                conn.execute(_OTHERS_OUT)
                conn.execute("set session_replication_role = replica")  # without the triggers of foreign keys
                with conn.transaction():
                    for table in tables:
                        if table not in filled:
                            conn.execute(f"delete from {table}".encode())
                return _shape(conn, filled) == expected
        except psycopg.Error:
            return False

    @cached_property
    def _template(self) -> tuple[list[str], list[str], str]:
        """Its tables, those of them that have rows, and its shape."""
        name = self._made(TEMPLATE)  # nobody may be connected to the template itself while it is copied
        with psycopg.connect(self._url(name), autocommit=True) as conn:
            tables = [table for (table,) in conn.execute(_TABLES)]
            filled = [table for table in tables if conn.execute(f"select 1 from {table}".encode()).fetchone()]
            shape = _shape(conn, filled)
        self._free.append(name)
        return tables, filled, shape

    def _do(self, statement: str) -> None:
        with psycopg.connect(self._server, autocommit=True) as conn:
            conn.execute(statement.encode())

    def _url(self, name: str) -> str:
        return self._server.replace("/postgres?", f"/{name}?", 1)


@cache
def databases(server: str) -> Databases:
    """Those of this process."""
    return Databases(server)


def _shape(conn: psycopg.Connection[tuple[str]], filled: list[str]) -> str:
    """All definitions, and the rows that are there from the beginning."""
    rows = "".join(f" union all select t::text from {table} t" for table in filled)
    found = conn.execute(f"select md5(string_agg(line, ' ' order by line)) from ({_DEFINITIONS}{rows}) d".encode())
    row = found.fetchone()
    assert row is not None
    return row[0]
