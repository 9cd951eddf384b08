"""The chat's `policy` answer: which types of tools a request needs."""

from collections.abc import Sequence
from typing import Any

from email_assistant_servers.demo_model.chat.conversation import read_request
from email_assistant_servers.demo_model.chat.requests import read_tasks
from email_assistant_servers.demo_model.protocol import Message
from email_assistant_servers.demo_model.schema import example, resolve
from email_assistant_servers.demo_model.wording import any_of

_FIELD = "allowed_tool_types"
_HINTS = {
    "calendar": any_of(
        r"calendar|agenda|meet(?:ing)?s?|events?|appointments?|schedule|termin\w*|kalender|réunions?|rendez-vous"
    ),
    "mail": any_of(r"e?-?mails?|messages?|letters?|repl(?:y|ies)|answer|write|send|antworte\w*|schreib\w*|répon\w+"),
    "inbox": any_of(r"inbox|wait\w*|pending|ignored?|newsletters?|warte\w*|posteingang|attend\w*"),
}


def policy(messages: Sequence[Message], schema: dict[str, Any]) -> dict[str, Any]:
    """The types among the schema's that the person's words need; where they are not understood, all that may fit."""
    request = read_request(messages)
    asked_for: set[str] = {task.tool_type for task in read_tasks(request)}
    needed = asked_for or {name for name, hint in _HINTS.items() if hint.search(request)}
    known = _types(schema)
    return {**example(schema), _FIELD: [name for name in known if name in needed] or known}


def _types(schema: dict[str, Any]) -> list[str]:
    items = resolve(resolve(schema["properties"][_FIELD], schema)["items"], schema)
    return [str(name) for name in items["enum"]]
