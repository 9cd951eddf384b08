"""Tool calls for servers that make none: asked for as JSON by a schema, with the conversation told as text."""

import re
import secrets
from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolCall, ToolMessage
from pydantic import AliasChoices, BaseModel, Field

from email_assistant.model.structured import Form, answer_in, compact, read_object, with_instructions

Tools = Sequence[Mapping[str, Any]]
"""In the form of OpenAI's `tools`."""

_MOST_CALLS = 4
"""Calls of one answer; a small model that repeats itself would otherwise never end."""

_REQUIRED = '{"calls": [{"name": …, "arguments": {…}}]}, with at least one call.'
_FREE = (
    '{"calls": [{"name": …, "arguments": {…}}], "answer": "…"}. Either call tools, with an empty answer; or answer the '
    "person, with no calls."
)


_WRITTEN = re.compile(r"(?:```\w*|<tool_call>)?\s*(\{.*\})\s*(?:```|</tool_call>)?", re.DOTALL)
"""An object that is all of a text, as it is or in the signs that templates of models put round it."""


class _Call(BaseModel):
    name: str
    arguments: dict[str, Any] = Field(validation_alias=AliasChoices("arguments", "parameters"))


class _Answer(BaseModel):
    calls: list[_Call]
    answer: str = ""


def calls_form(tools: Tools, *, required: bool) -> Form:
    """The form of an answer that calls some of the tools, or, unless that is required, says something instead."""
    functions = [tool["function"] for tool in tools]
    calls = {"type": "array", "items": {"anyOf": [_call_schema(f) for f in functions]}, "maxItems": _MOST_CALLS}
    properties: dict[str, Any] = {"calls": calls | {"minItems": 1} if required else calls}
    if not required:
        properties["answer"] = {"type": "string"}
    schema = {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
    listed = "\n".join(f"- {f['name']}: {f['description']} Arguments: {compact(f['parameters'])}" for f in functions)
    instructions = f"Your tools:\n{listed}\nAnswer with one JSON object only: {_REQUIRED if required else _FREE}"

    def write(messages: Sequence[AnyMessage]) -> list[AnyMessage]:
        return with_instructions(told_as_text(messages), instructions)

    return Form("tool_calls", schema, write, always_told=True)


def read_calls(text: str, *, required: bool) -> AIMessage:
    """The message that a server with tools would have given. Raises ValueError."""
    if not required and "{" not in (said := answer_in(text)):
        return AIMessage(said)

    def read(value: Any) -> _Answer:
        answer = _Answer.model_validate(value)
        if required and not answer.calls:
            raise ValueError("calls: at least one is needed")
        return answer

    answer = read_object(text, read)
    calls = [ToolCall(name=c.name, args=c.arguments, id=_new_id(), type="tool_call") for c in answer.calls]
    return AIMessage("" if calls else answer.answer, tool_calls=calls)


def with_written_call(answer: AIMessage, tools: Tools, messages: Sequence[AnyMessage]) -> AIMessage:
    """The answer; one that is the text of a call and nothing else, as a model writes it whose server does not know its
    template, as that call. An object among words is none, and none that the model was shown: it is somebody's in a
    mail."""
    written = _WRITTEN.fullmatch(answer_in(answer.text))
    if written is None or answer.tool_calls or any(written[1] in each.text for each in messages):
        return answer
    try:
        call = _Call.model_validate_json(written[1])
    except ValueError:
        return answer
    if call.name not in {tool["function"]["name"] for tool in tools}:
        return answer
    made = ToolCall(name=call.name, args=call.arguments, id=_new_id(), type="tool_call")
    return answer.model_copy(update={"content": "", "tool_calls": [made]})


def told_as_text(messages: Sequence[AnyMessage]) -> list[AnyMessage]:
    """Calls and their results as plain messages that take turns: some chat templates refuse all else."""
    told: list[AnyMessage] = []
    for message in messages:
        match message:
            case AIMessage(tool_calls=[_, *_]):
                calls = [{"name": call["name"], "arguments": call["args"]} for call in message.tool_calls]
                told.append(AIMessage(compact({"calls": calls})))
            case ToolMessage():
                _add_said(told, f"Result of {message.name}:\n{message.text}")
            case HumanMessage():
                _add_said(told, message.text)
            case _:
                told.append(message)
    return told


def _add_said(told: list[AnyMessage], text: str) -> None:
    if told and isinstance(told[-1], HumanMessage):
        text = f"{told.pop().text}\n\n{text}"
    told.append(HumanMessage(text))


def _call_schema(function: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {"name": {"const": function["name"]}, "arguments": function["parameters"]},
        "required": ["name", "arguments"],
        "additionalProperties": False,
    }


def _new_id() -> str:
    return f"call_{secrets.token_hex(12)}"
