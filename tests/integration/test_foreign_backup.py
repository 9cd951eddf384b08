"""A backup that somebody else has made, or changed, or that another version wrote: its rows come, and nothing else."""

import asyncio
import gzip
import io
import json
import re
import subprocess
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from cryptography.fernet import Fernet
from pydantic import SecretStr

from email_assistant.app import open_app
from email_assistant.db.backup import BackupError, back_up, read_backup
from email_assistant.db.binaries import find_binaries
from email_assistant.db.migrate import schema_hash
from email_assistant.db.pool import session_settings
from email_assistant.db.restore import restore
from email_assistant.settings import Settings
from tests.databases import databases
from tests.integration.conftest import Start
from tests.integration.scene import ADA

PARTS = ("manifest.json", "keys.json", "database.sql")
EVE = "eve@example.net"
# Whatever psql or the server would run, if somebody asked them to.
COMMANDS = {
    "the shell": r"\! touch MARKER",
    "the shell, by a query": r"select 'touch MARKER' \g | sh",
    "the shell, by a copy": r"\copy email_assistant.users to program 'touch MARKER'",
    "a file of commands": r"\i MARKER",
    "a program of the server's": "copy (select 1) to program 'touch MARKER';",
    "a file of the server's": "copy (select 1) to 'MARKER';",
    "a function": "create function f() returns int language sql as 'drop schema email_assistant cascade; select 1';\n"
    "select f();",
    "a trigger": "create function email_assistant.t() returns trigger language plpgsql as $$ begin\n"
    "copy (select 1) to 'MARKER'; return new; end $$;\n"
    "create trigger t before insert on email_assistant.users for each row execute function email_assistant.t();",
    "another schema": "create table public.trojan (id int);",
    "a table of another schema": "COPY public.trojan (id) FROM stdin;\n1\n\\.",
    "an unknown table": "COPY email_assistant.trojan (id) FROM stdin;\n1\n\\.",
    "a name with a statement in it": 'COPY email_assistant."users; drop table users" (id) FROM stdin;\n1\n\\.',
    "the books of migrations": "COPY email_assistant.checkpoint_migrations (v) FROM stdin;\n999\n\\.",
    "another schema's hash": "COPY email_assistant.schema_hash (hash) FROM stdin;\nanother\n\\.",
    "a job": "COPY email_assistant.procrastinate_jobs (id, queue_name, task_name, args) FROM stdin;\n"
    "1\tbackground\ttidy\t{}\n\\.",
}


@pytest.fixture
def source(database_url: str, tmp_path: Path) -> Path:
    """A backup of Ada's account and what was said to its models."""
    fill(database_url, ADA)
    with connected(database_url) as conn:
        conn.execute(
            """insert into model_usage (user_id, account_id, role, model, prompt_tokens, completion_tokens)
               select user_id, id, 'triage', E'a\\tb\\\\\\nc', 1, 1 from accounts, generate_series(1, 3)"""
        )
    file = tmp_path / "backup.tar.gz"
    back_up(database_url, {"secret_key": "key"}, file)
    return file


@pytest.fixture
def target(postgres_url: str) -> Iterator[str]:
    """Another database, with Eve's account."""
    with databases(postgres_url).migrated() as url:
        fill(url, EVE)
        yield url


def connected(url: str) -> psycopg.Connection:
    return psycopg.connect(url, autocommit=True, options=session_settings(url)["options"])


def fill(url: str, address: str) -> None:
    """One account, and one mail of it, with what waits for it and what was done."""
    with connected(url) as conn:
        conn.execute(
            """with account as (
                   insert into accounts (user_id, address, provider, token, triage_since)
                   select id, %s, 'custom', '', now() from users returning id, user_id),
               thread as (
                   insert into threads (user_id, account_id, gmail_id)
                   select user_id, id, 't1' from account returning id, account_id, user_id),
               run as (
                   insert into runs (id, user_id, account_id, thread_id, mail_id, attempt, input, state)
                   select gen_random_uuid(), user_id, account_id, id, 'm1', 1, '{}', 'waiting' from thread returning *),
               effect as (
                   insert into effects (key, run_id, call_id, user_id, account_id, thread_id, tool, args, args_hash,
                                        state)
                   select id || '/call_1', id, 'call_1', user_id, account_id, thread_id, 'send_email_tool',
                          '{"email_address": "Bob <bob@example.org>"}', '', 'done' from run)
               insert into inbox_items (user_id, account_id, thread_id, run_id, mail_id, call_id, interrupt_id, kind,
                                        action, args, allowed, mail_text, marks, teaches)
               select user_id, account_id, thread_id, id, mail_id, 'call_2', 'i1', 'draft', 'send_email_tool',
                      '{"email_address": "bob@example.org"}', '{accept}', 'Bob: Lunch?', '[]', true from run""",
            (address,),
        )


def addresses(url: str) -> list[str]:
    with connected(url) as conn:
        return [row[0] for row in conn.execute("select address from accounts")]


def schema_of(url: str) -> list[str]:
    """Every table, index, key, function and trigger, as `pg_dump` writes it."""
    command = [str(find_binaries() / "pg_dump"), "--schema-only", f"--dbname={url}"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return [line for line in done.stdout.splitlines() if not line.startswith("\\")]


def parts_of(source: Path) -> dict[str, bytes]:
    with tarfile.open(source) as tar:
        return {name: file.read() for name in PARTS if (file := tar.extractfile(name))}


def pack(target: Path, parts: dict[str, bytes]) -> Path:
    with tarfile.open(target, "w:gz") as tar:
        for name, content in parts.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return target


def changed(source: Path, change: Callable[[bytes], bytes]) -> Path:
    parts = parts_of(source)
    parts["database.sql"] = change(parts["database.sql"])
    return pack(source.with_name("changed.tar.gz"), parts)


@pytest.mark.parametrize("where", ["first", "last"])
async def test_nothing_in_it_is_executed(source: Path, target: str, tmp_path: Path, where: str) -> None:
    markers = {what: tmp_path / what.replace(" ", "-") for what in COMMANDS}
    hostile = "".join(
        f"{command.replace('MARKER', str(markers[what]))}\n" for what, command in COMMANDS.items()
    ).encode()
    before = schema_of(target)
    file = changed(source, lambda dump: hostile + dump if where == "first" else dump + hostile)

    await restore(target, file, replace=True)

    assert [what for what, marker in markers.items() if marker.exists()] == []
    assert addresses(target) == [ADA]
    assert schema_of(target) == before
    with connected(target) as conn:
        assert conn.execute("select count(*) from procrastinate_jobs").fetchone() == (0,)
        assert conn.execute("select hash from schema_hash").fetchall() == [(schema_hash(),)]


async def test_the_rows_are_the_same_and_numbers_go_on(source: Path, target: str, database_url: str) -> None:
    rows = "select to_jsonb(t) - '{{unrecorded_since,unrecorded_until}}'::text[] from {} t order by 1"
    with connected(database_url) as conn:
        kept = {table: conn.execute(rows.format(table).encode()).fetchall() for table in ("accounts", "model_usage")}
        last = conn.execute("select max(id) from model_usage").fetchone()
    assert last is not None

    await restore(target, source, replace=True)

    with connected(target) as conn:
        for table, expected in kept.items():
            assert conn.execute(rows.format(table).encode()).fetchall() == expected
        added = conn.execute(
            """insert into model_usage (user_id, account_id, role, model, prompt_tokens, completion_tokens)
               select user_id, id, 'triage', 'm', 1, 1 from accounts returning id"""
        ).fetchone()
        assert added == (last[0] + 1,)
        with pytest.raises(psycopg.errors.ForeignKeyViolation):
            conn.execute("update accounts set user_id = %s", (uuid4(),))


async def test_a_process_that_has_just_ended_is_not_taken_for_one_at_work(source: Path, target: str) -> None:
    with psycopg.connect(target, autocommit=True, application_name="email-assistant") as ended:
        restoring = asyncio.ensure_future(restore(target, source, replace=True))
        with connected(target) as conn:
            while not conn.execute(
                """select from pg_locks join pg_database on pg_database.oid = database
                   where locktype = 'advisory' and datname = current_database()"""
            ).fetchall():
                assert not restoring.done()
                await asyncio.sleep(0.01)
        ended.close()
        await restoring
    assert addresses(target) == [ADA]


async def test_it_comes_into_a_database_that_has_nothing(source: Path, empty_database_url: str, target: str) -> None:
    await restore(empty_database_url, source, replace=False)
    assert addresses(empty_database_url) == [ADA]
    assert schema_of(empty_database_url) == schema_of(target)


def without(table: str) -> Callable[[bytes], bytes]:
    """The dump without that table's rows, as if it had never been named."""
    block = re.compile(rb"COPY email_assistant\.%s .*\n(?:.*\n)*?\\\.\n" % table.encode())
    return lambda dump: block.sub(b"", dump)


END = b"-- PostgreSQL database dump complete"
DAMAGED: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "it ends among the rows": (lambda dump: dump[: dump.index(b"COPY email_assistant.users") + 60], "is damaged"),
    "a row is short": (lambda dump: re.sub(rb"(COPY email_assistant.users .*\n)", rb"\1short\n", dump), "is damaged"),
    "a row belongs to nobody": (
        lambda dump: re.sub(rb"(COPY email_assistant.users .*\n)(?:.*\n)*?\\\.\n", rb"\1\\.\n", dump),
        "is damaged",
    ),
    "the inbox is missing": (without("inbox_items"), "is damaged: of inbox_items"),
    "the mails are missing": (without("mails"), "is damaged: of mails"),
    "what was learned is missing": (without("store"), "is damaged: of store"),
    "its last lines are missing": (lambda dump: dump[: dump.index(END)], "is damaged"),
    "it ends after the last table": (lambda dump: dump[: dump.rindex(b"\n\\.\n") + 4], "is damaged"),
    "a column is unknown": (
        lambda dump: dump.replace(b"COPY email_assistant.users (id,", b"COPY email_assistant.users (trojan,"),
        "is damaged",
    ),
    "it is no dump of ours": (lambda dump: dump.replace(b"COPY email_assistant.", b"COPY other."), "is damaged"),
    "nothing is in it": (lambda _: b"", "no backup of this program"),
    "it has no lines": (lambda dump: dump + b"x" * 300_000 + b"COPY email_assistant.users (id) FROM stdin;", ""),
    "it unpacks to a disk full": (lambda dump: dump + bytes(200 << 20), "would unpack to"),
}


@pytest.mark.parametrize("how", DAMAGED)
async def test_a_damaged_one_changes_nothing(source: Path, target: str, how: str) -> None:
    change, said = DAMAGED[how]
    file = changed(source, change)
    before = schema_of(target)
    if not said:  # it is only odd
        await restore(target, file, replace=True)
        assert addresses(target) == [ADA]
        return

    with pytest.raises(BackupError, match=said):
        await restore(target, file, replace=True)

    assert addresses(target) == [EVE]
    assert schema_of(target) == before


@pytest.mark.parametrize(
    "change",
    ["args = '[1, 2]'", "decision = '[1]', status = 'decided', decided_at = now()", "reopened = '[1]', marks = '{}'"],
)
async def test_a_bad_row_of_the_inbox_comes_as_one_that_cannot_be_read(
    source: Path, target: str, database_url: str, tmp_path: Path, change: str
) -> None:
    with connected(database_url) as conn:
        conn.execute(f"update inbox_items set {change}".encode())
    file = tmp_path / "bad.tar.gz"
    back_up(database_url, {"secret_key": "key"}, file)

    await restore(target, file, replace=True)

    settings = Settings(home=tmp_path / "home", secret_key=SecretStr(Fernet.generate_key().decode()))
    async with open_app(settings, target) as app:
        [item] = (await app.inbox.page(app.user_id))[0]
    assert item.status == "pending"
    # A decision is asked for again, so nothing is left of one that could not be read.
    assert item.allowed == (["accept"] if "decision" in change else ["ignore"])


def link(name: str) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = tarfile.SYMTYPE, "/etc/passwd"
    return member


def header_of_two_gigabytes(file: Path) -> None:
    """A header that has its reader take two gigabytes at once; of zeros, which gzip makes small."""
    member = tarfile.TarInfo("manifest.json")
    member.type, member.size = tarfile.XHDTYPE, 2 << 30
    with gzip.open(file, "wb", compresslevel=1) as out:
        out.write(member.tobuf())
        out.write(bytes(64 << 20))


def with_a_link(file: Path) -> None:
    with tarfile.open(file, "w:gz") as tar:
        for name in PARTS:
            tar.addfile(link(name))


def without_keys(file: Path) -> None:
    pack(file, {"manifest.json": b"{}", "database.sql": b""})


def with_a_large_manifest(file: Path) -> None:
    pack(file, {"manifest.json": b'{"x": "' + b"x" * 100_000 + b'"}', "keys.json": b"{}", "database.sql": b""})


@pytest.mark.parametrize("make", [header_of_two_gigabytes, with_a_link, without_keys, with_a_large_manifest])
def test_a_tar_that_is_no_backup_is_not_looked_into(tmp_path: Path, make: Callable[[Path], None]) -> None:
    file = tmp_path / "odd.tar.gz"
    make(file)

    with pytest.raises(BackupError, match="no backup of this program"):
        read_backup(file)


@pytest.mark.parametrize("schema", ["another", None, 1])
async def test_one_of_an_unreleased_version_is_left_alone(source: Path, target: str, schema: object) -> None:
    parts = parts_of(source)
    parts["manifest.json"] = json.dumps({**json.loads(parts["manifest.json"]), "schema": schema}).encode()
    before = schema_of(target)

    with pytest.raises(BackupError, match="unreleased version with other tables"):
        await restore(target, pack(source.with_name("other.tar.gz"), parts), replace=True)

    assert addresses(target) == [EVE]
    assert schema_of(target) == before


def test_the_manifest_says_which_tables_it_has_rows_of(source: Path) -> None:
    assert json.loads(parts_of(source)["manifest.json"])["schema"] == schema_hash()


@pytest.mark.parametrize(
    ("keys", "said"), [({"secret_key": "short"}, "the backup's key is no key"), ({}, "no backup of this program")]
)
def test_a_bad_key_in_it_is_told_as_the_backups(
    connect: Start, tmp_path: Path, keys: dict[str, str], said: str
) -> None:
    daemon = connect()
    file = tmp_path / "backup.tar.gz"
    daemon.cli("backup", str(file))
    parts = parts_of(file) | {"keys.json": json.dumps(keys).encode()}

    told = daemon.run("restore", str(pack(tmp_path / "odd.tar.gz", parts)), "--replace")

    assert told.returncode != 0
    assert said in " ".join(told.stderr.split())
    assert "EMAIL_ASSISTANT_SECRET_KEY" not in told.stderr


async def test_two_at_once_do_not_mix(source: Path, target: str) -> None:
    with connected(target) as conn:
        conn.execute("select pg_advisory_lock(%s)", (0x6D61696D,))
        with pytest.raises(BackupError, match="another restore"):
            await restore(target, source, replace=True)
        conn.execute("select pg_advisory_unlock(%s)", (0x6D61696D,))  # its server ends a moment after the connection

    await restore(target, source, replace=True)
    assert addresses(target) == [ADA]


def test_the_command_needs_no_psql_and_obeys_none(connect: Start, tmp_path: Path) -> None:
    daemon = connect()
    file, marker = tmp_path / "backup.tar.gz", tmp_path / "ran"
    daemon.cli("backup", str(file))
    hostile = changed(file, lambda dump: b"\\! touch " + str(marker).encode() + b"\n" + dump)

    told = daemon.run("restore", str(hostile), "--replace")

    assert (told.returncode, told.stderr) == (0, "")
    assert f"Restored {ADA}" in told.stdout
    assert not marker.exists()
