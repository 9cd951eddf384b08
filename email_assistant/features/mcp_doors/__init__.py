"""A person's calendars and mail as MCP servers, for their editor or any client of that protocol."""

from typer import Typer

from email_assistant.plugins import Feature


def feature() -> Feature:
    return Feature(add_commands=_add_commands)


def _add_commands(app: Typer) -> None:
    from email_assistant.features.mcp_doors.command import app as doors

    app.add_typer(doors, name="mcp")
