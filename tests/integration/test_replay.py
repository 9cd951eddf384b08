"""`replay`: what another model would have made of mail that was worked on before, told before it is used."""

import json
import signal
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from psycopg import sql

from email_assistant.daemon import open_replay
from email_assistant.db.pool import session_settings
from email_assistant.work.replay import Replayed
from tests.doubles.daemon import WAIT_SECONDS, Daemon
from tests.doubles.google import Google
from tests.doubles.model import Model, ModelRequest, tool
from tests.doubles.serving import Hold
from tests.integration.conftest import Start
from tests.integration.home import OpenHome, in_one_loop
from tests.integration.scene import BOB, DONE, NEXT_WEEK, meeting, reply

OTHER = "other-model"
YES = "Friday suits me well. See you at noon."


def _classes(request: ModelRequest) -> str:
    if request.body["model"] == OTHER and request.mail.subject == "Figures":
        return "notify"
    return {"Lunch?": "respond", "Figures": "respond", "Plan": "respond", "Offer": "ignore"}[request.mail.subject]


def _proposals(request: ModelRequest) -> Any:
    text = "Dear Bob, the figures come on Monday."
    if request.mail.subject == "Figures":
        return [reply(text if request.body["model"] != OTHER else f"{text} I will call you."), DONE]
    if request.mail.subject == "Plan" and not request.tool_results:
        return [tool("check_calendar_tool", dates=[NEXT_WEEK.strftime("%d-%m-%Y")])]
    if request.mail.subject == "Plan":
        return [meeting()]
    return [reply(YES), DONE]


@pytest.fixture
def worked(start: Start, google: Google, model: Model) -> Daemon:
    """Four mails were worked on: one was answered, one was ignored, of two the proposals wait."""
    model.on_triage(_classes)
    model.script(_proposals)
    daemon = start()
    for subject in ("Lunch?", "Figures", "Plan", "Offer"):
        google.deliver(BOB, subject, "Does Friday suit you?")
    items = {item["subject"]: item for item in daemon.pending(3)}
    daemon.answer(items["Lunch?"], "edit", {**items["Lunch?"]["args"], "response_text": "No."})
    daemon.until_item(items["Lunch?"], "applied")
    daemon.wait_for(lambda: daemon.rules("response_preferences"), "it learned")
    return daemon


def replayed(daemon: Daemon, *arguments: str) -> Any:
    return daemon.cli("replay", "--yes", "--json", *arguments)


def everything(url: str) -> dict[str, str]:
    """Every table, row by row."""
    with psycopg.connect(url, **session_settings(url)) as conn:
        tables = conn.execute("select tablename from pg_tables where schemaname = current_schema()").fetchall()
        return {
            name: conn.execute(
                sql.SQL("select coalesce(string_agg(t::text, chr(10) order by t::text), '') from {} as t").format(
                    sql.Identifier(name)
                )
            ).fetchall()[0][0]
            for (name,) in tables
        }


def test_the_same_model_makes_no_difference_and_nothing_is_changed(
    worked: Daemon, google: Google, model: Model, database_url: str
) -> None:
    worked.stop()
    worked.environment["EMAIL_ASSISTANT_PRICES"] = json.dumps({"stub-model": {"prompt": 1000, "completion": 0}})
    before, requests, asked = everything(database_url), len(google.requests), len(model.requests)
    refused = worked.run("replay", "--only", "triage")
    prompts = sum(request.prompt_tokens for request in model.requests if request.kind == "triage")
    assert refused.returncode == 1
    assert "stub-model is asked 4 times (triage), about" in refused.stderr
    assert f"{prompts / 1000:.2f}" in refused.stderr
    assert len(model.requests) == asked

    found = replayed(worked)
    assert [found[what]["asked"] for what in ("triage", "drafts")] == [4, 3]
    assert [found[what]["differing"] for what in ("triage", "drafts")] == [[], []]
    assert found["drafts"]["survived"] == found["drafts"]["sentences"] == 3
    assert (found["used"]["calls"], found["canned"]) == (7, False)

    model.fault("response", times=3, hold=(hold := Hold()))
    asked = len(model.calls("response"))
    out, err = worked.home / "out", worked.home / "err"
    going = worked.nursery.start(["replay", "--yes"], worked.environment, worked.home, out, err)
    worked.wait_for(
        lambda: len(model.calls("response")) == asked + 3, "drafts are asked for, behind classes that are known"
    )
    going.send_signal(signal.SIGINT)
    assert going.wait(WAIT_SECONDS) == 130
    hold.release()
    assert "Stopped: " in err.read_text()
    assert "stub-model on 4 mails: no difference." in out.read_text()

    assert everything(database_url) == before
    assert len(google.requests) == requests


def test_what_another_model_would_make_of_them_is_named(worked: Daemon, model: Model) -> None:
    worked.cli("mails", "correct", next(m["id"] for m in worked.mails() if m["subject"] == "Figures"), "notify")
    worked.cli("memory", "add", "triage_preferences", "Ada wants to see what Bob writes.")
    worked.stop()
    asked = len(model.requests)
    found = replayed(worked, "--model", OTHER, "--background", "Ada teaches.")
    requests = model.requests[asked:]
    assert {request.body["model"] for request in requests} == {OTHER}
    assert all("Ada teaches." in request.text for request in requests)
    assert all("Ada wants to see" in request.text for request in requests if request.kind == "triage")
    # The calendar is not asked again: the model is told what it said then.
    assert [len(r.tool_results) for r in requests if r.kind == "response" and r.mail.subject == "Plan"] == [1]

    [mail] = found["triage"]["differing"]
    assert [mail[key] for key in ("subject", "before", "after", "reason")] == [
        "Figures",
        "respond",
        "notify",
        "Scripted.",
    ]
    assert (mail["corrected"], found["triage"]["as_corrected"]) == ("notify", 1)
    [draft] = found["drafts"]["differing"]
    assert [draft[key] for key in ("subject", "before", "after")] == ["Figures", "reply", "reply"]
    assert draft["kept"] == {"sentences": 1, "survived": 1, "distance": 4 / 11, "share": 1}
    assert draft["letter"].endswith("I will call you.")

    kept = worked.cli("eval", "drafts", "--json")
    assert (kept["all"]["letters"], kept["all"]["share"], kept["canned"]) == (1, 0, False)
    assert [each["name"] for each in kept["kinds"]] == ["reply"]

    told = worked.cli("replay", "--yes", "--model", OTHER, "--last", "3")
    assert "other-model on 3 mails: one class would be another." in told
    assert "respond → notify (you said notify)" in told


@in_one_loop
async def test_the_model_is_asked_what_it_was_asked_then_with_examples_and_letters(
    open_home: OpenHome, google: Google, model: Model
) -> None:
    """What the person decides, and writes, after that is told of no earlier mail."""
    model.on_triage("respond")
    model.script(lambda _: [reply(YES), DONE])
    headers = {"To": BOB, "In-Reply-To": "<asked@example.net>"}
    google.deliver(
        "Ada <ada@example.com>", "Re: Chess", "Hi Bob, sure thing! A.", headers=headers, labels=("SENT",),
        age=timedelta(days=3),
    )  # fmt: skip
    async with open_home(past_mail=True, backfill_days=90) as home:
        first = await home.receive("Offer: chairs")
        await home.app.corrections.correct(home.app.user_id, first, "notify", "test")
        await home.carry_on()
        second = await home.receive("Offer: tables")
        then = {kind: model.calls(kind)[-1].messages[1:] for kind in ("triage", "response")}
        assert "(same sender)" in str(then["triage"])
        assert "sure thing" in str(then["response"])
        third = await home.receive("Offer: lamps")
        await home.app.corrections.correct(home.app.user_id, third, "ignore", "test")
        await home.carry_on()
        for mail_id in (first, third):  # nothing waits of them
            await home.sql("delete from inbox_items where mail_id = %s", mail_id)
        before, asked = len(await home.sql("select from gate_calls")), len(model.requests)

        async with open_replay(home.app, home.app.settings) as (again, _):
            accounts = await home.app.accounts.of_user(home.app.user_id)
            cases = await again.cases(home.app.user_id, accounts, ("triage", "drafts"), 10)
            found: list[Replayed] = []
            await again.ask([case for case in cases if case.mail_id == second], found, lambda _: None)
        assert [each.differs for each in found] == [False, False]
        requests = {request.kind: request.messages[1:] for request in model.requests[asked:]}
        assert requests == then
        assert len(await home.sql("select from gate_calls")) == before
