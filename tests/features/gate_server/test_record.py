"""What agents asked, as the person looks back at it: on the page, by the command, and as a file."""

import asyncio
import json
import sqlite3
from contextlib import closing
from typing import Any

import httpx

from email_assistant.app import App
from tests.doubles.daemon import Daemon
from tests.doubles.google import Google
from tests.doubles.model import Model
from tests.features.gate_server.test_gate_server import EVE, Agent, app, root, settings
from tests.integration.conftest import Start
from tests.integration.scene import BOB, DONE, reply
from tests.integration.test_api import TOKEN, client

__all__ = ["app", "root", "settings"]


def as_owner(root: str) -> httpx.AsyncClient:
    return client(root, authorization=f"Bearer {TOKEN}")


async def page(root: str, path: str) -> str:
    async with as_owner(root) as http:
        answer = await http.get(path)
    assert answer.status_code == 200, (path, answer.text)
    return str(answer.text)


async def test_each_session_stands_with_its_calls_and_what_they_touched(root: str, app: App) -> None:
    async with as_owner(root) as http:
        agent = Agent(http, app, "a trip <b>")
        await agent.call("read_contacts", '{"name": "Zoe"}')
        await agent.begin("wipe")
        asking = asyncio.create_task(agent.begin("send_mail", EVE))
        [item] = await agent.held()
        listed = await page(root, "/agents")
        assert "a trip &lt;b&gt;" in listed
        assert "1 waits for you" in listed
        assert "3 calls" in listed
        assert "read what is yours alone" in listed
        calls = await page(root, "/agents/session?name=a+trip+%3Cb%3E")
        assert calls.index("send_mail") < calls.index("wipe") < calls.index("read_contacts")
        assert "waits for you" in calls
        assert f'href="/items/{item.id}"' in calls
        assert "it is switched off in tool_permissions.json" in calls
        assert "eve@evil.example" in calls
        assert (await agent.decide("deny", "send_mail")).status_code == 200
        await asking
        assert "you answered by a program" in await page(root, "/agents/session?name=a+trip+%3Cb%3E")


async def test_a_page_holds_so_many_and_leads_on(root: str, app: App) -> None:
    async with as_owner(root) as http:
        for number in range(51):
            await Agent(http, app, f"session {number}").begin("add")
        agent = Agent(http, app, "session 50")
        for _ in range(50):
            await agent.begin("add")
    first = await page(root, "/agents")
    assert first.count('<li class="version"') == 50
    older = first.split("/agents?before=")[1].split('"')[0]
    assert (await page(root, f"/agents?before={older}")).count('<li class="version"') == 1
    calls = await page(root, "/agents/session?name=session+50")
    assert calls.count("<article") == 50
    older = calls.split("before=")[1].split('"')[0]
    assert (await page(root, f"/agents/session?name=session+50&before={older}")).count("<article") == 1


async def test_a_session_that_is_not_there_is_told(root: str) -> None:
    async with as_owner(root) as http:
        assert (await http.get("/agents/session?name=nobody")).status_code == 404
        assert "None has asked yet" in (await http.get("/agents")).text


async def test_an_open_page_hears_of_it_as_long_as_one_is_logged_in(root: str, app: App) -> None:
    """By the browser's cookie, as its script sends it; nobody hears it without."""
    async with as_owner(root) as http, client(root) as browser:
        assert (await browser.get("/events")).status_code == 401
        assert (await browser.post("/login", data={"token": TOKEN}, headers={"origin": root})).status_code == 303
        assert 'src="/agents/live.js"' in (await browser.get("/agents")).text
        assert "/events" in (await browser.get("/agents/live.js")).text
        async with browser.stream("GET", "/events") as events:
            lines = events.aiter_lines()
            await anext(lines)
            await Agent(http, app).begin("add")
            async for line in lines:
                if "sessions_db_changed" in line:
                    break


def test_the_command_says_the_same_and_the_file_has_our_own_too(connect: Start, google: Google, model: Model) -> None:
    model.script(lambda _: [reply("Friday is fine."), DONE])
    daemon = connect()
    daemon.up()
    mail_id = google.deliver(BOB, "Lunch?", "Does Friday suit you?")
    [item] = daemon.pending()
    daemon.accept(item)
    daemon.until_done(mail_id)
    call = {"session_id": "trip", "name": "send_mail", "timeout_s": 0.5, "agent_name": "planner"}
    assert daemon.http.post("/agent/begin", json=call).json()["approved"] is False

    [session] = daemon.cli("gate", "sessions", "--json")
    assert (session["name"], session["agent"], session["calls"]) == ("trip", "planner", 1)
    [told] = daemon.cli("gate", "sessions", "trip", "--json")
    assert (told["tool"], told["outcome"], told["why_not"]) == ("send_mail", "did not run", "nobody answered in time")
    assert "planner" in daemon.cli("gate", "sessions")
    assert "nobody answered in time" in daemon.cli("gate", "sessions", "trip")
    assert "there is no session nobody" in daemon.run("gate", "sessions", "nobody").stderr

    theirs, ours = rows(daemon)
    assert (theirs["session_id"], theirs["agent_name"]) == ("trip", "planner")
    assert (ours["correlation_id"], ours["agent_name"], ours["agent_type"]) == (
        google.message(mail_id).thread_id,
        "email-assistant",
        "mail",
    )
    assert "send_email_tool" in [call["tool_name"] for call in json.loads(ours["tool_calls"])]
    assert json.loads(ours["data_access_summary"])["lethal_trifecta"]["has_private_data_access"] is True


def rows(daemon: Daemon) -> list[Any]:
    with closing(sqlite3.connect(":memory:")) as db:
        answer = daemon.http.get("/sessions.db")
        assert answer.status_code == 200, daemon.processes[-1].log[-3000:]
        db.deserialize(answer.content)
        db.row_factory = sqlite3.Row
        return db.execute("select * from mcp_sessions order by id is null, id").fetchall()
