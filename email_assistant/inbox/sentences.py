"""What the assistant would do, and what it did, in a sentence each: the same on pages, in terminals and in chat."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from email_assistant.inbox.items import Item
from email_assistant.inbox.kept import UNREADABLE
from email_assistant.mail.charset import one_line
from email_assistant.mail.excerpt import asked, said
from email_assistant.outgoing.entry import Effect
from email_assistant.tools import times
from email_assistant.tools.spec import leads_to
from email_assistant.tools.times import MeetingTime, in_zone

_EXCERPT = 120
_BLANK = "nothing was proposed"

_DONE: Mapping[str, str] = {
    "send_email_tool": "the mail was sent",
    "schedule_meeting_tool": "the meeting was scheduled",
    "create_event": "the event was put into the calendar",
    "update_event": "the event was changed",
}
"""What each action leaves in doubt."""
_DOES: Mapping[str, str] = {
    "send_email_tool": "Send a mail",
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


def sentence(item: Item, zone: ZoneInfo) -> str:
    """What the assistant would do, or wants to know; times in `zone`."""
    if item.asked_because:
        return f"Asked again: {_proposal(item, zone)}"
    return _proposal(item, zone)


def would_do(item: Item) -> str:
    """What an action is, where its fields say the rest; of a tool that is not ours, its name."""
    return _DOES.get(item.action, f"Use {item.action}")


def _proposal(item: Item, zone: ZoneInfo) -> str:
    args = item.args
    match item.kind:
        case _ if item.unreadable:
            return f"{UNREADABLE.capitalize()}."
        case "draft" if item.is_blank:
            return f"{_BLANK.capitalize()}: write the reply yourself, or have the assistant try again."
        case "draft" if item.undelivered:
            people = _people(args, "email_address", "additional_recipients")
            return f"Send again to {people}: {_short(args, 'response_text')}"
        case "draft":
            return (
                f"Reply to {_people(args, 'email_address', 'additional_recipients')}: {_short(args, 'response_text')}"
            )
        case "meeting":
            when = _when(args, zone)
            return f"Schedule {_short(args, 'title')}, {when}, with {_people(args, 'attendees')}"
        case "notification" if item.undelivered:
            return "You should see this; nothing has to be done."
        case "notification":
            return "You should see this, the assistant thinks; no answer is planned."
        case "question":
            return f"Asks: {_short(args, 'question' if 'question' in args else 'content')}"
        case "confirmation":
            if item.action == "send_email_tool":
                people = _people(args, "email_address", "additional_recipients")
                return f"{would_do(item)} to {people}: {_short(args, 'response_text')}"
            return f"{would_do(item)}: {_arguments(args)}"
        case "link":
            return f"Needs you to open a page of {link_host(args.get('url'))} first: {_short(args, 'message')}"
        case "in_doubt":
            done = _DONE.get(item.action, f"this happened: {item.action}")
            return f"Can't tell whether {done}. Have a look, and say whether to do it again."


def asks(item: Item) -> str:
    """What the mail asks, in its own words; empty for a request of a chat, which its subject says, and for a question,
    which says it itself."""
    if item.chat or item.unreadable or item.undelivered or item.kind == "question":
        return ""
    return cut(asked(item.mail_text.partition("\n")[2].split("\n\n", 1)[-1]))


def in_brief(item: Item, zone: ZoneInfo) -> str:
    """What would be done about the mail, as a row has room for; empty for a notice. Whom it would reach is left out
    where that is nobody but the sender."""
    args = item.args
    match item.kind:
        case _ if item.unreadable:
            return sentence(item, zone)
        case "draft" if item.is_blank:
            brief = _BLANK
        case "draft" if item.undelivered:
            brief = "not delivered: send it again?"
        case "draft":
            people = _people(args, "email_address", "additional_recipients")
            to = "" if people == item.sender else f"to {people}: "
            brief = f"{to}“{cut(said(str(args.get('response_text', '')), asks(item)))}”"
        case "meeting":
            when = MeetingTime.read(args, zone)
            brief = f"book {in_zone(when.start, zone):%a %-d %b, %H:%M}" if when else f"book {_when(args, zone)}"
        case "notification":
            return ""
        case "question":
            brief = f"asks you: {_short(args, 'question' if 'question' in args else 'content')}"
        case _:
            return sentence(item, zone)
    return f"asked again: {brief}" if item.asked_because else brief


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


def moment(at: datetime, zone: ZoneInfo) -> str:
    """A time to the minute; one without a timezone is taken to be in `zone`."""
    return times.moment(times.in_zone(at, zone), zone)


def cut(text: str) -> str:
    """No longer than a row can show."""
    return text if len(text) <= _EXCERPT else text[: _EXCERPT - 1] + "…"


def _arguments(args: Mapping[str, Any]) -> str:
    return cut(one_line(", ".join(f"{name}: {value}" for name, value in args.items() if value not in (None, ""))))


def _short(args: Mapping[str, Any], name: str) -> str:
    return cut(one_line(str(args.get(name, ""))))


def _when(args: Mapping[str, Any], zone: ZoneInfo) -> str:
    when = MeetingTime.read(args, zone)
    return times.moment(when.start, zone) if when else str(args.get("start_time"))


def _people(args: Mapping[str, Any], *names: str) -> str:
    found = [args.get(name) or [] for name in names]
    people = [person for value in found for person in (value if isinstance(value, list) else [value])]
    return ", ".join(map(str, people)) or "nobody"
