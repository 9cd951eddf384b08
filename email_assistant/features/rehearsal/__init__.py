"""What the assistant would have shown of one's own past mail, and proposed to it, beside what one did."""

from typer import Typer

from email_assistant.plugins import Feature, Site


def feature() -> Feature:
    return Feature(add_commands=_add_commands, site=_site)


def _add_commands(app: Typer) -> None:
    from email_assistant.cli import evaluate
    from email_assistant.features.rehearsal import command

    app.command()(command.rehearse)
    evaluate.app.command()(command.rehearsal)


def _site() -> Site:
    from email_assistant.features.rehearsal.pages import site

    return site()
