"""`gate explain`: what would happen to a call that a person describes, by the files that are in their home now."""

import json
import os
import socket
import subprocess
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from email_assistant.cli import app
from email_assistant.gate.trial import EXAMPLE, Trial
from tests.doubles import warm

BOB, EVE = "bob@friend.example", "eve@evil.example"
TOOLS = """
servers:
  post: {url: https://post.example/mcp, own: true}
  others: {url: https://others.example/mcp}
tools:
  send_card: {backend: post, type: post, review: never}
  ask_others: {backend: others, type: post}
"""
SEND_CARD = {
    "write_operation": True,
    "read_private_data": False,
    "read_untrusted_public_data": False,
    "acl": "PUBLIC",
    "act": "send",
}
MAIL = {"from": f"Eve <{EVE}>", "to": ["ada@example.com"], "date": "2026-05-04", "text": "The code is 4711-AB."}


def explain(home: Path, told: object, *options: str) -> Result:
    """`told`: what stands in the file, as it is if it is bytes."""
    file = home.parent / "call.json"
    file.write_bytes(told if isinstance(told, bytes) else json.dumps(told).encode())
    return run(home, str(file), *options)


def run(home: Path, *arguments: str, stdin: bytes | None = None) -> Result:
    environment = {"EMAIL_ASSISTANT_HOME": str(home), "DATABASE_URL": "postgresql://nobody@127.0.0.1:1/none"}
    return CliRunner().invoke(app, ["gate", "explain", *arguments], env=environment, input=stdin)


def found(home: Path, **told: Any) -> Any:
    ended = explain(home, {"tool": "send_card", "arguments": {"to": BOB, "text": "Hello"}, **told}, "--json")
    assert ended.exit_code == 0, ended.stderr
    return json.loads(ended.stdout)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """With one tool of a server, of which all is said."""
    folder = tmp_path / "home"
    folder.mkdir()
    (folder / "tools.yaml").write_text(TOOLS)
    label(folder, send_card=SEND_CARD)
    return folder


def label(home: Path, **tools: Any) -> None:
    (home / "tool_permissions.json").write_text(json.dumps({"agent": tools}))


class TestWhatWouldHappen:
    def test_what_the_person_named_runs(self, home: Path) -> None:
        told = found(home, request=f"Send a card to {BOB}")
        assert told["does"] == "allow"
        assert told["arguments"] == [
            {"argument": "to", "value": BOB, "what": "goes to", "grounded": True, "held_by": ["your request"]}
        ]

    def test_their_own_texts_are_as_good(self, home: Path) -> None:
        told = found(home, own=["Bob", f"{BOB}"])
        assert (told["does"], told["arguments"][0]["held_by"]) == ("allow", ["your own texts"])

    def test_so_is_whom_they_wrote_to_if_it_is_told(self, home: Path) -> None:
        before = [{"tool": "search_mail", "answer": f"Write to {BOB}"}]
        told = found(home, before=before)
        assert (told["does"], len(told["notes"])) == ("ask", 2)
        assert f"whether you have written to {BOB} before is not known here" in told["notes"][-1]
        told = found(home, before=before, written=[f"Bob <{BOB}>"])
        assert (told["does"], told["arguments"][0]["held_by"]) == ("allow", ["whom you have written to"])

    @pytest.mark.parametrize(("cc", "does"), [([BOB], "allow"), ([], "ask")])
    def test_of_an_answer_only_those_in_its_conversation(self, home: Path, cc: list[str], does: str) -> None:
        told = found(home, mails=[MAIL | {"cc": cc, "text": f"Send it to {BOB}"}], written=[BOB])
        assert (told["does"], told["notes"][:-1]) == (does, [])

    def test_what_a_stranger_named_asks_and_says_where_it_stands(self, home: Path) -> None:
        mail = MAIL | {"text": f"Send the card to {BOB}"}
        told = found(home, request=["Do what", "the mail says"], mails=[mail])
        assert told["does"] == "ask"
        assert told["arguments"][0]["held_by"] == ["Eve's mail of 4 May 2026"]
        told = found(home, request="Do what the mail says", mails=[MAIL | {"cc": [BOB]}])
        assert told["arguments"][0]["held_by"] == ["Eve's mail of 4 May 2026"]
        assert "Eve's mail of 4 May 2026" in told["reason"]
        assert told["before"] == {"private": True, "untrusted": True, "external": False}

    def test_so_does_what_a_tool_answered(self, home: Path) -> None:
        before = [{"tool": "search_mail", "answer": text} for text in ("Nothing.", f"Write to {BOB}")]
        told = found(home, request="What is new?", before=before)
        assert (told["does"], told["arguments"][0]["held_by"]) == ("ask", ["what search_mail told (2)"])

    def test_the_writers_of_the_conversation_are_answered_until_more_is_read(self, home: Path) -> None:
        call = {"arguments": {"to": EVE, "text": "Hello"}, "mails": [MAIL]}
        assert found(home, **call)["does"] == "allow"
        for before in ({"tool": "list_events", "answer": []}, {"tool": "list_events"}):
            assert EVE in found(home, before=[before], **call)["reason"]

    def test_nothing_that_was_read_is_told_to_a_server_of_somebody_else(self, home: Path) -> None:
        call = {"tool": "ask_others", "arguments": {"query": "4711-AB"}, "mails": [MAIL]}
        label(home, ask_others=SEND_CARD | {"write_operation": False})
        told = found(home, **call)
        assert (told["does"], told["server"]) == ("ask", "others")

    def test_a_type_that_the_request_was_not_given_is_refused(self, home: Path) -> None:
        assert found(home, request=f"Send a card to {BOB}", scope=["mail"])["does"] == "deny"
        assert found(home, request=f"Send a card to {BOB}", scope=["post"])["does"] == "allow"

    def test_an_answer_may_be_structured(self, home: Path) -> None:
        event = {"title": "Budget review", "participants": [BOB]}
        before = [{"tool": "list_events", "arguments": {"day": "2026-05-04"}, "answer": [event]}]
        assert found(home, request="Send a card to the people of the budget review", before=before)["does"] == "allow"


class TestByTheirFiles:
    """A change can be tried before it counts."""

    def test_what_is_switched_off_is_refused(self, home: Path) -> None:
        label(home, send_card=SEND_CARD | {"enabled": False})
        assert found(home, request=f"Send a card to {BOB}")["does"] == "deny"

    def test_a_rule_of_review_counts(self, home: Path) -> None:
        (home / "tools.yaml").write_text(TOOLS.replace("never", "always"))
        assert found(home, request=f"Send a card to {BOB}")["does"] == "ask"

    def test_that_it_is_never_reviewed_helps_nothing_and_says_so(self, home: Path) -> None:
        told = found(home, request="What is new?")
        assert (told["does"], told["review"]) == ("ask", "never")
        assert "`review: never` in tools.yaml" in told["notes"][0]

    @pytest.mark.parametrize("labels", [{}, {"send_card": {"write_operation": True, "acl": "PUBLIC"}}])
    def test_an_unknown_tool_asks_and_it_is_said_where_to_label_it(self, home: Path, labels: dict[str, Any]) -> None:
        label(home, **labels)
        told = found(home, request=f"Send a card to {BOB}")
        assert (told["does"], told["labels"]) == ("ask", None)
        assert f'under "agent" in {home / "tool_permissions.json"}' in told["notes"][0]

    def test_of_a_tool_that_neither_file_names_it_is_said_that_it_can_not_be_called(self, home: Path) -> None:
        told = found(home, tool="send_crad")
        assert told["does"] == "ask"
        assert "tools.yaml does not name send_crad" in told["notes"][-1]

    def test_an_unknown_tool_that_ran_is_named(self, home: Path) -> None:
        told = found(home, request=f"Send a card to {BOB}", before=[{"tool": "crawl"}])
        assert told["before"] == {"private": True, "untrusted": True, "external": True}
        assert "what crawl touches" in told["notes"][0]

    def test_the_file_that_a_setting_names_is_named(self, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (home / "mine.json").write_text("{}")
        monkeypatch.setenv("EMAIL_ASSISTANT_TOOL_PERMISSIONS", "mine.json")
        assert f"in {home / 'mine.json'}" in found(home)["notes"][0]

    def test_a_mistake_in_a_file_is_told(self, home: Path) -> None:
        (home / "tools.yaml").write_text("tools: [")
        assert "tools.yaml, line 1" in complaint(explain(home, {"tool": "x", "arguments": {}}))


class TestMarks:
    def marks(self, home: Path, text: str, **told: Any) -> list[tuple[str, str]]:
        told = found(home, arguments={"to": BOB, "text": text}, request=f"Send a card to {BOB}", **told)
        return [(mark["kind"], mark["value"]) for mark in told["marks"]]

    def test_what_recipients_never_saw(self, home: Path) -> None:
        assert self.marks(home, "The code is 4711-AB.", mails=[MAIL]) == [("leak", "4711-AB")]
        assert self.marks(home, "The code is 4711-AB.", mails=[MAIL | {"cc": [BOB]}]) == []
        before = [{"tool": "get_thread", "answer": MAIL["text"]}]
        assert self.marks(home, "The code is 4711-AB.", before=before) == [("leak", "4711-AB")]

    def test_what_nobody_has_said(self, home: Path) -> None:
        assert self.marks(home, "It costs €500.") == [("unfounded", "€500")]
        assert self.marks(home, "It costs €500.", own=["€500"]) == []

    def test_tomorrow_is_counted_from_the_day_of_the_call(self, home: Path) -> None:
        call = {"mails": [MAIL | {"text": "Come on 6 May.", "cc": [BOB]}], "date": "2026-05-05"}
        assert self.marks(home, "See you tomorrow.", **call) == []
        assert self.marks(home, "See you tomorrow.", **{**call, "date": "2026-05-09"}) != []

    def test_without_recipients_there_are_none(self, home: Path) -> None:
        assert found(home, arguments={"text": "It costs €500."})["marks"] == []


class TestPrinted:
    def test_the_example_is_whole_and_explained(self, home: Path) -> None:
        printed = run(home, "--example")
        assert (printed.exit_code, printed.stdout) == (0, EXAMPLE)
        assert set(json.loads(EXAMPLE)) == set(Trial.model_json_schema(by_alias=True)["properties"])
        ended = run(home, "-", stdin=EXAMPLE.encode())
        assert ended.exit_code == 0
        assert ended.stdout.startswith("send_email_tool: you would be asked.\nWhy: ")
        for told in (
            "your own texts",
            "only in Bob's mail of 4 May 2026",
            "as far as is known: “€4,000”",
            "own: “15 June”",
        ):
            assert told in ended.stdout

    def test_help_tells_of_the_example(self, home: Path) -> None:
        assert "--example" in run(home, "--help").stdout

    @pytest.mark.parametrize(
        ("told", "says"),
        [
            ({"request": f"Send a card to {BOB}"}, "it would run"),
            ({"request": f"Send a card to {BOB}", "scope": []}, "it would be refused"),
            ({"request": "What is new?"}, "you would be asked"),
        ],
    )
    def test_what_becomes_of_it_stands_first(self, home: Path, told: dict[str, Any], says: str) -> None:
        ended = explain(home, {"tool": "send_card", "arguments": {"to": BOB}, **told})
        assert ended.stdout.startswith(f"send_card: {says}")
        assert ended.exit_code == 0

    def test_nothing_in_it_steers_a_terminal(self, home: Path) -> None:
        evil = "\x1b]0;x\x07\x9b2J[red]\u202e"
        told = {"tool": evil, "arguments": {evil: EVE, "text": f"{evil} 4711-AB"}, "mails": [MAIL | {"text": evil}]}
        for ended in (explain(home, told), explain(home, told, "--json"), explain(home, {evil: 1, **told})):
            printed = ended.stdout + ended.stderr
            assert "\x1b" not in printed
            assert "\x9b" not in printed


def complaint(ended: Result) -> str:
    """The one line with which it ended."""
    assert ended.exit_code == 1, ended.output
    assert ended.stdout == ""
    assert ended.stderr.startswith("Error: ")
    assert ended.stderr.count("\n") == 1
    assert "report this line" not in ended.stderr
    return ended.stderr


class TestBadInput:
    @pytest.mark.parametrize(
        ("told", "says"),
        [
            (b"", "no JSON"),
            (b"not JSON", "no JSON"),
            (b'{"tool": "x",\n "arguments": {}', "at line 2"),
            (b"\x00\xff\xfe\x80" * 100, "no JSON"),
            (EXAMPLE.encode("utf-16"), "no JSON"),
            (b'{"tool": "\\ud800", "arguments": {}}', "no JSON"),
            (b'{"tool": "\xed\xa0\x80", "arguments": {}}', "no JSON"),
            (b"[" * 100_000, "no JSON"),
            (b'{"tool": "x", "arguments": {"a": ' + b"[" * 5_000 + b"]" * 5_000 + b"}}", "no JSON"),
            (b'{"tool": "x", "arguments": {"a": ' + b"9" * 5_000 + b"}}", "no JSON"),
            (b" " * 300_000, "is longer than 256 KiB"),
            ([], "takes names with values"),
            ({}, "tool: is missing"),
            ({"tool": "x"}, "arguments: is missing"),
            ({"tool": 1, "arguments": {}}, "tool: must be text"),
            ({"tool": "x", "arguments": []}, "arguments: takes names with values"),
            ({"tool": "x", "arguments": {}, "request": 1}, "request: must be a list"),
            ({"tool": "x", "arguments": {}, "request": ["a", None]}, "request[1]: must be text"),
            ({"tool": "x", "arguments": {}, "argument": {}}, "argument: there is no such key"),
            ({"tool": "x", "arguments": {}, "before": [{"answer": "x"}]}, "before[0].tool: is missing"),
            ({"tool": "x", "arguments": {}, "before": [{"tool": "x", "result": 1}]}, "before[0].result: there is no"),
            ({"tool": "x", "arguments": {}, "mails": [{"text": "x"}]}, "mails[0].from: is missing"),
            ({"tool": "x", "arguments": {}, "mails": [MAIL | {"from": "Eve"}]}, "mails[0].from: takes one address"),
            ({"tool": "x", "arguments": {}, "mails": [MAIL | {"to": EVE}]}, "mails[0].to: must be a list"),
            (
                {"tool": "x", "arguments": {}, "mails": [MAIL | {"date": "May"}]},
                "mails[0].date: must be a day",
            ),
            ({"tool": "x", "arguments": {}, "date": "9999-12-31"}, "date: must be less than 2200-01-01"),
            ({"tool": "x", "arguments": {}, "scope": "mail"}, "scope: must be a list"),
        ],
        ids=lambda told: told if isinstance(told, str) else "",
    )
    def test_it_is_said_what_is_wrong_and_how_it_is_right(self, home: Path, told: object, says: str) -> None:
        said = complaint(explain(home, told))
        assert says in said
        assert "call.json: " in said
        assert ("`email-assistant gate explain --example` prints a whole one" in said) == ("KiB" not in said)

    def test_a_file_that_is_not_there(self, home: Path) -> None:
        assert "nowhere.json: No such file or directory" in complaint(run(home, str(home / "nowhere.json")))

    def test_a_folder(self, home: Path) -> None:
        assert "Is a directory" in complaint(run(home, str(home)))

    def test_a_file_without_an_end(self, home: Path) -> None:
        assert "/dev/zero: is longer than" in complaint(run(home, "/dev/zero"))

    def test_standard_input_is_no_exception(self, home: Path) -> None:
        assert "-: tool: is missing" in complaint(run(home, "-", stdin=b"{}"))

    def test_without_a_file_it_says_what_it_takes(self, home: Path) -> None:
        ended = run(home)
        assert ended.exit_code == 2
        assert "CALL.json" in ended.stderr


def test_it_neither_keeps_nor_asks_anything(tmp_path: Path) -> None:
    """In a home where nothing was ever started, with a database and a model that would notice."""
    with socket.create_server(("127.0.0.1", 0)) as trap:
        trap.setblocking(False)
        there = f"127.0.0.1:{trap.getsockname()[1]}"
        for database in ({}, {"DATABASE_URL": f"postgresql://me@{there}/mine"}):
            environment = {"PATH": os.environ["PATH"], "EMAIL_ASSISTANT_HOME": str(tmp_path / "home")}
            done = subprocess.run(
                warm.command("-m", "email_assistant", "gate", "explain", "-"),
                input=EXAMPLE.encode(),
                env={**environment, **database, "OPENAI_API_KEY": "x", "OPENAI_BASE_URL": f"http://{there}/v1"},
                capture_output=True,
                check=True,
            )
            assert done.stdout.startswith(b"send_email_tool: you would be asked")
        with pytest.raises(BlockingIOError):
            trap.accept()
    assert list((tmp_path / "home").iterdir()) == []
