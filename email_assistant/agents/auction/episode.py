"""An auction from the first lot to the last."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from langchain_core.messages import HumanMessage
from langgraph.graph.state import CompiledStateGraph

from email_assistant.agents.auction.bidders import worth
from email_assistant.agents.auction.graph import AuctionAgent
from email_assistant.agents.auction.prompt import opening_message
from email_assistant.agents.auction.rules import Auction, Illegal, Lot, Money, Terms
from email_assistant.agents.auction.table import AuctionEvent, Listener, SaleTable
from email_assistant.errors import AssistantError

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
