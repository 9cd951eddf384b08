"""The chat agent: what a request may touch is settled first, then the loop works on it. This is the whole graph."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import takewhile
from typing import Any, Literal, NotRequired, TypedDict
from uuid import UUID

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph

from email_assistant.agents.agent import CallState, LoopState, Ran
from email_assistant.agents.assistant import Assistant
from email_assistant.agents.chat.nodes import executed, routed, to_execute, to_route
from email_assistant.agents.loop import Loop
from email_assistant.gate.ledger import PROMPT
from email_assistant.memory.rules import render
from email_assistant.tools.control import CLARIFICATION
from email_assistant.tools.spec import Call, FormNeeded, LinkNeeded, ServerDown


class Turn(TypedDict):
    """What a turn's graph is started with; kept in the checkpoint, so plain JSON."""

    agent: Literal["chat"]
    id: str
    account_id: str
    address: str
    chat: str
    """The client's id of the chat."""
    request: str
    """What the person asked for."""
    allowed_tool_types: NotRequired[list[str]]
    """What the policy router has let this turn do; nothing before that."""


@dataclass(frozen=True)
class ChatAgent(Assistant):
    name = "chat"

    def graph(self, checkpointer: BaseCheckpointSaver[Any] | None) -> "CompiledStateGraph[Any, Any, Any, Any]":
        loop = Loop(
            self,
            ask_tool=None,
            stages=("human_clarification", "human_confirmation"),
            stage_of={CLARIFICATION: "human_clarification"},
            ignore_ends=False,
            together=False,
            again="task_executor",
            acts="use_tools",
            on_link="oauth_needed",
        )
        graph = StateGraph(LoopState)
        graph.add_node("policy_router", self.policy_router)
        asked_or_done = ("human_clarification", "human_confirmation", "use_tools")
        graph.add_node("task_executor", loop.llm_call, destinations=(*asked_or_done, END))
        graph.add_node("plan", loop.plan, destinations=asked_or_done)
        graph.add_node("human_clarification", loop.interrupt_handler, input_schema=CallState)
        graph.add_node("human_confirmation", loop.interrupt_handler, input_schema=CallState)
        graph.add_node("use_tools", loop.act, destinations=("task_executor", "human_clarification", "oauth_needed"))
        graph.add_node("oauth_needed", self.oauth_needed)
        graph.add_edge(START, "policy_router")
        graph.add_edge("policy_router", "task_executor")
        graph.add_edge("human_clarification", "plan")
        graph.add_edge("human_confirmation", "plan")
        graph.add_edge("oauth_needed", END)
        return graph.compile(checkpointer)

    async def policy_router(self, state: LoopState) -> dict[str, Any]:
        """Settle which types of tools the request may use. The gate holds every call to that."""
        run = state["run"]
        account = await self.account(run)
        types = self.tools.types(mailbox=account.has_mailbox)
        if not types:
            return {"run": {**run, "allowed_tool_types": []}}
        asked = to_route(account, types, state["messages"])
        allowed = await routed(self.models, asked, types, account.id, UUID(run["id"]))
        return {"run": {**run, "allowed_tool_types": allowed}}

    async def propose(self, state: LoopState) -> AIMessage:
        run = state["run"]
        account, learned = await asyncio.gather(self.account(run), self.memory.in_force(UUID(run["account_id"])))
        offered = await self.tools.offered("chat", account.id, run["allowed_tool_types"], mailbox=account.has_mailbox)
        used = {
            self.tools.foreign(str(m.name)) for m in _since_the_request(state["messages"]) if isinstance(m, ToolMessage)
        }
        missed = [down for down in offered.down if down.name in used]
        if missed and await self.ledger.done_of([UUID(run["id"])]):
            raise missed[0]  # what was done is told, and what follows it waits
        preferences = learned["response_preferences"], learned["cal_preferences"]
        if account.background.strip() or any(not rule.is_given for rules in preferences for rule in rules):
            # Rules come of answers to mail, so they may tell of it as the mail itself does.
            await self.gate.append(UUID(run["id"]), PROMPT.tool, PROMPT)
        writing, meetings = map(render, preferences)
        asked = to_execute(account, (writing, meetings), datetime.now(account.zone), offered, state["messages"])
        return await executed(self.models, asked, offered, account.id, UUID(run["id"]))

    async def ran(self, call: Call, name: str, args: dict[str, Any]) -> Ran:
        await self.check_allowed(call.run, name)  # it may have been forbidden while it waited for the person
        try:
            return Ran(await self.tools.run(call, name, args))
        except ServerDown as down:
            return Ran(f"Error: {down}", well=False, down=down)
        except LinkNeeded as needed:
            link = {"url": needed.url, "message": needed.message}
            return Ran("Not done: the person must open a link first.", well=False, link=link)
        except FormNeeded as form:
            return Ran("", well=False, form=form)

    def question(self, name: str, args: dict[str, Any], call_id: str, teaches: bool) -> dict[str, Any]:
        return super().question(name, args, call_id, teaches=False)

    async def refused(self, run: Mapping[str, Any], name: str) -> str:
        has_mailbox = (await self.account(run)).has_mailbox
        return self.tools.refused("chat", name, run["allowed_tool_types"], mailbox=has_mailbox)

    async def oauth_needed(self, state: LoopState) -> dict[str, Any]:
        """End the turn with what the person must open before they ask again."""
        return {"messages": [AIMessage("There is a link to open first; then ask again.")]}


def link_in(messages: Sequence[AnyMessage]) -> dict[str, Any] | None:
    """What a turn's tools need the person to open, if its last calls do."""
    for message in reversed(messages):
        if isinstance(message, HumanMessage):
            return None
        if isinstance(message, ToolMessage) and message.artifact:
            link: dict[str, Any] = message.artifact
            return link
    return None


def _since_the_request(messages: Sequence[AnyMessage]) -> Iterator[AnyMessage]:
    """From the newest back."""
    return takewhile(lambda message: not isinstance(message, HumanMessage), reversed(messages))
