"""A bidder's part in one lot, as a graph of two nodes: propose, and have it done."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableConfig
from langgraph.graph.state import CompiledStateGraph

from email_assistant.agents.agent import Agent, Judged, LoopState, Ran, ToRun
from email_assistant.agents.auction.bidders import Bidder
from email_assistant.agents.auction.rules import Illegal
from email_assistant.agents.auction.table import SaleTable
from email_assistant.agents.auction.tools import FINISH, BidderCall
from email_assistant.agents.loop import Loop
from email_assistant.gate.policy import GateSession
from email_assistant.tools.spec import AnyTool, ServerDown, ToolError


@dataclass
class AuctionAgent(Agent):
    """All bidders: a run says which of them it is of, and at which table."""

    bidders: Mapping[str, Bidder]
    tools: Mapping[str, AnyTool[BidderCall]]
    max_steps: int
    tables: dict[str, SaleTable] = field(default_factory=dict)
    """By lot."""
    usage: Counter[str] = field(default_factory=Counter)
    """How often each tool was used."""

    def graph(self) -> "CompiledStateGraph[Any, Any, Any, Any]":
        return Loop(self, ask_tool=None, done_tool=FINISH, again="agent", acts="tool_dispatcher").graph()

    async def propose(self, state: LoopState) -> AIMessage:
        bidder, table = self._seat(state["run"])
        action = await self.bidders[bidder].propose(state["messages"], table)
        table.commentary[bidder] = action.text
        return action

    async def judge(self, run: Mapping[str, Any], name: str, args: dict[str, Any], session: GateSession) -> Judged:
        """What the rules say is said where they are asked in turn; here it is only whether it is a call at all."""
        try:
            return Judged(kind="run", args=await self.tools[name].complete(run, args), text="")
        except KeyError:
            why = f"there is no tool {name!r}; there are {', '.join(self.tools)}"
        except ToolError as error:
            why = str(error)
        return Judged(kind="say", args=args, text=f"Error: {why}")

    async def run_tool(self, call: ToRun, config: RunnableConfig) -> Ran:
        bidder, table = self._seat(call.run)
        self.usage[call.name] += 1
        made = BidderCall(call.id, UUID(call.run["id"]), bidder, table)
        try:
            ran = Ran(await self.tools[call.name].run(made, call.args))
        except (ToolError, ServerDown) as error:
            if isinstance(error, Illegal):
                table.note("refused", bidder, tool=call.name, why=str(error))
            ran = Ran(f"Error: {error}", well=False)
        return ran._replace(ends=table.has_ended_for(bidder))

    def _seat(self, run: Mapping[str, Any]) -> tuple[str, SaleTable]:
        return run["bidder"], self.tables[run["lot"]]
