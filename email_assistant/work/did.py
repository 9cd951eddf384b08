"""What the assistant did in one turn of a chat, told by the messages that its graph holds."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage

_AN_ID = 8
"""Characters that an id has at least."""
_MOST_LINES = 6
_LONGEST_LINE = 200


@dataclass(frozen=True, slots=True)
class Did:
    """A call of a tool."""

    call_id: str
    tool: str
    args: Mapping[str, Any]
    result: str | None
    """What came of it, as the model was told; others may have written it. None: it has not run."""

    @property
    def failed(self) -> bool:
        return self.result is not None and self.result.startswith("Error:")


def did(messages: Sequence[AnyMessage]) -> list[Did]:
    """The calls since the person's last words, in order."""
    turn = list(_since_the_request(messages))[::-1]
    results = {message.tool_call_id: message.text for message in turn if isinstance(message, ToolMessage)}
    calls = [call for message in turn if isinstance(message, AIMessage) for call in message.tool_calls]
    return [Did(str(call["id"]), call["name"], call["args"], results.get(str(call["id"]))) for call in calls]


def named_in(calls: Sequence[Did], args: Mapping[str, Any]) -> list[str]:
    """What was looked up about the ids in a call's arguments, which say nothing to a person: the lines that hold one,
    each with the line before it. Others may have written them."""
    ids = [value for value in args.values() if isinstance(value, str) and len(value) >= _AN_ID and " " not in value]
    lines = [line for call in calls for line in (call.result or "").splitlines()]
    found = [n for n, line in enumerate(lines) if any(each in line for each in ids)]
    near = dict.fromkeys(n for at in found for n in (at - 1, at) if n >= 0 and not lines[n].startswith("<"))
    return [lines[n][:_LONGEST_LINE] for n in near][:_MOST_LINES]


def _since_the_request(messages: Sequence[AnyMessage]) -> Iterator[AnyMessage]:
    """From the newest back."""
    for message in reversed(messages):
        if isinstance(message, HumanMessage):
            return
        yield message
