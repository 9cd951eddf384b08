"""`--env-file`, which every command takes, before its name or after."""

from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup


class WithEnvFile(TyperGroup):
    """The whole command line; the option is added here, so that no command can be forgotten."""

    def __init__(self, **of_typer: Any) -> None:
        super().__init__(**of_typer)
        _add(self, _option())


def _add(command: Any, option: Any) -> None:
    command.params.append(option)
    for below in getattr(command, "commands", {}).values():
        _add(below, option)


def _option() -> Any:
    """As Typer makes it of its declaration."""
    declared = typer.Typer(add_completion=False)

    @declared.command()
    def _(
        # The name is this option's alone: commands have a `file` of their own.
        env_file: Annotated[
            Path | None,
            typer.Option(
                "--env-file",
                help="Read settings from this file, not from .env in the home folder.",
                exists=True,
                dir_okay=False,
                readable=True,
                callback=_read_from,
                expose_value=False,
                is_eager=True,
            ),
        ] = None,
    ) -> None: ...

    [option] = typer.main.get_command(declared).params
    return option


def _read_from(context: typer.Context, file: Path | None) -> None:
    from email_assistant.settings import env_file

    if file is not None:
        context.with_resource(env_file(file))
