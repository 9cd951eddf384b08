"""What a bidder can do. All moves run here; questions to the seller, and tools of others' servers, where `config.yaml`
says."""

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

from email_assistant.features.auction.rules import Auction
from email_assistant.features.auction.sellers import Answers, by_rule
from email_assistant.features.auction.table import SaleTable
from email_assistant.programs import command
from email_assistant.tools.config import LOCAL, ServerConfig, Shipped, ToolConfig, ToolsConfig, read_tools
from email_assistant.tools.mcp import content
from email_assistant.tools.mcp.pool import Servers
from email_assistant.tools.mcp.reader import Reader
from email_assistant.tools.mcp.schema import UnusableTool, check_told
from email_assistant.tools.spec import (
    AnyArguments,
    AnyTool,
    Arguments,
    FilledIn,
    FormNeeded,
    LinkNeeded,
    ServerDown,
    ToolError,
    ToolSpec,
)
from email_assistant.user_file import UserFile

FINISH: Final = "FINISH"
SERVER_FAILS: Final = "the server of this tool gave no answer"


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
    """`answers`: who answers for the seller: here, or a server."""

    spec = _spec("ASK_SELLER", "Ask the lot's seller about it.", QuestionArguments, question={"type": "string"})

    def __init__(self, answers: Answers | Reader = by_rule) -> None:
        self._answers = answers

    async def run(self, call: BidderCall, arguments: dict[str, Any]) -> str:
        question, auction = str(arguments["question"]), call.table.auction
        auction.ask(call.bidder)
        if isinstance(self._answers, Reader):
            said = await self._answers.read(call, {"lot": auction.lot.name, "question": question}, {})
        else:
            said = await self._answers(auction.lot, question)
        call.table.note("ask_seller", call.bidder, question=question, answer=said)
        return said


class ServersTool(AnyTool[BidderCall]):
    """A tool of somebody's MCP server, by which a bidder looks something up. Raises UnusableTool."""

    def __init__(self, servers: Servers, server: str, told: types.Tool) -> None:
        try:
            self._schema, answers = check_told(told)
        except UnusableTool as error:
            raise UnusableTool(f"{told.name} of the tool server {server} can't be offered: {error}") from None
        self._reader = Reader(servers, server, told.name, answers)
        parameters = content.parameters(told.inputSchema)
        self.spec = ToolSpec(told.name, content.description(told), parameters, AnyArguments, None)

    async def complete(self, run: Mapping[str, Any], arguments: dict[str, Any]) -> dict[str, Any]:
        self._schema.check(arguments)
        return arguments

    async def run(self, call: BidderCall, arguments: dict[str, Any]) -> str:
        try:
            said = await self._reader.read(call, arguments, {})
        except (FormNeeded, LinkNeeded):
            raise ToolError(f"{SERVER_FAILS}: it asks something of a person, and nobody is asked here") from None
        except (ToolError, ServerDown) as error:
            raise ToolError(f"{SERVER_FAILS}: {error}") from None
        call.table.note("asked", call.bidder, tool=self.spec.name, answer=said)
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
_SELLERS: Final = "ask_seller"
"""The name of the sellers' server."""


@asynccontextmanager
async def opened_tools(config: Path | None, lots: Path | None, sellers: Answers = by_rule) -> AsyncIterator[Tools]:
    """
    Args:
        config: None: the one that ships.
        lots: what the sellers know.
        sellers: who answers for them, unless a server does.

    Raises:
        BadFile; ServerDown, UnusableTool: a tool of a server's can't be offered.
    """
    shipped = files("email_assistant.features.auction").joinpath("config.yaml")
    source = UserFile.read(config) if config else UserFile.yaml("config.yaml", shipped.read_text())
    read = read_tools(source, _shipped(lots))
    servers = Servers(lambda: read.servers, {}, _is_meant)
    asked = read.tools[_ASK].backend
    if sellers is not by_rule and asked not in (LOCAL, _SELLERS):
        raise source.bad(("tools", _ASK, "backend"), f"the sellers answer at {asked}, and no model of yours")
    is_here = sellers is not by_rule or asked == LOCAL
    try:
        others = [
            ServersTool(servers, tool.backend, await servers.told(tool.backend, None, name))
            for name, tool in read.tools.items()
            if name not in (*_HERE, _ASK)
        ]
        ask = AskSeller(sellers if is_here else Reader(servers, asked, _ASK))
        yield _HERE | {tool.spec.name: tool for tool in (ask, *others)}
    finally:
        await servers.aclose()


def _shipped(lots: Path | None) -> Shipped:
    ask_seller = command(_SELLERS, *(["--lots", str(lots.absolute())] if lots else []))
    servers = {_SELLERS: ServerConfig(command=ask_seller, own=True)}
    names = (*_HERE, _ASK)
    config = ToolsConfig(servers, {name: ToolConfig() for name in names})
    return Shipped(config, standing=names, here=tuple(_HERE), by_type=False)


async def _is_meant(server: str, told: types.Tool) -> bool:
    """Whoever puts a tool into the file means it, and says that it only answers."""
    return True
