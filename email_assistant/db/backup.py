"""The database in one file, beside the keys that it is of no use without.

A backup is a gzipped tar: `manifest.json`, `keys.json` and `database.sql`, which `pg_dump` wrote.
"""

import json
import os
import subprocess
import tarfile
import tempfile
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from urllib.parse import quote, urlencode

from psycopg import conninfo

from email_assistant.db.binaries import find_binaries
from email_assistant.db.dump import DUMP, KEYS, MANIFEST, WITHOUT_ROWS, BackupError, manifest_of
from email_assistant.db.migrate import schema_hash
from email_assistant.db.pool import SCHEMA, TABLES_HELD

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
