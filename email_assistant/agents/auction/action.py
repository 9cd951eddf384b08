"""What a bidder proposes, as JSON says it: for models that make no tool calls, and for bidders that are none."""

import json
from typing import Any

from langchain_core.messages import AIMessage, InvalidToolCall, ToolCall
from pydantic import BaseModel, ConfigDict, ValidationError


class Action(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    tool: str
    args: dict[str, Any] = {}
    commentary: str = ""

    def as_message(self) -> AIMessage:
        """The loop gives the call an id of its own."""
        call = ToolCall(name=self.tool, args=self.args, id="", type="tool_call")
        return AIMessage(self.commentary, tool_calls=[call])


def read_action(answer: AIMessage) -> AIMessage:
    """One action of a model's answer: its first call, or what its text says as JSON and nothing else. A text that says
    none is a call that can't be read: the model is told so, and tries again."""
    if answer.tool_calls:
        return AIMessage(answer.text, tool_calls=answer.tool_calls[:1], usage_metadata=answer.usage_metadata)
    if answer.invalid_tool_calls:
        return answer
    try:
        told = Action.model_validate(json.loads(_unfenced(answer.text))).as_message()
    except (ValidationError, ValueError, RecursionError):
        unread = InvalidToolCall(name=None, args=answer.text[:500], id=None, error=None, type="invalid_tool_call")
        return AIMessage("", invalid_tool_calls=[unread], usage_metadata=answer.usage_metadata)
    return told.model_copy(update={"usage_metadata": answer.usage_metadata})


def _unfenced(text: str) -> str:
    return text.strip().removeprefix("```json").removeprefix("```").removesuffix("```").strip()
