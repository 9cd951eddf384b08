"""What a request of one read-only tool call over MCP takes beside its model calls, and fifty chats at once.

uv run python -m tests.benchmark.chat
"""

import argparse
import asyncio
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path
from typing import Any

import psycopg
from langchain_openai import ChatOpenAI

from email_assistant.db.embedded import EmbeddedPostgres
from tests.contract.chat_stage import Stage, listing, open_stage

_AT_ONCE = 50
_WARM = 5
_BASELINE = "--model-calls"


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--requests", type=int, default=60)
    arguments.add_argument(_BASELINE, metavar="URL", help="time model calls read from standard input (for itself)")
    given = arguments.parse_args()
    if given.model_calls:
        print(json.dumps(asyncio.run(_model_calls(given.model_calls, json.load(sys.stdin)))))  # noqa: T201
        return
    with tempfile.TemporaryDirectory() as folder, EmbeddedPostgres(Path(folder) / "postgres") as server:
        print(json.dumps(_machine() | measure(Path(folder), server.url(), given.requests), indent=2))  # noqa: T201


def measure(home: Path, url: str, requests: int) -> dict[str, object]:
    """All times in milliseconds."""
    with psycopg.connect(url, autocommit=True) as conn:
        conn.execute("create database chat")
    with open_stage(home, url.replace("/postgres?", "/chat?", 1)) as stage:
        stage.daemon.up()
        stage.model.on_chat({"look": [[listing()], "Seen."]})
        for _ in range(_WARM):
            stage.talk().run("look")
        stage.model.requests.clear()
        runs = [_timed(stage) for _ in range(requests)]
        bodies = [request.body for request in stage.model.requests]
        calls_of_one = len(bodies) // requests
        each = _spawned_model_calls(stage.model.root, bodies)
        together = [sum(each[n : n + calls_of_one]) for n in range(0, len(each), calls_of_one)]
        began = time.perf_counter()
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            at_once = list(pool.map(lambda _: _timed(stage), range(_AT_ONCE)))
        took = (time.perf_counter() - began) * 1000
    return {
        "requests": requests,
        "model calls of one": calls_of_one,
        "request": _spread(runs),
        "its model calls, by the same client library": _spread(together),
        "added (medians)": round(_quantile(runs, 0.5) - _quantile(together, 0.5), 1),
        f"{_AT_ONCE} chats at once": _spread(at_once) | {"all": round(took)},
    }


def _timed(stage: Stage) -> float:
    began = time.perf_counter()
    assert stage.talk().run("look").response == "Seen."
    return (time.perf_counter() - began) * 1000


def _spawned_model_calls(root: str, bodies: Sequence[Mapping[str, Any]]) -> list[float]:
    """What the calls take in a process of their own, as they are made in one."""
    command = [sys.executable, "-m", "tests.benchmark.chat", _BASELINE, root]
    done = subprocess.run(command, input=json.dumps(bodies), capture_output=True, text=True, check=True)
    found: list[float] = json.loads(done.stdout)
    return found


async def _model_calls(root: str, bodies: Sequence[Mapping[str, Any]]) -> list[float]:
    client = ChatOpenAI(model="stub-model", base_url=root, api_key="model-key", max_retries=0)
    times = []
    for body in [*bodies[:_WARM], *bodies]:
        options = {name: value for name, value in body.items() if name not in ("model", "messages", "stream")}
        began = time.perf_counter()
        await client.ainvoke(body["messages"], **options)
        times.append((time.perf_counter() - began) * 1000)
    return times[_WARM:]


def _quantile(times: Sequence[float], share: float) -> float:
    return sorted(times)[min(len(times) - 1, int(len(times) * share))]


def _spread(times: Sequence[float]) -> dict[str, float]:
    return {name: round(_quantile(times, share), 1) for name, share in (("p5", 0.05), ("median", 0.5), ("p95", 0.95))}


def _machine() -> dict[str, object]:
    return {
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "python": platform.python_version(),
        **{name: version(name) for name in ("langgraph", "langchain-openai", "mcp", "psycopg")},
    }


if __name__ == "__main__":
    main()
