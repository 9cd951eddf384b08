"""What stands in a row of the inbox: what the assistant would do, in one sentence, and how long it waits."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

from email_assistant.accounts.accounts import Mode
from email_assistant.inbox.items import Item
from email_assistant.inbox.kept import UNREADABLE
from email_assistant.inbox.standing import MANY, NAMES, said_of
from email_assistant.mail.charset import one_line
from email_assistant.memory.profiles import Profile
from email_assistant.queue.turns import TurnRow
from email_assistant.tools.effects import Effect
from email_assistant.tools.mcp.links import leads_to
from email_assistant.tools.spec import Answer, Kind
from email_assistant.web.forms import read_time

_BROWSERS = (
    ("Edg", "Edge"),
    ("OPR/", "Opera"),
    ("SamsungBrowser/", "Samsung Internet"),
    ("Firefox/", "Firefox"),
    ("FxiOS/", "Firefox"),
    ("Chrome/", "Chrome"),
    ("CriOS/", "Chrome"),
    ("Safari/", "Safari"),
)
_SYSTEMS = (
    ("Android", "Android"),
    ("iPhone", "iPhone"),
    ("iPad", "iPad"),
    ("Windows", "Windows"),
    ("Mac OS X", "macOS"),
    ("CrOS", "ChromeOS"),
    ("Linux", "Linux"),
)
"""Signs in the header User-Agent, and the names of what they are of."""
_EXCERPT = 120

WHAT_A_MAILBOX_ADDS = (
    "No mailbox is connected: with one, the assistant can read and answer your mail and look into your calendar. "
    "`email-assistant auth login` connects one"
)
BUTTONS: Mapping[Answer, str] = {
    "accept": "Accept",
    "edit": "Save edit and accept",
    "ignore": "Ignore",
    "response": "Respond",
}
IN_DOUBT_BUTTONS: Mapping[Answer, str] = {**BUTTONS, "accept": "Do it again", "ignore": "Leave it"}
NOTICE_BUTTONS: Mapping[Answer, str] = {**BUTTONS, "accept": "Done", "ignore": "Not such mail"}
LINK_BUTTONS: Mapping[Answer, str] = {**BUTTONS, "accept": "I opened it: go on", "ignore": "Leave it"}
CHAT_BUTTONS: Mapping[Answer, str] = {
    "accept": "Do it",
    "edit": "Save edit and do it",
    "ignore": "Don't do it",
    "response": "Not like this",
}
QUESTION_BUTTONS: Mapping[Answer, str] = {**BUTTONS, "ignore": "Leave it open", "response": "Answer"}

TITLES: Mapping[Kind, str] = {
    "draft": "The reply",
    "meeting": "The meeting",
    "confirmation": "To be done",
    "notification": "For you to see",
    "question": "The assistant asks",
    "link": "To be opened by you",
    "in_doubt": "Did it happen?",
}
KINDS: Mapping[Kind, str] = {**MANY, "in_doubt": "in doubt"}
_ONE: Mapping[Kind, str] = {**NAMES, "in_doubt": "in doubt"}
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
    "send_email_tool": "the mail was sent",
    "schedule_meeting_tool": "the meeting was scheduled",
    "create_event": "the event was put into the calendar",
    "update_event": "the event was changed",
}
"""What each action leaves in doubt."""
_DOES: Mapping[str, str] = {
    "create_event": "Put into the calendar",
    "update_event": "Change in the calendar",
}
_DID: Mapping[str, str] = {
    "list_calendars": "Looked at your calendars",
    "list_events": "Looked into the calendar",
    "search_mail": "Searched your mail",
    "get_thread": "Read a conversation",
    "list_waiting": "Looked at what waits for you",
    "find_mail": "Looked for mail",
    "explain_mail": "Looked up what became of a mail",
}
"""What calls of tools that nobody is asked about came to."""


def became(item: Item) -> str:
    """What a person's last step made of an item."""
    if item.decision:
        return did(item.kind, item.decision["type"])
    return "Snoozed" if item.snoozed_until else "Taken back; it waits again"


def did(kind: Kind, answer: Answer) -> str:
    """What an answer made of an item of that kind."""
    return said_of(kind, answer).capitalize()


def counted(kind: Kind, count: int) -> str:
    """What so many items of a kind are called."""
    return _ONE[kind] if count == 1 else KINDS[kind]


def buttons(item: Item) -> Mapping[Answer, str]:
    """What each answer is called on the page."""
    match item.kind:
        case "in_doubt":
            return IN_DOUBT_BUTTONS
        case "notification":
            return NOTICE_BUTTONS
        case "link":
            return LINK_BUTTONS
        case _:
            return BUTTONS


def chat_buttons(item: Item) -> Mapping[Answer, str]:
    """The same within a chat, where it is done at once."""
    if item.kind in ("in_doubt", "link"):
        return buttons(item)
    return QUESTION_BUTTONS if item.kind == "question" else CHAT_BUTTONS


def who(item: Item) -> str:
    """Whom an item comes from."""
    return "You, in a chat" if item.chat else item.sender or "(unknown sender)"


def about(item: Item) -> str:
    """What an item is about, on one line: the mail's subject, or how the request of a chat begins."""
    text = one_line(item.subject or "(no subject)")
    return cut(text) if item.chat else text


def link_host(url: object) -> str | None:
    """The host that a link leads to; None if it is not one to be opened. Its server was judged when it named it."""
    return leads_to(str(url), here=True)


def did_in_words(tool: str, args: Mapping[str, Any]) -> str:
    """What a call of a tool did, in one line."""
    said = _DID.get(tool, f"Used {tool}")
    return f"{said} ({_arguments(args)})" if args else said


def done_in_words(effects: Sequence[Effect]) -> str:
    """What has happened, for the person who approved it."""
    done = [f"{_DONE.get(each.tool, each.tool)} ({_arguments(each.args)})" for each in effects]
    return f"Done: {done[0]}." if len(done) == 1 else "\n".join(["Done:", *(f"- {each}" for each in done)])


def what_follows(turn: TurnRow, done: Sequence[Effect]) -> str:
    """Why a turn has not come to its end, and what becomes of it.

    Args:
        done: what has happened in it.
    """
    why = turn.why or "the reason is not known"
    if turn.state == "failed":
        return f"It could not be finished: {why}" if done else why
    if turn.why is None:
        return "this is still being worked on"
    if done:
        return f"The rest waits: {why}. It goes on by itself when that has passed"
    return f"not yet, as {why}; it is done by itself when that has passed"


def sentence(item: Item, zone: ZoneInfo) -> str:
    """What the assistant would do, or wants to know; times in `zone`."""
    if item.asked_because:
        return f"Asked again: {_proposal(item, zone)}"
    return _proposal(item, zone)


def _proposal(item: Item, zone: ZoneInfo) -> str:
    args = item.args
    match item.kind:
        case _ if item.unreadable:
            return f"{UNREADABLE.capitalize()}."
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
            if item.action == "send_email_tool":
                people = _people(args, "email_address", "additional_recipients")
                return f"Send a mail to {people}: {_short(args, 'response_text')}"
            return f"{_DOES.get(item.action, f'Use {item.action}')}: {_arguments(args)}"
        case "link":
            return f"Needs you to open a page of {link_host(args.get('url'))} first: {_short(args, 'message')}"
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


def browser(user_agent: str) -> str:
    """What browser on what system sent this header, as far as it says; others are in it too, so the order matters."""
    system = next((name for sign, name in _SYSTEMS if sign in user_agent), None)
    program = next((name for sign, name in _BROWSERS if sign in user_agent), "A browser")
    return f"{program} on {system}" if system else program


def cut(text: str) -> str:
    """No longer than a row can show."""
    return text if len(text) <= _EXCERPT else text[: _EXCERPT - 1] + "…"


def _arguments(args: Mapping[str, Any]) -> str:
    return cut(one_line(", ".join(f"{name}: {value}" for name, value in args.items() if value not in (None, ""))))


def _short(args: Mapping[str, Any], name: str) -> str:
    return cut(one_line(str(args.get(name, ""))))


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
