"""Until when an item may sleep, in words, by the account's own clock."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from email_assistant.inbox.items import Invalid
from email_assistant.inbox.standing import MORNING, tomorrow

CHOICES: Mapping[str, str] = {
    "tomorrow": "tomorrow morning",
    "hour": "in an hour",
    "later": "in four hours",
    "monday": "Monday morning",
}


def wake(choice: str, zone: ZoneInfo) -> datetime | None:
    """The time that a choice stands for; None, for an empty one, is now. Raises Invalid: no such choice."""
    now = datetime.now(zone)
    match choice:
        case "":
            return None
        case "hour":
            return now + timedelta(hours=1)
        case "later":
            return now + timedelta(hours=4)
        case "tomorrow":
            return tomorrow(zone)
        case "monday":
            return datetime.combine(now.date() + timedelta(days=7 - now.weekday()), MORNING, zone)
        case _:
            raise Invalid("choose until when it is to sleep")
