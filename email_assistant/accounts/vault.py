"""Secrets at rest: encrypted with a key that is not in the database."""

import json
import os
from pathlib import Path
from typing import Any

from cryptography.fernet import Fernet, InvalidToken


class VaultError(RuntimeError):
    """A secret can't be read with the key at hand."""


def kept_secret(path: Path, new: str) -> str:
    """The secret in the file at `path`; made from `new` if there is no such file. Only its owner can read it."""
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return path.read_text().strip()
    with os.fdopen(fd, "w") as file:
        file.write(new)
    return new


class Vault:
    """Encrypts JSON objects with one Fernet key (AES-128-CBC and HMAC-SHA256, from `cryptography`)."""

    def __init__(self, key: str) -> None:
        try:
            self._fernet = Fernet(key)
        except ValueError:
            raise VaultError(
                "EMAIL_ASSISTANT_SECRET_KEY must be 32 bytes in url-safe base64; make one with "
                "`python -c 'import base64, os; print(base64.urlsafe_b64encode(os.urandom(32)).decode())'`"
            ) from None

    def encrypt(self, value: dict[str, Any]) -> bytes:
        return self._fernet.encrypt(json.dumps(value).encode())

    def decrypt(self, data: bytes) -> dict[str, Any]:
        """Raises VaultError if it was encrypted with another key."""
        try:
            value: dict[str, Any] = json.loads(self._fernet.decrypt(data))
        except InvalidToken:
            raise VaultError(
                "the stored Google tokens were encrypted with another key: set EMAIL_ASSISTANT_SECRET_KEY to that one, "
                "or add the account again"
            ) from None
        return value
