"""The demo model as its tests meet it: a process of its own, asked over HTTP by OpenAI's client."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from openai import OpenAI
from openai.types.chat import ChatCompletion, ChatCompletionMessageFunctionToolCall

COMMAND = [sys.executable, "-m", "email_assistant_servers.demo_model"]
STRING = {"type": "string"}
STRINGS = {"type": "array", "items": STRING}

Messages = list[dict[str, Any]]


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
    return subprocess.Popen([*COMMAND, *options], stdin=pipe, stdout=pipe, stderr=pipe, text=True)


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
