"""The `email-assistant` command. Thin: each command opens what it needs, and imports it only then."""

from typing import Annotated

import typer

from email_assistant.cli import (
    accounts,
    agents,
    auth,
    backup,
    chat,
    export,
    forget,
    gate,
    health,
    inbox,
    keys,
    mails,
    mcp,
    memory,
    replay,
    run,
    session,
    stop,
    tools,
)
from email_assistant.cli.context import check_arguments, ensure_output, flush_output, print_version
from email_assistant.cli.everywhere import WithCommonOptions
from email_assistant.plugins import features

app = typer.Typer(
    name="email-assistant",
    cls=WithCommonOptions,
    help="Triages your Gmail, drafts replies and schedules meetings. Asks before it acts, learns from corrections.\n\n"
    "Try it with no account and no key: [bold]email-assistant demo[/]",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=print_version, is_eager=True)
    ] = False,
) -> None:
    """Of the whole program."""


for command in (
    *(run.demo, run.up, run.api, run.scheduler, run.worker, mails.retry, mails.why),
    *(health.status, health.doctor, health.activity, backup.backup, backup.restore, export.export),
    *(agents.agent, replay.replay),
):
    app.command(command.__name__)(command)
for name, command in (("stop", stop.stop), ("go-on", stop.go_on), ("rotate-key", keys.rotate_key)):
    app.command(name)(command)
for name, group in (
    *(("auth", auth), ("account", accounts), ("inbox", inbox), ("chat", chat), ("mails", mails), ("memory", memory)),
    *(("session", session), ("forget", forget), ("mcp", mcp), ("tools", tools), ("gate", gate)),
):
    app.add_typer(group.app, name=name)
for feature in features():
    if feature.add_commands:
        feature.add_commands(app)


def main() -> None:
    ensure_output()
    check_arguments()
    try:
        app()
    finally:
        flush_output()
