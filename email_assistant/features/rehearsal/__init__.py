"""What the assistant would have shown of one's own past mail, and proposed to it, beside what one did; and how well it
does on labelled mail and by the letters that went out."""

from typer import Typer

from email_assistant.plugins import Feature, Site


def feature() -> Feature:
    return Feature(add_commands=_add_commands, site=_site)


def _add_commands(app: Typer) -> None:
    from email_assistant.features.rehearsal.command import rehearse
    from email_assistant.features.rehearsal.evaluate import app as evaluate

    app.command()(rehearse)
    app.add_typer(evaluate, name="eval")


def _site() -> Site:
    from email_assistant.features.rehearsal.pages import site

    return site()
