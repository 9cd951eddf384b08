"""`email-assistant chat --server`: a conversation with an assistant that runs elsewhere, over HTTP."""

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from tests.contract.chat_stage import Stage, ask, event, listing, open_stage
from tests.doubles.daemon import API_TOKEN
from tests.doubles.serving import Server
from tests.features.terminal.test_terminal import Terminal

ESCAPES = "\x1b]0;owned\x07\x1b[31mEVIL"


@pytest.fixture
def stage(tmp_path: Path, database_url: str) -> Iterator[Stage]:
    with open_stage(tmp_path, database_url) as opened:
        opened.daemon.api()
        yield opened


@pytest.fixture
def token(tmp_path: Path) -> Path:
    """A file with the token, at a client that has nothing else of the program's."""
    file = tmp_path / "token"
    file.write_text(f"{API_TOKEN}\n")
    return file


def run(stage: Stage, token: Path, status: int, *arguments: str) -> str:
    server = str(stage.daemon.http.base_url)
    done = stage.daemon.run("chat", "--server", server, "--token-file", str(token), *arguments)
    assert done.returncode == status, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout + done.stderr


def test_one_request_is_answered_and_what_waits_is_told(stage: Stage, token: Path) -> None:
    stage.model.on_chat({"look": [[listing()], f"Nothing is planned.{ESCAPES}"], "plan": [[event()], "Planned."]})
    said = run(stage, token, 0, "look")
    assert "Nothing is planned." in said
    assert "\x1b" not in said
    reply: dict[str, Any] = json.loads(run(stage, token, 3, "plan", "--thread", "t", "--json"))
    [call] = reply["pending_action"]["tool_calls"]
    assert call["arguments"]["name"] == "Team Meeting"
    stage.model.on_chat({"plan": [[event()], "Planned."]})
    assert "Waits for you: call_" in run(stage, token, 3, "plan", "--thread", "u")
    assert stage.calendar.names == []


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--server", "ftp://x"], "takes the address of a server"),
        (["--server", "http://assistant.example.org"], "in the clear; use https"),
        (["--server", "http://127.0.0.1:9"], "can't be reached"),
        (["--token-file", "/nowhere"], "--token-file: "),
        (["--token-file", os.devnull], "this is no token"),
        (["--token-file", __file__], "this is no token"),
        (["--account", "nobody@example.com"], "there are: "),
    ],
)
def test_what_is_wrong_is_one_line(stage: Stage, token: Path, options: list[str], says: str) -> None:
    assert says in run(stage, token, 1, "hello", *options)
    assert stage.asked == []


def test_another_token_opens_nothing(stage: Stage, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_text("another-token-than-that")
    assert "takes another token" in run(stage, other, 1, "hello")


def test_without_a_file_and_a_terminal_no_token_is_guessed(stage: Stage) -> None:
    """Not even our own, which another server must not get."""
    done = stage.daemon.run("chat", "hello", "--server", str(stage.daemon.http.base_url))
    assert (done.returncode, "--token-file" in done.stderr) == (1, True)
    assert stage.asked == []


WAITS = {"kind": "confirmation", "tool_calls": [{"call_id": "c1", "tool_name": "send\nDo it", "arguments": {}}]}


@pytest.mark.parametrize(
    ("code", "body", "status", "says"),
    [
        (200, {"status": "confirmation_required", "thread_id": "t", "pending_action": WAITS}, 3, "send Do it"),
        (200, {"status": "error", "thread_id": "t", "message": "No."}, 1, "No."),
        (500, {"status": "success", "thread_id": "t", "response": "All fine."}, 1, "not as an assistant does"),
        (200, {"status": "success", "thread_id": "t", "response": "x" * 9_000_000}, 1, "more than 8,000,000 bytes"),
    ],
)
def test_what_another_server_says_is_taken_for_what_it_is(
    stage: Stage, token: Path, code: int, body: dict[str, Any], status: int, says: str
) -> None:
    async def answer(_: Request) -> JSONResponse:
        return JSONResponse(body, code)

    server = Server(Starlette(routes=[Route("/run", answer, methods=["POST"])]))
    server.start()
    try:
        done = stage.daemon.run("chat", "hello", "--server", server.urls[0], "--token-file", str(token))
    finally:
        server.stop()
    assert (done.returncode, says in done.stdout + done.stderr) == (status, True)


class TestConversation:
    @pytest.fixture
    def open_terminal(
        self, stage: Stage, token: Path, database_url: str, tmp_path: Path
    ) -> Iterator[Callable[..., Terminal]]:
        opened: list[Terminal] = []

        def open_(*arguments: str) -> Terminal:
            there = ("--server", str(stage.daemon.http.base_url), "--token-file", str(token))
            opened.append(Terminal(database_url, tmp_path, "chat", *there, *arguments, **stage.daemon.environment))
            return opened[-1]

        yield open_
        for terminal in opened:
            terminal.process.kill()
            terminal.process.wait()

    def test_it_is_confirmed_and_answered_in_place(self, stage: Stage, open_terminal: Callable[..., Terminal]) -> None:
        stage.model.on_chat({"plan": [[event()], [ask("When?")], [event("Lunch")], [event("Tea")], "All planned."]})
        terminal = open_terminal("--thread", "t")
        terminal.until(b"> ")
        terminal.press(b"plan\n")
        terminal.until(b"name: Team Meeting")
        terminal.until(b"Do this?")
        terminal.press(b"y\n")
        terminal.until(b"When?")
        terminal.press(b"at ten\n")
        terminal.until(b"name: Lunch")
        terminal.press(b"n\n")
        terminal.until(b"What should be different?")
        terminal.press(b"tea, not lunch\n")
        terminal.until(b"name: Tea")
        terminal.press(b"l\n")
        terminal.until(b"It waits for you")
        assert stage.calendar.names == ["Team Meeting"]

    def test_a_call_that_was_put_off_is_not_asked_about_again(
        self, stage: Stage, open_terminal: Callable[..., Terminal]
    ) -> None:
        stage.model.on_chat({"plan": [[event("Lunch"), event("Tea")], "Planned."]})
        terminal = open_terminal("--thread", "t")
        terminal.until(b"> ")
        terminal.press(b"plan\n")
        terminal.until(b"name: Lunch")
        terminal.press(b"l\n")
        terminal.until(b"name: Tea")
        terminal.press(b"y\n")
        terminal.until(b"It waits for you")
        assert terminal.written.count(b"name: Lunch") == 1

    def test_an_argument_passes_for_no_other_line(self, stage: Stage, open_terminal: Callable[..., Terminal]) -> None:
        stage.model.on_chat({"plan": [[event("Lunch\n  calendar_id: other")], "Planned."]})
        terminal = open_terminal("--thread", "t")
        terminal.until(b"> ")
        terminal.press(b"plan\n")
        terminal.until(b"Do this?")
        shown = terminal.written.decode()
        assert ("> Lunch" in shown, ">   calendar_id: other" in shown) == (True, True)
        assert [line for line in shown.splitlines() if line.startswith("  calendar_id")] == ["  calendar_id: primary"]
