"""The database in one file, beside the keys that it is of no use without; and back.

A backup is a gzipped tar: `manifest.json`, `keys.json` and `database.sql`, which `pg_dump` wrote. It is restored in one
transaction, or not at all.
"""

import gzip
import json
import os
import shutil
import subprocess
import tarfile
import tempfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from urllib.parse import urlencode

import psycopg
from psycopg import conninfo

from email_assistant.db.embedded import find_binaries
from email_assistant.db.pool import SCHEMA

_FORMAT = 1
_REASON = "restored from a backup while this was being carried out: look in Gmail whether it was, then try again"

# What was decided or under way when the backup was taken may have been carried out since. So nothing is carried out
# from it: a decision is asked for again, and a run in the middle of its actions is put before the person. Mail that was
# sent since is found by the next look into its thread.
_STAND_STILL = f"""
set search_path to {SCHEMA};
update inbox_items set status = 'expired' where status in ('pending', 'decided')
    and run_id in (select id from runs where state = 'acting');
update mails set state = 'failed', tries = 0, reason = '{_REASON}'
    where run_id in (select id from runs where state = 'acting');
update runs set state = 'failed', reason = '{_REASON}' where state = 'acting';
update inbox_items set status = 'pending', decision = null, decided_by = null, decided_at = null, undo_until = null
    where status = 'decided';
update inbox_items set reopened = jsonb_set(reopened::jsonb, '{{item}}', 'null')::json
    where status = 'pending' and reopened is not null;
update threads set lease_until = '-infinity', not_before = '-infinity', holder = null;
update accounts set syncing_until = '-infinity', backfilling_until = '-infinity';
update inbox_items set learning_until = '-infinity' where learning_until > '-infinity';
delete from procrastinate_events;
delete from procrastinate_jobs;
delete from procrastinate_workers;
"""


class BackupError(RuntimeError):
    """It can't be backed up or restored; the message says why, and what to do."""


@dataclass(frozen=True, slots=True)
class Backup:
    """What a backup file says of itself."""

    version: str
    created_at: datetime
    keys: Mapping[str, str]


def back_up(url: str, keys: Mapping[str, str], target: Path) -> int:
    """Write the database, as it is at one moment, and the keys to a new file that only its owner can read.

    The program may be at work meanwhile.

    Returns:
        The size of the file in bytes.

    Raises:
        BackupError.
    """
    if target.exists():
        raise BackupError(f"{target} is there already; choose another name")
    manifest = {"format": _FORMAT, "version": version("email-assistant"), "created_at": datetime.now(UTC).isoformat()}
    try:
        with tempfile.TemporaryDirectory(prefix=f".{target.name}-", dir=target.parent) as folder:
            parts = Path(folder)
            arguments = [f"--schema={SCHEMA}", "--no-owner", "--no-privileges", f"--file={parts / 'database.sql'}"]
            # A login that was ended since must not come back.
            arguments += [f"--exclude-table-data={SCHEMA}.sessions"]
            _run("pg_dump", url, *arguments)
            (parts / "manifest.json").write_text(json.dumps(manifest))
            (parts / "keys.json").write_text(json.dumps(dict(keys)))
            _pack(parts, target)
    except OSError as error:
        raise BackupError(f"{target} can't be written ({error.strerror})") from None
    return target.stat().st_size


def read_backup(source: Path) -> Backup:
    """What a file says of itself. Raises BackupError if it is no backup, or one of a later version's format."""
    try:
        with tarfile.open(source, "r:gz") as tar:
            manifest = json.loads(_member(tar, "manifest.json"))
            keys = {str(name): str(key) for name, key in json.loads(_member(tar, "keys.json")).items()}
            tar.getmember("database.sql")
        if manifest["format"] != _FORMAT:
            raise BackupError(f"{source} was made by a later version, {manifest['version']}; install that one")
        return Backup(manifest["version"], datetime.fromisoformat(manifest["created_at"]), keys)
    except (FileNotFoundError, IsADirectoryError, PermissionError) as error:
        raise BackupError(f"{source} can't be read ({error.strerror})") from None
    except (OSError, EOFError, zlib.error, tarfile.TarError, LookupError, ValueError, TypeError, AttributeError):
        raise BackupError(f"{source} is no backup of this program, or is damaged") from None


def restore(url: str, source: Path, *, replace: bool) -> None:
    """Put a backup in place of what the database holds, in one transaction.

    Args:
        replace: even if accounts are connected there.

    Raises:
        BackupError: nothing was changed.
    """
    _check_target(url, replace=replace)
    with tempfile.TemporaryDirectory(prefix="email-assistant-restore-") as folder:
        dump, after = Path(folder, "database.sql"), Path(folder, "after.sql")
        _unpack(source, dump)
        after.write_text(_STAND_STILL)
        arguments = ["--no-psqlrc", "--quiet", "--single-transaction", "--set=ON_ERROR_STOP=1", "--output=/dev/null"]
        drop = f"--command=drop schema if exists {SCHEMA} cascade"
        _run("psql", url, *arguments, drop, f"--file={dump}", f"--file={after}")


def _check_target(url: str, *, replace: bool) -> None:
    with psycopg.connect(url, autocommit=True) as conn:
        cursor = conn.execute(
            """select count(*) from pg_stat_activity where datname = current_database()
               and pid <> pg_backend_pid() and application_name = 'email-assistant'"""
        )
        if (row := cursor.fetchone()) and row[0]:
            raise BackupError("the program is at work on this database: stop `up` and all workers first")
        cursor = conn.execute("select to_regclass(%s) is not null", (f"{SCHEMA}.accounts",))
        if not ((row := cursor.fetchone()) and row[0]):
            return
        cursor = conn.execute(f"select count(*) from {SCHEMA}.accounts".encode())
        if (row := cursor.fetchone()) and row[0] and not replace:
            raise BackupError("accounts are connected here already: --replace puts the backup in their place")


def _run(program: str, url: str, *arguments: str) -> None:
    """Run one of Postgres's programs; the password is not among its arguments, which every user of a machine sees."""
    parameters = {name: str(value) for name, value in conninfo.conninfo_to_dict(url).items() if value is not None}
    password = parameters.pop("password", None)
    environment = {**os.environ, **({"PGPASSWORD": password} if password else {})}
    command = [str(find_binaries() / program), *arguments, f"--dbname=postgresql:///?{urlencode(parameters)}"]
    done = subprocess.run(  # noqa: S603
        command, env=environment, capture_output=True, text=True, errors="replace", check=False
    )
    if done.returncode:
        complaint = done.stderr.strip().partition("\n")[0]
        raise BackupError(f"{program} failed: {complaint or done.returncode}")


def _pack(parts: Path, target: Path) -> None:
    packed = parts / "backup.tar.gz"
    with open(packed, "xb", opener=_private) as file, tarfile.open(fileobj=file, mode="w:gz", compresslevel=6) as tar:
        for name in ("manifest.json", "keys.json", "database.sql"):
            tar.add(parts / name, arcname=name)
    packed.rename(target)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _unpack(source: Path, dump: Path) -> None:
    with tarfile.open(source, "r:gz") as tar, open(dump, "xb", opener=_private) as file:
        member = tar.extractfile("database.sql")
        if member is None:
            raise BackupError(f"{source} is damaged")
        try:
            shutil.copyfileobj(member, file)
        except (EOFError, zlib.error, tarfile.TarError, gzip.BadGzipFile):
            raise BackupError(f"{source} is damaged") from None


def _member(tar: tarfile.TarFile, name: str) -> bytes:
    member = tar.extractfile(name)
    if member is None:
        raise KeyError(name)
    return member.read()
