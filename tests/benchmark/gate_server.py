"""What a call of somebody else's agent waits for the gate, in a new session and in one of 10,000 calls, and what a
server takes for calls that wait for a person.

`email-assistant gate serve` as a process of its own, asked over HTTP on this machine. Questions of both sessions, and
`/health`, which asks the database too, alternate: what else runs weighs on all alike.
"""

# ruff: noqa: ASYNC110, ASYNC220

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import psycopg

from email_assistant.db.embedded import EmbeddedPostgres
from tests.benchmark.measured import spread
from tests.doubles.ports import free_port

_KEY = "key-of-the-benchmark"
_TOUCHES = {"write_operation": False, "read_private_data": False, "read_untrusted_public_data": False, "acl": "PUBLIC"}
_LABELS = {"add": _TOUCHES, "read_files": {**_TOUCHES, "read_private_data": True, "acl": "PRIVATE"}}
_ARGS = json.dumps({"path": "/home/ada/plan.txt"})
_TEXT = "The offer of 4,000 euros is valid until 15 June; Bob Berg <bob@friend.example> knows more.\n" * 5


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--calls", type=int, default=10_000)
    parser.add_argument("--held", type=int, default=1000)
    parser.add_argument("--asked", type=int, default=500)


def main(given: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory() as folder, EmbeddedPostgres(Path(folder) / "postgres") as server:
        asyncio.run(_measure(Path(folder), server.url(), given))


async def _measure(folder: Path, url: str, given: argparse.Namespace) -> None:
    (folder / "tool_permissions.json").write_text(json.dumps({"agent": _LABELS}))
    async with _served(folder, url) as (http, pid):
        began, before = time.perf_counter(), _processor_seconds(pid)
        for _ in range(given.calls):
            await _call(http, "long")
        took, worked = time.perf_counter() - began, _processor_seconds(pid) - before
        print(
            f"{given.calls} calls begun and ended in {took:.0f} s; the server's processor time: "
            f"{worked / given.calls * 1000:.2f} ms each, begin and end"
        )
        await _compare(http, given.asked)
        await _hold(http, pid, url, given.held)
    async with _served(folder, url) as (http, _):
        print(f"first begin of a server that has just started: {await _timed(_begin(http, 'long')):.1f} ms")


async def _compare(http: httpx.AsyncClient, asked: int) -> None:
    times: dict[str, list[float]] = {"/health": [], "begin, new session": [], "begin, long session": []}
    for n in range(asked):
        times["/health"].append(await _timed(http.get("/health")))
        times["begin, new session"].append(await _timed(_begin(http, f"new {n}")))
        times["begin, long session"].append(await _timed(_begin(http, "long")))
    for what, each in times.items():
        print(f"{what:20} {spread(each)}")


async def _hold(http: httpx.AsyncClient, pid: int, url: str, held: int) -> None:
    print(f"before: {_uses(pid, url)}")
    began = time.perf_counter()
    waiting = [asyncio.create_task(_begin(http, f"held {n % 10}", "unknown", 600)) for n in range(held)]
    while await _pending(url) < held:
        await asyncio.sleep(0.1)
    print(f"{held} calls held in {time.perf_counter() - began:.1f} s: {_uses(pid, url)}")
    before = _processor_seconds(pid)
    await asyncio.sleep(10)
    print(f"processor time while they wait: {(_processor_seconds(pid) - before) / 10 * 100:.1f} % of one core")
    began = time.perf_counter()
    for n in range(held):
        answer = {"session_id": f"held {n % 10}", "kind": "tool", "name": "unknown", "command": "approve"}
        (await http.post("/api/approve_or_deny", json=answer)).raise_for_status()
    approved = sum(told["approved"] is True for told in await asyncio.gather(*waiting))
    print(f"{approved} of them approved, one by one, and answered in {time.perf_counter() - began:.1f} s")


async def _call(http: httpx.AsyncClient, session: str) -> None:
    begun = await _begin(http, session)
    assert begun["approved"], begun
    ended = {"session_id": session, "call_id": begun["call_id"], "status": "ok", "result_summary": _TEXT}
    (await http.post("/agent/end", json=ended)).raise_for_status()


async def _begin(
    http: httpx.AsyncClient, session: str, name: str = "read_files", timeout_s: float = 30
) -> dict[str, Any]:
    body = {"session_id": session, "name": name, "args_summary": _ARGS, "timeout_s": timeout_s}
    told: dict[str, Any] = (await http.post("/agent/begin", json=body)).raise_for_status().json()
    return told


async def _timed(request: Any) -> float:
    """In milliseconds."""
    began = time.perf_counter()
    await request
    return (time.perf_counter() - began) * 1000


async def _pending(url: str) -> int:
    query = "select count(*) from email_assistant.inbox_items where status = 'pending'"
    async with await psycopg.AsyncConnection.connect(url) as conn:
        row = await (await conn.execute(query)).fetchone()
    return int(row[0]) if row else 0


def _uses(pid: int, url: str) -> str:
    status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    with psycopg.connect(url) as conn:
        query = "select count(*) from pg_stat_activity where application_name = 'email-assistant'"
        [connections] = conn.execute(query).fetchone() or (0,)
    megabytes = int(status["VmRSS"].split()[0]) // 1024
    return f"{status['Threads'].strip()} threads, {connections} connections to the database, {megabytes} MB"


def _processor_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@asynccontextmanager
async def _served(folder: Path, url: str) -> AsyncIterator[tuple[httpx.AsyncClient, int]]:
    """A server, and its process."""
    port = free_port()
    environment = {
        **os.environ,
        "EMAIL_ASSISTANT_HOME": str(folder),
        "EMAIL_ASSISTANT_API_TOKEN": _KEY,
        "DATABASE_URL": url,
    }
    command = (sys.executable, "-m", "email_assistant", "gate", "serve", "--port", str(port))
    with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL) as process:
        headers = {"authorization": f"Bearer {_KEY}"}
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
        root = f"http://127.0.0.1:{port}"
        async with httpx.AsyncClient(
            base_url=root, headers=headers, timeout=700, limits=limits, trust_env=False
        ) as http:
            try:
                while not await _answers(http):
                    await asyncio.sleep(0.1)
                yield http, process.pid
            finally:
                process.terminate()
                process.wait()


async def _answers(http: httpx.AsyncClient) -> bool:
    try:
        return (await http.get("/health")).is_success
    except httpx.TransportError:
        return False
