"""Tell by its protocol what a request wants, and answer it."""

import json
from collections.abc import Callable, Sequence
from typing import Any

from email_assistant.servers.demo_model.agent import next_calls
from email_assistant.servers.demo_model.memory import rule_change
from email_assistant.servers.demo_model.protocol import Answer, Call, ChatRequest, Message, NamedChoice
from email_assistant.servers.demo_model.schema import SELF_DESCRIPTION, example, fit
from email_assistant.servers.demo_model.triage import triage

_STRUCTURED: dict[str, Callable[[Sequence[Message]], dict[str, Any]]] = {"triage": triage, "rule_change": rule_change}


def answer(request: ChatRequest) -> Answer:
    """The answer to a request: tool calls where tools are offered and called for, else text in the wanted format."""
    calls = _calls(request)
    if calls:
        return Answer(calls=calls if request.parallel_tool_calls else calls[:1])
    return Answer(text=_text(request))


def _calls(request: ChatRequest) -> tuple[Call, ...]:
    if not request.tools or request.tool_choice == "none":
        return ()
    schemas = {tool.function.name: tool.function.parameters for tool in request.tools}
    calls = next_calls(request.messages, frozenset(schemas))
    if isinstance(request.tool_choice, NamedChoice):
        name = request.tool_choice.function.name
        calls = [call for call in calls if call.name == name] or [Call(name, {})]
    elif request.tool_choice == "required" and not calls:
        calls = [Call("Question" if "Question" in schemas else next(iter(schemas)), {})]
    return tuple(Call(call.name, fit(call.arguments, schemas[call.name])) for call in calls)


def _text(request: ChatRequest) -> str:
    wanted = request.response_format
    if wanted is None or wanted.type == "text":
        return SELF_DESCRIPTION
    if wanted.json_schema is None:
        return json.dumps({"message": SELF_DESCRIPTION})
    skill = _STRUCTURED.get(wanted.json_schema.name)
    value = skill(request.messages) if skill else example(wanted.json_schema.schema_)
    return json.dumps(value, ensure_ascii=False)
