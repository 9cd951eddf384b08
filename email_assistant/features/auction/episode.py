"""An auction from the first lot to the last: a bidder's part in each is a graph of two nodes, propose and have it done.

It is told as lines, and as a page with the curve of each lot's price.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final
from uuid import NAMESPACE_URL, UUID, uuid5

import jinja2
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.graph.state import CompiledStateGraph

from email_assistant.agents.agent import Agent, Judged, LoopState, Ran, ToRun
from email_assistant.agents.loop import Loop
from email_assistant.errors import AssistantError
from email_assistant.features.auction.bidders import Bidder, opening_message, worth
from email_assistant.features.auction.rules import Auction, Illegal, Lot, Money, Terms
from email_assistant.features.auction.table import AuctionEvent, Listener, SaleTable
from email_assistant.features.auction.tools import FINISH, BidderCall
from email_assistant.gate.policy import GateSession
from email_assistant.tools.mcp.content import one_line
from email_assistant.tools.spec import AnyTool, ServerDown, ToolError


@dataclass(frozen=True, slots=True)
class BidderStep:
    """A call of a bidder, and what came of it: what a trainer learns from."""

    lot: str
    round: int
    bidder: str
    tool: str
    args: Mapping[str, Any]
    answer: str
    """What the bidder is told."""
    refused: bool
    """Nothing came of it."""
    ends: bool
    """The lot is over for them."""


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
    on_step: Callable[[BidderStep], None] | None = None
    """Told of each call that could be read, once it is over."""

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
        answer = f"Error: {why}"
        bidder, table = self._seat(run)
        self._told(BidderStep(run["lot"], table.auction.round, bidder, name, args, answer, refused=True, ends=False))
        return Judged(kind="refuse", args=args, text=answer)

    async def run_tool(self, call: ToRun, config: RunnableConfig) -> Ran:
        bidder, table = self._seat(call.run)
        lot, number = table.auction.lot.name, table.auction.round
        self.usage[call.name] += 1
        made = BidderCall(call.id, UUID(call.run["id"]), bidder, table)
        try:
            ran = Ran(await self.tools[call.name].run(made, call.args))
        except (ToolError, ServerDown) as error:
            table.note("refused", bidder, tool=call.name, why=str(error))
            ran = Ran(f"Error: {error}", well=False)
        ends = table.has_ended_for(bidder)
        self._told(BidderStep(lot, number, bidder, call.name, call.args, ran.text, refused=not ran.well, ends=ends))
        return ran._replace(ends=ends)

    def _told(self, step: BidderStep) -> None:
        if self.on_step:
            self.on_step(step)

    def _seat(self, run: Mapping[str, Any]) -> tuple[str, SaleTable]:
        return run["bidder"], self.tables[run["lot"]]


_NODES = 2


@dataclass(frozen=True, slots=True)
class Sale:
    lot: str
    title: str
    winner: str | None  # None: it was not sold
    price: Money  # the highest bid, or what it opened at
    rounds: int


@dataclass(frozen=True, slots=True)
class Episode:
    seed: int
    results: Sequence[Sale]
    purses: dict[str, Money]  # what each bidder has left
    takings: Money  # of all sellers
    tool_usage: dict[str, int]
    events: Sequence[AuctionEvent]


async def play(
    agent: AuctionAgent, lots: Sequence[Lot], purse: Money, seed: int, terms: Terms, *listeners: Listener
) -> Episode:
    """Sell one lot after the other. `purse`: what each bidder begins with."""
    events: list[AuctionEvent] = []
    purses, takings = dict.fromkeys(agent.bidders, purse), Decimal(0)
    results: list[Sale] = []
    graph = agent.graph()

    def tell(event: AuctionEvent) -> None:
        for listen in (events.append, *listeners):
            listen(event)

    for lot in lots:
        auction = Auction(lot, dict(purses), terms)
        table = agent.tables[lot.name] = SaleTable(auction, tell)
        async with asyncio.TaskGroup() as tasks:
            for name in agent.bidders:
                tasks.create_task(_takes_part(graph, agent, table, name, seed))
        table.tell_kept(*agent.bidders)
        if winner := auction.winner:
            purses[winner] -= auction.price
            takings += auction.price
        results.append(Sale(lot.name, lot.title, auction.winner, auction.price, auction.round))
    return Episode(seed, results, purses, takings, dict(sorted(agent.usage.items())), events)


async def _takes_part(
    graph: "CompiledStateGraph[Any, Any, Any, Any]", agent: AuctionAgent, table: SaleTable, name: str, seed: int
) -> None:
    """Run a bidder's graph; who stops early, for whatever reason, keeps their bid and makes no other."""
    auction, lot, why = table.auction, table.auction.lot, "they have finished"
    run = {"id": str(uuid5(NAMESPACE_URL, f"{seed}/{lot.name}/{name}")), "bidder": name, "lot": lot.name}
    opening = HumanMessage(opening_message(name, auction, worth(lot, name, seed)))
    try:
        await graph.ainvoke({"run": run, "messages": [opening]}, {"recursion_limit": _NODES * (agent.max_steps + 1)})
    except AssistantError as error:
        why = str(error)
    if not table.has_ended_for(name):
        table.note("left", name, why=why)
    while not table.has_ended_for(name):
        with suppress(Illegal):  # it was over before their turn came
            await table.move(name, lambda: auction.stand_by(name))


_LONGEST_SAID: Final = 300
_WIDTH, _HEIGHT, _EDGE = 640, 240, 40
_SAID: Final = {
    "bid": "{bidder} bids {amount}",
    "call": "{bidder} calls",
    "fold": "{bidder} folds",
    "status": "{bidder} looks how it stands",
    "check_termination": "{bidder} asks whether it is over: {answer}",
    "ask_seller": "{bidder} asks: {question}\n    The seller: {answer}",
    "asked": "{bidder} looks it up with {tool}: {answer}",
    "refused": "{bidder}: {tool} comes to nothing, {why}",
    "left": "{bidder} takes no further part: {why}",
    "sold": "Sold to {bidder} for {price}",
    "unsold": "Not sold",
}


def lines(event: AuctionEvent) -> Iterator[str]:
    """What happened, in words."""
    # What others wrote is one line, so that none of it passes for another thing that happened.
    data = {name: one_line(str(said), _LONGEST_SAID) for name, said in event.data.items()}
    if event.kind == "lot":
        yield f"\n{data['title']}: opens at {data['opening']}, increment {data['increment']}"
        return
    said = f" ({data['says']})" if data.get("says") else ""
    yield f"  {event.round:>2}  {_SAID[event.kind].format(bidder=event.bidder, **data)}{said}"


def summary(episode: Episode) -> Iterator[str]:
    yield ""
    for result in episode.results:
        yield f"{result.title}: " + (f"{result.winner}, {result.price}" if result.winner else "not sold")
    yield "Left: " + ", ".join(f"{name} {purse}" for name, purse in episode.purses.items())
    yield f"The sellers took {episode.takings}."


def page(episode: Episode) -> str:
    """HTML that needs nothing else."""
    loader = jinja2.PackageLoader("email_assistant.features.auction", ".")
    template = jinja2.Environment(loader=loader, autoescape=True).get_template("page.html")
    lots = [(result, _curve([e for e in episode.events if e.lot == result.lot])) for result in episode.results]
    told = [line for event in episode.events for line in lines(event)]
    return template.render(episode=episode, lots=lots, lines=told, width=_WIDTH, height=_HEIGHT, edge=_EDGE)


def _curve(events: Sequence[AuctionEvent]) -> Sequence[tuple[float, float, str]]:
    """The price after each bid, from left to right, in the picture's units, with what it was."""
    opening = Decimal(events[0].data["opening"])
    bids = [(event.bidder, event.round, Decimal(event.data["amount"])) for event in events if event.kind == "bid"]
    highest = max([amount for _, _, amount in bids], default=opening)
    step, span = (_WIDTH - 2 * _EDGE) / max(1, len(bids)), highest - opening or Decimal(1)
    points: list[tuple[float, float, str]] = [(_EDGE, _HEIGHT - _EDGE, f"opens at {opening}")]
    for number, (bidder, round_, amount) in enumerate(bids, 1):
        y = _HEIGHT - _EDGE - float((amount - opening) / span) * (_HEIGHT - 2 * _EDGE)
        points.append((round(_EDGE + number * step, 1), round(y, 1), f"round {round_}: {bidder} {amount}"))
    return points
