"""Draw one short rule from a correction: an edited draft, an ignored mail, the person's feedback."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from email_assistant.servers.demo_model.protocol import Message
from email_assistant.servers.demo_model.reading import read_mails, shorten
from email_assistant.servers.demo_model.reply import LABEL

_BLOCKS = {
    "proposed": "proposed|proposal|draft|original|before|initial",
    "final": "final|edited|edit|sent|after|changed|corrected",
    "feedback": "feedback|response|answer|correction|instruction|said",
}
_MAIL_BLOCK = re.compile(r"^<mail\b.*?^</mail>", re.DOTALL | re.MULTILINE)
_RULE = re.compile(r"^[ \t]*(\d+)[.)][ \t]+(\S.*)$", re.MULTILINE)
_IGNORED = re.compile(r"\bignored?\b|\bdismissed\b|\bneeds? no (?:reply|answer)\b", re.IGNORECASE)
_NOTIFICATION = re.compile(r"\bnotif", re.IGNORECASE)
_PROFILE = re.compile(r"\b(triage|response|cal\w*)[ _]preferences\b", re.IGNORECASE)
_FORMAL = re.compile(r"^(?:dear|sehr geehrte|madame|monsieur)\b", re.IGNORECASE)
_LENGTH_CHANGE = 0.7  # a text counts as shortened below this share of its words
_KINDS = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r"^(?:keep replies short|write replies in more detail)",
        r"^(?:write formally: )?start replies with\b",
        r"^sign off with\b",
        r"^meetings last \d+ minutes",
        r"^schedule meetings in the\b",
        r"^mail from (\S+)",
    )
)


@dataclass(frozen=True)
class _Event:
    """What happened: the texts of the event's blocks, and the words around them."""

    proposed: str
    final: str
    feedback: str
    sender: str
    sender_name: str
    subject: str
    around: str


def rule_change(messages: Sequence[Message]) -> dict[str, Any]:
    """The `rule_change` answer: add or revise one rule that follows from the event, or change nothing."""
    prompt = "\n".join(message.text for message in messages if message.role == "user")
    instructions = "\n".join(message.text for message in messages if message.role in ("system", "developer"))
    event = _read_event(prompt)
    profile = _PROFILE.search(f"{event.around}\n{instructions}")
    text, reason = _lesson(event, about_triage=profile is not None and profile[1].lower() == "triage")
    if not text:
        return _change("none", None, "", reason)
    rules = {int(number): rule.strip() for number, rule in _RULE.findall(event.around)}
    if text.casefold() in (rule.casefold() for rule in rules.values()):
        return _change("none", None, "", "There is such a rule already.")
    same_kind = next((number for number, rule in rules.items() if _kind(rule) and _kind(rule) == _kind(text)), None)
    return _change("add" if same_kind is None else "revise", same_kind, text, reason)


def _change(action: str, rule: int | None, text: str, reason: str) -> dict[str, Any]:
    return {"action": action, "rule": rule, "text": text, "reason": reason}


def _kind(rule: str) -> tuple[str, ...] | None:
    """What a rule is about; a newer rule about the same takes the older one's place."""
    found = next((match for pattern in _KINDS if (match := pattern.search(rule))), None)
    return (found.re.pattern, *found.groups()) if found else None


def _read_event(prompt: str) -> _Event:
    mails = read_mails(prompt)
    mail = mails[-1] if mails else None
    rest = _MAIL_BLOCK.sub("", prompt)
    texts = {}
    for name, labels in _BLOCKS.items():
        texts[name], rest = _take_block(labels, rest)
    return _Event(
        **texts,
        sender=mail.sender if mail else "",
        sender_name=mail.sender_name if mail else "",
        subject=mail.subject if mail else "",
        around=rest,
    )


def _take_block(labels: str, prompt: str) -> tuple[str, str]:
    """The text of a block, in tags or in a fence behind its label, and the prompt without it."""
    for form in (
        rf"<(?:{labels})\b[^>]*>(?P<text>.*?)</(?:{labels})\b[^>]*>",
        rf"<(?:{labels})_\w+>(?P<text>.*?)</(?:{labels})_\w+>",
        rf"^[#* ]*(?:the )?(?:{labels})(?: \w+)?:\s*(?P<fence>```|\"\"\"|---)\w*\n(?P<text>.*?)\n(?P=fence)",
        rf"^[#* ]*(?:the )?(?:{labels})(?: \w+)?:[ \t]*(?P<text>[^\n]+)",
    ):
        if found := re.search(form, prompt, re.DOTALL | re.IGNORECASE | re.MULTILINE):
            return found["text"].replace(LABEL, "").strip(), prompt[: found.start()] + prompt[found.end() :]
    return "", prompt


def _lesson(event: _Event, *, about_triage: bool) -> tuple[str, str]:
    """The rule that the event teaches and why; "" for no rule."""
    if event.proposed and event.final:
        return _lesson_of_edit(event)
    if event.feedback:
        if about_triage and event.sender:
            return _about_mail(event, "respond"), "You answered a notification about such mail."
        return _sentence(event.feedback), "You said so."
    if _IGNORED.search(event.around) and event.sender:
        if _NOTIFICATION.search(event.around):
            return _about_mail(event, "ignore"), "You ignored a notification about such mail."
        return _about_mail(event, "needs no reply"), "You ignored a draft for such mail."
    return "", "Nothing general follows from this."


def _about_mail(event: _Event, wanted: str) -> str:
    # letters and digits only: a subject is the sender's text and must not read as a rule or an address of its own
    topic = " ".join(re.findall(r"[^\W_]+", event.subject)[:6])
    about = f' about "{topic}"' if topic else ""
    return (
        f"Mail from {event.sender}{about} {wanted}." if " " in wanted else f"Mail from {event.sender}{about}: {wanted}."
    )


def _lesson_of_edit(event: _Event) -> tuple[str, str]:
    proposed, final = _fields(event.proposed), _fields(event.final)
    if proposed.keys() & {"start_time", "end_time"}:
        return _lesson_of_meeting(proposed, final)
    before, after = str(proposed.get("response_text", event.proposed)), str(final.get("response_text", event.final))
    return _lesson_of_text(before.replace(LABEL, "").strip(), after.replace(LABEL, "").strip(), event.sender_name)


def _fields(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _lesson_of_meeting(proposed: dict[str, Any], final: dict[str, Any]) -> tuple[str, str]:
    before, after = _span(proposed), _span(final)
    if before and after:
        if before[1] != after[1]:
            return f"Meetings last {after[1]} minutes by default.", "You changed how long the meeting lasts."
        if (before[0].hour < 12) != (after[0].hour < 12):
            half = "morning" if after[0].hour < 12 else "afternoon"
            return f"Schedule meetings in the {half}.", "You moved the meeting to another half of the day."
    return "", "The edit concerns this meeting alone."


def _span(arguments: dict[str, Any]) -> tuple[datetime, int] | None:
    """A meeting's start and its length in minutes."""
    try:
        start, end = (datetime.fromisoformat(str(arguments[name])) for name in ("start_time", "end_time"))
        return start, int((end - start).total_seconds() // 60)
    except (KeyError, TypeError, ValueError):
        return None


def _lesson_of_text(before: str, after: str, sender_name: str) -> tuple[str, str]:
    first, last = _ends(before)
    new_first, new_last = _ends(after)
    ratio = len(after.split()) / max(1, len(before.split()))
    if ratio < _LENGTH_CHANGE:
        return "Keep replies short.", "You shortened the draft."
    if new_first != first:
        formally = "Write formally: start" if _FORMAL.match(new_first) else "Start"
        return f'{formally} replies with "{_general(new_first, sender_name)}".', "You changed the greeting."
    if new_last != last:
        return f'Sign off with "{new_last}".', "You changed the sign-off."
    if ratio > 1 / _LENGTH_CHANGE:
        return "Write replies in more detail.", "You wrote more than the draft did."
    return "", "The edit concerns this mail alone."


def _ends(text: str) -> tuple[str, str]:
    """The greeting line and the sign-off line: the first line, and the first of the last paragraph."""
    paragraphs = [paragraph.strip() for paragraph in re.split(r"\n\s*\n", text) if paragraph.strip()] or [""]
    return paragraphs[0].partition("\n")[0], paragraphs[-1].partition("\n")[0]


def _general(greeting: str, sender_name: str) -> str:
    """A greeting with the correspondent's name taken out."""
    first = sender_name.split(" ", maxsplit=1)[0]
    if not first:
        return greeting
    return greeting.replace(sender_name, "<full name>").replace(first, "<first name>")


def _sentence(text: str) -> str:
    short = shorten(text, 160)
    short = short[:1].upper() + short[1:]
    return short if short.endswith((".", "!", "?", "…")) else f"{short}."
