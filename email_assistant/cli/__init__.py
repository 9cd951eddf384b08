"""The `email-assistant` command. Thin: each command opens what it needs, and imports it only then."""

from collections.abc import Mapping
from typing import Annotated, Any

import typer
from typer.models import CommandInfo, TyperInfo

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
    mails,
    memory,
    replay,
    run,
    session,
    tools,
)
from email_assistant.cli.context import check_arguments, ensure_output, flush_output, print_version
from email_assistant.cli.everywhere import WithCommonOptions
from email_assistant.plugins import features

_PANELS: Mapping[str, Mapping[str, Any]] = {
    "Every day": {
        "demo": run.demo,
        "up": run.up,
        "inbox": inbox.app,
        "chat": chat.app,
        "mails": mails.app,
        "why": mails.why,
        "status": health.status,
        "activity": health.activity,
        "stop": run.stop,
        "go-on": run.go_on,
    },
    "Mailboxes": {"auth": auth.app, "account": accounts.app, "retry": mails.retry},
    "What it learns, and may do": {"memory": memory.app, "tools": tools.app, "gate": gate.app, "replay": replay.replay},
    "What is kept of you": {
        "forget": forget.app,
        "export": export.export,
        "backup": backup.backup,
        "restore": backup.restore,
    },
    "Operating": {
        "doctor": health.doctor,
        "api": run.api,
        "scheduler": run.scheduler,
        "worker": run.worker,
        "session": session.app,
        "rotate-key": session.rotate_key,
        "agent": agents.agent,
    },
}
_FEATURES = "Features"


class _InPanels(WithCommonOptions):
    def list_commands(self, ctx: Any) -> list[str]:
        ours = [name for commands in _PANELS.values() for name in commands]
        return ours + [name for name in super().list_commands(ctx) if name not in ours]


app = typer.Typer(
    name="email-assistant",
    cls=_InPanels,
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


for panel, commands in _PANELS.items():
    for name, command in commands.items():
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=name, rich_help_panel=panel)
        else:
            app.command(name, rich_help_panel=panel)(command)
for feature in features():
    if feature.add_commands:
        feature.add_commands(app)
_added: list[CommandInfo | TyperInfo] = [*app.registered_commands, *app.registered_groups]
for each in _added:
    if each.rich_help_panel not in _PANELS:
        each.rich_help_panel = _FEATURES


def main() -> None:
    ensure_output()
    check_arguments()
    try:
        app()
    finally:
        flush_output()
