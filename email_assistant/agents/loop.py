"""Propose → decide → act: the only functions in which tools run. An agent that asks a person names and wires them in
its `graph.py`; for one that asks nobody, `Loop.graph` does.

LangGraph runs a node again from its top after an interrupt or a crash. So proposing, deciding and acting are separate
steps: no step before `act` has an effect, each question to a person is a task of its own, and `act` goes through the
ledger, which makes a repeat harmless.

What a person must decide goes to them stage by stage; `plan` stands between the stages, and goes on to `act` when every
call of the message is decided.
"""

import asyncio
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolCall, ToolMessage
from langchain_core.runnables import RunnableConfig
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Command, Overwrite, Send, interrupt

from email_assistant.agents.agent import (
    Agent,
    CallState,
    Changed,
    Decided,
    FormField,
    Judged,
    LoopState,
    Ran,
    ToRun,
    described,
    filled_in,
)
from email_assistant.agents.call_outcomes import (
    beside_refused,
    decided_by,
    done_already,
    last_word,
    repeats_itself,
    same_calls,
    why_nothing,
    with_edits,
    with_last_word,
    without_asking,
)
from email_assistant.errors import AssistantError
from email_assistant.gate.policy import GateSession
from email_assistant.mail.charset import readable
from email_assistant.model.structured import answer_in
from email_assistant.outgoing.entry import OURS, Effect
from email_assistant.spans import in_span
from email_assistant.tools.config import moved
from email_assistant.tools.control import CLARIFICATION, is_no_question
from email_assistant.tools.spec import FormNeeded, ToolError, check_storable

REMINDER = "Answer with a tool call."
_CONFIRM_NOW = "Error: not done. The person must confirm this now: propose it again."
_NOT_JSON = "This call had no usable name or its arguments were not JSON."
UNREADABLE = "invalid"
"""Name given to a call without a usable name or arguments."""


class StepBudgetSpent(AssistantError):
    """The run made as many model calls as it may."""


@dataclass(frozen=True)
class Loop:
    """The steps, and the names that the agent's graph gives their nodes."""

    agent: Agent
    ask_tool: str | None
    """Tool that puts a text to the person: what a model's plain text is turned into. None: such a text is the answer,
    and ends the run."""
    done_tool: str | None = None
    finish: str = END
    """Node to go to when the done tool was called, or another call ended the run."""
    stages: Sequence[str] = ("interrupt_handler",)
    """Nodes that ask a person, in the order in which the calls of one message come to them."""
    stage_of: Mapping[str, str] = field(default_factory=dict)
    """The node that asks about a tool; those that are not named go to the last stage."""
    ignore_ends: bool = True
    """Whether the run ends when the person ignores a call; else the model is told so."""
    together: bool = True
    """Whether the calls of a message are one proposal: where the server of one that the person decided is down, those
    behind it wait for it."""
    again: str = "llm_call"
    acts: str = "act"
    on_link: str = END

    def graph(self) -> "CompiledStateGraph[Any, Any, Any, Any]":
        """Of an agent that asks no person: it proposes, has it done, and proposes again."""
        graph = StateGraph(LoopState)
        graph.add_node(self.again, self.llm_call, destinations=(self.acts, END))
        graph.add_node(self.acts, self.act, destinations=(self.again, END))
        graph.add_edge(START, self.again)
        return graph.compile()

    @in_span("propose")
    async def llm_call(self, state: LoopState, config: RunnableConfig) -> Command[str]:
        """Propose, and judge what was proposed: both are stored together, before anybody is asked or anything acts.

        Call ids are minted here, since some servers repeat theirs and the ledger goes by them.
        """
        steps = state.get("steps", 0) + 1
        if steps > self.agent.max_steps:
            return await self._give_up(state)
        answer = await self.agent.propose(state)
        text, calls = readable(answer_in(answer.text)), _readable_calls(answer)
        says_nothing = not calls and (not text.strip() or is_no_question(text))
        if self.done_tool and says_nothing and _was_reminded(state["messages"]):
            calls = [ToolCall(name=self.done_tool, args={}, id=_new_id(), type="tool_call")]
        message = AIMessage(text, id=_new_id(), tool_calls=calls, usage_metadata=answer.usage_metadata)
        if message.tool_calls:
            goto, settled = await self._judged(state["run"], message, {}, config)
            said: list[AnyMessage] = [message]
        else:
            goto, said = self._plain_text(state["messages"], message)
            settled = {}
        update = {"messages": said, "decisions": Overwrite(settled), "fields": {}, "steps": steps}
        return Command(goto=goto, update=update)

    async def _give_up(self, state: LoopState) -> Command[str]:
        """Raises StepBudgetSpent: nothing was to be answered, or something of it was decided or done already."""
        spent = f"the assistant needed more than {self.agent.max_steps} steps"
        blank = await self.agent.to_write(state["run"]) if self.done_tool else None
        if blank is None or state.get("word") == "decided":
            raise StepBudgetSpent(spent)
        return self._ask_to_write(*blank, why_nothing(state["messages"]) or spent, [])

    async def plan(self, state: LoopState, config: RunnableConfig) -> Command[str]:
        """What comes after the person has decided all calls of a stage: the next stage, or acting."""
        message = state["messages"][-1]
        assert isinstance(message, AIMessage)
        goto, settled = await self._judged(state["run"], message, state["decisions"], config)
        return Command(goto=goto, update={"decisions": settled})

    async def _judged(
        self, run: dict[str, Any], message: AIMessage, decided: Mapping[str, Decided], config: RunnableConfig
    ) -> tuple[str | list[Send], dict[str, Decided]]:
        """Judge the calls that are not decided. Those of the first stage that has any go to the person; what needs no
        person is decided when nothing else is left, so that it is judged by what holds then."""
        undecided = [call for call in message.tool_calls if str(call["id"]) not in decided]
        session = await self.agent.session(run, undecided, config)
        judged: list[tuple[ToolCall, Judged]] = []
        for call in message.tool_calls:
            if (decision := decided.get(str(call["id"]))) is None:
                verdict = await self._verdict(run, call, session)
                if (result := await self.agent.done_before(run, call["name"], verdict)) is not None:
                    verdict = done_already(verdict, result)
                judged.append((call, verdict))
            if (decision["do"] if decision else verdict["kind"]) == "run":
                args, approved = (decision or verdict)["args"], decision is not None and decision["asked"]
                noted = await asyncio.to_thread(self.agent.noted, session, call["name"], args, approved=approved)
                session = session.then(noted)
        same = same_calls(judged)
        judged = [(call, v) for call, v in judged if str(call["id"]) not in same]
        asked = [(ToolCall(**{**call, "args": v["args"]}), v) for call, v in judged if v["kind"] == "ask"]
        for stage in self.stages:
            if of_stage := [each for each in asked if self._stage(each[0]) == stage]:
                return [self._asking(stage, call, message, beside_refused(v, judged)) for call, v in of_stage], same
        return self.acts, same | {str(call["id"]): without_asking(v) for call, v in judged}

    async def interrupt_handler(self, state: CallState) -> dict[str, Any]:
        """Ask a person about one call; nothing else."""
        call = state["call"]
        question = self.agent.question(call["name"], call["args"], str(call["id"]), state["teaches"])
        answer = interrupt(
            {
                **question,
                "group": state["group"],
                "because": state.get("because") or None,
                "again": state.get("again"),
            }
        )
        return {"decisions": {call["id"]: decided_by(call["args"], answer, state.get("place", OURS))}}

    @in_span("act")
    async def act(self, state: LoopState, config: RunnableConfig) -> Command[str]:
        """Run what was decided, in the order of the message; one tool message per call."""
        message, begun = state["messages"][-1], await self._begun(state)
        assert isinstance(message, AIMessage)
        decisions = {
            i: with_last_word(each, begun[i]) if i in begun else each for i, each in state["decisions"].items()
        }
        if anew := self._ask_anew(message, state["decisions"], decisions, begun):
            return anew
        judged = [call for call in message.tool_calls if self._is_judged(call["name"], decisions[str(call["id"])])]
        session = await self.agent.session(state["run"], judged, config)
        ran_as: dict[str, Ran] = {}
        for call in message.tool_calls:
            decision = decisions[str(call["id"])]
            if decision["do"] == "same":
                first = ran_as[decision["text"]]
                ran_as[str(call["id"])] = Ran(first.text, first.well)
                continue
            ran = ran_as[str(call["id"])] = await self._ran(state, call, decision, session, config)
            if ran.noted:
                session = session.then(ran.noted)
        for call_id, ran in ran_as.items():
            if ran.down and decisions[call_id]["asked"]:
                raise ran.down  # what a person decided is theirs, and is not told to the model as failed
        if forms := {call_id: ran.form for call_id, ran in ran_as.items() if ran.form}:
            return self._ask_to_fill_in(state, message, forms)
        answers: list[AnyMessage] = [
            ToolMessage(ran.text, tool_call_id=call["id"], name=call["name"], artifact=ran.link)
            for call, ran in zip(message.tool_calls, ran_as.values(), strict=True)
        ]
        if any(d["edited"] for d in decisions.values()):
            answers.insert(0, with_edits(message, decisions))
        goto = self._next(message.tool_calls, decisions, [*ran_as.values()])
        if self.done_tool and repeats_itself(decisions, state["messages"]):
            goto = self.finish
        word = last_word(state.get("word", ""), decisions, ran_as)
        if goto == self.finish and not word and (blank := await self.agent.to_write(state["run"])):
            why = (
                why_nothing([*state["messages"], *answers])
                or "the assistant ended without an answer that could be used"
            )
            return self._ask_to_write(*blank, why, answers)
        return Command(goto=goto, update={"messages": answers, "word": word})

    def _ask_to_write(self, name: str, args: dict[str, Any], why: str, answers: Sequence[AnyMessage]) -> Command[str]:
        """Have the person write what the model has not proposed, or send it back: what was to be answered never ends
        unseen. It is asked as a message of the model's, which is done with it."""
        call, done = (
            ToolCall(name=each, args=given, id=_new_id(), type="tool_call")
            for each, given in ((name, args), (str(self.done_tool), {}))
        )
        message = AIMessage("", id=_new_id(), tool_calls=[call, done])
        because = f"nothing was proposed: {why}"
        place = self.agent.place(name)
        asked = CallState(call=call, teaches=True, group=str(message.id), because=because, place=place)
        anew = {"decisions": Overwrite({}), "fields": {}, "steps": 0}
        update = {"messages": [*answers, message], "word": "", **anew}
        return Command(goto=[Send(self._stage(call), asked)], update=update)

    def _is_judged(self, name: str, decision: Decided) -> bool:
        """Whether a call runs and is judged by more than itself: not what a person has approved and is done here."""
        return decision["do"] == "run" and not (decision["asked"] and self.agent.place(name) == OURS)

    async def _begun(self, state: LoopState) -> dict[str, Effect]:
        """What was begun of the calls that a person decided, by their ids."""
        decisions = state["decisions"].values()
        if not any(each["asked"] and each["do"] == "run" for each in decisions):
            return {}
        return {effect.call_id: effect for effect in await self.agent.begun(state["run"])}

    def _ask_anew(
        self,
        message: AIMessage,
        before: Mapping[str, Decided],
        decisions: Mapping[str, Decided],
        begun: Mapping[str, Effect],
    ) -> Command[str] | None:
        """Ask once more about what was approved together with a call that the person has dismissed or changed since,
        when they were asked about that again: it may speak of it."""
        calls = {str(call["id"]): call for call in message.tool_calls}
        other = [i for i in calls if any(before[i][key] != decisions[i][key] for key in ("do", "args"))]
        held = [i for i in calls if decisions[i]["do"] == "run" and decisions[i]["asked"] and i not in begun]
        if not (self.together and other and held):
            return None
        first = calls[other[0]]
        kind = self.agent.question(first["name"], decisions[other[0]]["args"], other[0], False)["kind"]
        changed = Changed(kind=kind, answer="edit" if decisions[other[0]]["do"] == "run" else "ignore")
        tasks = []
        for i in held:
            call = ToolCall(name=calls[i]["name"], args=decisions[i]["args"], id=i, type="tool_call")
            place = decisions[i]["place"]
            given = CallState(call=call, teaches=False, group=str(message.id), place=place, again=changed)
            tasks.append(Send(self._stage(call), given))
        kept = {i: each for i, each in decisions.items() if i not in held}
        return Command(goto=tasks, update={"decisions": Overwrite(kept)})

    async def _ran(
        self, state: LoopState, call: ToolCall, decision: Decided, session: GateSession, config: RunnableConfig
    ) -> Ran:
        if decision["do"] != "run":
            return Ran(decision["text"])
        place = self.agent.place(call["name"])
        if not decision["asked"]:  # the rules may have changed since, while it waited for others or for a restart
            verdict = await self._verdict(state["run"], call, session)
            if verdict["kind"] != "run":
                return Ran(verdict["text"] or _CONFIRM_NOW, well=False)
        run, call_id, name, args = state["run"], str(call["id"]), call["name"], decision["args"]
        # Of what was begun before, the ledger tells what came of it.
        if decision["asked"] and place != decision["place"]:
            await self.agent.refuse(run, call_id, name, args, moved(decision["place"], place), place)
        try:
            forms = filled_in(state.get("fields", {}), state["decisions"], call_id)
        except ValueError as error:
            return Ran(f"Error: {error}", well=False)
        noted = await asyncio.to_thread(self.agent.noted, session, name, args, approved=decision["asked"])
        to_run = ToRun(run, call_id, name, args, forms, place, noted, approved=decision["asked"])
        ran = await self.agent.run_tool(to_run, config)
        if decision["asked"] and ran.down and self.together:
            raise ran.down
        # What a person decided is theirs: only what nobody did goes back to the model.
        if decision["asked"] and not (ran.well or ran.link or ran.form or ran.down):
            why = ran.text.removeprefix("Error: ")
            await self.agent.refuse(run, call_id, name, args, why, place)
        return ran._replace(noted=noted)

    def _ask_to_fill_in(self, state: LoopState, message: AIMessage, forms: Mapping[str, FormNeeded]) -> Command[str]:
        """Ask for every field of the forms. No call of the message is answered before: all are made again after it,
        and what was done is not done twice."""
        fields = dict(state.get("fields", {}))
        tasks: list[Send] = []
        for call_id, form in forms.items():
            form_id = _new_id()
            for name, schema in form.schema.get("properties", {}).items():
                question = f"{form.message} {schema.get('title') or name}"
                args = {"question": question, "context": described(schema)}
                ask = ToolCall(name=CLARIFICATION, args=args, id=_new_id(), type="tool_call")
                fields[str(ask["id"])] = FormField(
                    call_id=call_id, form=form_id, message=form.message, name=name, schema=schema
                )
                tasks.append(self._asking(self._stage(ask), ask, message))
        return Command(goto=tasks, update={"fields": fields})

    def _next(self, calls: Sequence[ToolCall], decisions: Mapping[str, Decided], ran: Sequence[Ran]) -> str:
        does = {decisions[str(call["id"])]["do"] for call in calls}
        if any(each.ends for each in ran):
            return self.finish
        if any(each.link for each in ran):
            return self.on_link
        if "answer" in does or not all(each.well for each in ran):
            return self.again
        if "stop" in does:
            return END if self.ignore_ends else self.again
        if "refuse" not in does and any(call["name"] == self.done_tool for call in calls):
            return self.finish
        return self.again

    def _plain_text(
        self, before: Sequence[AnyMessage], message: AIMessage
    ) -> tuple[str | list[Send], list[AnyMessage]]:
        """A model that calls no tool is reminded once; then its text is put to the person."""
        if self.ask_tool is None:
            return END, [message]
        if not _was_reminded(before):
            return self.again, [message, HumanMessage(REMINDER)]
        call = ToolCall(
            name=self.ask_tool, args={"content": message.text or "(no answer)"}, id=_new_id(), type="tool_call"
        )
        asking = AIMessage("", id=message.id, tool_calls=[call], usage_metadata=message.usage_metadata)
        return [self._asking(self._stage(call), call, asking)], [asking]

    async def _verdict(self, run: dict[str, Any], call: ToolCall, session: GateSession) -> Judged:
        if call["name"] == UNREADABLE:
            return Judged(kind="refuse", args={}, text=call["args"].get("problem") or _NOT_JSON, acts=True)
        return await self.agent.judge(run, call["name"], call["args"], session)

    def _asking(self, stage: str, call: ToolCall, message: AIMessage, verdict: Judged | None = None) -> Send:
        """`verdict`: why a call of the model's is asked about; None: it is we who ask."""
        given = CallState(call=call, teaches=verdict is not None, group=str(message.id))
        if verdict:
            given |= {"because": verdict["text"], "place": verdict.get("place", OURS)}
        return Send(stage, given)

    def _stage(self, call: ToolCall) -> str:
        return self.stage_of.get(call["name"], self.stages[-1])


def _readable_calls(answer: AIMessage) -> list[ToolCall]:
    """All calls of a model's answer under ids of our own.

    Arguments that aren't JSON land in `invalid_tool_calls`, yet are sent back as a tool call; they need an answer too.
    So do those that could not be kept, or shown to the person as they would be sent.
    """
    calls = [_storable_call(c["name"], c["args"]) for c in answer.tool_calls]
    calls += [(UNREADABLE, {"call": readable(f"{c['name']}: {c['args']}")}) for c in answer.invalid_tool_calls]
    return [ToolCall(name=name or UNREADABLE, args=args, id=_new_id(), type="tool_call") for name, args in calls]


def _storable_call(name: str, args: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    try:
        check_storable([name, args])
    except ToolError as error:
        return UNREADABLE, {"call": readable(name), "problem": f"Error: {error}"}
    return name, args


def _new_id() -> str:
    return f"call_{secrets.token_hex(12)}"


def _was_reminded(messages: Sequence[AnyMessage]) -> bool:
    return isinstance(messages[-1], HumanMessage) and messages[-1].text == REMINDER
