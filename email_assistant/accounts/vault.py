"""Secrets at rest: encrypted with a key that is not in the database."""

import json
import os
import tempfile
from contextlib import suppress
from http import HTTPStatus
from pathlib import Path
from typing import Any

from cryptography.fernet import Fernet, InvalidToken

from email_assistant.errors import AssistantError


class VaultError(AssistantError, RuntimeError):
    """A secret is not there, or can't be read with the key at hand."""

    status = HTTPStatus.SERVICE_UNAVAILABLE


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
        """Raises VaultError if it was encrypted with another key, or is damaged."""
        try:
            value: dict[str, Any] = json.loads(self._fernet.decrypt(data))
        except InvalidToken:
            raise VaultError(
                "what is stored encrypted, as logins are, can't be read with this key: set EMAIL_ASSISTANT_SECRET_KEY "
                "to the one that it was encrypted with, or log in again with `email-assistant auth login`"
            ) from None
        return value
