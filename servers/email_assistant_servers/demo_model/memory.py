"""Draw one short rule from a correction: what an edit changed, an ignored mail, the person's feedback."""

import json
import re
from collections.abc import Sequence
from datetime import datetime

from email_assistant_servers.demo_model.protocol import JsonObject, PromptMessage
from email_assistant_servers.demo_model.wording import patterns, sentence, shorten

_SAYS = patterns("lessons")
_DIFFERENCE = re.compile(r"^<difference>\n(.*?)\n</difference>", re.DOTALL | re.MULTILINE)
_WORDS = re.compile(r"^The person's words: (\".*\")$", re.MULTILINE)
_ABOUT_MAIL = re.compile(r"^(?:Mail to many|Automatic mail|Mail) from <sender>", re.MULTILINE)
_LENGTH = re.compile(r"^response_text: (\d+) words? became (\d+)", re.MULTILINE)
_PUT_IN = re.compile(r"^response_text, put in in the (first line|last lines): (.+)$", re.MULTILINE)
_STARTS = re.compile(r"^start_time: (\S+) became (\S+)$", re.MULTILINE)
_LASTS = re.compile(r"^lasts: \S+ minutes became (\d+) minutes$", re.MULTILINE)
_RULE = re.compile(r"^[ \t]*(\d+)[.)][ \t]+(\S.*)$", re.MULTILINE)
_NO_NOTICE = re.compile(r"\bno notice\b")
_IGNORED = re.compile(r"\bignored\b")
_NOON = 12
_LENGTH_CHANGE = 0.7  # a text counts as shortened below this share of its words


def rule_change(messages: Sequence[PromptMessage]) -> JsonObject:
    """The `rule_change` answer: add or revise one rule that follows from the event, or change nothing."""
    prompt = "\n".join(message.text for message in messages if message.role == "user")
    text, reason = _lesson(prompt)
    rules = {int(number): rule.strip() for number, rule in _RULE.findall(_DIFFERENCE.sub("", prompt))}
    if text.casefold() in (rule.casefold() for rule in rules.values()):
        text, reason = "", "There is such a rule already."
    same_kind = next((number for number, rule in rules.items() if _kind(rule) and _kind(rule) == _kind(text)), None)
    action = "none" if not text else "add" if same_kind is None else "revise"
    return {"action": action, "rule": same_kind if text else None, "text": text, "reason": reason}


def _kind(rule: str) -> tuple[str | None, ...] | None:
    """What a rule is about; a newer rule about the same takes the older one's place."""
    found = _SAYS["kinds"].search(rule)
    return found.groups() if found else None


def _lesson(prompt: str) -> tuple[str, str]:
    """The rule that the event teaches and why; "" for no rule."""
    about = _ABOUT_MAIL.search(prompt)
    if difference := _DIFFERENCE.search(prompt):
        return _lesson_of_edit(difference[1])
    if words := _WORDS.search(prompt):
        if about:
            return f"{about[0]}: respond.", "You answered a notice of such mail."
        return sentence(shorten(str(json.loads(words[1])), 160)), "You said so."
    if about and _NO_NOTICE.search(prompt, about.end()):
        return f"{about[0]}: ignore.", "You want no notice of such mail."
    if about and _IGNORED.search(prompt, about.end()):
        return f"{about[0]} needs no reply.", "You ignored a draft for such mail."
    return "", "Nothing general follows from this."


def _lesson_of_edit(difference: str) -> tuple[str, str]:
    if lasts := _LASTS.search(difference):
        return f"Meetings last {lasts[1]} minutes by default.", "You changed how long the meeting lasts."
    if starts := _STARTS.search(difference):
        old, new = (datetime.fromisoformat(each) for each in starts.groups())
        if (old.hour < _NOON) != (new.hour < _NOON):
            half = "morning" if new.hour < _NOON else "afternoon"
            return f"Schedule meetings in the {half}.", "You moved the meeting to another half of the day."
        return "", "The edit concerns this meeting alone."
    length = _LENGTH.search(difference)
    ratio = int(length[2]) / max(1, int(length[1])) if length else 1
    put_in = dict(reversed(_PUT_IN.findall(difference)))
    if ratio < _LENGTH_CHANGE:
        return "Keep replies short.", "You shortened the draft."
    if greeting := put_in.get("first line"):
        start = "Write formally: start" if _SAYS["formal_greeting"].match(greeting) else "Start"
        return f'{start} replies with "{shorten(greeting, 60)}".', "You changed the greeting."
    if closing := put_in.get("last lines"):
        return f'Sign off with "{shorten(closing, 60)}".', "You changed the sign-off."
    if ratio > 1 / _LENGTH_CHANGE:
        return "Write replies in more detail.", "You wrote more than the draft did."
    return "", "The edit concerns this mail alone."
