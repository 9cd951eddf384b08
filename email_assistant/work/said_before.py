"""What a chat remembers of its earlier turns, as the next one is told it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage

from email_assistant.db.lease import Lease
from email_assistant.model.context import shortened
from email_assistant.outgoing.effects import Ledger
from email_assistant.outgoing.entry import Effect
from email_assistant.work.invoke import Invoker
from email_assistant.work.rows import RunRow
from email_assistant.work.turns import Turns

_REMEMBERED = 24_000
"""Characters of earlier turns that the agent is told of."""
_UNHEARD = 20
"""Requests that no model has heard, as it was down, and that the next one is told of."""
_SET_ASIDE = "Not done: the person asked for something else instead."
_BROKEN_OFF = "Not done: this was broken off before."
_NOT_KNOWN = "Not known: this was broken off, and may have been done."


@dataclass(frozen=True)
class SaidBefore:
    turns: Turns
    ledger: Ledger
    invoker: Invoker

    async def opening(self, lease: Lease, turn: RunRow) -> list[AnyMessage]:
        """What the turn's graph begins with: what was said before, cut to a length, and the request."""
        return [*_cut(await self._before(lease, turn)), HumanMessage(turn.input["request"])]

    async def _before(self, lease: Lease, turn: RunRow) -> list[AnyMessage]:
        """The messages of the last turn that left any: they hold those of earlier turns. A turn that was set aside or
        broke off leaves calls without an answer, which no model takes."""
        if turn.attempt == 1:
            return []
        last = await self.turns.last_begun(lease.thread_id, turn.attempt)
        begun = last.attempt if last else 0
        late = reversed(await self.turns.newest(lease.thread_id, _UNHEARD + 1))
        unheard = [HumanMessage(each.input["request"]) for each in late if begun < each.attempt < turn.attempt]
        if last is None:
            return [*unheard]
        messages = (await self.invoker.state(last.id, lease))["messages"]
        told = {each.call_id: _told(each) for each in await self.ledger.of_run(last.id)}
        otherwise = _SET_ASIDE if last.state == "superseded" else _BROKEN_OFF
        return [*_all_answered(messages, told, otherwise), *unheard]


def _told(effect: Effect) -> str:
    """What came of a call that changes something, where its turn ended before the model was told."""
    match effect.state:
        case "started" | "unknown":
            return _NOT_KNOWN
        case "planned":
            return _BROKEN_OFF
        case _:
            return effect.result or ""


def _all_answered(messages: Sequence[AnyMessage], told: Mapping[str, str], otherwise: str) -> list[AnyMessage]:
    """The messages, where every call of the last one has its answer."""
    last = messages[-1]
    calls = last.tool_calls if isinstance(last, AIMessage) else []
    if isinstance(last, AIMessage) and not calls and not last.text:
        return list(messages[:-1])  # some servers take no empty message
    return [
        *messages,
        *(
            ToolMessage(told.get(str(call["id"]), otherwise), tool_call_id=call["id"], name=call["name"])
            for call in calls
        ),
    ]


def _cut(messages: Sequence[AnyMessage]) -> list[AnyMessage]:
    """The last whole turns among the messages that aren't too long together; what tools told is shortened in a last one
    that is too long alone."""
    kept: list[AnyMessage] = []
    turn: list[AnyMessage] = []
    for message in reversed(messages):
        turn.insert(0, message)
        if isinstance(message, HumanMessage):
            if kept and _length(turn + kept) > _REMEMBERED:
                break
            kept, turn = turn + kept, []
            if (length := _length(kept)) > _REMEMBERED:
                kept = shortened(kept, _REMEMBERED / length) or kept
    return kept


def _length(messages: Sequence[AnyMessage]) -> int:
    return sum(len(message.text) + len(str(getattr(message, "tool_calls", ""))) for message in messages)
