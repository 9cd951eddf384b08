"""Tell by its protocol what a request wants, and answer it."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from email_assistant_servers.demo_model.agent import next_calls
from email_assistant_servers.demo_model.chat.conversation import CLARIFY
from email_assistant_servers.demo_model.chat.policy import policy
from email_assistant_servers.demo_model.chat.turn import next_message
from email_assistant_servers.demo_model.memory import rule_change
from email_assistant_servers.demo_model.protocol import (
    Answer,
    Call,
    ChatRequest,
    JsonSchema,
    Message,
    NamedChoice,
    ToolChoice,
)
from email_assistant_servers.demo_model.schema import SELF_DESCRIPTION, example, fit
from email_assistant_servers.demo_model.triage import triage


def answer(request: ChatRequest) -> Answer:
    """The answer to a request: tool calls where tools are offered and called for, else text in the wanted format."""
    schemas = {tool.function.name: tool.function.parameters for tool in request.tools or []}
    if not schemas or request.tool_choice == "none":
        return Answer(text=_text(request))
    proposed = _next_message(request, schemas)
    calls = _chosen(request.tool_choice, proposed.calls, schemas)
    if not calls:
        return Answer(text=proposed.text or _text(request))
    return Answer(calls=calls if request.parallel_tool_calls else calls[:1])


def _next_message(request: ChatRequest, schemas: Mapping[str, dict[str, Any]]) -> Answer:
    """The chat agent is known by a tool that no other has."""
    tools = frozenset(schemas)
    if CLARIFY in tools:
        return next_message(request.messages, tools)
    return Answer(calls=tuple(next_calls(request.messages, tools) or _asked_for(request.messages[-1], schemas)))


def _asked_for(newest: Message, schemas: Mapping[str, dict[str, Any]]) -> list[Call]:
    """The call of the only tool, if the person's message asks for that and no more, and it can be made without more."""
    (name, schema), *others = schemas.items()
    if others or schema.get("required") or newest.role != "user":
        return []
    which = rf"(?:(?:the|this|that|your)\W+)?(?:{re.escape(name)}|(?:{re.escape(name)}\W+)?(?:tool|function))"
    asks = rf"\W*(?:please\W+)?(?:call|use|run)\W+{which}(?:\W+(?:now|please))?\W*"
    return [Call(name, {})] if re.fullmatch(asks, newest.text, re.IGNORECASE) else []


def _chosen(choice: ToolChoice, proposed: Sequence[Call], schemas: Mapping[str, dict[str, Any]]) -> tuple[Call, ...]:
    """The proposed calls, as `tool_choice` and the tools' schemas will have them."""
    calls = proposed
    if isinstance(choice, NamedChoice):
        name = choice.function.name
        calls = [call for call in calls if call.name == name] or [Call(name, {})]
    elif choice == "required" and not calls:
        calls = [Call("Question" if "Question" in schemas else next(iter(schemas), ""), {})]
    return tuple(Call(call.name, fit(call.arguments, schemas[call.name])) for call in calls)


def _text(request: ChatRequest) -> str:
    wanted = request.response_format
    if wanted is None or wanted.type == "text":
        return SELF_DESCRIPTION
    if wanted.json_schema is None:
        return json.dumps({"message": SELF_DESCRIPTION})
    return json.dumps(_structured(request.messages, wanted.json_schema), ensure_ascii=False)


def _structured(messages: Sequence[Message], wanted: JsonSchema) -> Any:
    match wanted.name:
        case "triage":
            return triage(messages)
        case "rule_change":
            return rule_change(messages)
        case "policy":
            return policy(messages, wanted.schema_)
        case _:
            return example(wanted.schema_)
