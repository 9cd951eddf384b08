"""What our sessions add to a call of a tool, over the library's bare session that is already open.

The same server with the same tool, reached the same way; calls alternate, so that what else runs weighs on both alike.
"""

import argparse
import asyncio
import logging
import statistics
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

import uvicorn
from mcp import ClientSession, types
from mcp.client.streamable_http import streamable_http_client
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.memory import create_connected_server_and_client_session
from starlette.applications import Starlette
from starlette.routing import Mount

from email_assistant.tools.config import ServerConfig
from email_assistant.tools.mcp.pool import Servers
from tests.benchmark.measured import spread

MOST_MS = 5.0
"""What a call may cost more."""
ACCOUNT = UUID(int=1)
SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}


def make_server() -> Server[Any, Any]:
    server: Server[Any, Any] = Server("echo", "1")

    async def list_tools() -> list[types.Tool]:
        return [types.Tool(name="echo", description="Says it again.", inputSchema=SCHEMA)]

    async def call_tool(name: str, given: dict[str, Any]) -> list[types.TextContent]:
        return [types.TextContent(type="text", text=given["text"])]

    server.list_tools()(list_tools)  # type: ignore[no-untyped-call]
    server.call_tool()(call_tool)
    return server


@asynccontextmanager
async def served() -> AsyncIterator[str]:
    manager = StreamableHTTPSessionManager(make_server())

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with manager.run():
            yield

    app = Starlette(routes=[Mount("/mcp", manager.handle_request)], lifespan=lifespan)
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error"))
    serving = asyncio.create_task(server.serve())
    while not server.started:  # noqa: ASYNC110 - uvicorn has no event for it
        await asyncio.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    yield f"http://127.0.0.1:{port}/mcp/"
    server.should_exit = True
    await serving


async def timed(call: Callable[[], Awaitable[Any]]) -> float:
    """In milliseconds."""
    begun = time.perf_counter()
    await call()
    return (time.perf_counter() - begun) * 1000


async def compare(where: str, bare: ClientSession, pooled: Servers, calls: int) -> float:
    """Print both, and return how many milliseconds ours takes more, by the median."""
    given = {"text": "x" * 200}

    async def over_pool() -> None:
        await pooled.listing("echo", ACCOUNT)
        await pooled.call(
            "echo",
            ACCOUNT,
            "echo",
            given,
            meta={},
            progress=lambda text: None,
            filled_in=(),
            repeatable=True,
            reads=True,
        )

    async def direct() -> None:
        await bare.call_tool("echo", given)

    taken: dict[str, list[float]] = {"bare session": [], "our session": []}
    for number in range(calls + 20):
        for name, call in (("bare session", direct), ("our session", over_pool)):
            milliseconds = await timed(call)
            if number >= 20:  # the first ones open connections
                taken[name].append(milliseconds)
    for name, values in taken.items():
        print(f"{where:10} {name:13} {spread(values)}")
    return statistics.median(taken["our session"]) - statistics.median(taken["bare session"])


async def run(calls: int) -> bool:
    added: dict[str, float] = {}

    async def in_process(_: UUID) -> Server[Any, Any]:
        return make_server()

    async def trusting(*_: object) -> bool:
        return True

    ours = Servers(dict, {"echo": in_process}, trusting)
    async with create_connected_server_and_client_session(make_server()) as bare:
        added["in memory"] = await compare("in memory", bare, ours, calls)
    await ours.aclose()
    async with served() as url:
        ours = Servers(lambda: {"echo": ServerConfig(url=url)}, {}, trusting)
        async with streamable_http_client(url) as (heard, said, _), ClientSession(heard, said) as bare:
            await bare.initialize()
            added["HTTP"] = await compare("HTTP", bare, ours, calls)
        await ours.aclose()
    for where, milliseconds in added.items():
        print(f"{where}: {milliseconds:+.2f} ms a call; at most {MOST_MS:g} is aimed at")
    return all(milliseconds <= MOST_MS for milliseconds in added.values())


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--calls", type=int, default=300, help="of each kind")


def main(given: argparse.Namespace) -> None:
    logging.getLogger("mcp").setLevel("CRITICAL")  # it reports its own end as an error
    if not asyncio.run(run(given.calls)):
        raise SystemExit(1)
