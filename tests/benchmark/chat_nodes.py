"""What the policy router and the task executor of a chat take for a request, beside the model.

The requests that ship with `eval chat` go through both nodes in turn, by the program's own prompts, which are made
before, tools and client. The model is canned and answers at once, in a process of its own. What a whole request takes,
with the database and its tools, measures the row `chat` of `speed`.
"""

import argparse
import asyncio
import sys
import time
from asyncio.subprocess import PIPE
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import cycle, islice

from pydantic import SecretStr

from email_assistant.agents.chat.nodes import executed, routed
from email_assistant.app import open_models, open_shipped_tools
from email_assistant.features.rehearsal.requests import SHIPPED, read
from email_assistant.settings import Settings
from tests.benchmark.measured import spread
from tests.benchmark.rows.outside import PacedModel

_WARM = 10


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--requests", type=int, default=400, help="so many in all")


def main(given: argparse.Namespace) -> None:
    asyncio.run(_measure(given.requests))


async def _measure(requests: int) -> None:
    async with _canned_model() as root:
        settings = Settings(openai_base_url=root, openai_api_key=SecretStr("bench"), model="canned")
        async with open_shipped_tools(settings) as tools, open_models(settings) as (models, _):
            posed = await read(SHIPPED, tools)
            taken: defaultdict[str, list[float]] = defaultdict(list)
            for number, each in enumerate(islice(cycle(posed), _WARM + requests)):
                nodes = {
                    "policy router": routed(models, each.to_router, each.types),
                    "task executor": executed(models, each.to_executor, each.offered),
                }
                for name, node in nodes.items():
                    began, worked = time.perf_counter(), time.process_time()
                    await node
                    if number >= _WARM:  # the first ones open connections
                        taken[f"{name}, CPU"].append((time.process_time() - worked) * 1000)
                        taken[f"{name}, wall"].append((time.perf_counter() - began) * 1000)
    for figure, values in taken.items():
        print(f"{figure:20} {spread(values)}")


@asynccontextmanager
async def _canned_model() -> AsyncIterator[str]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.benchmark.chat_nodes", stdin=PIPE, stdout=PIPE, start_new_session=True
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield (await process.stdout.readline()).decode().strip()
    finally:
        process.stdin.close()
        await process.wait()


async def _serve() -> None:
    """Until standard input ends."""
    async with PacedModel().serve() as root:
        print(root, flush=True)
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(_serve())
