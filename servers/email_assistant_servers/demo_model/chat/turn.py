"""Take the person's words apart into tasks, and take the turn's next step: tool calls, or the text that ends it."""

import re
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import NamedTuple

from ..protocol import JsonObject, ModelAnswer, PromptMessage
from ..reading import Person, read_person, read_rounds
from ..schema import example, resolve
from ..times import names_day
from ..wording import ABILITIES, patterns
from . import calendar, mail
from .draft import EventDraft, read_draft
from .script import CLARIFY, LOOKS, Script, play

_SAID = patterns("chat")
_TYPES = ("calendar", "mail", "inbox")
_FIELD = "allowed_tool_types"


class ChatTask(NamedTuple):
    """One thing that the person wants; `scripts` begins it, for that person at their local time."""

    tool_type: str
    scripts: Callable[[Person, datetime], list[Script]]


def next_message(messages: Sequence[PromptMessage], tools: frozenset[str]) -> ModelAnswer:
    """What comes next in the turn that the newest user message began, with the offered tools."""
    start = max((number for number, message in enumerate(messages) if message.role == "user"), default=-1)
    rounds = read_rounds(messages[start + 1 :], questions={CLARIFY}, looks=LOOKS)
    person, tasks = read_person(messages), _tasks(_request(messages))
    if not tasks or person.now is None:
        return ModelAnswer(ABILITIES)
    return play([script for task in tasks for script in task.scripts(person, person.now)], rounds, tools)


def policy(messages: Sequence[PromptMessage], schema: JsonObject) -> JsonObject:
    """The types among the schema's that the person's words need; where they are not understood, all that may fit."""
    request = _request(messages)
    needed = {task.tool_type for task in _tasks(request)}
    needed = needed or {name for name in _TYPES if _SAID[f"{name}_hint"].search(request)}
    known = resolve(resolve(schema["properties"][_FIELD], schema)["items"], schema)["enum"]
    return {**example(schema), _FIELD: [name for name in known if name in needed] or known}


def _request(messages: Sequence[PromptMessage]) -> str:
    """The person's newest words, in one line."""
    said = [message.text for message in messages if message.role == "user"]
    return " ".join(said[-1].split()) if said else ""


def _tasks(request: str) -> list[ChatTask]:
    """What the words ask for, in order; nothing where they are not understood.

    They are cut before each part that is a task of its own; but not within what the person dictates."""
    clauses, start = [], 0
    for cut in _SAID["cut"].finditer(request):
        if not _SAID["dictated"].match(_bare(request[start : cut.start()])) and _task(request[cut.end() :]):
            clauses.append(request[start : cut.start()])
            start = cut.end()
    return [task for clause in [*clauses, request[start:]] if (task := _task(clause))]


def _bare(clause: str) -> str:
    return _SAID["courtesy"].sub("", clause.strip())


def _task(clause: str) -> ChatTask | None:
    words = _bare(clause)
    return _mail_task(words) or _event_task(words) or _inbox_task(words) or _agenda_task(words)


def _mail_task(words: str) -> ChatTask | None:
    found = next((found for name in ("write", "tell", "answer") if (found := _SAID[name].match(words))), None)
    if found is None or _SAID["nobody"].match(found["who"]):
        return None
    who, text = found["who"], found["text"] or ""
    if found.re is _SAID["write"]:
        return ChatTask("mail", lambda person, _: [mail.write(who, found["subject"] or "", text, person)])
    return ChatTask("mail", lambda person, _: [mail.answer(who, text, person)])


def _event_task(words: str) -> ChatTask | None:
    if _SAID["move"].match(words):
        return ChatTask("calendar", lambda _, now: [calendar.move(words, now)])
    if _SAID["create"].match(words):
        return ChatTask(
            "calendar", lambda _, now: [calendar.create(draft, words, now) for draft in _drafts(words, now)]
        )
    return None


def _drafts(words: str, now: datetime) -> list[EventDraft]:
    """The events that the words describe: several if each has its own name and time. A day named once is for all."""
    listed = _SAID["listed"].match(words)
    head, events = (listed["head"], listed["events"]) if listed else ("", words)
    drafts = [read_draft(part, now.date()) for part in _SAID["between"].split(events)]
    if any(draft.question for draft in drafts):
        drafts = [read_draft(events, now.date())]
    day = next((draft.day for draft in (read_draft(head, now.date()), *drafts) if draft.day), None)
    return [draft.completed(EventDraft(day=day)) for draft in drafts]


def _inbox_task(words: str) -> ChatTask | None:
    if _SAID["why"].match(words) and _SAID["about_mail"].search(words):
        named = re.findall(r"[\w.@-]*\w", re.sub(r"['’]s\b", "", words))
        about = " ".join(word for word in named if not _SAID["no_search_word"].fullmatch(word))
        wanted_class = "ignore" if _SAID["ignored"].search(words) else ""
        return ChatTask("inbox", lambda *_: [mail.explain(about, wanted_class)]) if about else None
    return ChatTask("inbox", lambda *_: [mail.waiting()]) if _SAID["waiting"].search(words) else None


def _agenda_task(words: str) -> ChatTask | None:
    if not _SAID["look"].match(words) or _SAID["about_mail"].search(words):
        return None
    if _SAID["in_calendar"].search(words) or names_day(words):
        return ChatTask("calendar", lambda _, now: [calendar.agenda(words, now)])
    return None
