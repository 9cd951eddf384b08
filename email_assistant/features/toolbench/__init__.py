"""Hundreds of APIs under a model's hands: StableToolBench's tools and queries, and how well an agent calls them."""

from typer import Typer

from email_assistant.plugins import Feature


def feature() -> Feature:
    return Feature(add_commands=_add_commands)


def _add_commands(app: Typer) -> None:
    from email_assistant.features.toolbench.command import app as bench

    app.add_typer(bench, name="bench")
