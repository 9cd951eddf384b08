"""An upgrade: the schema of a later version comes once, while processes of this one are at work."""

import asyncio
import shutil
from pathlib import Path
from unittest.mock import Mock

import psycopg
import pytest

from email_assistant.db.migrate import MIGRATIONS, migrate
from email_assistant.db.pool import UnusableDatabase
from tests.doubles.daemon import Daemon
from tests.doubles.google import Google
from tests.doubles.model import Model
from tests.integration.scene import BOB, DONE, reply

LATER = """
create table later (id bigint generated always as identity);
insert into later default values;
alter table mails add column later text;
create index mails_later on mails (later);
"""

DIES = """
create function dies() returns trigger language plpgsql as $$
begin perform pg_terminate_backend(pg_backend_pid()); return new; end $$;
create trigger dies before insert on email_assistant._yoyo_migration for each row execute function dies()"""
"""The connection ends, as that of a killed process."""


async def test_it_comes_once_and_older_processes_work_on(
    tmp_path: Path, database_url: str, daemon: Daemon, google: Google, model: Model
) -> None:
    model.script(lambda _: [reply("Friday is fine."), DONE])
    before = google.deliver(BOB, "Lunch?", "Does Friday suit you?")
    [item] = daemon.pending()
    folder = tmp_path / "migrations"
    shutil.copytree(MIGRATIONS, folder)
    (folder / "9999_later.sql").write_text(LATER)

    during = google.deliver(BOB, "Dinner?", "Does Friday suit you?")
    await asyncio.gather(*(migrate(database_url, folder) for _ in range(4)))

    with psycopg.connect(database_url) as conn:
        assert conn.execute("select count(*) from email_assistant.later").fetchone() == (1,)
    items = daemon.pending(2)
    for waiting in items:
        daemon.accept(waiting)
    daemon.until_done(before, during)
    assert len(google.sent) == 2
    assert item["id"] in [waiting["id"] for waiting in items]
    daemon.stop()
    daemon.up()  # the version before can still be started
    assert daemon.item(item["id"])["status"] == "applied"


async def test_a_process_that_dies_in_it_leaves_it_to_the_next(tmp_path: Path, database_url: str) -> None:
    """It dies when the tables are there and nobody has noted so yet."""
    folder = tmp_path / "migrations"
    shutil.copytree(MIGRATIONS, folder)
    (folder / "9999_later.sql").write_text(LATER)
    with psycopg.connect(database_url, autocommit=True) as conn:
        conn.execute(DIES)
        with pytest.raises(UnusableDatabase):
            await migrate(database_url, folder)
        conn.execute("drop trigger dies on email_assistant._yoyo_migration")
        await migrate(database_url, folder)
        assert conn.execute("select count(*) from email_assistant.later").fetchone() == (1,)


async def test_the_system_need_not_know_who_it_runs_as(
    monkeypatch: pytest.MonkeyPatch, empty_database_url: str
) -> None:
    """As in a container that is given any number for a user."""
    monkeypatch.setattr("getpass.getuser", Mock(side_effect=KeyError("getpwuid(): uid not found: 12345")))
    await migrate(empty_database_url)
