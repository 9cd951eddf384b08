"""Who writes to whom in these tests, and what the model proposes."""

from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from tests.doubles.daemon import Item
from tests.doubles.model import ToolCall, tool

ADA = "ada@example.com"
"""Whose mailbox it is."""
BOB = "Bob Berg <bob@example.org>"
BERLIN = ZoneInfo("Europe/Berlin")
NEXT_WEEK = datetime.now(BERLIN).replace(hour=9, minute=0, second=0, microsecond=0) + timedelta(days=7)

DONE = tool("Done", done=True)
PROFILES = ("triage_preferences", "response_preferences", "cal_preferences")


def reply(text: str, **more: Any) -> ToolCall:
    """A reply to Bob."""
    return tool("send_email_tool", **{"response_text": text, "email_address": "bob@example.org", **more})


def meeting(start: datetime = NEXT_WEEK, **more: Any) -> ToolCall:
    """45 minutes with Bob."""
    given = {
        "attendees": ["bob@example.org"],
        "title": "Plan",
        "start_time": start.isoformat(),
        "end_time": (start + timedelta(minutes=45)).isoformat(),
        "organizer_email": ADA,
        "timezone": "Europe/Berlin",
    }
    return tool("schedule_meeting_tool", **{**given, **more})


def by_subject(items: list[Item]) -> dict[str, Item]:
    return {item["subject"]: item for item in items}
