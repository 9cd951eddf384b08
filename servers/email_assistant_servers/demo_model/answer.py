"""Tell by its protocol what a request wants, and answer it."""

import json
import re
from collections.abc import Sequence
from typing import Any

from . import agent, chat
from .protocol import ChatRequest, JsonObject, ModelAnswer, ModelCall, PromptMessage
from .reading import read_mails, read_person
from .wording import PATTERNS, SELF_DESCRIPTION, by_rule, canned, sentence

_CALL_THE_TOOL = re.compile(r"\W*(?:please )?call the (?:\w+ )?tool\W*", re.IGNORECASE)
_NAMED_SENDER = re.compile(r"(?<![\w.@+-])[\w.@+-]+\.\w+")
_NUMBERED_RULE = re.compile(r"^[ \t]*(\d+)[.)][ \t]+(\S.*)$", re.MULTILINE)
_EXAMPLES = {"string": SELF_DESCRIPTION, "array": [], "integer": 0, "number": 0, "boolean": False}


def answer(request: ChatRequest) -> ModelAnswer:
    """The answer to a request: tool calls where tools are offered and called for, else text in the wanted format."""
    schemas, newest = request.schemas, request.messages[-1]
    if not schemas or request.tool_choice == "none":
        return ModelAnswer(_text(request))
    if chat.CLARIFY in schemas:  # no other agent has it
        proposed = chat.next_message(request.messages, frozenset(schemas))
    else:
        proposed = ModelAnswer(calls=tuple(agent.next_calls(request.messages, frozenset(schemas))))
    is_told = len(schemas) == 1 and newest.role == "user" and _CALL_THE_TOOL.fullmatch(newest.text)
    if not proposed.calls and (is_told or request.tool_choice == "required"):
        name = "Question" if "Question" in schemas else next(iter(schemas), "")
        proposed = ModelAnswer(calls=(ModelCall(name, {}),))
    if not proposed.calls:
        return ModelAnswer(proposed.text or _text(request))
    return ModelAnswer(
        calls=tuple(ModelCall(each.name, _fit(each.arguments, schemas[each.name])) for each in proposed.calls)
    )


def _text(request: ChatRequest) -> str:
    form = request.response_format
    if form is None or form.type == "text":
        return SELF_DESCRIPTION
    if form.json_schema is None:
        return json.dumps({"message": SELF_DESCRIPTION})
    schema, value = form.json_schema.definition, JsonObject()
    match form.json_schema.name:
        case "triage":
            value = _triage(request.messages)
        case "rule_change":
            value = _rule_change("\n".join(message.text for message in request.messages if message.role == "user"))
        case "policy":
            value = chat.policy(request.messages, schema)
    return json.dumps(_fit(value, schema), ensure_ascii=False)


def _fit(value: JsonObject, schema: JsonObject) -> JsonObject:
    """`value` without the fields that an object schema does not name, and with an example for each missing one."""
    fields = schema.get("properties", {})
    missing = {name: _example(fields[name]) for name in schema.get("required", []) if name in fields}
    return missing | {name: given for name, given in value.items() if name in fields}


def _example(schema: JsonObject) -> Any:
    """The plainest value that a schema allows, as far as it needs no reference to be followed."""
    if options := schema.get("enum"):
        return options[0]
    if options := schema.get("anyOf"):
        return _example(options[0])
    kind = str(schema.get("type", "object"))
    return _EXAMPLES.get(kind) if kind != "object" else _fit({}, schema)


def _triage(messages: Sequence[PromptMessage]) -> JsonObject:
    """A class for the last mail, and the reason. The person's own preferences come first, the newest before others."""
    mails = [mail for message in messages if message.role == "user" for mail in read_mails(message.text)]
    if not mails:
        return {"reasoning": "The request holds no mail.", "classification": "notify"}
    mail = mails[-1]
    for rule in reversed(read_person(messages).rules):
        named = {name.lower().strip(".@") for name in _NAMED_SENDER.findall(rule)}
        wanted = by_rule("preferences", _NAMED_SENDER.sub("", rule))
        if wanted and named & {mail.sender, mail.sender.partition("@")[2]}:
            return {"reasoning": f"Your preference: {rule}", "classification": wanted["class"]}
    head = "".join(f"{name}: {mail.headers.get(name.lower(), '')}\n" for name in ("From", "Subject"))
    found = canned(mail.sender, mail.new_text) or by_rule("triage", head + mail.new_text)
    return {"reasoning": found["why"], "classification": found.get("class", "respond")}


def _rule_change(prompt: str) -> JsonObject:
    """Add or revise one rule that follows from the event, or change nothing."""
    lesson = by_rule("lessons", prompt)
    text, reason = lesson["rule"] and sentence(lesson["rule"]), lesson["why"]
    rules = {rule.strip(): int(number) for number, rule in _NUMBERED_RULE.findall(prompt)}
    if text in rules:
        text, reason = "", "There is such a rule already."
    kind = PATTERNS["rule_kind"].match(text)
    alike = [number for rule, number in rules.items() if kind and rule.lower().startswith(kind[0].lower())]
    action = "revise" if alike else "add" if text else "none"
    return {"action": action, "rule": alike[0] if alike else None, "text": text, "reason": reason}
