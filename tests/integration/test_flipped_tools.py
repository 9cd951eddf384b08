"""The main job with the mail agent's tools here, and with all three on an MCP server: nobody can tell which."""

import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography.fernet import Fernet
from pydantic import SecretStr

from email_assistant.app import open_app
from email_assistant.daemon import open_daemon
from email_assistant.settings import Settings
from tests.databases import databases
from tests.doubles import warm
from tests.doubles.google import Google
from tests.doubles.model import Model, tool
from tests.integration.home import Home, in_one_loop, log_in
from tests.integration.scene import ADA, DONE, NEXT_WEEK, meeting, reply

pytestmark = in_one_loop

TOOLS = ("send_email_tool", "schedule_meeting_tool", "check_calendar_tool")
SECRET = SecretStr(Fernet.generate_key().decode())


@asynccontextmanager
async def opened(
    where: str, folder: Path, database: str, google: Google, model: Model, **rules: str
) -> AsyncIterator[Home]:
    """The program with its tools here, on the server in its process, or on the same one over stdio."""
    settings: dict[str, Any] = {
        "home": folder / "home",
        "secret_key": SECRET,
        "openai_api_key": SecretStr("model-key"),
        "openai_base_url": model.root,
        "model": "stub-model",
        "google_root": google.root,
        "google_timeout_seconds": 5,
        "undo_seconds": 0,
        "max_tries": 2,
        "working_hours": "09:00-18:00",
    }
    if where != "local":
        server = {
            "command": warm.command("-m", "email_assistant", "mcp", "serve", "agent"),
            "env": {
                "DATABASE_URL": database,
                "EMAIL_ASSISTANT_HOME": str(folder / "home"),
                "EMAIL_ASSISTANT_SECRET_KEY": SECRET.get_secret_value(),
                "EMAIL_ASSISTANT_GOOGLE_ROOT": google.root,
                "EMAIL_ASSISTANT_WORKING_HOURS": "09:00-18:00",
            },
            "own": True,
        }
        chosen = {name: {"backend": "agent" if where == "in process" else "elsewhere"} for name in TOOLS}
        settings["tools"] = folder / "tools.yaml"
        settings["tools"].write_text(json.dumps({"servers": {"elsewhere": server}, "tools": chosen}))
    if rules:
        settings["tools"] = folder / "tools.yaml"
        settings["tools"].write_text(json.dumps({"tools": {name: {"review": rule} for name, rule in rules.items()}}))
    async with open_app(Settings(**settings), database) as app, open_daemon(app) as works:
        account = await log_in(app, google, folder)
        yield Home(app, works, google, account.id)


async def the_job(home: Home, google: Google, model: Model) -> dict[str, Any]:
    """Everything that the tools do, and all that anybody saw of it."""
    asked: list[Any] = []

    async def all_asked() -> list[Any]:
        items = sorted(await home.pending(), key=lambda item: item.action)
        asked.extend((i.kind, i.action, i.args, i.allowed, i.conflicts, i.new_recipients) for i in items)
        asked.extend((i.sent_from, i.left_out, i.calendars) for i in items)
        return items

    google.add_alias("info@example.com", "Office", "<p>Main Street 1</p>")
    google.add_event("Dentist", NEXT_WEEK, NEXT_WEEK + timedelta(hours=1))
    day = NEXT_WEEK.strftime("%d-%m-%Y")
    model.script(
        {
            "Plan": [
                [tool("check_calendar_tool", dates=[day])],
                [meeting(NEXT_WEEK + timedelta(hours=3)), reply("Booked.", additional_recipients=["dan@example.net"])],
                [DONE],
            ],
            "Edited": [[reply("Fine.")], [DONE]],
            "Refused": [[reply("Fine.")], [reply("Again.")], [DONE]],
        }
    )
    plan = await home.receive("Plan", headers={"Cc": "dan@example.net"})
    for item in await all_asked():
        await home.decide(item, "accept")
    await home.carry_on()
    await home.receive("Edited", headers={"To": "info@example.com, eve@example.net"})
    [item] = await all_asked()
    await home.answer(item, "edit", {**item.args, "response_text": "Better."})
    await home.receive("Refused")
    [item] = await all_asked()
    google.fault("drafts.send", status=400, reason="invalidArgument")
    await home.answer(item, "accept")
    [item] = await all_asked()
    await home.answer(item, "accept")
    assert await home.is_done(plan)
    return {
        "asked": asked,
        "sent": [
            (m.text, m.subject, m.addresses("To"), m.addresses("Cc"), *(_bare(m.parsed[name]) for name in _THREADING))
            for m in google.sent
        ],
        "events": [
            {k: v for k, v in event.items() if k in ("summary", "start", "end", "attendees", "status")}
            for event in google.events.values()
        ],
        "told": [request.tool_results for request in model.requests],
        "offered": [sorted(request.tools) for request in model.requests],
        "effects": await home.sql(
            """select tool, args, state, result, recipient, external_id <> '' as made
               from effects where run_id is not null order by started_at"""
        ),
        "mails": sorted((m.subject, m.state, m.reason) for m in await home.mails()),
    }


_THREADING = ("In-Reply-To", "References", "From")


def _bare(message_ids: str) -> str:
    """Without the digits that are random."""
    return re.sub(r"\d{6,}", "", message_ids)


@pytest.mark.long
async def test_all_tools_on_a_server_do_what_they_do_here(tmp_path: Path, postgres_url: str) -> None:
    seen = {}
    for where in ("local", "in process", "stdio"):
        folder = tmp_path / where
        folder.mkdir()
        with (
            databases(postgres_url).migrated() as database,
            Google(ADA, timezone="Europe/Berlin") as google,
            Model() as model,
        ):
            model.on_triage("respond")
            async with opened(where, folder, database, google, model) as home:
                seen[where] = await the_job(home, google, model)
    assert len(seen["local"]["sent"]) == 3
    for what, expected in seen["local"].items():
        assert seen["in process"][what] == expected
        assert seen["stdio"][what] == expected


async def test_a_reply_goes_out_unseen_only_where_both_rule_and_mode_say_so(tmp_path: Path, database_url: str) -> None:
    with Google(ADA, timezone="Europe/Berlin") as google, Model() as model:
        model.on_triage("respond")
        async with opened("local", tmp_path, database_url, google, model, send_email_tool="never") as home:
            for mode, sent, waiting in (("shadow", 0, 1), ("draft", 0, 2), ("send", 1, 2)):
                await home.sql("update accounts set mode = %s", mode)
                model.script([[reply("Fine.")], [DONE]])
                await home.receive(mode)
                assert [item.is_blank for item in await home.pending()] == [True] * waiting
                assert len(google.sent) == sent


async def test_a_calendar_that_is_looked_into_only_when_you_say_so(tmp_path: Path, database_url: str) -> None:
    with Google(ADA, timezone="Europe/Berlin") as google, Model() as model:
        model.on_triage("respond")
        model.script([[tool("check_calendar_tool", dates=[NEXT_WEEK.strftime("%d-%m-%Y")])], [DONE]])
        async with opened("local", tmp_path, database_url, google, model, check_calendar_tool="always") as home:
            await home.receive()
            [item] = await home.pending()
            assert (item.kind, item.action) == ("confirmation", "check_calendar_tool")
            assert google.calls("events.list") == []
            await home.answer(item, "accept")
            assert google.calls("events.list") != []


async def test_what_a_server_can_not_be_asked_about_is_done_again_on_the_persons_word(
    tmp_path: Path, database_url: str
) -> None:
    with Google(ADA, timezone="Europe/Berlin") as google, Model() as model:
        model.on_triage("respond")
        async with opened("in process", tmp_path, database_url, google, model) as home:
            model.script([[reply("Fine.")], [DONE]])
            await home.receive("Hi")
            [item] = await home.pending()
            await home.app.ledger.plan(
                item.run_id, item.call_id, item.action, item.args, item.args["email_address"], None
            )
            await home.sql("update effects set state = 'unknown', started_at = now()")
            await home.answer(item, "accept")
            [doubt] = await home.pending()
            assert doubt.kind == "in_doubt"
            await home.answer(doubt, "accept")
            assert await home.pending() == []
        assert len(google.sent) == 1
