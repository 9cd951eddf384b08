"""What a bidder can do. All of it runs here, but for questions to the seller, which a server may answer where
`config.yaml` says so."""

import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from decimal import Decimal
from importlib.resources import files
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from mcp import types
from pydantic import ConfigDict, Field

from email_assistant.features.auction.rules import Auction, answer
from email_assistant.features.auction.table import SaleTable
from email_assistant.gate.source import Source
from email_assistant.programs import command
from email_assistant.tools.config import LOCAL, ServerConfig, Shipped, ToolConfig, ToolsConfig, read_tools
from email_assistant.tools.mcp.pool import Servers
from email_assistant.tools.mcp.reader import Reader
from email_assistant.tools.spec import AnyTool, Arguments, FilledIn, ToolSpec

FINISH: Final = "FINISH"


@dataclass(frozen=True, slots=True)
class BidderCall:
    """One call of a bidder at a table."""

    id: str
    run_id: UUID
    bidder: str
    table: SaleTable
    filled_in: Sequence[FilledIn] = ()
    account_id: None = None

    def progress(self, text: str) -> None:
        """Nobody waits to hear what a server says while it works."""


class _NoArguments(Arguments):
    # Many models say more than is asked for, and refusing that would cost a whole call.
    model_config = ConfigDict(extra="ignore")


class BidArguments(Arguments):
    amount: Decimal = Field(gt=0, max_digits=12, decimal_places=2)


class QuestionArguments(Arguments):
    question: str = Field(min_length=1, max_length=500)


def _spec(name: str, description: str, arguments: type[Arguments], **properties: Mapping[str, Any]) -> ToolSpec:
    return ToolSpec(name, description, {"properties": properties, "required": list(properties)}, arguments, None)


class Move(AnyTool[BidderCall]):
    """What is made of a bidder's turn."""

    def __init__(self, spec: ToolSpec, act: Callable[..., None]) -> None:
        self.spec = spec
        self._act = act

    async def run(self, call: BidderCall, arguments: dict[str, Any]) -> str:
        given = self.spec.parse(arguments).model_dump()
        told = {name: str(value) for name, value in given.items()}
        return await call.table.move(call.bidder, lambda: self._act(call.table.auction, call.bidder, **given), **told)


class ShowStatus(AnyTool[BidderCall]):
    spec = _spec("STATUS", "How the auction stands, as JSON.", _NoArguments)

    async def run(self, call: BidderCall, arguments: dict[str, Any]) -> str:
        call.table.note("status", call.bidder)
        return json.dumps(call.table.seen_by(call.bidder), ensure_ascii=False)


class CheckTermination(AnyTool[BidderCall]):
    spec = _spec("CHECK_TERMINATION", "Whether the auction of this lot is over: continue or end.", _NoArguments)

    async def run(self, call: BidderCall, arguments: dict[str, Any]) -> str:
        says = "end" if call.table.has_ended_for(call.bidder) else "continue"
        call.table.note("check_termination", call.bidder, answer=says)
        return says


class Finish(AnyTool[BidderCall]):
    spec = _spec(FINISH, "Take no further part in this lot.", _NoArguments)

    async def run(self, call: BidderCall, arguments: dict[str, Any]) -> str:
        return "Done."


class AskSeller(AnyTool[BidderCall]):
    """`reader`: of the server that answers for the seller; None: it is answered here."""

    spec = _spec("ASK_SELLER", "Ask the lot's seller about it.", QuestionArguments, question={"type": "string"})

    def __init__(self, reader: Reader | None = None) -> None:
        self._reader = reader

    async def run(self, call: BidderCall, arguments: dict[str, Any]) -> str:
        question, auction = str(arguments["question"]), call.table.auction
        auction.ask(call.bidder)
        if self._reader is None:
            said = answer(auction.lot, question)
        else:
            said = await self._reader.read(call, {"lot": auction.lot.name, "question": question}, {})
        call.table.note("ask_seller", call.bidder, question=question, answer=said)
        return said


_AMOUNT: Final = {"type": "string", "description": "Such as 120 or 120.50"}
_BID: Final = _spec("BID", "Bid for the lot; answers when the round is over.", BidArguments, amount=_AMOUNT)
_CALL: Final = _spec("CALL", "Stay in without a bid; answers when the round is over.", _NoArguments)
_FOLD: Final = _spec("FOLD", "Leave this lot for good.", _NoArguments)
HERE: Final[Sequence[AnyTool[BidderCall]]] = (
    *(Move(_BID, Auction.bid), Move(_CALL, Auction.call), Move(_FOLD, Auction.fold)),
    *(ShowStatus(), CheckTermination(), Finish()),
)
"""The tools that run here, whatever a file says."""


Tools = Mapping[str, AnyTool[BidderCall]]
_HERE: Final = {tool.spec.name: tool for tool in HERE}
_ASK: Final = AskSeller.spec.name


@asynccontextmanager
async def opened_tools(config: Path | None, lots: Path | None) -> AsyncIterator[Tools]:
    """`config`: None: the one that ships; `lots`: what the sellers know. Raises BadFile."""
    shipped = files("email_assistant.features.auction").joinpath("config.yaml")
    source = Source.read(config) if config else Source.yaml("config.yaml", shipped.read_text())
    read = read_tools(source, _shipped(lots))
    backend = read.tools[_ASK].backend
    servers = Servers(lambda: read.servers, {}, _is_ours)
    try:
        yield _HERE | {_ASK: AskSeller(None if backend == LOCAL else Reader(servers, backend, _ASK))}
    finally:
        await servers.aclose()


def _shipped(lots: Path | None) -> Shipped:
    ask_seller = command("ask_seller", *(["--lots", str(lots.absolute())] if lots else []))
    servers = {"ask_seller": ServerConfig(command=ask_seller, own=True)}
    names = (*_HERE, _ASK)
    return Shipped(ToolsConfig(servers, {name: ToolConfig() for name in names}), standing=names, here=tuple(_HERE))


async def _is_ours(server: str, told: types.Tool) -> bool:
    """Whoever puts a server into the file means its tools, which only answer."""
    return True
