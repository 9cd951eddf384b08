"""Notices of what waits: in browsers, by webhooks, and once a day by a mail to oneself."""

from typing import TYPE_CHECKING

from typer import Typer

from email_assistant.plugins import Chores, Feature, Site

if TYPE_CHECKING:
    from email_assistant.features.notices.settings import NoticeSettings


def feature() -> Feature:
    return Feature(add_commands=_add_commands, settings=_settings, site=_site, chores=_chores)


def _add_commands(app: Typer) -> None:
    from email_assistant.features.notices.command import app as notify

    app.add_typer(notify, name="notify")


def _settings() -> "type[NoticeSettings]":
    from email_assistant.features.notices.settings import NoticeSettings

    return NoticeSettings


def _site() -> Site:
    from email_assistant.features.notices.routes import site

    return site()


def _chores() -> Chores:
    from email_assistant.features.notices.telling import chores

    return chores()
