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
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import psycopg
from langchain_openai import ChatOpenAI

from email_assistant.db.embedded import EmbeddedPostgres
from email_assistant.settings import Settings
from tests.contract.chat_stage import Stage, listing, open_stage

_AT_ONCE = 50
_WARM = 20
_BASELINE = "--model-calls"
_FIELDS = Settings.model_fields
_AS_SHIPPED = {name: _FIELDS[name].default for name in ("poll_seconds", "sweep_seconds", "lease_seconds")}
"""Tests look for mail and for work many times as often, which would be timed too."""

Body = Mapping[str, Any]
"""Of a request to the model."""
TimeCalls = Callable[[Sequence[Body]], list[float]]


@dataclass(frozen=True, slots=True)
class Sample:
    """One request, and its model calls alone: made right after it, since a machine is not equally fast all the time."""

    request: float
    calls: Sequence[float]

    @property
    def added(self) -> float:
        return self.request - sum(self.calls)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--requests", type=int, default=200)
    arguments.add_argument(_BASELINE, metavar="URL", help="time model calls read from standard input (for itself)")
    given = arguments.parse_args()
    if given.model_calls:
        asyncio.run(_time_model_calls(given.model_calls))
        return
    with tempfile.TemporaryDirectory() as folder, EmbeddedPostgres(Path(folder) / "postgres") as server:
        print(json.dumps(_machine() | measure(Path(folder), server.url(), given.requests), indent=2))  # noqa: T201


def measure(home: Path, url: str, requests: int) -> dict[str, object]:
    """All times in milliseconds."""
    with psycopg.connect(url, autocommit=True) as conn:
        conn.execute("create database chat")
    with open_stage(home, url.replace("/postgres?", "/chat?", 1), **_AS_SHIPPED) as stage:
        stage.daemon.up()
        stage.model.on_chat({"look": [[listing()], "Seen."]})
        with _model_calls(stage.model.root) as time_calls:
            samples = [_sample(stage, time_calls) for _ in range(_WARM + requests)][_WARM:]
        began = time.perf_counter()
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            at_once = list(pool.map(lambda _: _timed(stage), range(_AT_ONCE)))
        took = (time.perf_counter() - began) * 1000
    return {
        "requests": requests,
        "model calls of one": len(samples[0].calls),
        "request": _spread([sample.request for sample in samples]),
        "its model calls, by the same client library": _spread([sum(sample.calls) for sample in samples]),
        "added": _spread([sample.added for sample in samples]),
        f"{_AT_ONCE} chats at once": _spread(at_once) | {"all": round(took)},
    }


def _sample(stage: Stage, time_calls: TimeCalls) -> Sample:
    stage.model.requests.clear()
    took = _timed(stage)
    return Sample(took, time_calls([request.body for request in stage.model.requests]))


def _timed(stage: Stage) -> float:
    began = time.perf_counter()
    assert stage.talk().run("look").response == "Seen."
    return (time.perf_counter() - began) * 1000


@contextmanager
def _model_calls(root: str) -> Iterator[TimeCalls]:
    """Times model calls in a process of its own, as the program makes them in one."""
    command = [sys.executable, "-m", "tests.benchmark.chat", _BASELINE, root]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        write, read = process.stdin, process.stdout

        def time_calls(bodies: Sequence[Body]) -> list[float]:
            write.write(f"{json.dumps(bodies)}\n")
            write.flush()
            times: list[float] = json.loads(read.readline())
            return times

        yield time_calls
        write.close()


async def _time_model_calls(root: str) -> None:
    """Make the calls of each line of standard input, and print what each took."""
    client = ChatOpenAI(model="stub-model", base_url=root, api_key="model-key", max_retries=0)
    for line in sys.stdin:
        times = []
        for body in json.loads(line):
            options = {name: value for name, value in body.items() if name not in ("model", "messages", "stream")}
            began = time.perf_counter()
            await client.ainvoke(body["messages"], **options)
            times.append((time.perf_counter() - began) * 1000)
        print(json.dumps(times), flush=True)  # noqa: T201


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
