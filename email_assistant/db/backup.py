"""The database in one file, beside the keys that it is of no use without.

A backup is a gzipped tar: `manifest.json`, `keys.json` and `database.sql`, which `pg_dump` wrote. It is read without
believing it: no size that it names, no statement, no name. The SQL is for psql, which obeys whatever stands in it, a
command to the shell among others (`\\!`). So none of it is executed, by anybody: only the blocks of rows are read, and
what tables and columns they belong to is for the reader to judge.
"""

import gzip
import json
import os
import re
import subprocess
import tarfile
import tempfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import IO, Any
from urllib.parse import quote, urlencode

from psycopg import conninfo

from email_assistant.db.binaries import find_binaries
from email_assistant.db.migrate import schema_hash
from email_assistant.db.pool import SCHEMA, TABLES_HELD
from email_assistant.errors import AssistantError

MANIFEST, KEYS, DUMP = "manifest.json", "keys.json", "database.sql"  # the file's parts, in their order
WITHOUT_ROWS = "sessions"  # the one table whose rows no backup holds: a login that was ended since must not come back

_SMALL = 64 << 10  # bytes; the manifest and the keys are far smaller
_PIECE = 64 << 10  # bytes that are read of a line at once; a row may have a gigabyte
_MOST_AT_ONCE = 1 << 20  # bytes; nobody here reads more at once, but `tarfile` would, as many as a header says
_MOST_PACKED = 200
"""Times that a dump is longer than its file. Rows of mail come to 5 or 10; gzip can do 1,000 of zeros."""

_NAME = r'(?:[a-z_][a-z0-9_$]*|"(?:[^"]|"")+")'
_END = b"-- PostgreSQL database dump complete\n"
_COPY = re.compile(rf"COPY {SCHEMA}\.({_NAME}) \(({_NAME}(?:, {_NAME})*)\) FROM stdin;\n")


class BackupError(AssistantError):
    """It can't be backed up or restored; the message says why, and what to do."""


@dataclass(frozen=True, slots=True)
class Backup:
    """What a backup file says of itself."""

    version: str
    created_at: datetime
    keys: Mapping[str, str]
    size: int  # of the file, in bytes


@dataclass(frozen=True, slots=True)
class Block:
    """Rows of one table, as the dump has them."""

    table: str
    columns: list[str]
    rows: Iterator[bytes]  # lines of COPY's text format; a long one in pieces


def read_backup(source: Path) -> Backup:
    """What a file says of itself. Raises BackupError if it is no backup, or one of another version's tables."""
    with _opened(source) as tar:
        manifest = json.loads(_small(tar, MANIFEST))
        keys = {str(name): str(key) for name, key in json.loads(_small(tar, KEYS)).items()}
        if "secret_key" not in keys:
            raise LookupError
        _part(tar, DUMP)
        made_at = datetime.fromisoformat(manifest["created_at"])
        if manifest.get("schema") != schema_hash():
            raise BackupError(
                f"{source} was made by an unreleased version with other tables, and nothing of it was read: restore it "
                "with the version that made it"
            )
        return Backup(manifest["version"], made_at, keys, source.stat().st_size)


@contextmanager
def blocks_of(source: Path) -> Iterator[Iterator[Block]]:
    """The rows in a file, block by block. Raises BackupError, also from within the block of code."""
    with _opened(source) as tar:
        for name in (MANIFEST, KEYS):
            _part(tar, name)
        dump = _part(tar, DUMP)
        if dump.size > _MOST_PACKED * source.stat().st_size:
            raise BackupError(
                f"{source} would unpack to {dump.size >> 20} MB, far more than a backup of its size holds: nothing of "
                "it was read"
            )
        file = tar.extractfile(dump)
        assert file is not None
        yield _blocks(file)


@contextmanager
def _opened(source: Path) -> Iterator[tarfile.TarFile]:
    try:
        with _Unpacked(source, "rb") as unpacked, tarfile.open(fileobj=unpacked, mode="r:") as tar:
            yield tar
    except (FileNotFoundError, IsADirectoryError, PermissionError) as error:
        raise BackupError(f"{source} can't be read ({error.strerror})") from None
    except (OSError, EOFError, zlib.error, tarfile.TarError, LookupError, ValueError, TypeError, AttributeError):
        raise BackupError(f"{source} is no backup of this program, or is damaged") from None


class _Unpacked(gzip.GzipFile):
    def read(self, size: int | None = -1) -> bytes:
        if size is None or not 0 <= size <= _MOST_AT_ONCE:
            raise tarfile.ReadError("a part of it is too large")
        return super().read(size)


def _part(tar: tarfile.TarFile, name: str) -> tarfile.TarInfo:
    """The part that comes next, if it is that one: a plain file, and no other kind that a tar may have."""
    part = tar.next()
    if part is None or part.name != name or part.type != tarfile.REGTYPE or part.issparse():
        raise tarfile.ReadError(f"{name} is not where it should be")
    return part


def _small(tar: tarfile.TarFile, name: str) -> bytes:
    part = _part(tar, name)
    file = tar.extractfile(part)
    if file is None or part.size > _SMALL:
        raise tarfile.ReadError(f"{name} is too large")
    return file.read()


def _blocks(file: IO[bytes]) -> Iterator[Block]:
    pieces, is_whole = _pieces(file), False
    for begins, piece in pieces:
        is_whole |= begins and piece == _END
        if begins and piece.startswith(b"COPY ") and (found := _COPY.fullmatch(piece.decode(errors="replace"))):
            rows = _rows(pieces)
            columns = [_plain(name) for name in re.findall(_NAME, found[2])]
            yield Block(_plain(found[1]), columns, rows)
            for _ in rows:  # what the reader left
                pass
    if not is_whole:
        raise EOFError


def _pieces(file: IO[bytes]) -> Iterator[tuple[bool, bytes]]:
    """The dump's lines, long ones in pieces; and of each piece whether a line begins with it."""
    begins = True
    while piece := file.readline(_PIECE):
        yield begins, piece
        begins = piece.endswith(b"\n")


def _rows(pieces: Iterator[tuple[bool, bytes]]) -> Iterator[bytes]:
    for begins, piece in pieces:
        if begins and piece == b"\\.\n":
            return
        yield piece
    raise EOFError


def _plain(name: str) -> str:
    return name[1:-1].replace('""', '"') if name.startswith('"') else name


def manifest_of(version: str, schema: str, created_at: datetime) -> Mapping[str, Any]:
    """What a new file says of itself. `schema`: the hash of the tables that it has rows of."""
    return {"version": version, "schema": schema, "created_at": created_at.isoformat()}


_LOCK_SECONDS = 10


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
    try:
        with tempfile.TemporaryDirectory(prefix=f".{target.name}-", dir=target.parent) as folder:
            parts = Path(folder)
            arguments = [f"--schema={SCHEMA}", "--no-owner", "--no-privileges", "--encoding=UTF8"]
            arguments.append(f"--lock-wait-timeout={_LOCK_SECONDS}s")
            # A login that was ended since must not come back.
            arguments.append(f"--exclude-table-data={SCHEMA}.{WITHOUT_ROWS}")
            _run("pg_dump", url, *arguments, f"--file={parts / DUMP}")
            (parts / MANIFEST).write_text(
                json.dumps(manifest_of(version("email-assistant"), schema_hash(), datetime.now(UTC)))
            )
            (parts / KEYS).write_text(json.dumps(dict(keys)))
            _pack(parts, target)
    except OSError as error:
        raise BackupError(f"{target} can't be written ({error.strerror})") from None
    return target.stat().st_size


def _run(program: str, url: str, *arguments: str) -> None:
    """Run one of Postgres's programs; the password is not among its arguments, which every user of a machine sees."""
    parameters = {name: str(value) for name, value in conninfo.conninfo_to_dict(url).items() if value is not None}
    password = parameters.pop("password", None)
    environment = {**os.environ, **({"PGPASSWORD": password} if password else {})}
    command = [
        str(find_binaries() / program),
        *arguments,
        f"--dbname=postgresql:///?{urlencode(parameters, quote_via=quote)}",
    ]
    done = subprocess.run(  # noqa: S603
        command, env=environment, capture_output=True, text=True, errors="replace", check=False
    )
    if done.returncode:
        complaint = done.stderr.strip().partition("\n")[0]
        if "canceling statement due to" in complaint:  # pg_dump waits for locks by a statement timeout
            raise BackupError(TABLES_HELD)
        raise BackupError(f"{program} failed: {complaint or done.returncode}")


def _pack(parts: Path, target: Path) -> None:
    packed = parts / "backup.tar.gz"
    with open(packed, "xb", opener=_private) as file, tarfile.open(fileobj=file, mode="w:gz", compresslevel=6) as tar:
        for name in (MANIFEST, KEYS, DUMP):
            tar.add(parts / name, arcname=name)
    packed.rename(target)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
