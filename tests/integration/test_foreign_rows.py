"""Rows that somebody else has written into the database: nothing in them is run, and nobody else's work stops."""

import json
import logging
import os
import pickle
import shlex
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import ormsgpack
import psycopg
import pytest
import pytest_asyncio
from langgraph.checkpoint.serde import jsonplus

from email_assistant.db.pool import session_settings
from email_assistant.features.notices.telling import Telling
from email_assistant.inbox.items import Item
from email_assistant.web.app import create_api
from tests.contract.chat_stage import event, open_stage
from tests.doubles.model import Model
from tests.integration.home import Home, in_one_loop, until
from tests.integration.scene import ADA, BOB, DONE, reply

Row = tuple[str, bytes]
"""The name of a format, and the bytes."""


def ext(code: int, *named: Any) -> ormsgpack.Ext:
    return ormsgpack.Ext(code, ormsgpack.packb(named))


def packed(value: object) -> Row:
    return "msgpack", ormsgpack.packb(value)


def lc(version: int, *path: str, **arguments: object) -> Row:
    named = {"lc": version, "type": "constructor", "id": path, "kwargs": arguments}
    return "json", json.dumps(named).encode()


class OnUnpickling:
    def __init__(self, command: str) -> None:
        self.command = command

    def __reduce__(self) -> tuple[Callable[[str], int], tuple[str]]:
        return os.system, (self.command,)


def message_with(inner: ormsgpack.Ext) -> Row:
    fields = {"content": [inner], "type": "human"}
    named = ("langchain_core.messages.human", "HumanMessage", fields, "model_validate_json")
    return "msgpack", ormsgpack.packb([ormsgpack.Ext(jsonplus.EXT_PYDANTIC_V2, ormsgpack.packb(named))])


def buried(inner: ormsgpack.Ext, depth: int) -> ormsgpack.Ext:
    for _ in range(depth):
        inner = ormsgpack.Ext(jsonplus.EXT_DELTA_SNAPSHOT, ormsgpack.packb(inner))
    return inner


HOSTILE: dict[str, Callable[[str], Row]] = {
    "one argument": lambda command: packed(ext(jsonplus.EXT_CONSTRUCTOR_SINGLE_ARG, "os", "system", command)),
    "arguments": lambda command: packed(
        ext(jsonplus.EXT_CONSTRUCTOR_POS_ARGS, "subprocess", "run", (shlex.split(command),))
    ),
    "named arguments": lambda command: packed(
        ext(jsonplus.EXT_CONSTRUCTOR_KW_ARGS, "subprocess", "run", {"args": shlex.split(command)})
    ),
    "a method": lambda command: packed(
        ext(jsonplus.EXT_METHOD_SINGLE_ARG, "subprocess", "os", command, "system"),
    ),
    "a model of before": lambda command: packed(
        ext(jsonplus.EXT_PYDANTIC_V1, "subprocess", "run", {"args": shlex.split(command)})
    ),
    "a model": lambda command: packed(
        ext(jsonplus.EXT_PYDANTIC_V2, "subprocess", "run", {"args": shlex.split(command)}, "model_validate_json")
    ),
    "a regular expression": lambda command: packed(ext(jsonplus.EXT_CONSTRUCTOR_POS_ARGS, "re", "compile", (command,))),
    "an array": lambda command: packed(ext(jsonplus.EXT_NUMPY_ARRAY, "|S1", (1,), "C", b"x")),
    "in a message": lambda command: message_with(ext(jsonplus.EXT_CONSTRUCTOR_SINGLE_ARG, "os", "system", command)),
    "far inside": lambda command: packed(
        buried(ext(jsonplus.EXT_CONSTRUCTOR_SINGLE_ARG, "os", "system", command), 5_000)
    ),
    "an unknown code": lambda command: packed(ext(99, "os", "system", command)),
    "half a row": lambda command: ("msgpack", b"\xc8\xff"),
    "pickle": lambda command: ("pickle", pickle.dumps(OnUnpickling(command))),
    "json of LangGraph": lambda command: lc(2, "subprocess", "run", args=shlex.split(command)),
    "json of LangChain": lambda command: lc(1, "langchain_core", "messages", "human", "HumanMessage", content="Yes."),
    "an unknown format": lambda command: ("python", b"__import__('os').system('true')"),
}


CASES = [(kind, "checkpoint_blobs") for kind in HOSTILE] + [("a model", "checkpoint_writes")]


@in_one_loop
@pytest.mark.parametrize(("kind", "table"), CASES)
async def test_nothing_that_a_row_names_is_run(home: Home, model: Model, tmp_path: Path, kind: str, table: str) -> None:
    model.script([[reply("Friday is fine."), DONE], [reply("Saturday is fine."), DONE], [reply("Sunday."), DONE]])
    one, other = await home.receive("Lunch?"), await home.receive("Dinner?")
    items = {item.subject: item for item in await home.pending()}
    marker = tmp_path / "ran"
    tag, blob = HOSTILE[kind](f"touch {marker}")
    await home.sql(
        f"""update {table} set type = %s, blob = %s
            where thread_id = (select run_id::text from inbox_items where id = %s)""",
        tag,
        blob,
        items["Lunch?"].id,
    )

    await home.answer(items["Lunch?"], "accept")
    await home.answer(items["Dinner?"], "accept")

    assert not marker.exists()
    assert (await home.mail(one)).state == "failed"
    assert "damaged, or changed by somebody else" in await home.reason(one)
    assert await home.is_done(other)
    assert [sent.text for sent in home.google.sent] == ["Saturday is fine."]

    await home.app.corrections.retry(home.app.user_id, one)
    await home.carry_on()
    assert [item.args["response_text"] for item in await home.pending()] == ["Sunday."]


def test_a_chat_that_was_tampered_with_says_so_and_another_goes_on(tmp_path: Path, database_url: str) -> None:
    marker = tmp_path / "ran"
    with open_stage(tmp_path, database_url) as stage:
        stage.model.on_chat({"plan": [[event()], "Done."], "hello": ["Hello."]})
        stage.up()
        talk = stage.talk()
        call_id = talk.run("plan").call_id
        with psycopg.connect(database_url, **session_settings(database_url)) as conn:
            conn.execute("update checkpoint_blobs set type = %s, blob = %s", HOSTILE["arguments"](f"touch {marker}"))

        reply = talk.approve(call_id)

        assert reply.status == "error"
        assert "damaged, or changed by somebody else" in reply.body["message"]
        assert stage.calendar.events == {}
        page = stage.daemon.http.get(f"/chat/{quote(talk.thread_id, safe='')}")
        assert page.status_code == 200
        assert "damaged, or changed by somebody else" in page.text
        assert stage.talk().run("hello").response == "Hello."
    assert not marker.exists()


JOBS: list[tuple[str, object]] = [
    ("os.system", {"command": "touch MARKER"}),
    ("email_assistant.app.open_app", {"settings": None}),
    ("advance_thread", {"thread_id": "$(touch MARKER)"}),
    ("advance_thread", {"thread_id": {"lc": 2, "type": "constructor", "id": ["os", "system"]}, "more": 1}),
    ("advance_thread", ["not", "named"]),
    ("learn", {"account_id": "00000000-0000-0000-0000-000000000000"}),
    ("learn", json.loads("[" * 900 + "]" * 900)),
]
"""What is to be done, by name, and what with."""


@in_one_loop
async def test_a_job_can_only_wake(home: Home, model: Model, tmp_path: Path) -> None:
    model.script([[reply("Friday is fine."), DONE]])
    for task, arguments in JOBS:
        await home.sql(
            """insert into procrastinate_jobs (queue_name, task_name, args)
               values ('background', %s, %s::text::jsonb)""",
            task,
            json.dumps(arguments).replace("MARKER", str(tmp_path / "ran")),
        )
    home.google.deliver(BOB, "Lunch?", "Does Friday suit you?")

    async with home.at_work():
        await until(home.pending)
        await until(lambda: _are_taken_up(home))

    assert not (tmp_path / "ran").exists()


async def _are_taken_up(home: Home) -> bool:
    """One whose arguments are no object stays as it was taken up, until its process ends."""
    names = [task for task, _ in JOBS]
    return not await home.sql("select id from procrastinate_jobs where task_name = any(%s) and status = 'todo'", names)


@in_one_loop
async def test_a_job_at_no_time_holds_up_no_other(home: Home, model: Model) -> None:
    model.script([[reply("Friday is fine."), DONE]])
    for at in ("-infinity", "infinity", "10000-01-01", "0044-03-15 BC"):
        await home.sql(
            """insert into procrastinate_jobs (queue_name, task_name, args, scheduled_at)
               values ('background', 'learn', '{"account_id": "00000000-0000-0000-0000-000000000000"}', %s)""",
            at,
        )
    home.google.deliver(BOB, "Lunch?", "Does Friday suit you?")

    async with home.at_work():
        await until(home.pending)


@pytest_asyncio.fixture(loop_scope="module")
async def http(home: Home) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(app=create_api(home.app, home.works.chat, token=None, host="127.0.0.1"))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        yield client


BAD_ITEMS: dict[str, str] = {
    "args, a list": "args = '[1, 2]'",
    "args, a number": "args = '5'",
    "args, null": "args = 'null'",
    "args, too deep to read": """args = ('{"a": ' || repeat('[', 2000) || repeat(']', 2000) || '}')::json""",
    "args, too deep to write": """args = ('{"a": ' || repeat('[', 300) || repeat(']', 300) || '}')::json""",
    "args, too long a number": """args = ('{"a": ' || repeat('1', 5000) || '}')::json""",
    "args, beyond numbers": """args = '{"a": 1e999}'""",
    "decision, a text": """decision = '"accept"'""",
    "decision, of no kind": """decision = '{"type": "obey", "args": null}'""",
    "marks, an object": """marks = '{"kind": "new_recipient"}'""",
    "marks, half of one": """marks = '[{"kind": "new_recipient"}]'""",
    "doubts, an object": """doubts = '{"kind": "leak"}'""",
    "doubts, half of one": """doubts = '[{"kind": "leak", "value": "x"}]'""",
    "doubts, of no kind": """doubts = '[{"kind": "fine", "value": "x", "source": "", "unseen_by": []}]'""",
    "doubts, of a number": """doubts = '[{"kind": "unfounded", "value": 7, "source": "", "unseen_by": []}]'""",
    "doubts, unseen by one in no list": """doubts = '[{"kind": "leak", "value": "x", "source": "", "unseen_by": 5}]'""",
    "reopened, a list": "reopened = '[1]'",
    "reopened, half": """reopened = '{"because": "x"}', reopened_at = now()""",
    "taken back, a number": "taken_back = '7'",
    "answers, unknown": "allowed = '{obey}'",
    "answers, none": "allowed = array[null]",
    "calendars, null": "calendars = array[null]",
    "copies, in a table": "left_out = '{{a,b},{c,d}}'",
    "conflicts, null": "conflicts = array[null]",
}
"""What is written into one row of the inbox."""
UNREADABLE = "was damaged in the database, or changed by somebody else"


async def two_wait(home: Home, model: Model) -> tuple[Item, Item]:
    """A reply that waits on each of two mails from one person: Lunch? and Dinner?"""
    model.script([[reply("Friday is fine."), DONE], [reply("Saturday is fine."), DONE]])
    await home.receive("Lunch?")
    await home.receive("Dinner?")
    items = {item.subject: item for item in await home.pending()}
    return items["Lunch?"], items["Dinner?"]


@in_one_loop
@pytest.mark.parametrize("what", BAD_ITEMS)
async def test_a_bad_row_of_the_inbox_is_told_as_one_and_the_rest_goes_on(
    home: Home, model: Model, http: httpx.AsyncClient, what: str
) -> None:
    bad, good = await two_wait(home, model)
    await home.sql(f"update inbox_items set {BAD_ITEMS[what]} where id = %s", bad.id)

    listed = (await http.get("/api/inbox")).json()["items"]
    assert [item["subject"] for item in listed] == ["Lunch?", "Dinner?"]
    assert (listed[0]["allowed"], listed[0]["args"], listed[0]["marks"]) == (["ignore"], {}, [])
    assert UNREADABLE in listed[0]["description"]
    assert listed[1]["args"] == good.args
    assert UNREADABLE in (await http.get("/")).text
    for path in (f"/items/{bad.id}", f"/items/{good.id}", f"/api/inbox/{bad.id}", "/api/inbox?kind=draft"):
        assert (await http.get(path)).status_code == 200, path

    refused = await http.post(f"/api/inbox/{bad.id}/decision", json={"type": "accept"})
    assert refused.status_code == 422
    assert UNREADABLE in refused.json()["detail"]
    assert (await http.post(f"/api/inbox/{good.id}/decision", json={"type": "accept"})).status_code == 200
    put_away = await http.post(f"/api/inbox/{bad.id}/decision", json={"type": "ignore"})
    assert (put_away.status_code, put_away.json()["decision"]) == (200, {"type": "ignore", "args": None})
    await home.carry_on()

    assert [sent.text for sent in home.google.sent] == ["Saturday is fine."]
    assert {mail.state for mail in await home.mails()} == {"done"}
    for path in ("/api/inbox?status=applied", f"/items/{bad.id}", f"/items/{good.id}"):
        assert (await http.get(path)).status_code == 200, path


@in_one_loop
async def test_why_a_person_is_asked_is_text_whoever_wrote_it(
    home: Home, model: Model, http: httpx.AsyncClient
) -> None:
    bad, _ = await two_wait(home, model)
    said = "<script>alert(1)</script>\n\n# [a](http://evil.example)\x1b[31m\u202e"

    async def listed_as_asked_because(text: str) -> list[dict[str, Any]]:
        doubt = {"kind": "leak", "value": "Friday", "source": text, "unseen_by": [text, "bob@example.org"]}
        query = "update inbox_items set because = %s, doubts = %s where id = %s"
        await home.sql(query, text, json.dumps([doubt]), bad.id)
        items: list[dict[str, Any]] = (await http.get("/api/inbox")).json()["items"]
        return items

    [in_one_line, *_] = await listed_as_asked_because("one line")
    listed = await listed_as_asked_because(said)
    assert [mark["kind"] for mark in listed[0]["marks"]] == ["gate_reason", "leak"]
    assert len(listed[0]["description"].splitlines()) == len(in_one_line["description"].splitlines())
    assert not {"\x1b", "\u202e"}.intersection(listed[0]["description"])
    for path in ("/", f"/items/{bad.id}"):
        page = (await http.get(path)).text
        assert "You are asked because" in page
        assert [sign for sign in ("<script>alert", "\x1b", "\u202e") if sign in page] == []


@in_one_loop
@pytest.mark.parametrize(
    "change", ["decision = '[1]'", """decision = '{"type": "edit", "args": [1]}'""", "args = '[1]'"]
)
async def test_an_answer_that_was_tampered_with_does_nothing_and_says_so(
    home: Home, model: Model, http: httpx.AsyncClient, change: str
) -> None:
    bad, good = await two_wait(home, model)
    await home.decide(bad, "accept")
    await home.decide(good, "accept")
    await home.sql(f"update inbox_items set {change} where id = %s", bad.id)

    for path in ("/", "/api/inbox?status=decided", f"/items/{bad.id}", f"/items/{good.id}"):
        assert (await http.get(path)).status_code == 200, path
    await home.carry_on()

    assert [sent.text for sent in home.google.sent] == ["Saturday is fine."]
    failed = {mail.subject: mail.reason for mail in await home.mails() if mail.state == "failed"}
    assert list(failed) == ["Lunch?"]
    assert "damaged, or changed by somebody else" in str(failed["Lunch?"])
    for path in ("/", "/api/inbox", f"/items/{bad.id}", f"/items/{good.id}"):
        assert (await http.get(path)).status_code == 200, path


BAD_RULES = [
    "[1]",
    "5",
    "null",
    "{}",
    '{"text": {"a": 1}}',
    '{"text": "x", "origin": {"item": []}, "at": "2031-01-01T00:00:00+00:00", "removed": false, "history": []}',
    '{"text": "x", "origin": {}, "at": "some day", "removed": false, "history": []}',
    '{"text": "x", "origin": {}, "at": "2031-01-01T00:00:00+00:00", "removed": false, "history": [1]}',
]


@in_one_loop
async def test_a_rule_that_is_none_of_ours_is_left_out_and_the_rest_goes_on(
    home: Home, model: Model, http: httpx.AsyncClient, caplog: pytest.LogCaptureFixture
) -> None:
    of_ada = {"account": ADA}
    rule = {"profile": "triage_preferences", "text": "Bob is family."}
    assert (await http.post("/api/memory/rules", json=rule, params=of_ada)).status_code == 201
    for number, value in enumerate(BAD_RULES):
        await home.sql(
            """insert into store (prefix, key, value)
               select prefix, %s, %s::jsonb from store where value->>'text' = 'Bob is family.'""",
            f"secret-{number}",
            value,
        )
    model.script([[reply("Friday is fine."), DONE]])

    with caplog.at_level(logging.WARNING):
        await home.receive("Lunch?")
        assert [item.subject for item in await home.pending()] == ["Lunch?"]
        page = await http.get("/memory")
        listed = await http.get("/api/memory", params=of_ada)

    assert page.status_code == 200
    assert [each["text"] for each in listed.json()["profiles"]["triage_preferences"]] == ["Bob is family."]
    assert "Bob is family." in model.calls("triage")[-1].text
    said = [record.getMessage() for record in caplog.records if "left out" in record.getMessage()]
    assert said
    assert not any("secret" in line or "some day" in line for line in said)


NO_TEXT = [r'"\u0000"', r'"\ud800"', r'"\udc00\ud800"']
"""What JSON may say, and no text can hold."""


@in_one_loop
@pytest.mark.parametrize("value", NO_TEXT)
async def test_an_answer_that_holds_no_text_is_refused_by_the_database(home: Home, model: Model, value: str) -> None:
    item, _ = await two_wait(home, model)
    for column in ("decision", "taken_back", "reopened"):
        with pytest.raises(psycopg.DataError):
            await home.sql(f"update inbox_items set {column} = %s::json where id = %s", f'{{"type": {value}}}', item.id)
    text = r"a \u0000 that was typed, \ud800 too"
    await home.answer(item, "edit", {**item.args, "response_text": text})
    assert [sent.text for sent in home.google.sent] == [text]


PLACES = ["/?status=decided", "/?status=applied", "/api/inbox?status=applied", "/api/inbox?sort=urgency&limit=1"]
SOME_DAYS = ["infinity", "-infinity", "9999-12-31 23:59:59+00", "0044-03-15 BC"]
KEPT_APART = "procrastinate_|checkpoint|store|schema_hash|gate_log"
"""Tables of the libraries, what is looked at above, and the one of which no row can be changed."""


async def pages(home: Home, http: httpx.AsyncClient) -> list[str]:
    """Every place that a person or a program can look at."""
    items, mails = await home.items(), await home.mails()
    listed = (await http.get("/openapi.json")).json()["paths"]
    endless = ("/api/events", "/events")
    api = [path for path, how in listed.items() if "get" in how and "{" not in path and path not in endless]
    shown = [
        "/",
        "/mails",
        "/memory",
        "/activity",
        "/rehearsal",
        "/accounts",
        "/agents",
        "/chat",
        "/chat/a",
        "/tools",
        "/api/chat/a",
    ]
    for item in items:
        shown += [f"/items/{item.id}", f"/api/inbox/{item.id}", f"/api/inbox/{item.id}/context"]
        shown += [f"/threads/{item.run_id}", f"/threads/{item.run_id}/state"]
    shown += [f"{place}/{mail.id}/trail" for mail in mails for place in ("/mails", "/api/mails")]
    found = {path: (await http.get(path)).status_code for path in [*PLACES, *api, *shown]}
    assert {path: code for path, code in found.items() if code not in (200, 422)} == {}
    return [path for path, code in found.items() if code == 200]


async def a_day_of_it(home: Home, model: Model, http: httpx.AsyncClient) -> None:
    """Something of everything: what waits, what was answered, learned, corrected and talked about."""
    model.script(lambda _: [reply("Friday is fine."), DONE])
    model.on_policy()
    model.on_chat({"hello": ["Hello."]})
    for subject in ("Accepted", "Taken back", "Changed", "Put off"):
        await home.receive(subject)
    items = {item.subject: item for item in await home.pending()}
    await home.answer(items["Accepted"], "accept")
    await home.answer(items["Changed"], "response", "Shorter")
    await home.works.learn(home.account_id)
    await home.decide(items["Taken back"], "accept")
    for where, body in (
        ("/run", {"thread_id": "a", "user_request": "hello"}),
        (f"/api/inbox/{items['Put off'].id}/snooze", {"until": "2099-01-01T00:00:00+00:00"}),
    ):
        answer = await http.post(where, json=body)
        assert answer.status_code == 200, answer.text


async def goes_on(home: Home) -> None:
    """All that the daemon does by itself, once."""
    await home.works.poll()
    await home.works.sweep()
    await home.works.tidy()
    await Telling.of(home.app).notices.tell()
    await Telling.of(home.app).digests.send_due()
    await home.works.learn(home.account_id)
    await home.sync()
    await home.step()


@pytest.mark.long
@in_one_loop
@pytest.mark.parametrize("moment", SOME_DAYS)
async def test_a_time_that_python_has_none_for_costs_no_page_and_no_work(
    home: Home, model: Model, http: httpx.AsyncClient, moment: str
) -> None:
    await a_day_of_it(home, model, http)
    places = await pages(home, http)
    tables = await home.sql(
        """select table_name as name, array_agg(column_name::text) as columns
           from information_schema.columns join information_schema.tables using (table_schema, table_name)
           where table_schema = 'email_assistant' and data_type = 'timestamp with time zone'
           and table_type = 'BASE TABLE' and table_name !~ %s
           group by table_name order by table_name = 'accounts', table_name""",
        f"^({KEPT_APART})",
    )
    bad, seen = list[str](), 0
    for table in tables:
        changes = ", ".join(f"{column} = %s" for column in table["columns"])
        damaged = await home.sql(
            f"""update {table["name"]} set {changes} where ctid = (select min(ctid) from {table["name"]})
                returning true""",
            *[moment] * len(table["columns"]),
        )
        seen += len(damaged)
        bad += [f"{table['name']}: {path}" for path in places if (await http.get(path)).status_code != 200]
        try:
            await goes_on(home)
        except Exception as error:
            bad.append(f"{table['name']}: {type(error).__name__} {error}")
    assert bad == []
    assert seen > 10


JSON_OF_OURS: list[tuple[str, str, str]] = [
    ("runs", "input", "mail_id is not null and state = 'waiting'"),
    ("runs", "input", "mail_id is null"),
    ("mails", "content", "not own"),
    ("accounts", "labels", "true"),
    ("accounts", "aliases", "true"),
    ("effects", "args", "true"),
    ("mcp_tools", "schema", "true"),
    ("mcp_tools", "new_schema", "true"),
    ("store", "value", "true"),
    ("checkpoints", "checkpoint", "true"),
    ("checkpoints", "metadata", "true"),
]
"""Table, column, and which rows."""
FOREIGN_JSON = {
    "a number": "5",
    "a list": "[1]",
    "an object": "{}",
    "too deep to read": f'{{"a": {"[" * 2000}{"]" * 2000}}}',
    "too deep to write": f'{{"a": {"[" * 300}{"]" * 300}}}',
    "beyond numbers": '{"a": 1e999}',
}


@pytest.mark.long
@in_one_loop
@pytest.mark.parametrize("what", FOREIGN_JSON)
async def test_json_that_is_none_of_ours_costs_at_most_its_own_conversation(
    home: Home, model: Model, http: httpx.AsyncClient, what: str
) -> None:
    await a_day_of_it(home, model, http)
    await home.sql(
        """insert into mcp_tools (user_id, server, tool, hash, description, schema, new_hash, new_schema)
           select id, 'there', 'look_up', 'x', 'Looks up.', '{}', 'y', '{}' from users"""
    )
    places = await pages(home, http)
    bad = list[str]()
    for table, column, where in JSON_OF_OURS:
        changed = await home.sql(
            f"""update {table} set {column} = %s where ctid = (select min(ctid) from {table} where {where})
                returning true""",
            FOREIGN_JSON[what],
        )
        assert len(changed) == 1
        for path in places:
            if (code := (await http.get(path)).status_code) != 200:
                bad.append(f"{table}.{column}: {path} {code}")
        try:
            await goes_on(home)
            mail_id = await home.receive(f"After {table}.{column}")
            if (await home.mail(mail_id)).state != "waiting":
                bad.append(f"{table}.{column}: new mail: {await home.reason(mail_id)}")
        except Exception as error:
            bad.append(f"{table}.{column}: {type(error).__name__} {error}")
    assert bad == []


@in_one_loop
@pytest.mark.parametrize("name", ["Nowhere/Town", "Europe", "../../etc/passwd", "", "x" * 300])
async def test_an_account_in_no_timezone_is_in_utc(
    home: Home, model: Model, http: httpx.AsyncClient, name: str
) -> None:
    await a_day_of_it(home, model, http)
    await home.sql("update accounts set timezone = %s", name)
    assert [path for path in await pages(home, http) if (await http.get(path)).status_code != 200] == []
    await goes_on(home)
    assert (await home.mail(await home.receive("New"))).state == "waiting"
    assert (await home.account()).zone.key == "UTC"
