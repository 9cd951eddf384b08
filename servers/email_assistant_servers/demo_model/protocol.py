"""The part of OpenAI's chat completions that this server speaks: requests, answers, token counts."""

import itertools
import json
import math
import secrets
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

MODEL = "demo-rules"
_BYTES_PER_TOKEN = 4  # a rule of thumb for English text; a real tokenizer would have to be downloaded
_numbers = itertools.count(1)


class RequestError(Exception):
    """The request breaks the protocol; `param` names the field at fault."""

    def __init__(self, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.param = param


class _Field(BaseModel):
    model_config = ConfigDict(extra="allow")


class Part(_Field):
    """One part of a message's content; only text parts are read."""

    text: str = ""


class FunctionCall(_Field):
    """The function that an assistant message called, its arguments as JSON text."""

    name: str
    arguments: str


class ToolCall(_Field):
    """One tool call of an assistant message."""

    id: str
    function: FunctionCall


class Message(_Field):
    """One message of the conversation."""

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | list[Part] | None = None
    tool_calls: list[ToolCall] | None = None
    tool_call_id: str | None = None

    @property
    def text(self) -> str:
        """The message's text, its parts joined."""
        if isinstance(self.content, list):
            return "\n".join(part.text for part in self.content)
        return self.content or ""


class Function(_Field):
    """A function offered as a tool, its parameters as a JSON schema."""

    name: str
    parameters: dict[str, Any] = {}


class Tool(_Field):
    """One entry of `tools`."""

    function: Function


class FunctionName(_Field):
    """The function that `tool_choice` demands."""

    name: str


class NamedChoice(_Field):
    """A `tool_choice` that demands one function."""

    function: FunctionName


ToolChoice = Literal["auto", "none", "required"] | NamedChoice | None


class JsonSchema(_Field):
    """The name and the schema of a structured answer."""

    name: str
    schema_: dict[str, Any] = Field(default={}, alias="schema")


class ResponseFormat(_Field):
    """What shape the answer's text must have."""

    type: Literal["text", "json_object", "json_schema"]
    json_schema: JsonSchema | None = None


class StreamOptions(_Field):
    """What a streamed answer carries besides its text."""

    include_usage: bool = False


class ChatRequest(_Field):
    """The body of `POST /v1/chat/completions`; fields that change nothing here (temperature, seed, …) are accepted."""

    model: str
    messages: list[Message] = Field(min_length=1)
    tools: list[Tool] | None = None
    tool_choice: ToolChoice = None
    response_format: ResponseFormat | None = None
    stream: bool = False
    stream_options: StreamOptions | None = None
    parallel_tool_calls: bool = True

    def check(self) -> None:
        """Raise `RequestError` where the fields contradict each other."""
        _check_tool_messages(self.messages)
        names = {tool.function.name for tool in self.tools or []}
        if self.tool_choice not in (None, "none", "auto") and not names:
            raise RequestError("'tool_choice' is only allowed when 'tools' are specified.", "tool_choice")
        if isinstance(self.tool_choice, NamedChoice) and self.tool_choice.function.name not in names:
            name = self.tool_choice.function.name
            raise RequestError(f"Tool choice '{name}' not found in 'tools' parameter.", "tool_choice")
        wants_schema = self.response_format is not None and self.response_format.type == "json_schema"
        if wants_schema and self.response_format and self.response_format.json_schema is None:
            raise RequestError(
                "Missing required parameter: 'response_format.json_schema'.", "response_format.json_schema"
            )


def _check_tool_messages(messages: list[Message]) -> None:
    """OpenAI's rule: tool messages stand right behind a message with tool calls, and answer each of them."""
    open_ids: set[str] = set()
    answerable: set[str] = set()
    for number, message in enumerate(messages):
        if message.role == "tool":
            if message.tool_call_id not in answerable:
                raise RequestError(
                    "messages with role 'tool' must be a response to a preceding message with 'tool_calls'.",
                    f"messages.[{number}].role",
                )
            open_ids.discard(message.tool_call_id or "")
            continue
        if open_ids:
            raise _unanswered(open_ids, number)
        open_ids = {call.id for call in message.tool_calls or []}
        answerable = set(open_ids)
    if open_ids:
        raise _unanswered(open_ids, len(messages))


def _unanswered(ids: set[str], number: int) -> RequestError:
    return RequestError(
        "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. "
        f"The following tool_call_ids did not have response messages: {', '.join(sorted(ids))}",
        f"messages.[{number}].role",
    )


@dataclass(frozen=True)
class Call:
    """A tool call to make: the tool's name and its arguments."""

    name: str
    arguments: dict[str, Any]


@dataclass(frozen=True)
class Answer:
    """What the model answers: text, or tool calls."""

    text: str = ""
    calls: tuple[Call, ...] = ()


def completion(request: ChatRequest, answer: Answer) -> dict[str, Any]:
    """The body of an answer that is not streamed."""
    message: dict[str, Any] = {"role": "assistant", "content": answer.text or None, "refusal": None}
    if answer.calls:
        message["tool_calls"] = _tool_calls(answer)
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": _finish_reason(answer)}
    return {**_envelope("chat.completion"), "choices": [choice], "usage": usage(request, answer)}


def chunks(request: ChatRequest, answer: Answer) -> Iterator[dict[str, Any]]:
    """The bodies of a streamed answer, in order; the closing `[DONE]` is the transport's."""
    envelope = _envelope("chat.completion.chunk")
    wants_usage = request.stream_options is not None and request.stream_options.include_usage
    no_usage = {"usage": None} if wants_usage else {}

    def chunk(delta: dict[str, Any], finish_reason: str | None = None) -> dict[str, Any]:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
        return {**envelope, "choices": [choice], **no_usage}

    yield chunk({"role": "assistant", "content": None if answer.calls else ""})
    for line in answer.text.splitlines(keepends=True):
        yield chunk({"content": line})
    for index, call in enumerate(_tool_calls(answer)):
        function = call["function"]
        yield chunk({"tool_calls": [{**call, "index": index, "function": {"name": function["name"], "arguments": ""}}]})
        yield chunk({"tool_calls": [{"index": index, "function": {"arguments": function["arguments"]}}]})
    yield chunk({}, _finish_reason(answer))
    if wants_usage:
        yield {**envelope, "choices": [], "usage": usage(request, answer)}


def usage(request: ChatRequest, answer: Answer) -> dict[str, int]:
    """Approximate token counts: the UTF-8 bytes of the serialised prompt and of the answer, divided by four."""
    prompt = _tokens(
        request.model_dump(
            mode="json", include={"messages", "tools", "response_format"}, exclude_unset=True, by_alias=True
        )
    )
    reply = _tokens([answer.text, *({"name": call.name, "arguments": call.arguments} for call in answer.calls)])
    return {"prompt_tokens": prompt, "completion_tokens": reply, "total_tokens": prompt + reply}


def _tokens(value: Any) -> int:
    return math.ceil(len(json.dumps(value, ensure_ascii=False).encode()) / _BYTES_PER_TOKEN)


def _envelope(kind: str) -> dict[str, Any]:
    return {"id": _unique("chatcmpl-demo"), "object": kind, "created": int(time.time()), "model": MODEL}


def _tool_calls(answer: Answer) -> list[dict[str, Any]]:
    return [
        {
            "id": _unique("call"),
            "type": "function",
            "function": {"name": call.name, "arguments": json.dumps(call.arguments, ensure_ascii=False)},
        }
        for call in answer.calls
    ]


def _unique(prefix: str) -> str:
    return f"{prefix}_{next(_numbers)}_{secrets.token_hex(6)}"


def _finish_reason(answer: Answer) -> str:
    return "tool_calls" if answer.calls else "stop"
