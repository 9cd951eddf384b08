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
from starlette.exceptions import HTTPException

MODEL = "demo-rules"
_BYTES_PER_TOKEN = 4  # a rule of thumb for English text; a real tokenizer would have to be downloaded
_numbers = itertools.count(1)

JsonObject = dict[str, Any]


class _Part(BaseModel):
    """A part of a request. What changes nothing here (temperature, seed, …) is accepted."""

    model_config = ConfigDict(extra="allow")


class Function(_Part):
    """As it is offered, with its parameters, or as it was called, with its arguments."""

    name: str
    parameters: JsonObject = Field(default_factory=dict)
    arguments: str = ""


class FunctionTool(_Part):
    function: Function
    id: str = ""


class PromptMessage(_Part):
    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | list[JsonObject] | None = None
    tool_calls: list[FunctionTool] | None = None
    tool_call_id: str | None = None

    @property
    def text(self) -> str:
        """Its text, the parts joined."""
        if isinstance(self.content, list):
            return "\n".join(str(part.get("text", "")) for part in self.content)
        return self.content or ""


class NamedSchema(_Part):
    name: str
    definition: JsonObject = Field(default_factory=dict, alias="schema")


class ResponseFormat(_Part):
    type: Literal["text", "json_object", "json_schema"]
    json_schema: NamedSchema | None = None


class ChatRequest(_Part):
    """The body of `POST /v1/chat/completions`."""

    model: str
    messages: list[PromptMessage] = Field(min_length=1)
    tools: list[FunctionTool] | None = None
    tool_choice: Literal["none", "auto", "required"] | None = None
    response_format: ResponseFormat | None = None
    stream: bool = False
    stream_options: JsonObject | None = None

    @property
    def schemas(self) -> dict[str, JsonObject]:
        """The parameters of each tool."""
        return {tool.function.name: tool.function.parameters for tool in self.tools or []}

    def check(self) -> None:
        """Raises HTTPException where the fields contradict each other."""
        form = self.response_format
        if self.tool_choice == "required" and not self.tools:
            raise HTTPException(400, "'tool_choice' is only allowed when 'tools' are specified.")
        if form and form.type == "json_schema" and form.json_schema is None:
            raise HTTPException(400, "Missing required parameter: 'response_format.json_schema'.")


@dataclass(frozen=True)
class ModelCall:
    """A tool call to make."""

    name: str
    arguments: JsonObject


@dataclass(frozen=True)
class ModelAnswer:
    """Text, or tool calls."""

    text: str = ""
    calls: tuple[ModelCall, ...] = ()

    @property
    def finish_reason(self) -> str:
        return "tool_calls" if self.calls else "stop"

    @property
    def functions(self) -> list[JsonObject]:
        """The calls as OpenAI writes them."""
        return [{"name": call.name, "arguments": json.dumps(call.arguments, ensure_ascii=False)} for call in self.calls]


def completion(request: ChatRequest, answer: ModelAnswer) -> JsonObject:
    """The body of an answer that is not streamed."""
    message: JsonObject = {"role": "assistant", "content": answer.text or None, "refusal": None}
    if answer.calls:
        message["tool_calls"] = _tool_calls(answer)
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": answer.finish_reason}
    return {**_envelope("chat.completion"), "choices": [choice], "usage": _usage(request, answer)}


def chunks(request: ChatRequest, answer: ModelAnswer) -> Iterator[JsonObject]:
    """The bodies of a streamed answer, in order; the closing `[DONE]` is the transport's."""
    envelope = _envelope("chat.completion.chunk")
    wants_usage = (request.stream_options or {}).get("include_usage", False)
    no_usage = {"usage": None} if wants_usage else {}

    def chunk(delta: JsonObject, finish_reason: str | None = None) -> JsonObject:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
        return {**envelope, "choices": [choice], **no_usage}

    yield chunk({"role": "assistant", "content": None if answer.calls else ""})
    for line in answer.text.splitlines(keepends=True):
        yield chunk({"content": line})
    for index, call in enumerate(_tool_calls(answer)):
        yield chunk({"tool_calls": [{**call, "index": index}]})
    yield chunk({}, answer.finish_reason)
    if wants_usage:
        yield {**envelope, "choices": [], "usage": _usage(request, answer)}


def _tool_calls(answer: ModelAnswer) -> list[JsonObject]:
    return [{"id": _unique("call"), "type": "function", "function": function} for function in answer.functions]


def _usage(request: ChatRequest, answer: ModelAnswer) -> dict[str, int]:
    """Approximate token counts: the UTF-8 bytes of the serialised prompt and of the answer, divided by four."""
    counted = {"messages", "tools", "response_format"}
    sent = request.model_dump(mode="json", include=counted, exclude_unset=True, by_alias=True)
    prompt, reply = (
        math.ceil(len(json.dumps(value, ensure_ascii=False).encode()) / _BYTES_PER_TOKEN)
        for value in (sent, [answer.text, *answer.functions])
    )
    return {"prompt_tokens": prompt, "completion_tokens": reply, "total_tokens": prompt + reply}


def _envelope(kind: str) -> JsonObject:
    return {"id": _unique("chatcmpl-demo"), "object": kind, "created": int(time.time()), "model": MODEL}


def _unique(prefix: str) -> str:
    return f"{prefix}_{next(_numbers)}_{secrets.token_hex(6)}"
