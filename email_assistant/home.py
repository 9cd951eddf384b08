"""The home folder: the embedded server in it, the files of tools, the keys and tokens that are kept there."""

import asyncio
import logging
import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path

import psycopg
from cryptography.fernet import Fernet

from email_assistant.accounts.vault import VaultError, keep_secret, kept_secret, keys_of
from email_assistant.db.embedded import START_SECONDS, EmbeddedPostgres
from email_assistant.db.migrate import migrate
from email_assistant.db.pool import DatabaseAway
from email_assistant.settings import Settings

log = logging.getLogger(__name__)

_DATABASE = "email_assistant"
_KEEP_SECONDS = 0.5


@contextmanager
def database(settings: Settings, *, keep: bool) -> Iterator[str]:
    """The URL of a database that is there: `DATABASE_URL`, or the embedded server's, started or joined. `keep`: start
    the embedded server again whenever its owner has left, for as long as the block lasts. Raises EmbeddedError."""
    if settings.database_url:
        yield settings.database_url
        return
    with EmbeddedPostgres(settings.folder / "postgres") as server:
        _create_database(server.url())
        with _kept(server) if keep else nullcontext():
            yield server.url(_DATABASE)


async def bring_up_to_date(settings: Settings, url: str) -> None:
    """Make the tables that are missing. A command that had started the embedded server takes it along when it ends, and
    `database` starts it again meanwhile. Raises UnusableDatabase."""
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            return await migrate(url)
        except DatabaseAway:
            if settings.database_url or time.monotonic() > deadline:
                raise
            await asyncio.sleep(_KEEP_SECONDS)


def _create_database(url: str) -> None:
    with (
        psycopg.connect(url, autocommit=True) as conn,
        suppress(psycopg.errors.DuplicateDatabase, psycopg.errors.UniqueViolation),
    ):
        if not conn.execute("select from pg_database where datname = %s", (_DATABASE,)).fetchone():
            conn.execute(f"create database {_DATABASE}")


@contextmanager
def _kept(server: EmbeddedPostgres) -> Iterator[None]:
    done = threading.Event()

    def keep() -> None:
        while not done.wait(_KEEP_SECONDS):
            try:
                server.keep()
            except Exception:
                log.exception("the embedded Postgres can't be started again; trying on")

    thread = threading.Thread(target=keep, name="postgres-keeper", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def api_token(settings: Settings) -> str:
    """The token of the pages and the API: from the environment, else made at first start and kept."""
    return _secret(settings, "api_token", secrets.token_urlsafe(24))


def agent_key(settings: Settings) -> str:
    """The key by which agents ask the gate: from the environment, else made at first start and kept."""
    return _secret(settings, "agent_key", secrets.token_urlsafe(24))


def mcp_token(settings: Settings) -> str:
    """The token of `mcp serve --http`: from the environment, else made at first use and kept."""
    return _secret(settings, "mcp_token", secrets.token_urlsafe(24))


def renew_mcp_token(settings: Settings) -> None:
    """Put another in place of the one that is kept, which opens nothing any more, in servers that run already too."""
    keep_secret(_secret_file(settings, "mcp_token"), secrets.token_urlsafe(24))


def own_host(settings: Settings) -> str:
    """A name of this machine that nobody else knows, made at first use and kept."""
    return f"{kept_secret(_secret_file(settings, 'host_name'), secrets.token_hex(10))}.localhost"


def secret_key(settings: Settings) -> str:
    """The key of what is encrypted in the database, or several, as `Vault` takes them: from the environment, else made
    at first use and kept."""
    return _secret(settings, "secret_key", new_secret_key())


def check_secret_key(settings: Settings, key: str) -> None:
    """Whether a backup's key can be kept here. Raises VaultError: it is no key, or the environment sets others."""
    try:
        needed = set(keys_of(key))
    except VaultError:
        raise VaultError("the backup's key is no key: the file is damaged, or was changed by somebody else") from None
    if settings.secret_key and not needed <= set(keys_of(settings.secret_key.get_secret_value())):
        raise VaultError(
            "EMAIL_ASSISTANT_SECRET_KEY is not the key that these tokens are encrypted with: unset it, or write the "
            "backup's own behind it, after a comma"
        )


def keep_secret_key(settings: Settings, key: str) -> None:
    """Keep another key, or several, in place of what there was. Where the environment sets them, that stays so."""
    if not settings.secret_key:
        keep_secret(_secret_file(settings, "secret_key"), key)


def new_secret_key() -> str:
    """A key that nothing is encrypted with yet."""
    return Fernet.generate_key().decode()


def _secret(settings: Settings, name: str, new: str) -> str:
    given = getattr(settings, name)
    return str(given.get_secret_value()) if given else kept_secret(_secret_file(settings, name), new)


def _secret_file(settings: Settings, name: str) -> Path:
    return settings.folder / f"{name}.txt"
