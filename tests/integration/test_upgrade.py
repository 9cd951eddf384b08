"""An upgrade: the schema of a later version comes once, while processes of this one are at work."""

import asyncio
import shutil
from pathlib import Path

import psycopg

from email_assistant.db.migrate import MIGRATIONS, migrate
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
