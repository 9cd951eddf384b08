"""The tables come once, whichever process comes first; those of an unreleased version are left as they are."""

import asyncio
import subprocess
from pathlib import Path

import psycopg
import pytest

from email_assistant.db.binaries import find_binaries
from email_assistant.db.migrate import migrate
from email_assistant.db.pool import SCHEMA, UnusableDatabase
from tests.doubles.daemon import Daemon
from tests.doubles.google import Google
from tests.doubles.model import Model

DIES = """
create function public.dies() returns event_trigger language plpgsql as $$
begin perform pg_terminate_backend(pg_backend_pid()); end $$;
create event trigger dies on ddl_command_end when tag in ('CREATE TRIGGER') execute function public.dies()"""
"""The connection ends among our tables, as that of a killed process."""
OTHERS = {
    "of another hash": "update schema_hash set hash = 'another'",
    "of no hash": "drop table schema_hash",
    "of a few tables": "drop schema email_assistant cascade; create schema email_assistant; create table users ()",
}
REFUSED = (
    "the database was made by an unreleased version with other tables, and is left as it is: start with a fresh home "
    "(EMAIL_ASSISTANT_HOME) or another DATABASE_URL, or use the version that made it"
)


def dumped(url: str) -> list[str]:
    """All that it holds, as `pg_dump` writes it."""
    done = subprocess.run([find_binaries() / "pg_dump", f"--dbname={url}"], capture_output=True, text=True, check=True)
    return [line for line in done.stdout.splitlines() if not line.startswith("\\")]


def do(url: str, statements: str) -> None:
    with psycopg.connect(url, autocommit=True, options=f"-c search_path={SCHEMA}") as conn:
        conn.execute(statements.encode())


async def test_they_come_once(empty_database_url: str, database_url: str) -> None:
    await asyncio.gather(*(migrate(empty_database_url) for _ in range(4)))
    with psycopg.connect(empty_database_url) as conn:
        assert conn.execute("select count(*) from email_assistant.users").fetchone() == (1,)


async def test_a_process_that_dies_in_it_leaves_it_to_the_next(empty_database_url: str) -> None:
    do(empty_database_url, DIES)
    with pytest.raises(UnusableDatabase):
        await migrate(empty_database_url)
    with psycopg.connect(empty_database_url) as conn:
        assert conn.execute("select to_regclass('email_assistant.users')").fetchone() == (None,)
    do(empty_database_url, "drop event trigger dies")
    await migrate(empty_database_url)
    with psycopg.connect(empty_database_url) as conn:
        assert conn.execute("select count(*) from email_assistant.users").fetchone() == (1,)


@pytest.mark.parametrize("other", OTHERS)
async def test_those_of_an_unreleased_version_are_left_as_they_are(database_url: str, other: str) -> None:
    do(database_url, OTHERS[other])
    before = dumped(database_url)
    with pytest.raises(UnusableDatabase) as refused:
        await migrate(database_url)
    assert str(refused.value) == REFUSED
    assert dumped(database_url) == before


@pytest.mark.parametrize("command", [("up",), ("status",), ("backup", "new.tar.gz")])
def test_every_command_says_so(
    tmp_path: Path, database_url: str, google: Google, model: Model, command: tuple[str, ...]
) -> None:
    do(database_url, OTHERS["of another hash"])
    before = dumped(database_url)
    with Daemon(tmp_path, database_url, google, model) as program:
        done = program.run(*command)
    assert (done.returncode, " ".join(done.stderr.split())) == (1, f"Error: {REFUSED}")
    assert dumped(database_url) == before
