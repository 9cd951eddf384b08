"""What a conversation's earlier tool calls came to, told by their tool messages."""

import json
import re
from collections.abc import Sequence, Set
from dataclasses import dataclass
from typing import Any, Literal

from email_assistant_servers.demo_model.protocol import Message, ToolCall

Outcome = Literal["done", "feedback", "error", "ignored"]

_SUCCESS = re.compile(
    r"^\W*(?:(?:the|your|a) )?(?:(?:e-?mail|mail|message|reply|draft|meeting|event|invitation) )?"
    r"(?:(?:was|has been|is) )?(?:already )?(?:sent|delivered|scheduled|booked|created|saved)\b"
    r"(?:$|\s*[.:,!(\"“']|\s+(?:to|as|for|with|at|on|in|successfully|meeting|event|mail|reply|invitation)\b)",
    re.IGNORECASE,
)
_ERROR = re.compile(
    r"^\W*(?:(?:\w+ ){0,2}error\s*[:\n]|error\b|invalid\b|unknown\b|failed\b|refused\b"
    r"|not allowed\b|denied\b|rejected\b|could ?n[o'’]t\b|cannot\b|the calendar could not)",
    re.IGNORECASE,
)
_IGNORED = re.compile(r"\b(?:ignored this|nothing was done)\b", re.IGNORECASE)
_FRAME = re.compile(
    r"^(?:feedback|(?:(?:rejected|declined) by )?(?:the )?(?:person|user))\b[^:\n]{0,60}:\s*", re.IGNORECASE
)


@dataclass(frozen=True)
class Step:
    """One earlier tool call and what it came to."""

    name: str
    arguments: dict[str, Any]
    result: str
    outcome: Outcome


def read_rounds(messages: Sequence[Message], *, questions: Set[str], looks: Set[str]) -> list[list[Step]]:
    """The tool calls of each message that has any, in order.

    What answers a tool in `questions` is always the person's words, what answers one in `looks` never.
    """
    results = {message.tool_call_id: message.text for message in messages if message.role == "tool"}
    return [
        [_read_step(call, results.get(call.id, ""), questions, looks) for call in message.tool_calls]
        for message in messages
        if message.tool_calls
    ]


def _read_step(call: ToolCall, result: str, questions: Set[str], looks: Set[str]) -> Step:
    try:
        parsed = json.loads(call.function.arguments)
    except ValueError:
        parsed = {}
    arguments = parsed if isinstance(parsed, dict) else {}
    name = call.function.name
    outcome = _outcome(result, is_question=name in questions, is_look=name in looks)
    return Step(name, arguments, _FRAME.sub("", result.strip()), outcome)


def _outcome(result: str, *, is_question: bool, is_look: bool) -> Outcome:
    if is_look:
        return "error" if _ERROR.match(result) else "done"
    if _IGNORED.search(result) and not _is_data(result):
        return "ignored"
    if is_question or _FRAME.match(result):
        return "feedback"
    if _ERROR.match(result):
        return "error"
    return "done" if _is_data(result) or _SUCCESS.match(result) else "feedback"


def _is_data(result: str) -> bool:
    """Whether a program wrote it: nothing, JSON, or a delimited block."""
    return not result.strip() or result.lstrip().startswith(("{", "<"))
