"""Notices of what waits: in browsers, by webhooks, and once a day by a mail to oneself."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from typer import Typer

from email_assistant.plugins import Endpoints, Feature, Job

if TYPE_CHECKING:
    from markupsafe import Markup

    from email_assistant.app import App
    from email_assistant.db.pool import Statement
    from email_assistant.features.notices.settings import NoticeSettings


def feature() -> Feature:
    return Feature(
        add_commands=_add_commands,
        settings=_settings,
        endpoints=Endpoints(routers=_routers, examples=Path(__file__).with_name("examples.yaml")),
        on_accounts=_on_accounts,
        jobs=(
            Job(fails_with="no notices", run=_tell, is_due=_some_due),
            Job(fails_with="no digest", run=_send_digests, seconds=_digest_seconds),
        ),
        tidy=_tidy,
    )


def _add_commands(app: Typer) -> None:
    from email_assistant.features.notices.command import app as notify

    app.add_typer(notify, name="notify")


def _settings() -> "type[NoticeSettings]":
    from email_assistant.features.notices.settings import NoticeSettings

    return NoticeSettings


def _routers() -> Sequence[Any]:
    from email_assistant.features.notices import routes

    return routes.router, routes.pages


async def _on_accounts(app: "App") -> "Markup":
    from email_assistant.features.notices.routes import section

    return await section(app)


def _some_due(app: "App") -> "Statement":
    from email_assistant.features.notices.telling import Telling

    return Telling.of(app).channels.some_due()


async def _tell(app: "App") -> None:
    from email_assistant.features.notices.telling import Telling

    await Telling.of(app).notices.tell()


def _digest_seconds(app: "App") -> float | None:
    from email_assistant.features.notices.telling import Telling

    return app.settings.poll_seconds if Telling.of(app).settings.digest_at else None


async def _send_digests(app: "App") -> None:
    from email_assistant.features.notices.telling import Telling

    await Telling.of(app).digests.send_due()


async def _tidy(app: "App") -> None:
    from email_assistant.features.notices.telling import Telling

    await Telling.of(app).channels.forget_logged_out()
