"""Read what the chat's tools answer. What others wrote stands in it too: it gives no line a meaning that it lacks."""

import re
from dataclasses import dataclass
from datetime import datetime

from email_assistant_servers.demo_model.language import PHRASES

_TAG_LINE = re.compile(r"^</?[a-z]+(?: [^>\n]*)?>$\n?", re.MULTILINE)
_EVENT = re.compile(
    r"^(?P<start>\d{4}-\S+) to (?P<end>\d{4}-\S+): (?P<title>.*)\n  Id: (?P<id>\S+)"
    r"(?: in calendar (?P<calendar>\S+))?$",
    re.MULTILINE,
)
_FOUND = re.compile(r"^(?P<head>\S.*)\n  Thread: (?P<thread>\S+)$", re.MULTILINE)
_OWN = re.compile(r"\((?:\w+, )*(?:sent|draft)(?:, \w+)*\)$")


@dataclass(frozen=True)
class Event:
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
        return f"“{self.title}” on {PHRASES['en'].day(self.start.date())}, {hours}"


@dataclass(frozen=True)
class Found:
    """One mail of a search; `head` holds its date, sender and subject."""

    head: str
    thread: str

    @property
    def sender(self) -> str:
        """The sender, as far as the head can be told apart."""
        return self.head.partition(": ")[0]

    @property
    def by_person(self) -> bool:
        """Whether the person wrote it."""
        return _OWN.search(self.head) is not None


def content(result: str) -> str:
    """A result's text without the tags of its blocks."""
    return _TAG_LINE.sub("", result).strip()


def read_events(result: str) -> list[Event]:
    """The events of `list_events`, `create_event` or `update_event`, by start."""
    return [event for found in _EVENT.finditer(result) if (event := _read_event(found))]


def _read_event(found: re.Match[str]) -> Event | None:
    try:
        start, end = (datetime.fromisoformat(found[side]).replace(tzinfo=None) for side in ("start", "end"))
    except ValueError:
        return None
    return Event(found["id"], found["calendar"], found["title"], start, end, whole_days="T" not in found["start"])


def read_found(result: str) -> list[Found]:
    """The mails of `search_mail`, newest first."""
    return [Found(found["head"], found["thread"]) for found in _FOUND.finditer(result)]


def read_entries(result: str) -> list[list[str]]:
    """The fields of each line of `list_waiting` or `find_mail`."""
    lines = content(result).splitlines()
    return [[field.strip() for field in line.split(" | ")] for line in lines if " | " in line]
