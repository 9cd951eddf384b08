"""The small questions that show what a server can do. Each costs about a hundred tokens."""

from collections.abc import Sequence
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from pydantic import BaseModel

WORD = "Answer with the word: ready"
CALL = "Call the tool."

READY_TOOL: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "ready",
        "description": "Says that you are ready.",
        "parameters": {"type": "object", "properties": {}},
    },
}


class Ready(BaseModel):
    """A form that no model keeps to by itself when it is asked for a word."""

    ready: bool


def as_small(messages: Sequence[AnyMessage]) -> list[AnyMessage]:
    """A small question of the shape of these messages: some servers refuse a role, or the turns that they take."""
    small = [_small(message) for message in messages]
    return small if isinstance(messages[-1], HumanMessage) else [*small, HumanMessage(WORD)]


def _small(message: AnyMessage) -> AnyMessage:
    match message:
        case AIMessage():
            calls = [{**call, "name": "ready", "args": {}} for call in message.tool_calls]
            return AIMessage("" if calls else "ready", tool_calls=calls)
        case HumanMessage():
            return HumanMessage(WORD)
        case _:
            return message.model_copy(update={"content": "ready"})
