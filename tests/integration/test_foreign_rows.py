"""Rows that somebody else has written into the database: nothing in them is run, and nobody else's work stops."""

import json
import os
import pickle
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import ormsgpack
import psycopg
import pytest
from langgraph.checkpoint.serde import jsonplus

from email_assistant.db.pool import session_settings
from tests.contract.chat_stage import event, open_stage
from tests.doubles.model import Model
from tests.integration.home import Home, in_one_loop, until
from tests.integration.scene import BOB, DONE, reply

pytestmark = pytest.mark.slow

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

    await home.app.mails.retry(home.app.user_id, one)
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
        await until(lambda: _are_gone(home))

    assert not (tmp_path / "ran").exists()


async def _are_gone(home: Home) -> bool:
    names = [task for task, _ in JOBS]
    return not await home.sql(
        "select from procrastinate_jobs where task_name = any(%s) and lock is null and queueing_lock is null", names
    )
