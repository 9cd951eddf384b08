"""The options that every command takes, before its name or after."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from email_assistant.cli.context import chosen


class WithCommonOptions(TyperGroup):
    """The whole command line; the options are added here, so that no command can be forgotten."""

    def __init__(self, **of_typer: Any) -> None:
        super().__init__(**of_typer)
        _add(self, common_options())


def _add(command: Any, options: Sequence[Any]) -> None:
    command.params += options
    for below in getattr(command, "commands", {}).values():
        _add(below, options)


def common_options() -> Sequence[Any]:
    """As Typer makes them of their declarations."""
    declared = typer.Typer(add_completion=False)

    @declared.command()
    def _(
        # The names are these options' alone: commands have a `file` of their own.
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
        of_demo: Annotated[
            bool,
            typer.Option(
                "--demo",
                help="Work on what `demo` keeps, which is apart from your own mail.",
                callback=_choose_demo,
                expose_value=False,
                is_eager=True,
            ),
        ] = False,
    ) -> None: ...

    return typer.main.get_command(declared).params


def _read_from(context: typer.Context, file: Path | None) -> None:
    if file is not None:
        context.with_resource(_named(file))


@contextmanager
def _named(file: Path) -> Iterator[None]:
    from email_assistant.settings.environment import env_file

    chosen.env_file = file
    try:
        with env_file(file):
            yield
    finally:
        chosen.env_file = None


def _choose_demo(of_demo: bool) -> None:
    chosen.demo = chosen.demo or of_demo
