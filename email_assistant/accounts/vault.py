"""Secrets at rest: encrypted with a key that is not in the database."""

import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

from cryptography.fernet import Fernet, InvalidToken, MultiFernet

from email_assistant.db.pool import Pool
from email_assistant.errors import AssistantError


class VaultError(AssistantError):
    """A secret is not there, or can't be read with the key at hand."""

    status = HTTPStatus.SERVICE_UNAVAILABLE
    passes = "by itself"
    is_plain = True


def kept_secret(path: Path, new: str) -> str:
    """The secret in the file at `path`; made from `new` if there is no such file. Only its owner can read it."""
    if not path.exists():
        fresh = _written(path, new)
        with suppress(FileExistsError):  # another process was faster
            os.link(fresh, path)  # which, unlike a write, others see whole or not at all
        fresh.unlink()
    return path.read_text().strip()


def keep_secret(path: Path, secret: str) -> None:
    """Keep a secret in place of the one that there was."""
    _written(path, secret).replace(path)


def _written(path: Path, secret: str) -> Path:
    """The secret in a new file beside `path`, which only its owner can read."""
    with tempfile.NamedTemporaryFile("w", dir=path.parent, prefix=f".{path.name}-", delete=False) as file:
        file.write(secret)
    return Path(file.name)


def keys_of(text: str) -> list[str]:
    """The keys that `EMAIL_ASSISTANT_SECRET_KEY` names: one, or several set apart by commas. Raises VaultError: one of
    them is none."""
    keys = [key.strip() for key in text.split(",")]
    try:
        for key in keys:
            Fernet(key)
    except ValueError:
        raise VaultError(
            "EMAIL_ASSISTANT_SECRET_KEY takes 32 bytes in url-safe base64, or several such keys set apart by commas; "
            "make one with `python -c 'import base64, os; print(base64.urlsafe_b64encode(os.urandom(32)).decode())'`"
        ) from None
    return keys


class Vault:
    """Encrypts JSON objects with a Fernet key (AES-128-CBC and HMAC-SHA256, from `cryptography`).

    Of several keys the first encrypts, and each decrypts, so that processes may go over to a new one.
    """

    def __init__(self, keys: str) -> None:
        self._fernet = MultiFernet([Fernet(key) for key in keys_of(keys)])

    def encrypt(self, value: dict[str, Any]) -> bytes:
        return self._fernet.encrypt(json.dumps(value).encode())

    def decrypt(self, data: bytes) -> dict[str, Any]:
        """Raises VaultError if it was encrypted with another key, or is damaged."""
        with _explained():
            value: dict[str, Any] = json.loads(self._fernet.decrypt(data))
        return value

    def renewed(self, data: bytes) -> bytes:
        """The same, encrypted with the first key. Raises VaultError if it was encrypted with another key, or is
        damaged."""
        with _explained():
            return self._fernet.rotate(data)


@contextmanager
def _explained() -> Iterator[None]:
    try:
        yield
    except InvalidToken:
        raise VaultError(
            "what is stored encrypted, as logins are, can't be read with this key: set EMAIL_ASSISTANT_SECRET_KEY "
            "to the one that it was encrypted with, or log in again with `email-assistant auth login`"
        ) from None


_ENCRYPTED: Final = (("accounts", "token"), ("users", "vapid_key"), ("channels", "address"))
"""Table and column of each, in the order in which rows are locked (`db/order.py`)."""


async def encrypt_anew(pool: Pool, vault: Vault) -> int:
    """Encrypt all with the vault's first key: all of it, or nothing. Processes may be at work that know both keys.

    Returns:
        How many secrets there are.

    Raises:
        VaultError: one of them can be read with none of the vault's keys.
    """
    count = 0
    async with pool.connection() as conn, conn.transaction():
        for table, column in _ENCRYPTED:
            rows = await conn.execute(
                f"select id, {column} as secret from {table} where {column} is not null "
                "order by id for no key update".encode()
            )
            for row in await rows.fetchall():
                anew = vault.renewed(row["secret"])
                await conn.execute(f"update {table} set {column} = %s where id = %s".encode(), (anew, row["id"]))
                count += 1
    return count
