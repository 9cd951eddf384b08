"""What becomes of a model's calls: by how they were judged, by what the person answered, and by each other."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, ToolCall, ToolMessage

from email_assistant.agents.agent import Decided, Judged, Ran, Word
from email_assistant.mail.charset import cut, one_line
from email_assistant.outgoing.entry import Effect

_ERROR = "Error: "
_DONE = "Done already, by an earlier call that came to the same; not done again. "
_MOST_OF_A_REASON = 200  # characters
_FOR_THE_MODEL = re.compile(r"[\w.]+(?:, [\w.]+)*: |\w+ may not be used|.*\b(?:IANA|JSON|NUL)\b", re.DOTALL)
"""A refusal that names arguments, tools or formats: it tells the model what to mend, and a person nothing."""
_UNUSABLE = "what the assistant wanted to do could not be done as it had put it"
_IGNORED = "The person ignored this; nothing was done."
_PART_REFUSED = "another part of this proposal can't be done, and this may speak of it"


def without_asking(verdict: Judged) -> Decided:
    """Of a call about which no person is asked."""
    assert verdict["kind"] != "ask"
    return Decided(do=verdict["kind"], args=verdict["args"], text=verdict["text"], asked=False, edited=False)


def decided_by(args: dict[str, Any], answer: Mapping[str, Any], place: str) -> Decided:
    """The answer of a person. Raises ValueError: its type is none that there is."""
    match answer["type"]:
        case "accept":
            return Decided(do="run", args=args, text="", asked=True, edited=False, place=place)
        case "edit":
            return Decided(do="run", args=answer["args"], text="", asked=True, edited=True, place=place)
        case "response":
            anew = bool(answer.get("anew"))
            return Decided(do="answer", args=args, text=answer["args"], asked=True, edited=False, anew=anew)
        case "ignore":
            return Decided(do="stop", args=args, text=_IGNORED, asked=True, edited=False)
        case other:
            raise ValueError(f"unknown answer {other!r}")


def with_last_word(decision: Decided, effect: Effect) -> Decided:
    """The decision after the person's last word on the effect that came of it."""
    if decision["do"] != "run" or not decision["asked"]:
        return decision
    if effect.left_as == "refused":
        return Decided(do="stop", args=effect.args, text=_IGNORED, asked=True, edited=False)
    edited = decision["edited"] or effect.args != decision["args"]
    place = decision["place"] if effect.place is None else effect.place
    return Decided(do="run", args=effect.args, text="", asked=True, edited=edited, place=place)


def done_already(verdict: Judged, result: str) -> Judged:
    """What becomes of a call that comes to the same as one that was carried out, of which this is what came."""
    return Judged(kind="done", args=verdict["args"], text=f"{_DONE}{result}")


def repeats_itself(decisions: Mapping[str, Decided], before: Sequence[AnyMessage]) -> bool:
    """Whether a model that was told of a repeat has proposed nothing but repeats once more."""
    was_told = any(isinstance(m, ToolMessage) and m.text.startswith(_DONE) for m in before)
    return was_told and {each["do"] for each in decisions.values()} <= {"done", "same"}


def same_calls(judged: Sequence[tuple[ToolCall, Judged]]) -> dict[str, Decided]:
    """What becomes of the calls that come to the same as one before them in their message: the same, and once."""
    firsts: dict[str, str] = {}
    same: dict[str, Decided] = {}
    for call, verdict in judged:
        if verdict["kind"] == "refuse":
            continue
        means = json.dumps([call["name"], verdict.get("means", verdict["args"])], sort_keys=True)
        first = firsts.setdefault(means, str(call["id"]))
        if first != str(call["id"]):
            same[str(call["id"])] = Decided(do="same", args=verdict["args"], text=first, asked=False, edited=False)
    return same


def beside_refused(verdict: Judged, judged: Sequence[tuple[ToolCall, Judged]]) -> Judged:
    """The verdict of a call that is asked, with the first refusal in its message: a letter may say that it was done."""
    refused = next((each["text"] for _, each in judged if each.get("acts")), "")
    if not refused:
        return verdict
    why = ": ".join(filter(None, [_PART_REFUSED, _in_plain_words(refused)]))
    return verdict | Judged(kind="ask", args=verdict["args"], text="; ".join(filter(None, [verdict["text"], why])))


def with_edits(message: AIMessage, decisions: Mapping[str, Decided]) -> AIMessage:
    """The message as the person left it; with the same id it takes the place of the model's."""
    calls = [
        ToolCall(name=c["name"], args=decisions[str(c["id"])]["args"], id=c["id"], type="tool_call")
        if decisions[str(c["id"])]["edited"]
        else c
        for c in message.tool_calls
    ]
    return AIMessage(message.content, id=message.id, tool_calls=calls, usage_metadata=message.usage_metadata)


def last_word(before: Word, decisions: Mapping[str, Decided], ran: Mapping[str, Ran]) -> Word:
    """The person's last word on a run, once the calls of a message were carried out."""
    does = {each["do"] for each in decisions.values() if each["asked"]}
    if before == "decided" or does & {"run", "stop"}:
        return "decided"
    if "answer" in does:
        return "" if any(each.get("anew") for each in decisions.values()) else "told"
    is_refused = any(each["do"] == "refuse" for each in decisions.values()) or not all(
        each.well for each in ran.values()
    )
    return "" if before == "told" and is_refused else before


def why_nothing(messages: Sequence[AnyMessage]) -> str:
    """Why nothing was proposed: how the model's last call was refused; empty if none was."""
    refused = (str(m.text) for m in reversed(messages) if isinstance(m, ToolMessage) and m.text.startswith(_ERROR))
    last = next(refused, "")
    return last and (_in_plain_words(last) or _UNUSABLE)


def _in_plain_words(refusal: str) -> str:
    """A refusal as a card tells it; empty where its words are the model's alone."""
    said = refusal.removeprefix(_ERROR)
    return "" if _FOR_THE_MODEL.match(said) else cut(one_line(said), _MOST_OF_A_REASON)
