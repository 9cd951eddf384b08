"""What every command shares: opening the app, printing, and errors as one line that says what to do."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import asdict, is_dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from email_assistant.app import App

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
OfAccount = Annotated[str | None, typer.Option("--account", help="Only this account's (an address).")]

out = Console()
err = Console(stderr=True)


class CommandError(Exception):
    """The command can't go on; the message is one line that says what to do next."""


@asynccontextmanager
async def opened() -> AsyncIterator["App"]:
    """The app for one short command; a daemon that runs beside it shares its database."""
    from email_assistant.app import database, open_app
    from email_assistant.settings import Settings

    settings = Settings.load()
    with database(settings, keep=False) as url:
        async with open_app(settings, url) as app:
            yield app


def run(command: Callable[[], Awaitable[Any]]) -> Any:
    """Run a command to its end; what a person can put right ends it with one line and status 1."""
    try:
        return asyncio.run(_awaited(command))
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
    except Exception as error:
        if not isinstance(error, _expected()):
            raise
        err.print(f"[red]Error:[/] {str(error) or type(error).__name__}", highlight=False, soft_wrap=True)
        raise typer.Exit(1) from None


async def _awaited(command: Callable[[], Awaitable[Any]]) -> Any:
    return await command()


def _expected() -> tuple[type[Exception], ...]:
    from email_assistant.accounts.accounts import UnknownAccount
    from email_assistant.accounts.vault import VaultError
    from email_assistant.app import DatabaseDown
    from email_assistant.db.backup import BackupError
    from email_assistant.db.embedded import EmbeddedError
    from email_assistant.google.errors import GoogleError
    from email_assistant.inbox.items import Conflict, Invalid, NoItem
    from email_assistant.inbox.pages import BadCursor
    from email_assistant.settings import SettingsError
    from email_assistant.stand_ins import StandInFailed

    return (
        CommandError,
        SettingsError,
        EmbeddedError,
        BackupError,
        DatabaseDown,
        VaultError,
        UnknownAccount,
        GoogleError,
        Conflict,
        Invalid,
        NoItem,
        BadCursor,
        StandInFailed,
    )


def print_json(value: object) -> None:
    sys.stdout.write(json.dumps(value, default=_plain, ensure_ascii=False, indent=2) + "\n")


def print_table(columns: list[str], rows: list[list[str]]) -> None:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*row)
    out.print(table, markup=False)


def _plain(value: object) -> object:
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    return str(value)
