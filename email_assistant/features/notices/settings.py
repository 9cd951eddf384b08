"""The settings of notices and of the daily digest."""

from pydantic import Field

from email_assistant.settings.environment import FromEnvironment
from email_assistant.settings.values import Contact, LocalTime, Seconds


class NoticeSettings(FromEnvironment):
    notify_settle_seconds: Seconds = Field(5, ge=0)
    """How long an item waits before you are told of it."""
    notify_every_seconds: Seconds = Field(60, ge=0)
    """The shortest time between two notices to one browser or webhook; what comes in between is told at once."""
    notify_show_mail: bool = True
    """Whether notices in your browser say who wrote and what is proposed, not only how many items wait."""
    notify_private: bool = False
    """Whether notices may go to this machine and its network, and over http."""
    notify_contact: Contact | None = None
    """A mailto: or https: address for the operators of push services; unset: your first account's."""
    digest_at: LocalTime | None = None
    """When the daily digest is sent, such as 08:00, by each account's own timezone; unset: never."""
