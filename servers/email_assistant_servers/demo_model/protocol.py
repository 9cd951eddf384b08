"""The part of OpenAI's chat completions that this server speaks: requests, answers, token counts."""

import itertools
import json
import math
import secrets
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

MODEL = "demo-rules"
_BYTES_PER_TOKEN = 4  # a rule of thumb for English text; a real tokenizer would have to be downloaded
_numbers = itertools.count(1)

JsonObject = dict[str, Any]


class RequestError(Exception):
    """The request breaks the protocol; `param` names the field at fault."""

    def __init__(self, message: str, param: str) -> None:
        super().__init__(message)
        self.param = param


class PromptMessage(BaseModel):
    model_config = ConfigDict(extra="allow")

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | list[JsonObject] | None = None
    tool_calls: list[JsonObject] | None = None
    tool_call_id: str | None = None

    @property
    def text(self) -> str:
        """Its text, the parts joined."""
        if isinstance(self.content, list):
            return "\n".join(part.get("text", "") for part in self.content)
        return self.content or ""


class ChatRequest(BaseModel):
    """The body of `POST /v1/chat/completions`; fields that change nothing here (temperature, seed, …) are accepted."""

    model: str
    messages: list[PromptMessage] = Field(min_length=1)
    tools: list[JsonObject] | None = None
    tool_choice: str | JsonObject | None = None
    response_format: JsonObject | None = None
    stream: bool = False
    stream_options: JsonObject | None = None
    parallel_tool_calls: bool = True

    @property
    def schemas(self) -> dict[str, JsonObject]:
        """The parameters of each tool."""
        return {tool["function"]["name"]: tool["function"].get("parameters") or {} for tool in self.tools or []}

    @property
    def demanded(self) -> str | None:
        """The one tool that is to be called."""
        return self.tool_choice["function"]["name"] if isinstance(self.tool_choice, dict) else None

    def check(self) -> None:
        """Raises RequestError where the fields contradict each other."""
        _check_tool_messages(self.messages)
        if self.tool_choice not in (None, "none", "auto") and not self.tools:
            raise RequestError("'tool_choice' is only allowed when 'tools' are specified.", "tool_choice")
        if self.demanded and self.demanded not in self.schemas:
            raise RequestError(f"Tool choice '{self.demanded}' not found in 'tools' parameter.", "tool_choice")
        form = self.response_format or {}
        if form.get("type") == "json_schema" and "json_schema" not in form:
            missing = "response_format.json_schema"
            raise RequestError(f"Missing required parameter: '{missing}'.", missing)


def _check_tool_messages(messages: Sequence[PromptMessage]) -> None:
    """OpenAI's rule: tool messages stand right behind a message with tool calls, and answer each of them."""
    unanswered: set[str] = set()
    answerable: set[str] = set()
    for number, message in enumerate([*messages, None]):
        where = f"messages.[{number}].role"
        if message and message.role == "tool":
            if message.tool_call_id not in answerable:
                rule = "messages with role 'tool' must be a response to a preceding message with 'tool_calls'."
                raise RequestError(rule, where)
            unanswered.discard(message.tool_call_id or "")
        elif unanswered:
            rule = (
                "An assistant message with 'tool_calls' must be followed by tool messages responding to each "
                "'tool_call_id'. The following tool_call_ids did not have response messages: "
            )
            raise RequestError(rule + ", ".join(sorted(unanswered)), where)
        else:
            answerable = {call["id"] for call in (message and message.tool_calls) or []}
            unanswered = set(answerable)


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

    def tool_calls(self) -> list[JsonObject]:
        """In OpenAI's form, with new ids."""
        return [
            {
                "id": _unique("call"),
                "type": "function",
                "function": {"name": call.name, "arguments": json.dumps(call.arguments, ensure_ascii=False)},
            }
            for call in self.calls
        ]


def completion(request: ChatRequest, answer: ModelAnswer) -> JsonObject:
    """The body of an answer that is not streamed."""
    message: JsonObject = {"role": "assistant", "content": answer.text or None, "refusal": None}
    if answer.calls:
        message["tool_calls"] = answer.tool_calls()
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
    for index, call in enumerate(answer.tool_calls()):
        yield chunk({"tool_calls": [{**call, "index": index}]})
    yield chunk({}, answer.finish_reason)
    if wants_usage:
        yield {**envelope, "choices": [], "usage": _usage(request, answer)}


def _usage(request: ChatRequest, answer: ModelAnswer) -> dict[str, int]:
    """Approximate token counts: the UTF-8 bytes of the serialised prompt and of the answer, divided by four."""
    sent = request.model_dump(mode="json", include={"messages", "tools", "response_format"}, exclude_unset=True)
    prompt = _tokens(sent)
    reply = _tokens([answer.text, *({"name": call.name, "arguments": call.arguments} for call in answer.calls)])
    return {"prompt_tokens": prompt, "completion_tokens": reply, "total_tokens": prompt + reply}


def _tokens(value: Any) -> int:
    return math.ceil(len(json.dumps(value, ensure_ascii=False).encode()) / _BYTES_PER_TOKEN)


def _envelope(kind: str) -> JsonObject:
    return {"id": _unique("chatcmpl-demo"), "object": kind, "created": int(time.time()), "model": MODEL}


def _unique(prefix: str) -> str:
    return f"{prefix}_{next(_numbers)}_{secrets.token_hex(6)}"
