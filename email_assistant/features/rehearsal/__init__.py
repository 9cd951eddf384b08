"""What the assistant would have shown of one's own past mail, and proposed to it, beside what one did; and how well it
does on labelled mail and by the letters that went out."""

from collections.abc import Sequence
from typing import TYPE_CHECKING
from uuid import UUID

from typer import Typer

from email_assistant.plugins import Feature, Site

if TYPE_CHECKING:
    from email_assistant.app import App
    from email_assistant.db.pool import Connection
    from email_assistant.features.rehearsal.habits.judge import Habits
    from email_assistant.features.rehearsal.settings import RehearsalSettings
    from email_assistant.work.conversations import Conversations


def feature() -> Feature:
    return Feature(
        add_commands=_add_commands,
        settings=_settings,
        site=_site,
        judge=_judge,
        on_conversations_deleted=_drop_outcomes,
    )


def _settings() -> "type[RehearsalSettings]":
    from email_assistant.features.rehearsal.settings import RehearsalSettings

    return RehearsalSettings


def _judge(app: "App", conversations: "Conversations") -> "Habits | None":
    from email_assistant.features.rehearsal.habits.judge import open_judge

    return open_judge(app, conversations)


async def _drop_outcomes(conn: "Connection", account_id: UUID, thread_ids: Sequence[UUID]) -> None:
    from email_assistant.features.rehearsal.habits.judgements import drop_outcomes

    await drop_outcomes(conn, account_id, thread_ids)


def _add_commands(app: Typer) -> None:
    from email_assistant.features.rehearsal.command import rehearse
    from email_assistant.features.rehearsal.evaluate import app as evaluate

    app.command()(rehearse)
    app.add_typer(evaluate, name="eval")


def _site() -> Site:
    from email_assistant.features.rehearsal.pages import site

    return site()
