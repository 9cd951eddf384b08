"""Tool calls for servers that make none: asked for as JSON by a schema, with the conversation told as text."""

import json
import re
import secrets
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolCall, ToolMessage
from pydantic import AliasChoices, BaseModel, BeforeValidator, Field, model_validator

from email_assistant.model.structured import NO_WORDS, Form, answer_in, compact, rows_of, with_instructions

Tools = Sequence[Mapping[str, Any]]
"""In the form of OpenAI's `tools`."""

_MOST_CALLS = 4
"""Calls of one answer; a small model that repeats itself would otherwise never end."""
_MOST_READ = 16
"""Calls of one answer whose form nobody enforces."""

_REQUIRED = '{"calls": [{"name": …, "arguments": {…}}]}, with at least one call.'
_FREE = (
    '{"calls": [{"name": …, "arguments": {…}}], "answer": "…"}. Either call tools, with an empty answer; or answer the '
    "person, with no calls."
)

_BEGINS: Final = re.compile(r"[\[{]\s*[\[{]|\{\s*\"\w+\"\s*:|\[TOOL|<[/|]?(?:tool|function|invoke)")
_CALLS: Final = re.compile(r"\b(?:send|schedule|check)_\w+_tool\b|\"(?:arguments|parameters|tool_calls)\"\s*:")


def _as_object(value: object) -> object:
    try:
        return json.loads(value) if isinstance(value, str) else value
    except RecursionError:
        raise ValueError("it is nested too deep") from None


class _Call(BaseModel):
    """In the words of OpenAI's API and of the templates of common models."""

    name: str = Field(validation_alias=AliasChoices("name", "tool"))
    arguments: Annotated[dict[str, Any], BeforeValidator(_as_object)] = Field(
        validation_alias=AliasChoices("arguments", "parameters", "args", "input")
    )

    @model_validator(mode="before")
    @classmethod
    def _function(cls, value: Any) -> Any:
        return value["function"] if isinstance(value, dict) and isinstance(value.get("function"), dict) else value


class _Answer(BaseModel):
    calls: list[_Call] = Field([], max_length=_MOST_READ, validation_alias=AliasChoices("calls", "tool_calls"))
    answer: str = ""

    @model_validator(mode="before")
    @classmethod
    def _complete(cls, value: Any) -> Any:
        """A call, or a list of some, where nothing else is said."""
        if isinstance(value, dict):
            return value if value.keys() & {"calls", "tool_calls", "answer"} else {"calls": [value]}
        return {"calls": value}

    def message(self) -> AIMessage:
        calls = [ToolCall(name=c.name, args=c.arguments, id=_new_id(), type="tool_call") for c in self.calls]
        return AIMessage("" if calls else self.answer, tool_calls=calls)


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


def read_calls(text: str, messages: Sequence[AnyMessage], *, required: bool) -> AIMessage:
    """The message that a server with tools would have given. Raises ValueError."""
    if "{" not in text and (words := words_in(text, required=required)):
        return AIMessage(words)
    answer = _written_answer(answer_in(text), messages, is_last=not required)
    if required and not answer.calls:
        raise ValueError("calls: at least one is needed")
    return answer.message()


def words_in(text: str, *, required: bool) -> str:
    """What a model says to the person in place of calls: anything that ends in words, or, where a call is required, in
    a question. Empty: it says nothing."""
    said = answer_in(text)
    end = said.rpartition("}")[2].strip()
    asks_or_tells = end.endswith("?") if required else "{" not in end
    return said if end and asks_or_tells and not _begins_a_call(said) else ""


def with_written_calls(answer: AIMessage, tools: Tools, messages: Sequence[AnyMessage]) -> AIMessage:
    """The answer; one that ends in the text of calls, as a model writes them whose server does not know its template,
    as those calls."""
    if answer.tool_calls:
        return answer
    try:
        calls = _written_answer(answer_in(answer.text), messages, is_last=True).message().tool_calls
    except ValueError:
        return answer
    offered = {tool["function"]["name"] for tool in tools}
    if not calls or not all(call["name"] in offered for call in calls):
        return answer
    return answer.model_copy(update={"content": "", "tool_calls": calls})


def _written_answer(said: str, messages: Sequence[AnyMessage], *, is_last: bool = False) -> _Answer:
    """The one answer that is written in a text as JSON, alone or behind words. One that the model was shown is none: it
    is somebody's in a mail; nor is one behind which the model asks, or of which there are two.

    Args:
        is_last: no word at all may stand behind it.

    Raises:
        ValueError: there is none.
    """
    found: list[_Answer] = []
    problem, behind = ValueError("there is no JSON object in it"), ""
    shown = "\n".join(_bare(each.text) for each in messages)
    for row in rows_of(said):
        try:
            answer = _Answer.model_validate(row.values[0] if len(row.values) == 1 else row.values)
        except ValueError as error:
            problem = error
            continue
        if any(_bare(written) in shown for written in row.written):
            problem = ValueError("it stands in what you were shown, and is somebody else's")
            continue
        found.append(answer)
        behind = said[row.end :]
    if not found:
        raise problem
    if len(found) > 1 or "?" in behind or (is_last and not NO_WORDS.fullmatch(behind)):
        raise ValueError("it is not clear whether this is to be done: answer with one JSON object, and no other word")
    return found[0]


def is_written_call(text: str) -> bool:
    """Whether a text is a call, or what is left of one. Words that end in a question mark are none, whatever they
    quote."""
    said = text.strip()
    return _begins_a_call(said) or (not said.endswith("?") and bool(_CALLS.search(said)))


def _begins_a_call(said: str) -> bool:
    said = said.strip("`").removeprefix("json").strip() if said.startswith("```") else said
    return _BEGINS.match(said) is not None


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


def _bare(text: str) -> str:
    return "".join(text.split())


def _new_id() -> str:
    return f"call_{secrets.token_hex(12)}"
