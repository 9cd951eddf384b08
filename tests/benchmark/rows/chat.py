"""What a chat's request takes beside its model calls.

python -m tests.benchmark.rows.chat ROOT   (for itself: times model calls read from standard input)
"""

import asyncio
import json
import sys
import time
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from langchain_openai import ChatOpenAI
from mcp.server.fastmcp import FastMCP
from pydantic import SecretStr

from tests.benchmark.canned_model import served
from tests.benchmark.rows.figures import Limit, Reading, RowProgress, Size, SpeedUnknown
from tests.benchmark.rows.stage import Stage, postgres, scratch, staged

_WARM = 10
_MOST_SHARE = 1.0
_OPTIONS = ("model", "messages", "stream")

TimeCalls = Callable[[Sequence[Mapping[str, Any]]], Awaitable[float]]


async def chat(size: Size, progress: RowProgress) -> list[Reading]:
    """A request that looks once into a calendar over MCP, and its model calls alone, by the same client library in a
    process of their own: right after it, since a machine is not equally fast all the time."""
    requests, added = size.of(100, 3), []
    ours: list[float] = []
    with scratch() as folder, postgres(folder) as server:
        async with (
            served(_calendar()) as calendar,
            staged(server, folder, "chat", mcp_url=f"{calendar}/mcp") as stage,
            _model_calls(stage.outside.model_url) as time_calls,
        ):
            for number in range(-size.of(_WARM), requests):
                if number % 10 == 0:
                    progress(f"request {number} of {requests}")
                took, alone = await _sample(stage, number, time_calls)
                if number >= 0:
                    ours.append((took - alone) * 1000)
                    added.append((took - alone) / alone)
    calls = len(stage.outside.model.asked)
    return [
        Reading("a chat's own share", "of its model calls", added, Limit(_MOST_SHARE), note=f"{calls} calls a request"),
        Reading("a chat's request beside its model calls", "ms", ours),
    ]


async def _sample(stage: Stage, number: int, time_calls: TimeCalls) -> tuple[float, float]:
    """Seconds of one request, and of its model calls alone."""
    stage.outside.model.asked.clear()
    body = {"thread_id": f"chat {number}", "user_request": "What is planned?"}
    began = time.perf_counter()
    answer = await stage.program.http.post("/run", json=body)
    took = time.perf_counter() - began
    if answer.status_code != 200:
        raise SpeedUnknown(f"a chat's request was answered with {answer.status_code}: {answer.text[:200]}")
    asked = list(stage.outside.model.asked)
    alone = await time_calls(asked)
    stage.outside.model.asked[:] = asked
    return took, alone


def _calendar() -> Any:
    server = FastMCP("bench", log_level="ERROR")

    @server.tool()
    def list_events(start: str, end: str) -> str:
        """The events of a time."""
        return "no events"

    return server.streamable_http_app()


@asynccontextmanager
async def _model_calls(root: str) -> AsyncIterator[TimeCalls]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.benchmark.rows.chat", root,
        stdin=PIPE, stdout=PIPE, start_new_session=True, limit=1 << 22,
    )  # fmt: skip
    assert process.stdin is not None
    assert process.stdout is not None
    write, read = process.stdin, process.stdout

    async def time_calls(bodies: Sequence[Mapping[str, Any]]) -> float:
        write.write(f"{json.dumps(bodies)}\n".encode())
        return float(await read.readline())

    try:
        yield time_calls
    finally:
        write.close()
        await process.wait()


async def _time_model_calls(root: str) -> None:
    """Make the calls of each line of standard input, and say how long they took."""
    client = ChatOpenAI(model="canned", base_url=root, api_key=SecretStr("bench"), max_retries=0)
    for line in sys.stdin:
        bodies = json.loads(line)
        began = time.perf_counter()
        for body in bodies:
            await client.ainvoke(body["messages"], **{n: value for n, value in body.items() if n not in _OPTIONS})
        sys.stdout.write(f"{time.perf_counter() - began}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(_time_model_calls(sys.argv[1]))
