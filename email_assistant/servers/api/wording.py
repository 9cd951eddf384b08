"""What stands in a row of the inbox: what the assistant would do, in one sentence, and how long it waits."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

from email_assistant.accounts.accounts import Mode
from email_assistant.inbox.items import Item
from email_assistant.mail.charset import one_line
from email_assistant.memory.profiles import Profile
from email_assistant.servers.api.forms import read_time
from email_assistant.tools.spec import Answer, Kind

_EXCERPT = 120

BUTTONS: Mapping[Answer, str] = {
    "accept": "Accept",
    "edit": "Save edit and accept",
    "ignore": "Ignore",
    "response": "Respond",
}
IN_DOUBT_BUTTONS: Mapping[Answer, str] = {**BUTTONS, "accept": "Do it again", "ignore": "Leave it"}


TITLES: Mapping[Kind, str] = {
    "draft": "The reply",
    "meeting": "The meeting",
    "confirmation": "To be done",
    "notification": "For you to see",
    "question": "The assistant asks",
    "link": "To be opened by you",
    "in_doubt": "Did it happen?",
}
KINDS: Mapping[Kind, str] = {
    "draft": "replies",
    "meeting": "meetings",
    "confirmation": "actions",
    "notification": "notices",
    "question": "questions",
    "link": "links",
    "in_doubt": "in doubt",
}
_ONE: Mapping[Kind, str] = {
    "draft": "reply",
    "meeting": "meeting",
    "confirmation": "action",
    "notification": "notice",
    "question": "question",
    "link": "link",
    "in_doubt": "in doubt",
}
DID: Mapping[Answer, str] = {
    "accept": "Accepted",
    "edit": "Accepted as you edited it",
    "ignore": "Ignored",
    "response": "Passed on to the assistant",
}
MODES: Mapping[Mode, str] = {
    "shadow": "Shadow: only show me what you would have done",
    "draft": "Drafts: leave replies in Gmail as drafts too, for me to send there",
    "send": "Send: do what I accept here",
}
PROFILE_NAMES: Mapping[Profile, str] = {
    "triage_preferences": "which mail needs you",
    "response_preferences": "how you write",
    "cal_preferences": "when you meet",
}
_DONE: Mapping[str, str] = {
    "send_email_tool": "the reply was sent",
    "schedule_meeting_tool": "the meeting was scheduled",
}
"""What each action leaves in doubt."""


def became(item: Item) -> str:
    """What a person's last step made of an item."""
    if item.decision:
        return DID[item.decision["type"]]
    return "Snoozed" if item.snoozed_until else "Taken back; it waits again"


def counted(kind: Kind, count: int) -> str:
    """What so many items of a kind are called."""
    return _ONE[kind] if count == 1 else KINDS[kind]


def buttons(item: Item) -> Mapping[Answer, str]:
    """What each answer is called on the page."""
    return IN_DOUBT_BUTTONS if item.kind == "in_doubt" else BUTTONS


def sentence(item: Item, zone: ZoneInfo) -> str:
    """What the assistant would do, or wants to know; times in `zone`."""
    args = item.args
    match item.kind:
        case "draft":
            return (
                f"Reply to {_people(args, 'email_address', 'additional_recipients')}: {_short(args, 'response_text')}"
            )
        case "meeting":
            when = _when(args.get("start_time"), zone)
            return f"Schedule {_short(args, 'title')}, {when}, with {_people(args, 'attendees')}"
        case "notification":
            return "Thinks that you should see this; no answer is planned."
        case "question":
            return f"Asks: {_short(args, 'question' if 'question' in args else 'content')}"
        case "confirmation":
            return f"Do this: {item.action}, {_arguments(args)}"
        case "link":
            return f"Needs you to open {_short(args, 'url')} first: {_short(args, 'message')}"
        case "in_doubt":
            done = _DONE.get(item.action, f"this happened: {item.action}")
            return f"Can't tell whether {done}. Have a look, and say whether to do it again."


def waits(since: datetime) -> str:
    """How long ago that was, in one unit."""
    seconds = (datetime.now(UTC) - since).total_seconds()
    return "now" if seconds < 60 else span(seconds)


def span(seconds: float) -> str:
    """A length of time, in one unit."""
    minutes = int(seconds // 60)
    if minutes < 1:
        return f"{round(seconds)} s"
    if minutes < 60:
        return f"{minutes} min"
    return f"{minutes // 60} h" if minutes < 48 * 60 else f"{minutes // 1440} d"


def moment(at: datetime, zone: ZoneInfo) -> str:
    """A time to the minute; one without a timezone is taken to be in `zone`."""
    local = at.astimezone(zone) if at.tzinfo else at.replace(tzinfo=zone)
    return f"{local:%a %d %b %Y, %H:%M %Z}"


def wall(value: str, zone: ZoneInfo) -> str:
    """A form's wall time, as a person reads it; what is none stands as it is."""
    time = read_time(value)
    return moment(time, zone) if time else value


def _when(value: object, zone: ZoneInfo) -> str:
    time = read_time(value)
    return moment(time, zone) if time else str(value)


def _people(args: Mapping[str, Any], *names: str) -> str:
    found = [args.get(name) or [] for name in names]
    people = [person for value in found for person in (value if isinstance(value, list) else [value])]
    return ", ".join(map(str, people)) or "nobody"


def _arguments(args: Mapping[str, Any]) -> str:
    text = one_line(", ".join(f"{name}: {value}" for name, value in args.items()))
    return text if len(text) <= _EXCERPT else text[: _EXCERPT - 1] + "…"


def _short(args: Mapping[str, Any], name: str) -> str:
    text = one_line(str(args.get(name, "")))
    return text if len(text) <= _EXCERPT else text[: _EXCERPT - 1] + "…"


TOOL_STATES = {
    "ready": "can be used",
    "off": "switched off",
    "changed": "has changed",
    "missing": "not offered",
    "unusable": "can't be used",
    "down": "its server is down",
}
REVIEWS = {
    "always": "you are always asked",
    "gate": "you are asked where it may change something",
    "never": "you are never asked",
}
