"""Read what the chat's tools answer. What others wrote stands in it too: it gives no line a meaning that it lacks."""

import re
from dataclasses import dataclass
from datetime import datetime

from email_assistant_servers.demo_model.times import spoken

_TAG_LINE = re.compile(r"^</?[a-z]+(?: [^>\n]*)?>$\n?", re.MULTILINE)
_EVENT = re.compile(
    r"^(?P<start>\d{4}-\S+) to (?P<end>\d{4}-\S+): (?P<title>.*)\n  Id: (?P<id>\S+)"
    r"(?: in calendar (?P<calendar>\S+))?$",
    re.MULTILINE,
)
_FOUND = re.compile(r"^(?P<head>\S.*)\n  Thread: (?P<thread>\S+)$", re.MULTILINE)
_OWN = re.compile(r"\((?:\w+, )*(?:sent|draft)(?:, \w+)*\)$")


@dataclass(frozen=True)
class ListedEvent:
    """One event as the calendar tells it, in the person's local time; `calendar` is None for their own."""

    id: str
    calendar: str | None
    title: str
    start: datetime
    end: datetime
    whole_days: bool

    @property
    def clock(self) -> int | None:
        """When it begins, in minutes since midnight; None if it lasts whole days."""
        return None if self.whole_days else self.start.hour * 60 + self.start.minute

    def __str__(self) -> str:
        hours = "all day" if self.whole_days else f"{self.start:%H:%M} to {self.end:%H:%M}"
        return f"“{self.title}” on {spoken(self.start.date())}, {hours}"


def content(result: str) -> str:
    """A result's text without the tags of its blocks."""
    return _TAG_LINE.sub("", result).strip()


def read_events(result: str) -> list[ListedEvent]:
    """The events of `list_events`, `create_event` or `update_event`, by start."""
    events = []
    for found in _EVENT.finditer(result):
        try:
            start, end = (datetime.fromisoformat(found[side]).replace(tzinfo=None) for side in ("start", "end"))
        except ValueError:
            continue
        whole_days = "T" not in found["start"]
        events.append(ListedEvent(found["id"], found["calendar"], found["title"], start, end, whole_days))
    return events


def read_found(result: str) -> list[tuple[str, str]]:
    """The mails of `search_mail` that others wrote, newest first: the date and the sender, and the thread's id."""
    return [
        (found["head"].partition(": ")[0], found["thread"])
        for found in _FOUND.finditer(result)
        if not _OWN.search(found["head"])
    ]


def read_entries(result: str) -> list[list[str]]:
    """The fields of each line of `list_waiting` or `find_mail`."""
    lines = content(result).splitlines()
    return [[field.strip() for field in line.split(" | ")] for line in lines if " | " in line]
