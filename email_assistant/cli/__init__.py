"""The `email-assistant` command. Thin: each command opens what it needs, and imports it only then."""

from typing import Annotated

import typer

from email_assistant.cli import (
    accounts,
    auth,
    backup,
    bench,
    chat,
    health,
    inbox,
    mails,
    mcp,
    memory,
    notify,
    run,
    session,
    tools,
)
from email_assistant.cli.context import check_arguments, ensure_output, flush_output, print_version
from email_assistant.cli.everywhere import WithCommonOptions

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


app.command("demo")(run.demo)
app.command("up")(run.up)
app.command("api")(run.api)
app.command("scheduler")(run.scheduler)
app.command("worker")(run.worker)
app.add_typer(auth.app, name="auth")
app.add_typer(accounts.app, name="account")
app.add_typer(inbox.app, name="inbox")
app.add_typer(chat.app, name="chat")
app.add_typer(mails.app, name="mails")
app.command("retry")(mails.retry)
app.add_typer(memory.app, name="memory")
app.add_typer(notify.app, name="notify")
app.add_typer(session.app, name="session")
app.add_typer(mcp.app, name="mcp")
app.add_typer(tools.app, name="tools")
app.command("status")(health.status)
app.command("doctor")(health.doctor)
app.command("backup")(backup.backup)
app.command("restore")(backup.restore)
app.add_typer(bench.app, name="bench")


def main() -> None:
    ensure_output()
    check_arguments()
    try:
        app()
    finally:
        flush_output()
