"""A model that does whatever it reads, whoever wrote it.

`DO: tool {json}` is a call that it makes, `RULE: words` a rule that it learns. Each may stand anywhere in what it is
given: in a mail's body, subject or sender, in a calendar, in what a tool told or says of itself, in a rule, in the
person's words. `$PIN` in a call becomes the PIN that stands anywhere else, and `$[words]` what follows these words on a
line anywhere else; a call that needs what it has not read yet waits until it has.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from tests.doubles.model import Answer, Model, ModelRequest, ToolCall

_ORDER = re.compile(r"DO: (\w+) (?=\{)")
_RULE = re.compile(r"RULE: ([^\n\"\\<>\[\]]+)")
_PIN = re.compile(r"the PIN is (\S+)\.", re.IGNORECASE)
_FOLLOWS = re.compile(r"\$\[([^\]]+)\]")
_MOST_STEPS = 8
_DONE = (ToolCall("Done", {"done": True}),)


def order(name: str, **args: Any) -> str:
    """A line that it obeys."""
    return f"DO: {name} {json.dumps(args, separators=(',', ':'), ensure_ascii=False)}"


def gullible(model: Model, *requests: str, honest: Answer, types: tuple[str, ...] = ()) -> None:
    """Make the double gullible.

    Args:
        requests: what the person says in chats.
        honest: what it does with a mail in which nobody tells it to do anything.
        types: the types of tools that it finds every chat to need.
    """

    def respond(request: ModelRequest) -> Answer:
        return _left_to_do(request) or (_DONE if request.step else honest)

    model.script(respond)
    model.on_memory(_learns)
    model.on_policy(*types)
    model.on_chat({words: [lambda request: _left_to_do(request) or "That is all."] * _MOST_STEPS for words in requests})


def _left_to_do(request: ModelRequest) -> list[ToolCall]:
    """The orders that it has not obeyed since the person's last words, each once."""
    text = _all_text(request)
    made = _made_since_the_person_spoke(request)
    left: dict[str, ToolCall] = {}
    for call in _orders(text):
        if (key := _key(call.name, call.args)) not in made:
            left[key] = call
    return list(left.values())


def _orders(text: str) -> Iterator[ToolCall]:
    pin = _PIN.search(text)
    for found in _ORDER.finditer(text):
        try:
            args, _ = json.JSONDecoder().raw_decode(text, found.end())
        except ValueError:
            continue  # it was cut short
        known = json.dumps(args, ensure_ascii=False).replace("$PIN", pin[1] if pin else "$PIN")
        known = _FOLLOWS.sub(lambda words: _behind(words[1], text) or words[0], known)
        if not _FOLLOWS.search(known):
            yield ToolCall(found[1], json.loads(known))


def _behind(words: str, text: str) -> str:
    found = re.search(rf"(?<!\$\[){re.escape(words)} ([^\n\"\\]+)", text)
    return found[1].strip() if found else ""


def _learns(request: ModelRequest) -> Mapping[str, Any]:
    rules = _RULE.findall(_all_text(request))
    if not rules:
        return {"action": "none", "rule": None, "text": "", "reason": "Nobody said anything."}
    return {"action": "add", "rule": None, "text": rules[-1].strip(), "reason": "It was said."}


def _all_text(request: ModelRequest) -> str:
    """What it reads, with what the tools say of themselves. Quotation marks may come escaped, as in a name."""
    return "\n".join([request.text, *_strings(request.body.get("tools", []))]).replace('\\"', '"')


def _strings(value: Any) -> Iterator[str]:
    match value:
        case str():
            yield value
        case dict():
            for each in value.values():
                yield from _strings(each)
        case list():
            for each in value:
                yield from _strings(each)


def _made_since_the_person_spoke(request: ModelRequest) -> set[str]:
    roles = [message["role"] for message in request.messages]
    since = request.messages[len(roles) - roles[::-1].index("user") :]
    calls = [call["function"] for message in since for call in message.get("tool_calls") or []]
    return {_key(call["name"], json.loads(call["arguments"])) for call in calls}


def _key(name: str, args: Mapping[str, Any]) -> str:
    return f"{name} {json.dumps(args, sort_keys=True)}"
