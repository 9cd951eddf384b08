"""A person gets all that is stored of them, and of nobody else, without a secret."""

import io
import json
import stat
import zipfile
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
from typer.testing import CliRunner

from email_assistant.cli import app as command_line
from email_assistant.db.export import EXPORTED, HIDDEN, LEFT_OUT
from email_assistant.db.migrate import schema_hash
from email_assistant.db.pool import SCHEMA
from email_assistant.web.app import create_api
from tests.doubles.google import Google
from tests.doubles.model import Model
from tests.integration.home import Home, in_one_loop
from tests.integration.scene import ADA, DONE, reply

Files = dict[str, list[dict[str, Any]]]


def read(content: bytes) -> tuple[Files, dict[str, Any]]:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        assert archive.testzip() is None
        files = {
            name.removesuffix(".jsonl"): [json.loads(line) for line in archive.read(name).splitlines()]
            for name in archive.namelist()
            if name.endswith(".jsonl")
        }
        return files, json.loads(archive.read("manifest.json"))


def test_every_table_that_is_somebodys_is_exported_or_has_its_reason(database_url: str) -> None:
    with psycopg.connect(database_url) as conn:
        columns = conn.execute(
            """select c.table_name, array_agg(c.column_name::text) from information_schema.columns c
               join information_schema.tables t using (table_schema, table_name)
               where c.table_schema = %s and t.table_type = 'BASE TABLE' group by 1""",
            (SCHEMA,),
        ).fetchall()
    tables: dict[str, list[str]] = dict(columns)
    owned = {name for name, has in tables.items() if "user_id" in has or name.startswith("checkpoint")}
    assert set(EXPORTED) | set(LEFT_OUT) == (owned | {"users", "store"}) - {
        "checkpoint_migrations",
        "checkpoint_versions",
    }
    assert not set(EXPORTED) & set(LEFT_OUT)
    assert [table for table, hidden in HIDDEN.items() if not set(hidden) <= set(tables[table])] == []


@in_one_loop
async def test_it_holds_what_there_is_of_this_person_and_no_secret(
    home: Home, google: Google, model: Model, tmp_path: Path
) -> None:
    model.script(lambda _: [reply("Friday is fine."), DONE])
    mail_id = await home.receive()
    [item] = await home.pending()
    await home.answer(item, "accept")
    [other] = await home.sql("insert into users (name) values ('other') returning id")
    await home.sql(
        """insert into accounts (user_id, address, provider, token, triage_since)
           values (%s, 'eve@example.net', 'google', 'x', now())""",
        other["id"],
    )

    transport = httpx.ASGITransport(create_api(home.app, home.works.chat, token=None, host="127.0.0.1"))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as http:
        answer = await http.get("/api/export")
        page = (await http.get("/accounts")).text
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/zip")
    assert "/api/export" in page
    files, manifest = read(answer.content)

    assert set(files) == set(EXPORTED)
    assert {name: each["rows"] for name, each in manifest["files"].items()} == {
        f"{table}.jsonl": len(rows) for table, rows in files.items()
    }
    assert [(mail["gmail_id"], mail["content"]["text"]) for mail in files["mails"] if not mail["own"]] == [
        (mail_id, "Does Friday suit you?")
    ]
    [decided] = files["inbox_items"]
    assert (decided["args"]["response_text"], decided["decision"]["type"]) == ("Friday is fine.", "accept")
    assert files["effects"][0]["external_id"] == google.sent[0].id
    assert [account["address"] for account in files["accounts"]] == [ADA]
    assert manifest["schema"] == schema_hash()
    [own] = await home.sql("select encode(token, 'hex') as token from accounts where address = %s", ADA)
    text = json.dumps(files)
    assert own["token"] not in text
    assert str(other["id"]) not in text


def test_the_command_writes_a_private_file_or_folder_and_over_none(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", database_url)
    monkeypatch.setenv("EMAIL_ASSISTANT_HOME", str(tmp_path / "home"))
    for name in ("mine.zip", "mine"):
        target = tmp_path / name
        done = CliRunner().invoke(command_line, ["export", str(target)])
        assert done.exit_code == 0, done.output
        assert stat.S_IMODE(target.stat().st_mode) == (0o600 if name.endswith(".zip") else 0o700)
        assert CliRunner().invoke(command_line, ["export", str(target)]).exit_code == 1
    assert set(read((tmp_path / "mine.zip").read_bytes())[0]) == set(EXPORTED)
    manifest = json.loads((tmp_path / "mine" / "manifest.json").read_text())
    assert {path.name for path in (tmp_path / "mine").iterdir()} == {"manifest.json", *manifest["files"]}
    assert {stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "mine").iterdir()} == {0o600}
    assert {path.name for path in tmp_path.iterdir()} == {"home", "mine", "mine.zip"}
