"""What things are called on the pages and in the terminal, and how long something has waited."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Literal

from email_assistant.accounts.account import Mode
from email_assistant.core_yaml import load
from email_assistant.gate.call import Rule
from email_assistant.inbox.items import Item
from email_assistant.inbox.sentences import cut
from email_assistant.inbox.standing import ACTS, MANY, NAMES, answer_words
from email_assistant.mail.charset import one_line
from email_assistant.memory.rules import Profile
from email_assistant.outgoing.entry import Effect
from email_assistant.tools.spec import Answer, Kind

if TYPE_CHECKING:
    from email_assistant.tools.overview import ToolRow
    from email_assistant.work.rows import RunRow

Button = Answer | Literal["change", "done"]
_WORDS: Mapping[str, Any] = load(files("email_assistant.web").joinpath("wording.yaml").read_text())

WHAT_A_MAILBOX_ADDS: str = _WORDS["what a mailbox adds"]
_BUTTONS: Mapping[str, Mapping[Button, str]] = _WORDS["buttons"]
IN_GMAIL_BUTTON: str = _WORDS["in gmail button"]
CHAT_BUTTONS: Mapping[Answer, str] = _WORDS["chat buttons"]
QUESTION_BUTTONS: Mapping[Answer, str] = _WORDS["question buttons"]
_HELD: Mapping[Answer, str] = _WORDS["held answers"]
TITLES: Mapping[Kind | Literal["held", "again"], str] = _WORDS["titles"]
KINDS: Mapping[Kind, str] = {**MANY, "in_doubt": "in doubt"}
_ONE: Mapping[Kind, str] = {**NAMES, "in_doubt": "in doubt"}
SIGNS: Mapping[Kind, str] = _WORDS["signs"]
SHOWN: Mapping[str, str] = _WORDS["shown"]
MODES: Mapping[Mode, str] = _WORDS["modes"]
CLASSES: Mapping[str, str] = _WORDS["classes"]
SORTED: Mapping[str, str] = _WORDS["sorted"]
STATES: Mapping[str, str] = _WORDS["states"]
PROFILE_NAMES: Mapping[Profile, str] = _WORDS["profiles"]
TOOL_STATES: Mapping[str, str] = _WORDS["tool states"]
_REFUSED: Mapping[int | str, str] = _WORDS["refused"]
_UNDER_WAY: Mapping[Kind, str] = {"draft": "Sending", "meeting": "Booking"}
_REVIEWS: Mapping[Rule, str] = _WORDS["reviews"]


def became(item: Item) -> str:
    """What a person's last step made of an item."""
    if item.decision and item.is_held:
        return _HELD[item.decision["type"]]
    if item.decision:
        is_held = item.is_stopped or item.is_paused
        under_way = _UNDER_WAY.get(item.kind) if item.status == "decided" and not is_held else None
        return under_way if under_way and item.decision["type"] in ACTS else did(item.kind, item.decision["type"])
    return "Put off" if item.snoozed_until else "Taken back; it waits again"


def did(kind: Kind, answer: Answer) -> str:
    """What an answer made of an item of that kind."""
    return answer_words(kind, answer).capitalize()


def refused_as(status: int) -> str:
    """What stands above the reason why a page is not shown."""
    return _REFUSED.get(status, _REFUSED["any"])


def counted(kind: Kind, count: int) -> str:
    """What so many items of a kind are called."""
    return _ONE[kind] if count == 1 else KINDS[kind]


def buttons(item: Item) -> Mapping[Button, str]:
    """What each answer is called on the page and in the terminal."""
    by_action = _BUTTONS.get(item.action, {}) if item.kind == "confirmation" else {}
    again = _BUTTONS["again"] if item.undelivered and item.kind == "draft" else {}
    special = _BUTTONS["held"] if item.is_held else _BUTTONS["blank"] if item.is_blank else again
    special = _BUTTONS["two texts"] if item.in_gmail and item.in_gmail.text else special
    return {**_BUTTONS["any"], **_BUTTONS.get(item.kind, {}), **by_action, **special}


def does(items: Sequence[Item]) -> str:
    """What the button is called that has all of these done."""
    said = " and ".join(dict.fromkeys(buttons(item)["accept"].lower() for item in items))
    return said[:1].upper() + said[1:]


def chat_buttons(item: Item) -> Mapping[Button, str] | Mapping[Answer, str]:
    """The same within a chat, where it is done at once."""
    if item.kind in ("in_doubt", "link"):
        return buttons(item)
    return QUESTION_BUTTONS if item.kind == "question" else CHAT_BUTTONS


def who(item: Item) -> str:
    """Whom an item comes from."""
    if item.is_held:
        return item.sender or "An agent of yours"
    return "You, in a chat" if item.chat else item.sender or "(unknown sender)"


def name_of(item: Item) -> str:
    """What whoever wrote calls themselves; the address where they say nothing."""
    return who(item) if item.chat else item.sender_name or who(item)


def kinds_of(items: Sequence[Item]) -> str:
    """What is proposed, such as "reply and meeting"."""
    return " and ".join(dict.fromkeys(_ONE[item.kind] for item in items))


def about(item: Item) -> str:
    """What an item is about, on one line: the mail's subject, or how the request of a chat begins."""
    text = one_line(item.subject or "(no subject)")
    return cut(text) if item.chat else text


def what_follows(turn: "RunRow", done: Sequence[Effect]) -> str:
    """Why a turn has not come to its end, and what becomes of it. `done`: what has happened in it."""
    why = turn.why or "the reason is not known"
    if turn.state == "failed":
        return f"It could not be finished: {why}" if done else why
    if turn.why is None:
        return "this is still being worked on"
    if done:
        return f"The rest waits: {why}. It goes on by itself when that has passed"
    return f"not yet, as {why}; it is done by itself when that has passed"


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


def browser(user_agent: str) -> str:
    """What browser on what system sent this header, as far as it says; others are in it too, so the order matters."""
    system = next((name for sign, name in _WORDS["systems"].items() if sign in user_agent), None)
    program = next((name for sign, name in _WORDS["browsers"].items() if sign in user_agent), "A browser")
    return f"{program} on {system}" if system else program


def when_asked(tool: "ToolRow") -> str:
    """When a person is asked about a tool's calls."""
    if tool.review != "gate" or tool.labels is None or tool.labels.write_operation:
        return _REVIEWS[tool.review]
    unless = "" if tool.is_own else ", unless a chat has read your mail or calendar before"
    return f"you are not asked, as it changes nothing{unless}"
