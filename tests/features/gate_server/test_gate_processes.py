"""The gate as several processes of `gate serve`: they serve the same sessions, and one may die while a call waits."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.doubles.daemon import API_TOKEN, Daemon, Item
from tests.doubles.google import Google
from tests.doubles.model import Model
from tests.features.gate_server.test_gate_server import EVE, labels_file

Call = dict[str, Any]


@pytest.fixture
def daemon(tmp_path: Path, database_url: str, google: Google, model: Model) -> Iterator[Daemon]:
    file = labels_file(tmp_path / "labels.json")
    with Daemon(tmp_path, database_url, google, model, tool_permissions=file) as made:
        yield made


async def served(daemon: Daemon) -> str:
    _, root = await asyncio.to_thread(daemon.gate)
    daemon.http.base_url = root
    return root


def client(root: str) -> httpx.AsyncClient:
    headers = {"authorization": f"Bearer {API_TOKEN}"}
    return httpx.AsyncClient(base_url=root, headers=headers, trust_env=False, timeout=60)


async def begin(http: httpx.AsyncClient, name: str, args: str = "{}", timeout_s: float = 50) -> Call:
    given = {"session_id": "s", "name": name, "args_summary": args, "timeout_s": timeout_s}
    answer: Call = (await http.post("/agent/begin", json=given)).json()
    return answer


async def call(http: httpx.AsyncClient, name: str) -> None:
    begun = await begin(http, name)
    assert begun["approved"] is True
    ended = {"session_id": "s", "call_id": begun["call_id"], "status": "ok", "result_summary": "what it says"}
    assert (await http.post("/agent/end", json=ended)).status_code == 200


async def pending(daemon: Daemon, count: int = 1) -> list[Item]:
    return await asyncio.to_thread(daemon.pending, count)


async def test_what_one_read_another_counts(daemon: Daemon) -> None:
    async with client(await served(daemon)) as one, client(await served(daemon)) as other:
        for http in (one, other, one):
            await call(http, "add")  # both know the session
        await call(one, "read_files")
        await call(other, "read_web")
        for http in (one, other):
            assert (await begin(http, "send_mail", EVE, timeout_s=1))["approved"] is False


async def test_a_call_that_one_holds_is_answered_at_another(daemon: Daemon) -> None:
    async with client(await served(daemon)) as one, client(await served(daemon)) as other:
        held = asyncio.create_task(begin(one, "send_mail", EVE))
        await pending(daemon)
        answer = {"session_id": "s", "kind": "tool", "name": "send_mail", "command": "approve"}
        both = await asyncio.gather(*(http.post("/api/approve_or_deny", json=answer) for http in (one, other)))
        codes = sorted(told.status_code for told in both)  # the repeat of what was taken is none too many
        assert codes in ([200, 200], [200, 404], [200, 409])
        assert (await held)["approved"] is True
        found = await asyncio.to_thread(daemon.cli, "gate", "verify", "--json")
        assert found["faults"] == []


async def test_one_that_is_stopped_says_so_to_whom_it_holds(daemon: Daemon) -> None:
    told = await _ends(daemon, lambda process: asyncio.to_thread(process.stop))
    assert isinstance(told, dict)
    assert (told["ok"], told["approved"]) == (True, False)
    assert told["error"] == "the gate's server is ending; ask again once it is back"
    assert told["call_id"]
    assert "Traceback" not in daemon.processes[0].log


async def test_one_that_is_killed_lets_go_of_what_it_held(daemon: Daemon) -> None:
    assert isinstance(await _ends(daemon, lambda process: asyncio.to_thread(process.kill)), httpx.TransportError)


async def _ends(daemon: Daemon, end: Callable[[Any], Awaitable[None]]) -> Call | BaseException:
    """What a server held that ended can't be approved any more: not at once, and not later. Returns what the client was
    told."""
    async with client(await served(daemon)) as one:
        held = asyncio.create_task(begin(one, "send_mail", EVE))
        [item] = await pending(daemon)
        await served(daemon)
        await end(daemon.processes[0])
        [told] = await asyncio.gather(held, return_exceptions=True)
    assert daemon.decide(item["id"], "accept").status_code == 409
    assert (await asyncio.to_thread(daemon.until_item, item, "expired"))["id"] == item["id"]
    async with client(str(daemon.http.base_url)) as other:
        assert json.loads((await other.get("/api/inbox/counts")).content)["by_status"]["pending"] == 0
    return told


async def test_the_commands_show_and_decide_it(daemon: Daemon) -> None:
    async with client(await served(daemon)) as one:
        held = asyncio.create_task(begin(one, "send_mail", EVE))
        [item] = await pending(daemon)

        def by_hand() -> tuple[str, str, str]:
            listed, shown = daemon.cli("inbox", "list"), daemon.cli("inbox", "show", item["id"][:8])
            return listed, shown, daemon.cli("inbox", "accept", item["id"])

        listed, shown, taken = await asyncio.to_thread(by_hand)
        assert "agent_send_mail" in listed
        assert "What an agent of yours would do:" in shown
        assert "you never named “eve@evil.example”" in shown
        assert "waits a minute more" in shown
        assert "Allowed." in taken
        assert (await held)["approved"] is True
        undone = await asyncio.to_thread(daemon.run, "inbox", "undo", item["id"])
        assert (undone.returncode, "already answered (approved)" in undone.stderr) == (1, True)


async def test_what_waited_when_a_backup_was_made_waits_no_more(daemon: Daemon, tmp_path: Path) -> None:
    file = str(tmp_path / "backup.tar.gz")
    async with client(await served(daemon)) as one:
        await call(one, "read_files")
        held = asyncio.create_task(begin(one, "send_mail", EVE))
        [item] = await pending(daemon)
        await asyncio.to_thread(daemon.cli, "backup", file)
        assert daemon.decide(item["id"], "accept").status_code == 200
        assert (await held)["approved"] is True
    await asyncio.to_thread(daemon.stop)
    await asyncio.to_thread(daemon.cli, "restore", file, "--replace")
    await served(daemon)
    assert daemon.decide(item["id"], "accept").status_code == 409
    await asyncio.to_thread(daemon.until_item, item, "expired")
    assert (await asyncio.to_thread(daemon.cli, "gate", "verify", "--json"))["faults"] == []


async def test_what_is_answered_while_its_server_is_frozen_holds(daemon: Daemon) -> None:
    async with client(await served(daemon)) as one:
        held = asyncio.create_task(begin(one, "send_mail", EVE))
        [item] = await pending(daemon)
        await served(daemon)
        daemon.processes[0].freeze()
        try:
            assert daemon.decide(item["id"], "accept").status_code == 200
        finally:
            daemon.processes[0].thaw()
        assert (await held)["approved"] is True
