"""Where settings come from, and how one is refused."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Final

from pydantic import ValidationError, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from email_assistant.errors import AssistantError, in_plain_words

ENV_FILE: Final = ".env"
_named: ContextVar[Path | None] = ContextVar("the file of settings that was named", default=None)


@contextmanager
def env_file(path: Path) -> Iterator[None]:
    """Read settings from this file in place of the home folder's, for as long as the block lasts."""
    before = _named.set(path.absolute())
    try:
        yield
    finally:
        _named.reset(before)


def named_file() -> Path | None:
    """The file that `env_file` named."""
    return _named.get()


class SettingsError(AssistantError):
    """A setting has a value that can't be used; the message names the variable and what it takes."""


class FromEnvironment(BaseSettings):
    """One field per setting; the variable is the field's name in capitals behind `EMAIL_ASSISTANT_`, or its alias."""

    model_config = SettingsConfigDict(
        env_prefix="EMAIL_ASSISTANT_", extra="ignore", env_ignore_empty=True, populate_by_name=True
    )


class Home(FromEnvironment):
    """Where the home folder is, which must be known before the file of settings in it can be read."""

    home: Path = Path("~/.email-assistant")
    """Folder of everything that this program stores: settings, embedded database, keys, the demo's mailbox."""

    @field_validator("home")
    @classmethod
    def _is_the_same_everywhere(cls, value: Path) -> Path:
        if not value.expanduser().is_absolute():
            raise ValueError("takes a path from / or ~ on: another would be another folder wherever you are")
        return value


@contextmanager
def complaining() -> Iterator[None]:
    """Settings are read within it. Raises SettingsError, which names their variables."""
    try:
        yield
    except ValidationError as error:
        raise SettingsError("; ".join(_complaint(e["loc"], in_plain_words(e)) for e in error.errors())) from None


def _complaint(place: tuple[int | str, ...], message: str) -> str:
    if not place:
        return message
    name = str(place[0])
    return f"{name if name.isupper() else 'EMAIL_ASSISTANT_' + name.upper()}: {message}"
