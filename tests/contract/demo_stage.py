"""The demo model as its tests meet it: a process of its own, asked over HTTP by OpenAI's client."""

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Self

from openai import OpenAI
from openai.types.chat import ChatCompletion, ChatCompletionMessageFunctionToolCall

from tests.doubles import warm

MODULE = ("-m", "email_assistant_servers.demo_model")
STRING = {"type": "string"}
STRINGS = {"type": "array", "items": STRING}

Messages = list[dict[str, Any]]
Calls = list[tuple[str, dict[str, Any]]]


def tool(name: str, required: dict[str, Any], **optional: Any) -> dict[str, Any]:
    parameters = {"type": "object", "properties": {**required, **optional}, "required": list(required)}
    return {"type": "function", "function": {"name": name, "description": name, "parameters": parameters}}


def json_schema(name: str, **properties: Any) -> dict[str, Any]:
    schema = {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
    return {"type": "json_schema", "json_schema": {"name": name, "schema": schema, "strict": True}}


def start(*options: str) -> subprocess.Popen[str]:
    pipe = subprocess.PIPE
    return subprocess.Popen(warm.command(*MODULE, *options), stdin=pipe, stdout=pipe, stderr=pipe, text=True)


def announced(process: subprocess.Popen[str]) -> dict[str, str]:
    assert process.stdout is not None
    ready: dict[str, str] = json.loads(process.stdout.readline())
    return ready


@contextmanager
def serving() -> Iterator[str]:
    """The base URL of a demo model that runs meanwhile."""
    process = start("--exit-with-parent")
    try:
        yield announced(process)["base_url"]
    finally:
        process.communicate(timeout=20)  # closes its standard input, which ends it


def complete(client: OpenAI, messages: Messages, **more: Any) -> ChatCompletion:
    create: Any = client.chat.completions.create  # its overloads refuse plain dicts
    completion: ChatCompletion = create(model="any", messages=messages, **more)
    return completion


def tool_calls(completion: ChatCompletion) -> list[ChatCompletionMessageFunctionToolCall]:
    calls = completion.choices[0].message.tool_calls or []
    return [call for call in calls if call.type == "function"]


class Conversation:
    """What a model calls and says, message by message, and what its calls are told to have come to."""

    def __init__(self, client: OpenAI, messages: Messages, **more: Any) -> None:
        self._client, self._messages, self._more = client, [*messages], more
        self._step()

    def _step(self) -> None:
        completion = complete(self._client, self._messages, **self._more)
        self._messages.append(completion.choices[0].message.model_dump(exclude_none=True))
        called = tool_calls(completion)
        self.text = completion.choices[0].message.content or ""
        self.ids = [call.id for call in called]
        self.calls: Calls = [(call.function.name, json.loads(call.function.arguments)) for call in called]

    def answer(self, *results: str, **named: str) -> Self:
        """Answer the calls in their order, or by their names, those left out with an empty text; and go on."""
        assert len(results) <= len(self.calls)
        assert named.keys() <= set(self.names)
        for number, call_id in enumerate(self.ids):
            result = results[number] if number < len(results) else named.get(self.names[number], "")
            self._messages.append({"role": "tool", "tool_call_id": call_id, "content": result})
        self._step()
        return self

    @property
    def names(self) -> list[str]:
        return [name for name, _ in self.calls]

    def arguments(self, name: str) -> dict[str, Any]:
        """Those of the only call of a tool."""
        [arguments] = [arguments for called, arguments in self.calls if called == name]
        return arguments
