"""What the person is asked to allow, and what does not work without it."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Scope:
    uri: str
    box: str
    """Its line on Google's consent page, as the discovery documents describe it."""
    loss: str
    """What does not work without it."""


_ROOT: Final = "https://www.googleapis.com/auth"

# Covers labels, drafts, sending and send-as addresses.
GMAIL: Final = Scope(
    f"{_ROOT}/gmail.modify", "Read, compose, and send emails from your Gmail account", "nothing works without it"
)
# calendar.events covers neither the list of calendars nor the timezone setting
# (https://developers.google.com/workspace/calendar/api/auth).
CALENDAR: Final = (
    Scope(
        f"{_ROOT}/calendar.events",
        "View and edit events on all your calendars",
        "your calendar is not looked into, and no meeting is scheduled",
    ),
    Scope(
        f"{_ROOT}/calendar.calendarlist.readonly",
        "See the list of Google calendars you're subscribed to",
        "of your calendars only the primary one is seen",
    ),
    Scope(
        f"{_ROOT}/calendar.settings.readonly",
        "View your Calendar settings",
        "your timezone is guessed from your calendar",
    ),
)
SCOPES: Final = (GMAIL, *CALENDAR)


def missing(granted: Collection[str]) -> list[Scope]:
    """What the person has left out."""
    return [scope for scope in SCOPES if scope.uri not in granted]
