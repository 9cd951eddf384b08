"""Tell by its protocol what a request wants, and answer it."""

import json
import re
from collections.abc import Mapping, Sequence

from email_assistant_servers.demo_model.agent import next_calls
from email_assistant_servers.demo_model.chat.script import CLARIFY
from email_assistant_servers.demo_model.chat.turn import next_message, policy
from email_assistant_servers.demo_model.memory import rule_change
from email_assistant_servers.demo_model.protocol import (
    ChatRequest,
    JsonObject,
    ModelAnswer,
    ModelCall,
    PromptMessage,
)
from email_assistant_servers.demo_model.schema import example, fit
from email_assistant_servers.demo_model.triage import triage
from email_assistant_servers.demo_model.wording import SELF_DESCRIPTION


def answer(request: ChatRequest) -> ModelAnswer:
    """The answer to a request: tool calls where tools are offered and called for, else text in the wanted format."""
    schemas = request.schemas
    if not schemas or request.tool_choice == "none":
        return ModelAnswer(_text(request))
    proposed = _next_message(request, schemas)
    calls = _chosen(request, proposed.calls, schemas)
    if not calls:
        return ModelAnswer(proposed.text or _text(request))
    return ModelAnswer(calls=calls if request.parallel_tool_calls else calls[:1])


def _next_message(request: ChatRequest, schemas: Mapping[str, JsonObject]) -> ModelAnswer:
    """The chat agent is known by a tool that no other has."""
    tools = frozenset(schemas)
    if CLARIFY in tools:
        return next_message(request.messages, tools)
    return ModelAnswer(calls=tuple(next_calls(request.messages, tools) or _asked_for(request.messages[-1], schemas)))


def _asked_for(newest: PromptMessage, schemas: Mapping[str, JsonObject]) -> list[ModelCall]:
    """The call of the only tool, if the person's message asks for that and no more, and it can be made without more."""
    (name, schema), *others = schemas.items()
    if others or schema.get("required") or newest.role != "user":
        return []
    which = rf"(?:(?:the|this|that|your)\W+)?(?:{re.escape(name)}|(?:{re.escape(name)}\W+)?(?:tool|function))"
    asks = rf"\W*(?:please\W+)?(?:call|use|run)\W+{which}(?:\W+(?:now|please))?\W*"
    return [ModelCall(name, {})] if re.fullmatch(asks, newest.text, re.IGNORECASE) else []


def _chosen(
    request: ChatRequest, proposed: Sequence[ModelCall], schemas: Mapping[str, JsonObject]
) -> tuple[ModelCall, ...]:
    """The proposed calls, as `tool_choice` and the tools' schemas will have them."""
    calls = proposed
    if name := request.demanded:
        calls = [call for call in calls if call.name == name] or [ModelCall(name, {})]
    elif request.tool_choice == "required" and not calls:
        calls = [ModelCall("Question" if "Question" in schemas else next(iter(schemas)), {})]
    return tuple(ModelCall(call.name, fit(call.arguments, schemas[call.name])) for call in calls)


def _text(request: ChatRequest) -> str:
    form = request.response_format or {"type": "text"}
    if form["type"] == "text":
        return SELF_DESCRIPTION
    wanted = form.get("json_schema")
    if wanted is None:
        return json.dumps({"message": SELF_DESCRIPTION})
    schema = wanted.get("schema", {})
    match wanted["name"]:
        case "triage":
            value = triage(request.messages)
        case "rule_change":
            value = rule_change(request.messages)
        case "policy":
            value = policy(request.messages, schema)
        case _:
            value = example(schema)
    return json.dumps(value, ensure_ascii=False)
