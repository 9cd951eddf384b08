"""An auction on the loop that works on mail. It has nothing of mail."""

from typer import Typer

from email_assistant.plugins import Feature


def feature() -> Feature:
    return Feature(add_commands=_add_commands)


def _add_commands(app: Typer) -> None:
    from email_assistant.features.auction.command import auction

    app.command()(auction)
