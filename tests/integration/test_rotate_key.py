"""Another key for what is encrypted: while processes that know both are at work, and at home, where it is in a file."""

from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
from cryptography.fernet import Fernet

from email_assistant.accounts.vault import VaultError
from email_assistant.db.pool import session_settings
from tests.doubles.daemon import Daemon, Process
from tests.doubles.google import Google
from tests.doubles.model import Model
from tests.integration.conftest import Start
from tests.integration.scene import BOB, DONE, reply

SETTING = "EMAIL_ASSISTANT_SECRET_KEY"
_ENCRYPTED = b"gAAAA"  # what every Fernet token of this century begins with


def secrets_in(url: str) -> Iterator[tuple[str, bytes]]:
    """All that is encrypted, wherever it stands in the database, by its table and column."""
    with psycopg.connect(url, options=session_settings(url)["options"]) as conn:
        columns = conn.execute(
            """select c.table_name, c.column_name from information_schema.columns c
               join information_schema.tables t using (table_schema, table_name)
               where c.table_schema = current_schema and c.data_type = 'bytea' and t.table_type = 'BASE TABLE'"""
        ).fetchall()
        for table, column in columns:
            for (value,) in conn.execute(f"select {column} from {table} where {column} is not null".encode()):
                if bytes(value).startswith(_ENCRYPTED):
                    yield f"{table}.{column}", bytes(value)


def expect_key(url: str, key: str) -> None:
    found = dict(secrets_in(url))
    assert set(found) == {"accounts.token", "channels.address", "users.vapid_key"}
    for secret in found.values():
        Fernet(key).decrypt(secret)


@pytest.fixture
def keys() -> tuple[str, str]:
    return Fernet.generate_key().decode(), Fernet.generate_key().decode()


def use_all(daemon: Daemon) -> None:
    """Have something encrypted everywhere."""
    daemon.cli("notify", "add-webhook", "https://hooks.example.org/secret")
    assert daemon.http.get("/api/push").status_code == 200


def test_processes_that_know_both_work_on(
    start: Start, google: Google, model: Model, database_url: str, keys: tuple[str, str]
) -> None:
    old, new = keys
    model.script(lambda _: [reply("Friday is fine."), DONE])
    daemon = start(secret_key=old)
    use_all(daemon)
    refused = daemon.run("rotate-key")
    assert (refused.returncode, "write the new one and a comma before it" in refused.stderr) == (1, True)
    daemon.stop()
    daemon.environment[SETTING] = f"{old},{new}"
    daemon.up()
    daemon.environment[SETTING] = f"{new},{old}"
    daemon.cli("rotate-key")
    expect_key(database_url, new)

    mail = google.deliver(BOB, "Lunch?", "Does Friday suit you?")
    daemon.accept(daemon.pending()[0])
    daemon.until_done(mail)
    google.expire_access_tokens()  # what the process has stored since is in its own first key
    daemon.until_polled(2)
    daemon.stop()
    daemon.cli("rotate-key")
    expect_key(database_url, new)

    daemon.environment[SETTING] = new
    daemon.up()
    daemon.until_polled(2)
    assert daemon.cli("account", "list", "--json")["items"][0]["last_error"] is None
    daemon.stop()
    daemon.environment[SETTING] = old
    assert "can't be read with this key" in daemon.run("doctor").stdout


@pytest.mark.long
def test_all_parts_go_by_the_steps_and_none_meets_what_it_cannot_read(
    connect: Start, google: Google, model: Model, database_url: str, keys: tuple[str, str]
) -> None:
    old, new = keys
    model.script(lambda _: [reply("Friday is fine."), DONE])
    daemon = connect(secret_key=old, replies_per_day=100)
    starts: list[Callable[[], Process]] = [daemon.api, daemon.scheduler, daemon.worker, daemon.worker]
    parts = [start() for start in starts]
    use_all(daemon)

    def answer_one() -> None:
        """A mail goes all the way, with a login that is encrypted anew meanwhile."""
        google.expire_access_tokens()
        mail = google.deliver(BOB, "Lunch?", "Does Friday suit you?")
        daemon.accept(daemon.pending()[0])
        daemon.until_done(mail)

    def replace_all(key: str) -> None:
        daemon.environment[SETTING] = key
        for number, start in enumerate(starts):
            parts[number].stop()
            parts[number] = start()
            answer_one()

    answer_one()
    replace_all(f"{old},{new}")
    replace_all(f"{new},{old}")
    daemon.cli("rotate-key")
    expect_key(database_url, new)
    replace_all(new)
    assert {process.exit_code for process in daemon.processes} == {None, 0}
    assert VaultError.__name__ not in "".join(process.log_path.read_text() for process in daemon.processes)
    assert len(google.sent) == 13
    assert daemon.cli("account", "list", "--json")["items"][0]["last_error"] is None


def test_what_no_key_reads_leaves_all_as_it_was(connect: Start, database_url: str, keys: tuple[str, str]) -> None:
    old, new = keys
    daemon = connect(secret_key=old)
    before = dict(secrets_in(database_url))
    daemon.environment[SETTING] = f"{new},{Fernet.generate_key().decode()}"
    assert "can't be read with this key" in daemon.run("rotate-key").stderr
    assert dict(secrets_in(database_url)) == before


class TestAtHome:
    @pytest.fixture
    def daemon(self, start: Start) -> Daemon:
        return start(secret_key="")

    @pytest.fixture
    def file(self, daemon: Daemon) -> Path:
        return Path(daemon.environment["EMAIL_ASSISTANT_HOME"]) / "secret_key.txt"

    def test_the_file_holds_a_new_one(self, daemon: Daemon, database_url: str, file: Path) -> None:
        use_all(daemon)
        before = file.read_text()
        assert "stop `up`" in daemon.run("rotate-key").stderr
        daemon.stop()
        daemon.cli("rotate-key")
        assert file.read_text() != before
        assert file.stat().st_mode & 0o777 == 0o600
        expect_key(database_url, file.read_text())
        daemon.up()
        daemon.until_polled(2)

    def test_one_that_was_killed_is_run_again(self, daemon: Daemon, database_url: str, file: Path) -> None:
        use_all(daemon)
        daemon.stop()
        new = Fernet.generate_key().decode()
        file.write_text(f"{new},{file.read_text()}")
        daemon.cli("rotate-key")
        assert file.read_text() == new
        expect_key(database_url, new)


def test_a_backup_from_before_comes_back_where_its_key_is_named(
    connect: Start, tmp_path: Path, database_url: str, keys: tuple[str, str]
) -> None:
    old, new = keys
    daemon, file = connect(secret_key=old), str(tmp_path / "backup.tar.gz")
    daemon.cli("backup", file)
    daemon.environment[SETTING] = f"{new},{old}"
    daemon.cli("rotate-key")
    daemon.environment[SETTING] = new
    assert "is not the key" in daemon.run("restore", file, "--replace").stderr
    daemon.environment[SETTING] = f"{new},{old}"
    daemon.cli("restore", file, "--replace")
    daemon.cli("rotate-key")
    for _, secret in secrets_in(database_url):
        Fernet(new).decrypt(secret)
