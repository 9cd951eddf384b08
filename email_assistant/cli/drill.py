"""The restore drill: whether a backup can be restored, and what it holds."""

import time
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pydantic import SecretStr

from email_assistant.accounts.vault import encrypt_anew
from email_assistant.app import App, open_app
from email_assistant.cli.context import CommandError, load_settings
from email_assistant.db.backup import Backup
from email_assistant.db.pool import fetched
from email_assistant.db.restore import restore
from email_assistant.gate.ledger import check
from email_assistant.home import database
from email_assistant.settings import Settings


@dataclass(frozen=True, slots=True)
class Drill:
    """What the drill found."""

    version: str
    """The program's version that made the backup."""
    created_at: datetime
    file_bytes: int
    database_bytes: int
    seconds: float
    """Seconds to restore and open it, without starting the server."""
    accounts: list[str]
    mails: int
    last_mail: datetime | None
    """When the newest mail came."""
    waiting: int
    """Items that wait for the person."""
    rules: int
    secrets: int
    """Logins and addresses that the backup's key reads."""


async def drill(file: Path, backup: Backup) -> Drill:
    """Restore a backup into a temporary database, check that the program can work with it, and delete that database.

    Raises:
        BackupError: it can't be restored.
        VaultError: its key does not read the logins in it.
        CommandError: the log of what the gate decided is not as it was written.
    """
    with TemporaryDirectory(prefix="email-assistant-drill-") as folder:
        settings = _apart(Path(folder), backup.keys["secret_key"])
        with database(settings, keep=False) as url:
            began = time.monotonic()
            await restore(url, file, replace=False)
            async with open_app(settings, url) as app:
                return await _looked_at(app, file, backup, time.monotonic() - began)


def _apart(folder: Path, key: str) -> Settings:
    """The settings, in a home of its own, with nothing of the person's to read or to reach."""
    apart: dict[str, Any] = {"home": folder, "database_url": None, "secret_key": SecretStr(key)}
    found = load_settings().model_copy(update=apart | {"tools": None, "tool_permissions": None, "mcp_url": None})
    vars(found).pop("folder", None)  # a copy takes along what was cached of the other home
    return found


async def _looked_at(app: App, file: Path, backup: Backup, seconds: float) -> Drill:
    secrets = await encrypt_anew(app.pool, app.vault)  # decrypts each secret; raises VaultError if the key is wrong
    log = await check(app.pool)
    if log.faults:
        raise CommandError(
            f"{file} can be restored, but row {log.faults[0].place} of the gate's log is not as it was written: "
            f"{log.faults[0].why}; take an older backup, or ask who has changed the database"
        )
    [found] = await fetched(
        app.pool,
        """select pg_database_size(current_database()) as database_bytes, (select count(*) from mails) as mails,
                  (select max(received_at) from mails) as last_mail,
                  (select count(*) from inbox_items where status = 'pending') as waiting""",
    )
    accounts, memory = await app.accounts.of_user(app.user_id), app.memory
    rules = [rule for each in accounts for held in (await memory.in_force(each.id)).values() for rule in held]
    return Drill(
        version=backup.version,
        created_at=backup.created_at,
        file_bytes=backup.size,
        seconds=round(seconds, 1),
        accounts=[account.address for account in accounts],
        rules=len(rules),
        secrets=secrets,
        **found,
    )
