"""Propose → decide → act: the only functions in which tools run. Each agent's `graph.py` names and wires them.

LangGraph runs a node again from its top after an interrupt or a crash. So proposing, deciding and acting are separate
steps: no step before `act` has an effect, each question to a person is a task of its own, and `act` goes through the
ledger, which makes a repeat harmless.
"""

import secrets
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, Protocol, TypedDict

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolCall, ToolMessage
from langchain_core.runnables import RunnableConfig
from langgraph.graph import END
from langgraph.graph.message import add_messages
from langgraph.types import Command, Send, interrupt

REMINDER = "Answer with a tool call."
UNREADABLE = "invalid"
"""Name given to a call without a usable name or arguments."""


class StepBudgetSpent(RuntimeError):
    """The run made as many model calls as it may."""


class Verdict(TypedDict):
    """What is to become of a call before a person is asked: run it, ask, or answer it with `text`."""

    kind: Literal["run", "ask", "say"]
    args: dict[str, Any]
    text: str


class Decision(TypedDict):
    """What `act` does with a call: run it, answer it with `text`, or answer it with what the person said.

    `stop` ends the run after its accepted siblings ran, unless the person said something about another.
    """

    do: Literal["run", "say", "answer", "stop"]
    args: dict[str, Any]
    text: str
    edited: bool


def _merge(old: dict[str, Decision] | None, new: dict[str, Decision] | None) -> dict[str, Decision]:
    return {} if new is None else {**(old or {}), **new}


class LoopState(TypedDict, total=False):
    run: dict[str, Any]
    """The run's own data; plain JSON, since custom classes come back from a checkpoint as dicts."""
    messages: Annotated[list[AnyMessage], add_messages]
    decisions: Annotated[dict[str, Decision], _merge]
    steps: int


class CallState(TypedDict):
    """Input of one `interrupt_handler` task."""

    run: dict[str, Any]
    call: ToolCall
    verdict: Verdict
    teaches: bool


class Propose(Protocol):
    def __call__(self, state: LoopState) -> Awaitable[AIMessage]: ...


class Judge(Protocol):
    """Validate a call and decide whether it runs, needs a person, or is answered at once."""

    def __call__(self, run: Mapping[str, Any], name: str, args: dict[str, Any]) -> Awaitable[Verdict]: ...


class RunTool(Protocol):
    """Run one decided call. Returns (what came of it, whether it was done); raises to come back later."""

    def __call__(
        self, run: Mapping[str, Any], call_id: str, name: str, args: dict[str, Any], config: RunnableConfig
    ) -> Awaitable[tuple[str, bool]]: ...


class Question(Protocol):
    """The value of the interrupt that asks a person about a call."""

    def __call__(self, name: str, args: dict[str, Any], call_id: str, teaches: bool) -> dict[str, Any]: ...


@dataclass(frozen=True)
class Loop:
    propose: Propose
    judge: Judge
    run_tool: RunTool
    question: Question
    ask_tool: str
    """Tool that puts a text to the person: what a model's plain text is turned into."""
    done_tool: str
    finish: str
    """Node to go to when the done tool was called."""
    max_steps: int
    """Model calls a run may make."""
    again: str = field(default="llm_call")

    async def llm_call(self, state: LoopState) -> dict[str, Any]:
        """Propose. Call ids are minted here, since some servers repeat theirs and the ledger goes by them."""
        steps = state.get("steps", 0) + 1
        if steps > self.max_steps:
            raise StepBudgetSpent(f"the assistant needed more than {self.max_steps} steps")
        answer = await self.propose(state)
        message = AIMessage(answer.text, tool_calls=_readable_calls(answer), usage_metadata=answer.usage_metadata)
        return {"messages": [message], "decisions": None, "steps": steps}

    async def plan(self, state: LoopState) -> Command[str]:
        """Judge every call once, in order; the verdicts are checkpointed with the tasks they are sent to."""
        message = state["messages"][-1]
        assert isinstance(message, AIMessage)
        if message.tool_calls:
            return Command(goto=[await self._task(state["run"], call, teaches=True) for call in message.tool_calls])
        if not _was_reminded(state["messages"]):
            return Command(goto=self.again, update={"messages": [HumanMessage(REMINDER)]})
        call = ToolCall(
            name=self.ask_tool, args={"content": message.text or "(no answer)"}, id=_new_id(), type="tool_call"
        )
        asking = AIMessage("", id=message.id, tool_calls=[call], usage_metadata=message.usage_metadata)
        return Command(goto=[await self._task(state["run"], call, teaches=False)], update={"messages": [asking]})

    async def interrupt_handler(self, state: CallState) -> dict[str, Any]:
        """Decide one call; asks at most once and does nothing else."""
        call, verdict = state["call"], state["verdict"]
        if verdict["kind"] == "ask":
            answer = interrupt(self.question(call["name"], verdict["args"], str(call["id"]), state["teaches"]))
            decision = _decide(verdict["args"], answer)
        else:
            decision = Decision(do=verdict["kind"], args=verdict["args"], text=verdict["text"], edited=False)
        return {"decisions": {call["id"]: decision}}

    async def act(self, state: LoopState, config: RunnableConfig) -> Command[str]:
        """Run what was decided, in the order of the message; one tool message per call."""
        message, decisions = state["messages"][-1], state["decisions"]
        assert isinstance(message, AIMessage)
        answers: list[AnyMessage] = []
        failed = False
        for call in message.tool_calls:
            decision = decisions[str(call["id"])]
            text, well = decision["text"], True
            if decision["do"] == "run":
                text, well = await self.run_tool(state["run"], str(call["id"]), call["name"], decision["args"], config)
            failed = failed or not well
            answers.append(ToolMessage(text, tool_call_id=call["id"], name=call["name"]))
        if any(d["edited"] for d in decisions.values()):
            answers.insert(0, _with_edits(message, decisions))
        return Command(goto=self._next(message.tool_calls, decisions, failed), update={"messages": answers})

    def _next(self, calls: Sequence[ToolCall], decisions: Mapping[str, Decision], failed: bool) -> str:
        does = {decisions[str(call["id"])]["do"] for call in calls}
        if failed or "answer" in does:
            return self.again
        if "stop" in does:
            return END
        if "say" not in does and any(call["name"] == self.done_tool for call in calls):
            return self.finish
        return self.again

    async def _task(self, run: dict[str, Any], call: ToolCall, *, teaches: bool) -> Send:
        if call["name"] == UNREADABLE:
            verdict = Verdict(kind="say", args={}, text="This call had no usable name or its arguments were not JSON.")
        else:
            verdict = await self.judge(run, call["name"], call["args"])
        return Send("interrupt_handler", CallState(run=run, call=call, verdict=verdict, teaches=teaches))


def _readable_calls(answer: AIMessage) -> list[ToolCall]:
    """All calls of a model's answer under ids of our own.

    Arguments that aren't JSON land in `invalid_tool_calls`, yet are sent back as a tool call; they need an answer too.
    """
    calls = [(c["name"], c["args"]) for c in answer.tool_calls]
    calls += [(UNREADABLE, {"call": f"{c['name']}: {c['args']}"}) for c in answer.invalid_tool_calls]
    return [ToolCall(name=name or UNREADABLE, args=args, id=_new_id(), type="tool_call") for name, args in calls]


def _new_id() -> str:
    return f"call_{secrets.token_hex(12)}"


def _was_reminded(messages: Sequence[AnyMessage]) -> bool:
    return len(messages) > 1 and isinstance(messages[-2], HumanMessage) and messages[-2].text == REMINDER


def _decide(args: dict[str, Any], answer: Mapping[str, Any]) -> Decision:
    match answer["type"]:
        case "accept":
            return Decision(do="run", args=args, text="", edited=False)
        case "edit":
            return Decision(do="run", args=answer["args"], text="", edited=True)
        case "response":
            return Decision(do="answer", args=args, text=answer["args"], edited=False)
        case "ignore":
            return Decision(do="stop", args=args, text="The person ignored this; nothing was done.", edited=False)
        case other:
            raise ValueError(f"unknown answer {other!r}")


def _with_edits(message: AIMessage, decisions: Mapping[str, Decision]) -> AIMessage:
    """The message as the person left it; with the same id it takes the place of the model's."""
    calls = [
        ToolCall(name=c["name"], args=decisions[str(c["id"])]["args"], id=c["id"], type="tool_call")
        if decisions[str(c["id"])]["edited"]
        else c
        for c in message.tool_calls
    ]
    return AIMessage(message.content, id=message.id, tool_calls=calls, usage_metadata=message.usage_metadata)
