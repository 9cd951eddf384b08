"""Where other people's agents ask before they call a tool: their calls over HTTP, their client, and their key."""

from typer import Typer

from email_assistant.plugins import Feature, Site


def feature() -> Feature:
    return Feature(add_commands=_add_commands, site=_site, takes_calls=True)


def _add_commands(_: Typer) -> None:
    from email_assistant.cli.gate import app
    from email_assistant.features.gate_server.command import key, serve, sessions

    app.command()(serve)
    app.command()(key)
    app.command()(sessions)


def _site() -> Site:
    from email_assistant.features.gate_server.routes import site

    return site()
