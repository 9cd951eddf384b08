"""The inbox as a full-screen view of the terminal."""

from typing import TYPE_CHECKING

from email_assistant.plugins import Feature

if TYPE_CHECKING:
    from email_assistant.app import App


def feature() -> Feature:
    return Feature(full_screen=_show)


async def _show(app: "App") -> None:
    from email_assistant.features.terminal.app import show_inbox
    from email_assistant.features.terminal.desk import Desk

    await show_inbox(Desk(app))
