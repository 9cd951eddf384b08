"""What holds of every feature: who deletes its folder has removed it, and one that can't be used holds up nothing."""

import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from pkgutil import iter_modules
from zipfile import ZipFile

import httpx
import psycopg
import pytest

import email_assistant
from tests.doubles.daemon import Daemon
from tests.doubles.google import Google
from tests.doubles.model import Model
from tests.doubles.nursery import Nursery
from tests.integration.conftest import Start
from tests.integration.scene import ADA, BOB, DONE, reply
from tests.plugins import install

PROGRAM = Path(email_assistant.__file__).parent
FEATURES = [folder.name for folder in iter_modules([str(PROGRAM / "features")])]
COMMANDS: dict[str, set[str]] = {
    "agent_inbox": set(),
    "auction": {"auction"},
    "gate_server": set(),
    "mcp_doors": {"mcp"},
    "notices": {"notify"},
    "rehearsal": {"rehearse", "eval"},
    "terminal": set(),
    "toolbench": {"bench"},
}
"""Those that `--help` lacks without the feature."""
GREETER = """
[email_assistant.features]
greeter = acme_plugins:greeter
"""
BROKEN = """
[email_assistant.features]
greeter = acme_plugins:broken
"""


def without(feature: str, folder: Path) -> Path:
    """The program with the feature's folder deleted; where it can be imported from."""
    shutil.copytree(PROGRAM, folder / PROGRAM.name, copy_function=os.link, ignore=shutil.ignore_patterns("*.pyc"))
    if feature:
        shutil.rmtree(folder / PROGRAM.name / "features" / feature)
    return folder


def run(arguments: list[str], folder: Path = PROGRAM.parent) -> "subprocess.CompletedProcess[str]":
    """The command line of the program that lies in the folder, or of ours beside what is installed there."""
    told = {**os.environ, "PYTHONPATH": str(folder), "COLUMNS": "200"}
    words = [sys.executable, "-m", "email_assistant", *arguments]
    return subprocess.run(words, env=told, cwd=folder, capture_output=True, text=True, timeout=60)


def commands(told: str) -> set[str]:
    return set(re.findall(r"^│ ([a-z-]+) ", told.partition("─ Every day ─")[2], re.MULTILINE))


@cache
def all_commands() -> frozenset[str]:
    return frozenset(commands(run(["--help"]).stdout))


def test_each_is_named_here() -> None:
    assert set(FEATURES) == set(COMMANDS)


@pytest.mark.parametrize("feature", FEATURES)
def test_deleting_its_folder_takes_away_its_commands_alone(feature: str, tmp_path: Path) -> None:
    done = run(["--help"], without(feature, tmp_path))
    assert (done.returncode, done.stderr) == (0, "")
    assert all_commands() - commands(done.stdout) == COMMANDS[feature]


@pytest.mark.parametrize("feature", FEATURES)
def test_what_it_left_goes_with_the_mailbox_and_mail_goes_its_way_without_it(
    feature: str, connect: Start, google: Google, model: Model, tmp_path: Path
) -> None:
    model.script(lambda _: [reply("Friday is fine."), DONE])
    daemon = connect()
    daemon.up()
    mail_id = google.deliver(BOB, "Lunch?", "Does Friday suit you?")
    daemon.pending()
    path, table = use(feature, daemon)
    daemon.stop()

    daemon.nursery = Nursery()  # the warm one holds all of the program
    daemon.environment["PYTHONPATH"] = str(without(feature, tmp_path / "without"))
    daemon.up()
    assert path is None or daemon.http.get(path).status_code == 404
    assert daemon.http.get("/accounts").status_code == 200
    [item] = daemon.pending()
    daemon.accept(item)
    daemon.until_done(mail_id)
    assert [sent.text for sent in google.sent] == ["Friday is fine."]
    daemon.stop()
    assert table is None or has_rows(daemon, table)
    daemon.cli("account", "remove", ADA, "--yes")
    assert table is None or not has_rows(daemon, table)


def test_a_call_that_was_held_by_what_is_gone_says_so_and_goes(
    connect: Start, google: Google, model: Model, tmp_path: Path
) -> None:
    """It is seen, kept in an export, and dismissed; nobody is told that an answer counts."""
    daemon = connect()
    daemon.up()
    call = {"session_id": "trip", "name": "send_mail", "timeout_s": 300, "args_summary": '{"to": "zoe@example.net"}'}
    with ThreadPoolExecutor(1) as agent:
        asked = agent.submit(daemon.http.post, "/agent/begin", json=call, timeout=60)
        [item] = daemon.pending()
        assert "your answer counts at once" in daemon.http.get(f"/items/{item['id']}").text
        daemon.kill()
        assert isinstance(asked.exception(), httpx.TransportError)

    daemon.nursery = Nursery()
    daemon.environment["PYTHONPATH"] = str(without("gate_server", tmp_path / "without"))
    daemon.up()
    page = daemon.http.get(f"/items/{item['id']}").text
    assert "belongs to a part that is not installed" in page
    assert "your answer counts at once" not in page
    assert "belongs to a part that is not installed" in daemon.cli("inbox", "show", item["id"])
    daemon.cli("export", str(tmp_path / "all.zip"))
    with ZipFile(tmp_path / "all.zip") as archive:
        assert b"zoe@example.net" in archive.read("gate_requests.jsonl")
    daemon.answer(item, "ignore")
    daemon.pending(0)
    daemon.cli("forget", "correspondent", "zoe@example.net", "--yes")
    with psycopg.connect(daemon.environment["DATABASE_URL"]) as db:
        assert not db.execute("select from email_assistant.gate_requests b where b::text like '%zoe%'").fetchall()


def use(feature: str, daemon: Daemon) -> tuple[str | None, str | None]:
    """Use what the feature has of the mailbox: a path that it answers, and a table that holds rows by then."""
    match feature:
        case "agent_inbox":
            assert len(daemon.http.post("/threads/search", json={"status": "interrupted"}).json()) == 1
            return "/info", "agent_inbox_served"
        case "gate_server":
            call = {"session_id": "trip", "name": "send_mail", "timeout_s": 0.5}
            assert daemon.http.post("/agent/begin", json=call).json()["error"] == "nobody answered in time"
            return "/mcp/status", None
        case "notices":
            assert daemon.http.get("/api/push").json()["is_told"] is False
            assert "Told of new items" in daemon.http.get("/accounts").text
            return "/api/push", None
        case "rehearsal":
            assert "was sent by you" in daemon.run("rehearse").stderr  # it has read what there is
            return "/rehearsal", "past_mails"
        case _:
            return None, None


def has_rows(daemon: Daemon, table: str) -> bool:
    with psycopg.connect(daemon.environment["DATABASE_URL"]) as db:
        return bool(db.execute(f"select from email_assistant.{table}").fetchall())


def test_without_the_full_screen_the_inbox_names_its_other_view(tmp_path: Path) -> None:
    done = run(["inbox"], without("terminal", tmp_path))
    assert (done.returncode, done.stdout) == (2, "")
    assert "the full-screen inbox is not installed; here, use `email-assistant inbox list`" in done.stderr


def test_an_installed_distribution_adds_one(tmp_path: Path) -> None:
    done = run(["greet"], install(tmp_path, GREETER))
    assert (done.returncode, done.stdout) == (0, "Hello!\n")


def test_one_that_cannot_be_used_is_told_and_holds_up_nothing(tmp_path: Path) -> None:
    done = run(["--help"], install(tmp_path, BROKEN))
    assert done.returncode == 0
    assert done.stderr.startswith("greeter, of acme-plugins 1.0, can't be used: OSError: no disk")
    assert commands(done.stdout) == all_commands()
