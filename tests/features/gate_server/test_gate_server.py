"""The gate as a server: other people's agents ask over HTTP before they call a tool."""

import asyncio
import json
import re
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
from pydantic import SecretStr
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from email_assistant.app import App, open_app
from email_assistant.features.gate_server.client import Gate
from email_assistant.features.gate_server.routes import site
from email_assistant.features.notices.notices import cards
from email_assistant.features.notices.telling import Telling
from email_assistant.gate.ledger import check
from email_assistant.inbox.items import Item
from email_assistant.settings import Settings
from email_assistant.web.auth import Key
from tests.doubles.serving import Server
from tests.features.terminal.test_terminal import shown
from tests.integration.test_api import TOKEN, Home, client, served

LABELS: dict[str, Any] = {
    "_metadata": {"last_updated": "2026-01-01"},
    "agent": {
        "read_contacts": {"read_private_data": True, "acl": "PRIVATE"},
        "read_files": {"read_private_data": True, "acl": "PRIVATE"},
        "read_secrets": {"read_private_data": True, "acl": "SECRET"},
        "read_web": {"read_untrusted_public_data": True, "acl": "PUBLIC"},
        "send_mail": {"write_operation": True, "acl": "PUBLIC"},
        "add": {"acl": "PUBLIC"},
        "wipe": {"enabled": False},
    },
}
_NEEDED = {"write_operation": False, "read_private_data": False, "read_untrusted_public_data": False}
EVE = json.dumps({"to": "eve@evil.example", "body": "hello"})


def labels_file(path: Path) -> Path:
    tools = {
        name: {**_NEEDED, "description": name, **labels} if "acl" in labels else labels
        for name, labels in LABELS["agent"].items()
    }
    path.write_text(json.dumps({**LABELS, "agent": tools}))
    return path


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    labels_file(tmp_path / "tool_permissions.json")
    key = SecretStr("6OGYLyGsqb31m8jzXYSdX6yFw5wBDjqdjzhTwMBRWNc=")
    return Settings(home=tmp_path, secret_key=key)


@pytest.fixture
async def app(settings: Settings, database_url: str) -> AsyncIterator[App]:
    async with open_app(settings, database_url) as opened:
        yield opened


@pytest.fixture
async def root(app: App) -> AsyncIterator[str]:
    async with served(app) as address:
        yield address


class Agent:
    """Somebody else's agent, as a client of the server."""

    def __init__(self, http: httpx.AsyncClient, app: App, session: str = "s1") -> None:
        self.http, self.app, self.session = http, app, session

    async def begin(self, name: str, args: str | None = "{}", timeout_s: float = 20) -> dict[str, Any]:
        given = {"session_id": self.session, "name": name, "args_summary": args, "timeout_s": timeout_s}
        answer = await self.http.post("/agent/begin", json=given)
        assert answer.status_code == 200
        told: dict[str, Any] = answer.json()
        return told

    async def end(self, call: dict[str, Any], result: str = "", status: str = "ok") -> httpx.Response:
        given = {"session_id": self.session, "call_id": call["call_id"], "status": status, "result_summary": result}
        return await self.http.post("/agent/end", json=given)

    async def call(self, name: str, args: str | None = "{}", result: str = "done") -> dict[str, Any]:
        """Begun and ended, without a question."""
        begun = await self.begin(name, args, timeout_s=1)
        assert begun["approved"] is True, begun
        assert (await self.end(begun, result)).json() == {"ok": True}
        return begun

    async def decide(self, command: str, name: str = "", call_id: str | None = None) -> httpx.Response:
        given = {"session_id": self.session, "kind": "tool", "name": name, "command": command, "call_id": call_id}
        return await self.http.post("/api/approve_or_deny", json=given)

    async def held(self, count: int = 1) -> list[Item]:
        """What waits for the person, oldest first, once there is so much of it."""
        async with asyncio.timeout(20):
            while True:
                items, _ = await self.app.inbox.page(self.app.user_id, status="pending", limit=500)
                if len(items) == count:
                    return items
                await asyncio.sleep(0.02)

    @asynccontextmanager
    async def holding(
        self, name: str = "send_mail", args: str = EVE, timeout_s: float = 20
    ) -> AsyncIterator["asyncio.Task[dict[str, Any]]"]:
        """While a call waits for the person."""
        task = asyncio.create_task(self.begin(name, args, timeout_s))
        await self.held()
        yield task

    async def sessions(self) -> dict[str, dict[str, Any]]:
        content = (await self.http.get("/sessions.db")).content
        with closing(sqlite3.connect(":memory:")) as db:
            db.deserialize(content)
            rows = db.execute("select session_id, tool_calls, data_access_summary, agent_name from mcp_sessions")
            return {row[0]: {"calls": json.loads(row[1]), "flags": json.loads(row[2]), "agent": row[3]} for row in rows}

    async def statuses(self) -> list[str]:
        return [call["status"] for call in (await self.sessions())[self.session]["calls"]]


async def contacts_read(app: App, times: int) -> None:
    """The address book is read so often again, and tells of nobody."""
    async with app.pool.connection() as conn:
        await conn.execute(
            """with read as (
                   insert into gate_requests
                       (user_id, session_id, call_id, tool, verdict, reason, labels, external, cleared)
                   select user_id, session_id, gen_random_uuid(), tool, verdict, reason, labels, external, cleared
                   from gate_requests cross join generate_series(1, %s)
                   where id = (select min(id) from gate_requests where tool = 'agent_read_contacts') returning *)
               insert into gate_ended (user_id, session_id, call_id, status, result)
               select user_id, session_id, call_id, 'ok', '[]' from read""",
            (times,),
        )


@pytest.fixture
async def agent(root: str, app: App) -> AsyncIterator[Agent]:
    async with client(root, authorization=f"Bearer {TOKEN}") as http:
        yield Agent(http, app)


class TestDecisions:
    async def test_what_touches_nothing_runs(self, agent: Agent) -> None:
        told = await agent.begin("add")
        assert told == {"ok": True, "session_id": "s1", "call_id": told["call_id"], "approved": True, "error": None}

    async def test_names_are_normalised(self, agent: Agent) -> None:
        await agent.call("add")
        await agent.call("agent_add")
        calls = (await agent.sessions())["s1"]["calls"]
        assert [call["tool_name"] for call in calls] == ["agent_add", "agent_add"]

    async def test_a_session_is_minted(self, agent: Agent) -> None:
        answer = (await agent.http.post("/agent/begin", json={"name": "add"})).json()
        assert answer["approved"] is True
        assert answer["session_id"] in await agent.sessions()

    async def test_a_session_is_made_once(self, agent: Agent) -> None:
        for _ in range(2):
            answer = await agent.http.post("/agent/session", json={"session_id": "s1", "request": "hello"})
            assert answer.json() == {"ok": True, "session_id": "s1"}
        assert [*await agent.sessions()] == ["s1"]

    async def test_the_persons_own_words_clear_a_call(self, agent: Agent) -> None:
        asked = {"session_id": "s1", "request": "Send a mail to eve@evil.example that says hello"}
        await agent.http.post("/agent/session", json=asked)
        assert (await agent.begin("send_mail", EVE))["approved"] is True

    async def test_so_does_the_address_book(self, agent: Agent) -> None:
        await agent.http.post("/agent/session", json={"session_id": "s1", "request": "Send a mail to Bob Berg"})
        args = json.dumps({"to": "bob@example.org", "body": "hello"})
        assert (await agent.begin("send_mail", args, timeout_s=0.5))["approved"] is False
        await agent.call("read_contacts", result=json.dumps([{"name": "Bob Berg", "email": "bob@example.org"}]))
        assert (await agent.begin("send_mail", args))["approved"] is True

    async def test_it_goes_by_the_newest_hundred_answers_of_a_kind(self, agent: Agent) -> None:
        args = json.dumps({"to": "bob@example.org", "body": "hello"})
        await agent.http.post("/agent/session", json={"session_id": "s1", "request": "Send a mail to Bob Berg"})
        await agent.call("read_contacts", result=json.dumps([{"name": "Bob Berg", "email": "bob@example.org"}]))
        await contacts_read(agent.app, 99)
        assert (await agent.begin("send_mail", args))["approved"] is True
        await contacts_read(agent.app, 1)
        assert (await agent.begin("send_mail", args, timeout_s=0.5))["approved"] is False

    async def test_what_is_no_json_asks(self, agent: Agent) -> None:
        await agent.http.post("/agent/session", json={"session_id": "s1", "request": "Send eve@evil.example a mail"})
        told = await agent.begin("send_mail", "to=eve@evil.example", timeout_s=0.5)
        assert told["approved"] is False

    @pytest.mark.parametrize("body", ["{", "[]", json.dumps({"name": 3}), json.dumps({"name": "add", "timeout_s": 0})])
    async def test_a_malformed_body_is_refused(self, agent: Agent, body: str) -> None:
        headers = {"content-type": "application/json"}
        assert (await agent.http.post("/agent/begin", content=body, headers=headers)).status_code == 422

    async def test_a_report_of_a_million_characters_is_taken(self, agent: Agent) -> None:
        begun = await agent.begin("add")
        assert (await agent.end(begun, "ä" * 1_000_000)).json() == {"ok": True}

    async def test_a_failure_within_allows_nothing(self, agent: Agent, settings: Settings) -> None:
        (settings.folder / "tool_permissions.json").write_text("{")
        told = await agent.begin("add")
        assert (told["ok"], told["approved"]) == (False, None)


class TestKey:
    """An agent's own opens what it asks by, and nothing else: it can't answer itself."""

    KEY = "key-of-the-agents"
    OPENS = Key(KEY, site().is_opened_by_key)

    @pytest.fixture
    async def agents(self, app: App) -> AsyncIterator[Agent]:
        async with (
            served(app, keys=[self.OPENS]) as root,
            client(root, authorization=f"Bearer {self.KEY}") as http,
        ):
            yield Agent(http, app)

    async def test_it_lets_an_agent_ask(self, agents: Agent) -> None:
        assert (await agents.http.get("/mcp/status")).status_code == 200
        assert (await agents.http.post("/agent/session", json={"session_id": "s1"})).status_code == 200
        call = await agents.begin("read_web")
        assert call["approved"] is True
        assert (await agents.end(call)).json() == {"ok": True}

    @pytest.mark.parametrize(
        ("method", "path"),
        [
            ("POST", "/api/approve_or_deny"),
            ("GET", "/api/inbox"),
            ("POST", "/api/inbox/00000000-0000-0000-0000-000000000000/decision"),
            ("POST", "/api/stop"),
            ("GET", "/events"),
            ("GET", "/sessions.db"),
            ("GET", "/metrics"),
            ("GET", "/"),
            ("GET", "/agent"),
            ("POST", "/mcp/status"),
            ("GET", "/agent/../api/inbox"),
            ("GET", "/agent/%2e%2e/api/inbox"),
            ("GET", "//agent/../api/inbox"),
        ],
    )
    async def test_it_opens_nothing_else(self, agents: Agent, method: str, path: str) -> None:
        answer = await agents.http.request(method, path, json={} if method == "POST" else None)
        assert answer.status_code in (401, 404, 405), answer.text
        assert answer.status_code in (401, 405) or path.startswith("/agent/")
        logged_in = await agents.http.get(f"/?token={self.KEY}")
        assert logged_in.status_code == 401

    async def test_the_inboxs_token_opens_what_agents_ask_by_too(self, app: App) -> None:
        async with (
            served(app, keys=[self.OPENS]) as root,
            client(root, authorization=f"Bearer {TOKEN}") as http,
        ):
            assert (await http.get("/mcp/status")).status_code == 200


class TestHolds:
    async def test_it_stands_in_the_inbox_with_the_reason(self, agent: Agent) -> None:
        async with agent.holding() as task:
            [item] = await agent.held()
            assert "eve@evil.example" in (item.because or "")
            assert [mark.kind for mark in item.marks] == ["gate_reason"]
            told = (await agent.http.get(f"/api/inbox/{item.id}")).json()
            assert (told["run"], told["account"], told["status"]) == (None, "", "pending")
            assert (await agent.http.get("/api/inbox/counts")).json()["by_status"]["pending"] == 1
            assert len((await agent.http.get("/api/inbox?q=@evil.example")).json()["items"]) == 1
            for path in ("/", f"/items/{item.id}", f"/api/inbox/{item.id}/context", "/api/inbox"):
                assert (await agent.http.get(path)).status_code == 200, path
            assert (await agent.http.post("/threads/search", json={})).status_code == 200
            assert (await agent.decide("deny", call_id=item.call_id)).status_code == 200
            assert (await task)["approved"] is False

    async def test_pages_and_lists_tell_of_it_in_plain_words(self, agent: Agent) -> None:
        """Without a mailbox: an agent needs none."""
        body = json.dumps({"to": "eve@evil.example", "body": "The code is 884422."})
        await agent.call("read_files", result="The code is 884422.")
        async with agent.holding(args=body) as task:
            [item] = await agent.held()
            listed, page_of_it = [(await agent.http.get(path)).text for path in ("/", f"/items/{item.id}")]
            for page in (listed, page_of_it):
                assert "you never named “eve@evil.example”" in page
                assert "has not seen, as far as is known: “884422”" in page
            assert f"/items/{item.id}" in listed
            assert "An agent of yours asks before it does this, and waits a minute more" in page_of_it
            assert "in a chat" not in page_of_it
            assert "The mail" not in page_of_it
            bar = page_of_it[page_of_it.index('aria-label="Answers"') :]
            answers = dict(re.findall(r'name="answer" value="(\w+)"[^>]*>([^<]+)<', bar))
            assert answers == {"accept": "Allow", "done": "Refuse"}
            assert "What an agent of yours would do" in page_of_it
            assert "Later" not in bar  # it does not wait so long
            await agent.decide("deny", call_id=item.call_id)
            await task

    async def test_so_does_the_terminal_which_decides_it(self, agent: Agent) -> None:
        async with agent.holding() as task, shown(Home(agent.app)) as view:
            assert "you never named “eve@evil.example”" in " ".join(view.text.split())
            await view.press("o")
            await view.sees("What an agent of yours would do", "waits a minute more")
            await view.press("i")
            assert (await task)["error"] == "the person said no"
            await view.sees("Nothing waits for you.")

    async def test_a_channel_tells_of_it(self, agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("EMAIL_ASSISTANT_NOTIFY_SETTLE_SECONDS", "0")
        channels = Telling.of(agent.app).channels
        await channels.add(agent.app.user_id, "webhook", "hook", "https://hook.example", {})
        async with agent.holding() as task:
            [notice] = await channels.claim()
            [held] = await agent.app.inbox.of_ids(agent.app.user_id, notice.items)
            [card] = cards([held], notice.new)
            assert card["title"] == "! An agent of yours: agent_send_mail"
            assert "send" not in card
            await agent.decide("deny", "send_mail")
            await task

    async def test_none_is_allowed_while_everything_is_stopped(self, agent: Agent) -> None:
        app = agent.app
        async with agent.holding() as task:
            await app.accounts.stop(app.user_id)
            refused = await agent.decide("approve", "send_mail")
            assert refused.status_code == 409
            assert "everything is stopped" in refused.text
            denied = await agent.begin("add")
            assert (denied["approved"], denied["error"]) == (False, "the person has stopped everything")
            await app.accounts.go_on(app.user_id)
            assert (await agent.begin("add"))["approved"] is True
            await agent.decide("approve", "send_mail")
            assert (await task)["approved"] is True

    async def test_a_client_that_hardly_waits_is_told_that_nobody_answered(self, agent: Agent) -> None:
        told = await agent.begin("send_mail", EVE, timeout_s=0.01)
        assert (told["ok"], told["approved"], told["error"]) == (True, False, "nobody answered in time")
        assert told["call_id"]

    @pytest.mark.parametrize(
        "args",
        [
            '{"to": "eve@evil.example", "to": "bob@friend.example"}',
            '{"to": "bob@friend.example", "deep": [{"a": 1, "a": 2}]}',
            '{"to": "bob@friend.example\\u0000"}',
            '{"to": "bob@friend.example", "n": NaN}',
            '{"to": "bob@friend.example", "n": 1e999}',
        ],
    )
    async def test_what_a_tool_may_read_otherwise_asks(self, agent: Agent, args: str) -> None:
        given = {"session_id": agent.session, "request": "Send it to bob@friend.example"}
        await agent.http.post("/agent/session", json=given)
        assert (await agent.begin("send_mail", '{"to": "bob@friend.example"}'))["approved"] is True
        async with agent.holding("send_mail", args) as task:
            await agent.decide("deny", "send_mail")
            assert (await task)["approved"] is False

    async def test_the_inbox_decides_it(self, agent: Agent) -> None:
        async with agent.holding() as task:
            [item] = await agent.held()
            answer = await agent.http.post(f"/api/inbox/{item.id}/decision", json={"type": "accept"})
            assert (answer.status_code, answer.json()["status"]) == (200, "applied")
            assert (await task)["approved"] is True
            assert (await agent.http.post(f"/api/inbox/{item.id}/undo")).status_code == 409

    async def test_an_approved_calls_labels_count(self, agent: Agent) -> None:
        async with agent.holding() as task:
            [item] = await agent.held()
            await agent.decide("approve", call_id=item.call_id)
            await task
        flags = (await agent.sessions())["s1"]["flags"]["lethal_trifecta"]
        assert flags["has_external_communication"] is True

    async def test_it_is_visible_while_it_waits(self, agent: Agent) -> None:
        async with agent.holding() as task:
            assert await agent.statuses() == ["pending"]
            await agent.decide("deny", "send_mail")
            told = await task
        assert (told["ok"], told["approved"], bool(told["call_id"])) == (True, False, True)
        assert await agent.statuses() == ["blocked"]

    async def test_one_that_is_over_stays_so(self, agent: Agent) -> None:
        told = await agent.begin("send_mail", EVE, timeout_s=0.5)
        assert (told["ok"], told["approved"], bool(told["call_id"])) == (True, False, True)
        assert (await agent.decide("approve", call_id=told["call_id"])).status_code == 409
        assert (await agent.end(told)).json() == {"ok": True}
        assert await agent.statuses() == ["blocked"]
        [item] = (await agent.app.inbox.page(agent.app.user_id))[0]
        assert (item.status, item.state) == ("expired", "nobody answered in time")

    async def test_an_id_under_the_name_of_another_call_answers_nothing(self, agent: Agent) -> None:
        async with agent.holding() as task:
            [item] = await agent.held()
            other = await agent.decide("approve", "read_web", item.call_id)
            assert (other.status_code, other.json()["detail"]) == (
                409,
                "this call is of another tool: agent_send_mail",
            )
            assert not task.done()
            assert (await agent.decide("deny", "agent_send_mail", item.call_id)).status_code == 200
            assert (await task)["approved"] is False

    async def test_nobody_can_approve_for_a_client_that_left(self, agent: Agent) -> None:
        async with agent.holding() as task:
            [item] = await agent.held()
            task.cancel()
            await agent.held(0)
            assert (await agent.decide("approve", call_id=item.call_id)).status_code == 409
            gone = await agent.app.inbox.get(agent.app.user_id, item.id)
            assert (gone.status, gone.state) == ("expired", "the program that asked has gone")

    async def test_nor_for_a_server_that_died(self, agent: Agent) -> None:
        async with agent.holding() as task:
            [item] = await agent.held()
            async with agent.app.pool.connection() as conn:
                await conn.execute("update gate_requests set waits_until = clock_timestamp()")
            assert (await agent.decide("approve", call_id=item.call_id)).status_code == 409
            await agent.app.inbox.expire("google")
            assert (await agent.app.inbox.get(agent.app.user_id, item.id)).status == "expired"
            await task


class TestFaultsOfOthers:
    async def test_a_time_out_forgets_nothing(self, agent: Agent) -> None:
        """Private, a hold, untrusted, the time-out, then a send: the flags that came meanwhile still stand."""
        await agent.call("read_files")
        async with agent.holding(timeout_s=1) as task:
            await agent.call("read_web")
            assert (await task)["approved"] is False
        flags = (await agent.sessions())["s1"]["flags"]["lethal_trifecta"]
        assert (flags["has_private_data_access"], flags["has_untrusted_content_exposure"]) == (True, True)
        assert (await agent.begin("send_mail", EVE, timeout_s=0.5))["approved"] is False

    async def test_one_approval_releases_one_call(self, agent: Agent) -> None:
        first = asyncio.create_task(agent.begin("send_mail", EVE))
        await agent.held(1)
        second = asyncio.create_task(agent.begin("send_mail", EVE, timeout_s=2))
        await agent.held(2)
        assert (await agent.decide("approve", "send_mail")).status_code == 200
        assert ((await first)["approved"], (await second)["approved"]) == (True, False)

    async def test_no_approval_is_kept_for_later(self, agent: Agent) -> None:
        assert (await agent.decide("approve", "send_mail")).status_code == 404
        assert (await agent.begin("send_mail", EVE, timeout_s=0.5))["approved"] is False

    async def test_a_disabled_tool_is_not_approvable(self, agent: Agent) -> None:
        told = await agent.begin("wipe")
        assert (told["ok"], told["approved"], bool(told["call_id"])) == (True, False, True)
        assert (await agent.decide("approve", call_id=told["call_id"])).status_code == 404
        assert await agent.held(0) == []

    async def test_an_unknown_tool_asks(self, agent: Agent) -> None:
        assert (await agent.begin("agent_mystery", timeout_s=0.5))["approved"] is False

    @pytest.mark.parametrize("path", ["/events", "/mcp/status", "/sessions.db"])
    async def test_nothing_is_open_to_anyone(self, root: str, path: str) -> None:
        async with client(root) as http:
            assert (await http.get(path)).status_code == 401
            assert (await http.post("/agent/begin", json={"name": "add"})).status_code == 401
            assert (await http.get("/health")).status_code == 200


class TestEnds:
    async def test_the_first_report_counts(self, agent: Agent) -> None:
        begun = await agent.begin("add")
        await agent.end(begun, "first", "error")
        assert (await agent.end(begun, "second")).json() == {"ok": True}
        [call] = (await agent.sessions())["s1"]["calls"]
        assert (call["status"], call["result"]) == ("error", "first")

    async def test_an_unknown_call_makes_nothing(self, agent: Agent) -> None:
        assert (await agent.end({"call_id": "no-such"})).status_code == 404
        assert await agent.sessions() == {}


class TestEvents:
    async def test_they_tell_of_a_call_that_waits(self, agent: Agent) -> None:
        seen: list[str] = []
        async with agent.http.stream("GET", "/events") as stream:
            lines = stream.aiter_lines()
            await anext(lines)
            async with agent.holding() as task:
                await agent.decide("deny", "send_mail")
                await task
            async for line in lines:
                if line.startswith("data:"):
                    seen.append(json.loads(line.removeprefix("data:"))["type"])
                if "sessions_db_changed" in seen:
                    break
        assert seen == ["mcp_pre_block", "mcp_approve_or_deny_once", "sessions_db_changed"]


class TestLog:
    async def test_it_is_whole(self, agent: Agent) -> None:
        await agent.call("add")
        await agent.begin("send_mail", EVE, timeout_s=0.5)
        found = await check(agent.app.pool)
        assert (found.rows, found.faults) == (6, [])  # begun, ran, ended; begun, expired, ended

    async def test_the_database_keeps_it(self, agent: Agent) -> None:
        await agent.call("add")
        async with agent.app.pool.connection() as conn:
            with pytest.raises(psycopg.errors.RaiseException):
                await conn.execute("delete from gate_log")

    @pytest.mark.parametrize(
        ("statement", "why"),
        [
            ("update gate_log set digest = '' where place = 2", "it was altered"),
            ("delete from gate_log where place = 2", "a row before it is missing"),
            ("delete from gate_log where place = 3", "the log tells nothing of it"),
            ("update gate_requests set tool = 'agent_other'", "what it tells of was altered"),
            ("delete from gate_calls", "what it tells of is missing"),
        ],
    )
    async def test_what_was_changed_is_found(self, agent: Agent, statement: str, why: str) -> None:
        await agent.call("add")
        assert (await check(agent.app.pool)).rows == 3
        async with agent.app.pool.connection() as conn:
            await conn.execute("alter table gate_log disable trigger user")
            await conn.execute(statement.encode())
        assert why in {fault.why for fault in (await check(agent.app.pool)).faults}


class TestClient:
    async def test_it_asks_and_reports(self, agent: Agent, root: str) -> None:
        gate = await asyncio.to_thread(Gate, root, TOKEN, session_id="s1", timeout=0.5)
        ran: list[str] = []

        @gate.track()
        def add(a: int, b: int) -> int:
            """Add."""
            return a + b

        @gate.track()
        def send_mail(to: str) -> None:
            ran.append(to)

        assert (add.__name__, add.__doc__) == ("add", "Add.")
        assert await asyncio.to_thread(add, 1, b=2) == 3
        with pytest.raises(PermissionError):
            await asyncio.to_thread(send_mail, "eve@evil.example")
        await asyncio.to_thread(gate.flush)
        first, second = (await agent.sessions())["s1"]["calls"]
        assert (first["parameters"], first["status"]) == ({"summary": '{"a": 1, "b": 2}', "result_summary": "3"}, "ok")
        assert (second["status"], ran) == ("blocked", [])

    @pytest.mark.parametrize("key", ["", "wrong"])
    async def test_without_its_key_it_is_said_where_that_comes_from(
        self, root: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, key: str
    ) -> None:
        for name in ("EMAIL_ASSISTANT_AGENT_KEY", "EMAIL_ASSISTANT_API_TOKEN"):
            monkeypatch.delenv(name, raising=False)
        gate = await asyncio.to_thread(Gate, root, key)
        assert "gate key" in caplog.text
        ran: list[int] = []
        with pytest.raises(RuntimeError):
            await asyncio.to_thread(gate.track("add")(ran.append), 1)
        assert ran == []

    async def test_a_gate_that_is_down_lets_nothing_run_until_it_is_there(
        self, root: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        gate = await asyncio.to_thread(Gate, "http://127.0.0.1:9", TOKEN)
        assert "can't be reached" in caplog.text
        ran: list[int] = []
        add = gate.track("add")(ran.append)
        with pytest.raises(RuntimeError):
            await asyncio.to_thread(add, 1)
        assert ran == []

    @pytest.mark.parametrize(
        "keys",
        [
            {"EMAIL_ASSISTANT_AGENT_KEY": TOKEN, "EMAIL_ASSISTANT_API_TOKEN": "another"},
            {"EMAIL_ASSISTANT_API_TOKEN": TOKEN},
        ],
    )
    async def test_its_address_and_key_come_from_the_environment(
        self, root: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, keys: dict[str, str]
    ) -> None:
        monkeypatch.delenv("EMAIL_ASSISTANT_AGENT_KEY", raising=False)
        for name, value in ({"EMAIL_ASSISTANT_GATE_URL": root} | keys).items():
            monkeypatch.setenv(name, value)
        gate = await asyncio.to_thread(Gate)
        assert caplog.text == ""
        ran: list[int] = []
        await asyncio.to_thread(gate.track("add")(ran.append), 1)
        assert ran == [1]

    @pytest.mark.parametrize(
        "says",
        ["<html>Hello</html>", "[" * 100_000, "[]", '{"ok": true}', '{"ok": true, "approved": 1}'],
        ids=["a page", "deep", "a list", "ok alone", "no yes or no"],
    )
    def test_what_answers_and_is_no_gate_lets_nothing_run(self, says: str) -> None:
        async def answer(_: Request) -> Response:
            return Response(says)

        server = Server(Starlette(routes=[Route("/{path:path}", answer, methods=["GET", "POST"])]))
        server.start()
        ran: list[int] = []
        try:
            with pytest.raises(RuntimeError, match="does not answer as a gate does"):
                Gate(server.urls[0], TOKEN).track("add")(ran.append)(1)
        finally:
            server.stop()
        assert ran == []

    def test_what_cant_be_gated_is_an_error(self) -> None:
        gate = Gate("http://127.0.0.1:9", TOKEN, healthcheck=False)
        for tool in (object(), {"type": "function"}):
            with pytest.raises(TypeError):
                gate.gated(tool)
