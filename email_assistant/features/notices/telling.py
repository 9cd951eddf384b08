"""All by which a person is told of what waits, made once for an open app."""

from dataclasses import dataclass
from datetime import timedelta

from email_assistant.app import App
from email_assistant.features.notices.channels import Channels
from email_assistant.features.notices.digest import Digests
from email_assistant.features.notices.notices import Notices
from email_assistant.features.notices.settings import NoticeSettings
from email_assistant.inbox.reading import Items
from email_assistant.outward import Outward
from email_assistant.plugins import Chores, Job


@dataclass(frozen=True, slots=True)
class Telling:
    settings: NoticeSettings
    channels: Channels
    notices: Notices
    digests: Digests

    @staticmethod
    def of(app: App) -> "Telling":
        """That of an open app. Raises SettingsError."""
        return app.part(_telling)

    async def aclose(self) -> None:
        await self.notices.outward.aclose()


def chores() -> Chores:
    return Chores(
        jobs=(
            Job(
                fails_with="no notices",
                run=lambda app: Telling.of(app).notices.tell(),
                is_due=lambda app: Telling.of(app).channels.some_due(),
            ),
            Job(
                fails_with="no digest",
                run=lambda app: Telling.of(app).digests.send_due(),
                seconds=lambda app: app.settings.poll_seconds if Telling.of(app).settings.digest_at else None,
            ),
        ),
        tidy=lambda app: Telling.of(app).channels.forget_logged_out(),
    )


def _telling(app: App) -> Telling:
    own, items = app.settings.of(NoticeSettings), Items(app.pool)
    channels = Channels(
        app.pool,
        app.vault,
        after=timedelta(seconds=own.notify_settle_seconds),
        every=timedelta(seconds=own.notify_every_seconds),
    )
    notices = Notices(
        channels,
        items,
        app.accounts,
        Outward(private=own.notify_private, allowed_by="EMAIL_ASSISTANT_NOTIFY_PRIVATE=true"),
        inbox_url=app.settings.inbox_url,
        contact=own.notify_contact,
        show_mail=own.notify_show_mail,
    )
    digests = Digests(
        app.pool,
        app.accounts,
        app.clients,
        app.outbox,
        items,
        at=own.digest_at,
        inbox_url=app.settings.inbox_url,
        claim=timedelta(seconds=app.settings.lease_seconds),
    )
    return Telling(own, channels, notices, digests)
