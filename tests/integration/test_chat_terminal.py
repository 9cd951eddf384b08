"""`email-assistant chat`: as a script runs it, and as a person talks to it in a terminal. No daemon runs beside it."""

import json
import re
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock
from uuid import uuid4

import pytest

from email_assistant.cli import talk
from email_assistant.inbox.items import NoItem
from tests.contract.chat_stage import TEN, Stage, ask, event, listing, move, open_stage
from tests.doubles.chat import at_once
from tests.doubles.model import tool
from tests.doubles.serving import Hold
from tests.features.terminal.test_terminal import Terminal
from tests.integration.scene import ADA

MEETING = {"calendar_id": "primary", "start": TEN, "name": "Team Meeting", "duration_minutes": 30}
ESCAPES = "\x1b]0;owned\x07\x1b[31mEVIL"


@pytest.fixture
def stage(request: pytest.FixtureRequest, tmp_path: Path, database_url: str) -> Iterator[Stage]:
    """With one mailbox, unless the parameter is False."""
    with open_stage(tmp_path, database_url, account=getattr(request, "param", True)) as opened:
        yield opened


class TestScript:
    def run(self, stage: Stage, status: int, *arguments: str) -> str:
        done = stage.daemon.run("chat", *arguments)
        assert done.returncode == status, done.stdout + done.stderr
        assert "Traceback" not in done.stderr
        return done.stdout + done.stderr

    def reply(self, stage: Stage, status: int, *arguments: str) -> dict[str, Any]:
        parsed: dict[str, Any] = json.loads(self.run(stage, status, *arguments, "--json"))
        return parsed

    def test_an_answer_is_printed_and_what_waits_is_answered_by_call(self, stage: Stage) -> None:
        stage.model.on_chat(
            {
                "look": [[listing()], "Nothing is planned."],
                "plan": [[event(), event("Lunch")], [ask("When?")], [event("Coffee")], "Done."],
            }
        )
        assert self.run(stage, 0, "look") == "Nothing is planned.\n"
        reply = self.reply(stage, 3, "plan", "--thread", "t", "--account", ADA)
        first, second = (call["call_id"] for call in reply["pending_action"]["tool_calls"])
        assert reply["pending_action"]["tool_calls"][0]["arguments"] == MEETING
        assert "needs feedback" in self.run(stage, 1, "answer", "t", "--reject", second)
        assert "no call of this chat" in self.run(stage, 1, "answer", "t", "--approve", "call_0")
        assert stage.calendar.calls[1:] == []
        waits = self.run(stage, 3, "answer", "t", "--approve", first)
        assert f"chat answer t --approve {second}" in waits
        assert "Lunch" in waits
        assert "Team Meeting" not in waits
        asked = self.reply(stage, 3, "answer", "t", "--reject", second, "--feedback", "No lunch")
        [question] = asked["pending_action"]["clarifications"]
        again = self.reply(stage, 3, "answer", "t", "--reply", question["call_id"], "at ten")
        [call] = again["pending_action"]["tool_calls"]
        edited = {**MEETING, "name": "Tea"}
        assert self.run(stage, 0, "answer", "t", "--edit", call["call_id"], json.dumps(edited)) == "Done.\n"
        assert stage.calendar.names == ["Team Meeting", "Tea"]
        assert "nothing waits" in self.run(stage, 1, "answer", "t", "--approve", first)
        listed = json.loads(self.run(stage, 0, "--list", "--json"))
        assert [(each["thread_id"], each["request"]) for each in listed][:1] == [("t", "plan")]

    def test_what_goes_wrong_is_one_line_and_status_1(self, stage: Stage) -> None:
        stage.model.on_chat({"hello": [""]})
        assert "the model answered nothing" in self.run(stage, 1, "hello")
        assert self.reply(stage, 1, "hello")["status"] == "error"
        assert "there are: " in self.run(stage, 1, "hello", "--account", "nobody@example.com")
        assert "a conversation needs a terminal" in self.run(stage, 2)
        assert "no such chat" in self.run(stage, 1, "answer", "nothing", "--approve", "call_0")

    def test_a_new_request_says_what_it_sets_aside(self, stage: Stage) -> None:
        stage.model.on_chat({"plan": [[event()], "Planned."], "else": ["Here you are."]})
        assert "Set aside" not in self.run(stage, 3, "plan", "--thread", "t")
        done = stage.daemon.run("chat", "else", "--thread", "t", "--json")
        assert json.loads(done.stdout)["response"] == "Here you are."
        [line] = done.stderr.splitlines()
        assert line.startswith("Set aside: Put into the calendar: ")
        assert "Team Meeting" in line
        assert "Set aside" not in self.run(stage, 0, "else", "--thread", "t")

    def test_a_proposal_says_which_event_it_is_about(self, stage: Stage) -> None:
        stage.calendar.events["event-of-ines"] = {"name": f"Call with Ines {ESCAPES}"}
        stage.model.on_chat({"move": [[listing()], [move("event-of-ines", TEN)], "Moved."]})
        said = self.run(stage, 3, "move", "--thread", "t")
        assert "It is about:\n  event-of-ines: Call with Ines" in said
        assert "\x1b" not in said

    def test_no_words_and_too_many_are_refused_unasked(self, stage: Stage) -> None:
        assert self.run(stage, 2, "") == "Error: say what you want\n"
        assert self.run(stage, 2, " \t\n", "--json") == "Error: say what you want\n"
        assert self.run(stage, 2, "x" * 20_001) == "Error: this is 20,001 characters long; 20,000 are the most\n"
        assert stage.asked == []

    def test_what_can_not_be_an_answer_is_refused_in_the_words_of_the_command(self, stage: Stage) -> None:
        stage.model.on_chat({"plan": [[event()], "Planned."], "what": [[ask("When?")], "Done."]})
        self.run(stage, 3, "plan", "--thread", "plan")
        self.run(stage, 3, "what", "--thread", "what")
        assert self.run(stage, 2, "answer", "plan") == "Error: give --approve, --reject, --reply or --edit\n"
        for given in (("--approve", "call"), ("--reply", "call", "No")):
            said = self.run(stage, 2, "answer", "plan", *given, "--feedback", "but no")
            assert said == "Error: --feedback says why with --reject; what is approved is done as proposed\n"
        assert "--reply goes alone" in self.run(
            stage, 2, "answer", "plan", "--approve", "call_0", "--reply", "call_1", "x"
        )
        assert "chat --list" in self.run(stage, 1, "answer", "nothing", "--approve", "call_0")
        [item] = self.reply_waiting(stage, "plan")
        said = self.run(stage, 1, "answer", "plan", "--reply", item, "at ten")
        assert f"{item} is answered with --approve or --reject" in said
        [item] = self.reply_waiting(stage, "what")
        said = self.run(stage, 1, "answer", "what", "--approve", item)
        assert f"{item} is answered with --reply" in said

    def reply_waiting(self, stage: Stage, thread: str) -> list[str]:
        """The calls that wait in a chat."""
        items = json.loads(stage.daemon.run("inbox", "list", "--json").stdout)["items"]
        return [item["call_id"] for item in items if item["chat"] == thread]

    def test_the_list_marks_the_chats_that_wait(self, stage: Stage) -> None:
        stage.model.on_chat({"plan": [[event()], "Planned."], "look": ["Nothing."]})
        self.run(stage, 3, "plan", "--thread", "t")
        self.run(stage, 0, "look", "--thread", "u")
        listed = json.loads(self.run(stage, 0, "--list", "--json"))
        assert {each["thread_id"]: each["waits"] for each in listed} == {"t": True, "u": False}
        rows = {line.split()[0]: line for line in self.run(stage, 0, "--list").splitlines()}
        assert "for you" in rows["t"]
        assert "for you" not in rows["u"]

    def test_what_was_done_before_an_outage_is_status_0_and_is_not_asked_for_again(self, stage: Stage) -> None:
        stage.model.on_chat({"plan": [[event()], "Planned."], "thanks": ["Not at all."]})
        reply = self.reply(stage, 3, "plan", "--thread", "t")
        [call] = (each["call_id"] for each in reply["pending_action"]["tool_calls"])
        stage.model.fault("chat", times=1000, status=503)
        said = " ".join(self.run(stage, 0, "answer", "t", "--approve", call).split())
        assert said.startswith("Done: the event was put into the calendar")
        assert "goes on by itself" in said
        [listed] = json.loads(self.run(stage, 0, "--list", "--json"))
        assert (listed["status"], listed["waits"]) == ("working", False)
        assert "at work" in self.run(stage, 0, "--list")
        stage.model.clear_faults()
        said = self.run(stage, 0, "thanks", "--thread", "t")
        assert "What you asked for before: Planned." in said
        assert "Not at all." in said
        assert len(stage.calendar.used("create_event")) == 1

    def test_a_mailbox_of_another_server_is_named_as_that(self, stage: Stage) -> None:
        stage.model.on_chat({"hello": ["Hello."]})
        self.run(stage, 0, "hello", "--thread", "t")
        stage.daemon.environment["EMAIL_ASSISTANT_GOOGLE_NAME"] = "elsewhere"
        for options in [], ["--account", ADA], ["--thread", "t"]:
            [line] = self.run(stage, 1, "hello", *options).splitlines()
            assert f"{ADA} belongs to the server double on this machine" in line
            assert "EMAIL_ASSISTANT_GOOGLE_ROOT" in line
            assert "UnknownAccount" not in line
        assert len(stage.asked) == 1

    def test_a_doubt_is_settled_by_the_command_that_is_printed(self, stage: Stage) -> None:
        stage.model.on_chat({"plan": [[event()], "Done."]})
        reply = self.reply(stage, 3, "plan", "--thread", "t")
        [call] = (each["call_id"] for each in reply["pending_action"]["tool_calls"])
        hold = Hold()
        stage.calendar.fault("create_event", hold=hold)

        def die() -> None:
            hold.reached()
            stage.calendar.stop()

        said, _ = at_once(lambda: self.run(stage, 3, "answer", "t", "--approve", call), die)
        found = re.search(r"email-assistant chat (answer t --approve \S+)", str(said))
        assert found
        stage.calendar.start()
        assert self.run(stage, 0, *found[1].split()) == "Done.\n"
        assert stage.calendar.names == ["Team Meeting"]


class TestConversation:
    @pytest.fixture
    def open_terminal(self, stage: Stage, database_url: str, tmp_path: Path) -> Iterator[Callable[..., Terminal]]:
        editor = tmp_path / "editor.sh"
        editor.write_text("#!/bin/sh\nsed -i 's/Team Meeting/Coffee/' \"$1\"\n")
        editor.chmod(editor.stat().st_mode | stat.S_IXUSR)
        environment = {**stage.daemon.environment, "VISUAL": str(editor)}
        opened: list[Terminal] = []

        def open_(*arguments: str) -> Terminal:
            opened.append(Terminal(database_url, tmp_path, "chat", *arguments, **environment))
            return opened[-1]

        yield open_
        for terminal in opened:
            terminal.process.kill()
            terminal.process.wait()

    @pytest.fixture
    def terminal(self, open_terminal: Callable[..., Terminal]) -> Terminal:
        return open_terminal()

    def test_questions_and_calls_are_settled_in_place(self, stage: Stage, terminal: Terminal) -> None:
        stage.model.on_chat(
            {
                "plan it": [[listing()], [ask(f"When? {ESCAPES}")], [event()], [event("Lunch")], f"Planned. {ESCAPES}"],
                "thanks": ["Not at all."],
            }
        )
        terminal.until(b"> ")
        terminal.press(b"plan it\n")
        terminal.until(b"Your answer")
        terminal.press(b"at ten\n")
        terminal.until(b"duration_minutes: 30")
        terminal.until(b"Do this?")
        terminal.press(b"e\n")
        terminal.until(b"name: Coffee")
        assert stage.calendar.names == []
        terminal.press(b"y\n")
        terminal.until(b"name: Lunch")
        assert stage.calendar.names == ["Coffee"]
        terminal.press(b"n\n")
        terminal.until(b"What should be different?")
        terminal.press(b"no lunch\n")
        terminal.until(b"Planned.")
        terminal.press(b"thanks\n")
        terminal.until(b"> ", after=b"Not at all.")
        terminal.press(b"\x04")
        assert terminal.end() == 0
        assert stage.calendar.names == ["Coffee"]
        assert "no lunch" in stage.asked[-1].text
        written = terminal.written
        assert b"Looked into the calendar" in written
        assert written.count(b"Planned.") == 1
        assert b"\x1b]0;owned" not in written
        assert b"\x1b[31mEVIL" not in written
        assert b"EVIL" in written
        assert b"Traceback" not in written

    def test_what_is_left_for_later_waits_and_ctrl_c_ends_it(self, stage: Stage, terminal: Terminal) -> None:
        stage.calendar.fault("list_events", url="https://login.example.net/oauth?state=1")
        stage.model.on_chat({"look": [[listing()]], "plan": [[event()]], "no": [[tool("nothing")], "No."]})
        terminal.until(b"> ")
        terminal.press(b"look\n")
        terminal.until(b"it leads to login.example.net")
        terminal.until(b"go on?")
        terminal.press(b"n\n")
        terminal.press(b"plan\n")
        terminal.until(b"Do this?")
        terminal.press(b"l\n")
        terminal.until(b"> ", after=b"It waits for you")
        assert terminal.interrupt() == 0
        assert stage.calendar.names == []
        listed = json.loads(stage.daemon.run("inbox", "list", "--json").stdout)["items"]
        assert [(item["kind"], item["action"]) for item in listed] == [("confirmation", "create_event")]

    def test_what_waits_in_a_chat_is_asked_when_it_is_opened(
        self, stage: Stage, open_terminal: Callable[..., Terminal]
    ) -> None:
        stage.model.on_chat({"plan": [[event()], [event("Lunch")], "Planned."], "else": ["Here you are."]})
        assert stage.daemon.run("chat", "plan", "--thread", "t").returncode == 3
        terminal = open_terminal("--thread", "t")
        terminal.until(b"Do this?", after=b"Team Meeting")
        terminal.press(b"y\n")
        terminal.until(b"Do this?", after=b"Lunch")
        terminal.press(b"l\n")
        terminal.until(b"> ", after=b"It waits for you")
        terminal.press(b"else\n")
        terminal.until(b"Here you are.", after=b"Set aside: Put into the calendar")
        terminal.until(b"> ", after=b"Here you are.")
        terminal.press(b"\x04")
        assert terminal.end() == 0
        assert stage.calendar.names == ["Team Meeting"]

    @pytest.mark.parametrize("stage", [False], indirect=True)
    def test_it_needs_no_mailbox(self, stage: Stage, open_terminal: Callable[..., Terminal]) -> None:
        stage.model.on_chat({"plan": [[event()], "Planned."], "thanks": ["Not at all."]})
        terminal = open_terminal("--thread", "t")
        terminal.until(b"> ")
        terminal.press(b"plan\n")
        terminal.until(b"Do this?", after=b"Team Meeting")
        terminal.press(b"y\n")
        terminal.until(b"Planned.")
        terminal.press(b"thanks\n")
        terminal.until(b"> ", after=b"Not at all.")
        terminal.press(b"\x04")
        assert terminal.end() == 0
        assert stage.calendar.names == ["Team Meeting"]
        again = stage.daemon.run("chat", "thanks", "--thread", "t")
        assert (again.returncode, "Not at all." in again.stdout) == (0, True), again.stderr

    async def test_too_many_words_are_refused_in_a_line(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        lines = iter(["", "x" * 20_001, None])
        monkeypatch.setattr(talk, "line_typed", lambda _: next(lines))
        app, chat = AsyncMock(), AsyncMock()
        chat.look.side_effect = NoItem
        assert await talk.ChatSession(app, chat, "t", uuid4()).hold(None) == 0
        assert "this is 20,001 characters long" in capsys.readouterr().err
        chat.ask.assert_not_called()

    @pytest.mark.long
    def test_what_was_answered_elsewhere_says_how_it_stands(
        self, stage: Stage, open_terminal: Callable[..., Terminal]
    ) -> None:
        stage.model.on_chat({"plan": [[event()], "Planned."], "later": [[event("Lunch")], "Planned later."]})
        terminal = open_terminal("plan", "--thread", "t")
        terminal.until(b"Do this?")
        [item] = json.loads(stage.daemon.run("inbox", "list", "--json").stdout)["items"]
        assert stage.daemon.run("chat", "answer", "t", "--approve", item["call_id"]).returncode == 0
        terminal.press(b"y\n")
        assert terminal.end() == 0
        assert b"Planned." in terminal.written.partition(b"already answered")[2]
        terminal = open_terminal("later", "--thread", "u")
        terminal.until(b"Do this?")
        [item] = json.loads(stage.daemon.run("inbox", "list", "--json").stdout)["items"]
        assert stage.daemon.run("inbox", "accept", item["id"]).returncode == 0
        terminal.press(b"y\n")
        assert terminal.end() == 3
        assert b"still being worked on" in terminal.written.partition(b"already answered")[2]
