"""Tools of MCP servers, called as the agents call them, on a server that does all that one should not."""

import json
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from email_assistant.db.lease import held
from email_assistant.tools.spec import Call, ToolError
from tests.doubles.google import Google
from tests.doubles.model import tool as proposed
from tests.integration.conftest import google, model, open_home  # noqa: F401 - fixtures
from tests.integration.home import Home, OpenHome, in_one_loop

pytestmark = [in_one_loop, pytest.mark.slow]

READS = [
    "hang",
    "die",
    "huge",
    "long",
    "flood",
    "garble",
    "change",
    "image",
    "steps",
    "raise",
    "echo",
    "link",
    "ask_link",
    "ask_form",
    "lie",
    "words",
    "slow_pattern",
    "no_schema",
    "drift",
    "missing",
]
WRITES = ["add", "add_and_die", "add_and_hang"]
SECONDS = 3.0
"""Time-out of a call."""


def labels(*, writes: bool) -> dict[str, object]:
    return {
        "write_operation": writes,
        "read_private_data": False,
        "read_untrusted_public_data": True,
        "acl": "PUBLIC",
    }


@dataclass
class Nasty:
    """The server, and the program in front of it."""

    folder: Path
    transport: str
    home: Home
    port: int
    process: "subprocess.Popen[bytes] | None" = None

    def up(self) -> None:
        """Start the one over HTTP; the other is started by the program."""
        if self.transport == "stdio":
            return
        command = [sys.executable, "-m", "tests.doubles.nasty_mcp", str(self.folder), str(self.port)]
        self.process = subprocess.Popen(command)
        ends = time.monotonic() + 30
        while time.monotonic() < ends:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.02)
        raise TimeoutError("the server does not come up")

    def down(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def asked(self, tool: str) -> list[dict[str, Any]]:
        """What the server was asked to do."""
        log = self.folder / "calls.jsonl"
        lines = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
        return [line for line in lines if line["tool"] == tool]

    async def call(self, tool: str, text: str | None = None, **more: Any) -> str:
        async with self.calling(**more) as call:
            return await self.home.app.catalogue.run(call, tool, {} if text is None else {"text": text})

    @asynccontextmanager
    async def calling(self, call_id: str = "call_1", **more: Any) -> AsyncIterator[Call]:
        """A call of the newest mail's run, with its lease held."""
        [row] = await self.home.sql("select r.id, r.thread_id, r.input from runs r order by created_at desc limit 1")
        app, account = self.home.app, await self.home.account()
        async with held(app.pool, row["thread_id"], 60) as lease:
            assert lease is not None
            run = {**row["input"], "id": str(row["id"])}
            yield replace(Call(run, call_id, account, await app.clients.get(account.id), lease), **more)

    async def names(self) -> set[str]:
        return {tool.spec.name for tool in await self.home.app.catalogue.offered(self.home.account_id, ["nasty"])}

    async def refused(self, tool: str, text: str | None = None) -> str:
        with pytest.raises(ToolError) as caught:
            await self.call(tool, text)
        return str(caught.value)

    async def state(self, call_id: str = "call_1") -> str:
        [row] = await self.home.sql("select state from effects where call_id = %s", call_id)
        return str(row["state"])


OpenNasty = Callable[..., AbstractAsyncContextManager[Nasty]]


@pytest.fixture
def open_nasty(open_home: OpenHome, tmp_path: Path, google: Google, model: Any) -> Iterator[OpenNasty]:  # noqa: F811
    started: list[Nasty] = []

    @asynccontextmanager
    async def open_one(transport: str = "stdio", **server: Any) -> AsyncIterator[Nasty]:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        folder = tmp_path / "nasty"
        folder.mkdir(exist_ok=True)
        command = [sys.executable, "-m", "tests.doubles.nasty_mcp", str(folder)]
        where: dict[str, Any] = (
            {"command": command, "env": {"PYTHONPATH": str(Path.cwd())}}
            if transport == "stdio"
            else {"url": f"http://127.0.0.1:{port}/mcp/"}
        )
        other: dict[str, Any] = {"command": command, "env": {"PYTHONPATH": str(Path.cwd())}}
        (tmp_path / "tools.yaml").write_text(
            json.dumps(
                {
                    "servers": {
                        "nasty": {**where, "timeout_seconds": SECONDS, **server},
                        "other": {**other, "timeout_seconds": 20},
                    },
                    "tools": {name: {"backend": "nasty", "type": "nasty"} for name in (*READS, *WRITES)}
                    | {"slow_pattern": {"backend": "other", "type": "other"}},
                }
            )
        )
        (tmp_path / "permissions.json").write_text(
            json.dumps({"agent": {name: labels(writes=name in WRITES) for name in (*READS, *WRITES)}})
        )
        model.on_triage("respond")
        model.script([[proposed("Question", content="What now?")]])
        async with open_home(tools=tmp_path / "tools.yaml", tool_permissions=tmp_path / "permissions.json") as home:
            await home.receive()
            nasty = Nasty(folder, transport, home, port)
            started.append(nasty)
            nasty.up()
            yield nasty

    yield open_one
    for nasty in started:
        nasty.down()


@pytest_asyncio.fixture(params=["stdio", "http", "http-json"], loop_scope="module")
async def nasty(request: pytest.FixtureRequest, open_nasty: OpenNasty, tmp_path: Path) -> AsyncIterator[Nasty]:
    transport = request.param
    if transport == "http-json":
        (tmp_path / "nasty").mkdir()
        (tmp_path / "nasty" / "json.txt").touch()
    async with open_nasty(transport.partition("-")[0]) as opened:
        yield opened


class TestAnswers:
    async def test_all(self, nasty: Nasty) -> None:
        assert await nasty.call("echo", "hello") == "<data>\ndid echo: hello\n</data>"
        print(await nasty.names())
        for name in ("long", "image", "lie", "garble", "raise", "huge", "echo"):
            begun = time.monotonic()
            try:
                print(name, (await nasty.call(name, "x" if name == "echo" else None))[:200], time.monotonic() - begun)
            except Exception as error:
                print(name, repr(error)[:300], time.monotonic() - begun)
        for name, text in (
            ("hang", None),
            ("flood", None),
            ("die", None),
            ("link", "https://a.example/x"),
            ("link", "javascript:alert(1)"),
            ("link", "http://a.example"),
            ("ask_link", "https://b.example/"),
            ("ask_form", "How many?"),
            ("words", None),
            ("no_schema", None),
            ("missing", None),
        ):
            begun = time.monotonic()
            try:
                print(name, (await nasty.call(name, text))[:200], time.monotonic() - begun)
            except Exception as error:
                print(name, repr(error)[:300], getattr(error, "__dict__", None), time.monotonic() - begun)
