"""Where a bidder's tools run, as `config.yaml` or a file like it says."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from importlib.resources import files
from pathlib import Path
from typing import Final

from mcp import types

from email_assistant.agents.auction.tools import HERE, AskSeller, BidderCall
from email_assistant.gate.source import Source
from email_assistant.programs import command
from email_assistant.tools.config import LOCAL, ServerConfig, Shipped, ToolConfig, ToolsConfig, read_tools
from email_assistant.tools.mcp.pool import Servers
from email_assistant.tools.mcp.reader import Reader
from email_assistant.tools.spec import AnyTool

Tools = Mapping[str, AnyTool[BidderCall]]
_HERE: Final = {tool.spec.name: tool for tool in HERE}
_ASK: Final = AskSeller.spec.name


@asynccontextmanager
async def opened_tools(config: Path | None, lots: Path | None) -> AsyncIterator[Tools]:
    """`config`: None: the one that ships; `lots`: what the sellers know. Raises BadFile."""
    shipped = files("email_assistant.agents.auction").joinpath("config.yaml")
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
