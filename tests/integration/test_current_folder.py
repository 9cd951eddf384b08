"""Nobody believes what lies in the current folder: settings come from the home folder, or a file that is named."""

import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import pytest
import typer

from email_assistant.cli import app
from email_assistant.gate.trial import EXAMPLE
from tests.doubles.daemon import WAIT_SECONDS, Daemon
from tests.doubles.google import Google
from tests.doubles.model import Model
from tests.doubles.nursery import Child, nursery
from tests.integration.conftest import Start
from tests.integration.scene import ADA

_IN_OPEN: Final = 0x20
"""Of inotify(7): something in the folder, or the folder itself, was opened."""
_NOBODY: Final = str(uuid4())

ARGUMENTS: Final[dict[str, list[str]]] = {
    "demo": ["--exit-when-idle", "--port", "0"],
    "up": ["--port", "0"],
    "api": ["--port", "0"],
    "retry": [_NOBODY],
    "backup": ["{home}/backup.tar.gz"],
    "restore": ["{home}/backup.tar.gz"],
    "auth login": ["--no-browser"],
    "auth logout": [ADA, "--yes", "--force"],
    "account add": [ADA, "--token-file", "{home}/token.json"],
    "account pause": [ADA],
    "account resume": [ADA],
    "account mode": [ADA],
    "account remove": [ADA, "--yes"],
    "inbox show": [_NOBODY],
    "inbox accept": [_NOBODY],
    "inbox edit": [_NOBODY, "response_text=No."],
    "inbox respond": [_NOBODY, "No."],
    "inbox ignore": [_NOBODY],
    "inbox done": [_NOBODY],
    "inbox undo": [_NOBODY],
    "inbox snooze": [_NOBODY, "1h"],
    "chat ask": ["hello"],
    "chat answer": [_NOBODY, "--reject", "0"],
    "mails files": [_NOBODY],
    "mails read": ["{home}/mail.mbox"],
    "mails correct": [_NOBODY, "ignore"],
    "why": [_NOBODY],
    "export": ["{home}/mine.zip"],
    "forget mail": [_NOBODY],
    "forget correspondent": ["nobody@example.net"],
    "forget account": [ADA, "--yes"],
    "memory add": ["triage_preferences", "Nothing."],
    "memory edit": [_NOBODY, "Nothing."],
    "memory remove": [_NOBODY],
    "memory revert": [_NOBODY, "1"],
    "memory history": [_NOBODY],
    "memory undo": [_NOBODY],
    "memory try": ["Ignore mail from example.org."],
    "memory keep": [_NOBODY],
    "memory drop": [_NOBODY],
    "memory import": ["{home}/rules.md"],
    "rehearse": ["--mbox", "{home}/mail.mbox", "--address", ADA],
    "eval triage": ["--data", "{home}/mails.jsonl"],
    "eval rehearsal": ["--mbox", "{home}/mail.mbox", "--address", ADA],
    "session end": [_NOBODY],
    "notify add-webhook": ["https://example.net/hook"],
    "notify remove": [_NOBODY],
    "mcp serve": ["mail"],
    "tools show": ["create_event"],
    "tools accept": ["create_event"],
    "gate serve": ["--port", "0"],
    "gate explain": ["{home}/call.json"],
    "bench toolbench": ["--tools", "{home}/tools", "--queries", "{home}/queries.json"],
}
"""What each command needs, to come as far as it can; what is not here needs nothing."""

STAYS: Final = {
    "up": "Your inbox:",
    "api": "Your inbox:",
    "gate serve": "Your inbox:",
    "scheduler": "Scheduling.",
    "worker": "Working.",
}
"""Commands that end by a signal only, with what they say once they are at work."""


def commands() -> list[str]:
    """Every command of the command line, groups that do something by themselves included."""

    def below(command: Any, path: tuple[str, ...]) -> Iterator[str]:
        subcommands = getattr(command, "commands", {})
        if path and (not subcommands or command.invoke_without_command):
            yield " ".join(path)
        for name, subcommand in subcommands.items():
            yield from below(subcommand, (*path, name))

    return list(below(typer.main.get_command(app), ()))


class Trap:
    """A folder of somebody else's, who wants to be believed, and a server that nobody should connect to."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.marker = folder / "repository", folder / "a-command-was-run"
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._socket.setblocking(False)
        self.address = "127.0.0.1:{1}".format(*self._socket.getsockname())
        self.folder.mkdir()
        run = [sys.executable, "-c", f"open({str(self.marker)!r}, 'w')"]
        tools = {"servers": {"trap": {"command": run}}, "tools": {"look": {"backend": "trap", "type": "calendar"}}}
        permissions = {"agent": {"send_email_tool": {"enabled": False}}}
        for place in (self.folder, self.folder / "home"):
            place.mkdir(exist_ok=True)
            (place / "tools.yaml").write_text(json.dumps(tools))
            (place / "tool_permissions.json").write_text(json.dumps(permissions))
        (self.folder / ".env").write_text("".join(f"{name}={value}\n" for name, value in self.settings().items()))
        # As a module of that name is found by `python -m` in the folder that it is started in.
        for package in ("email_assistant", "email_assistant_servers"):
            (self.folder / package).mkdir()
            (self.folder / package / "__init__.py").write_text(f"open({str(self.marker)!r}, 'w')\n")
        self._inotify = _watch(self.folder)

    def settings(self) -> dict[str, str]:
        return {
            "EMAIL_ASSISTANT_HOME": str(self.folder / "home"),
            "EMAIL_ASSISTANT_GOOGLE_ROOT": f"http://{self.address}",
            "EMAIL_ASSISTANT_TOOLS": str(self.folder / "tools.yaml"),
            "EMAIL_ASSISTANT_TOOL_PERMISSIONS": str(self.folder / "tool_permissions.json"),
            "ASSISTANT_MCP_URL": f"http://{self.address}/mcp",
            "DATABASE_URL": f"postgresql://me@{self.address}/mine?connect_timeout=5",
            "OPENAI_API_KEY": "trap",
            "OPENAI_BASE_URL": f"http://{self.address}/v1",
        }

    @property
    def was_reached(self) -> bool:
        with suppress(BlockingIOError):
            self._socket.accept()
            return True
        return False

    def opened(self) -> list[str]:
        """What was opened of the folder since it is there, by name."""
        with suppress(BlockingIOError):
            events = os.read(self._inotify, 65_536)
            return [name.decode() for name in events.split(b"\0") if name.isascii() and len(name) > 3]
        return []

    def close(self) -> None:
        self._socket.close()
        os.close(self._inotify)


def _watch(folder: Path) -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    if not hasattr(libc, "inotify_init1"):
        pytest.skip("only Linux tells what was opened")
    watching = int(libc.inotify_init1(os.O_NONBLOCK))
    assert libc.inotify_add_watch(watching, os.fsencode(folder), _IN_OPEN) >= 0
    return watching


@pytest.fixture
def trap(tmp_path: Path) -> Iterator[Trap]:
    made = Trap(tmp_path)
    yield made
    made.close()


@pytest.fixture
def google() -> Iterator[Google]:
    """As elsewhere, but that it may be asked for what it lacks: `auth logout` has a login revoked."""
    with Google(ADA, timezone="Europe/Berlin", roots=2) as double:
        yield double


@pytest.fixture
def program(connect: Start, model: Model) -> Daemon:
    """The program with one mailbox, all of whose settings stand in the home folder's file."""
    model.on_triage("ignore")
    model.on_policy("mail")
    model.on_chat({"hello": ["Hello."]})
    daemon = connect(login_seconds=0.2)
    home = Path(daemon.environment.pop("EMAIL_ASSISTANT_HOME"))
    # HOME alone says where the home folder is.
    home.rename(daemon.home / ".email-assistant")
    environment = daemon.environment
    kept = {name: environment.pop(name) for name in list(environment) if "_" in name}
    (daemon.home / "call.json").write_text(EXAMPLE)
    (daemon.home / ".email-assistant" / ".env").write_text("".join(f"{n}={v!r}\n" for n, v in kept.items()))
    return daemon


def run_there(
    program: Daemon, trap: Trap, *arguments: str, until: Callable[[str], bool] = lambda _: False
) -> tuple[int, str]:
    """A command in the folder, to its end or until it has said so much; its status and all that it printed."""
    log = program.home / "log"
    child = nursery().start(arguments, program.environment, trap.folder, log)
    try:
        _wait(child, lambda: trap.was_reached or until(log.read_text()))
        if child.poll() is None:
            child.send_signal(signal.SIGINT)
        return child.wait(WAIT_SECONDS), log.read_text()
    finally:
        child.send_signal(signal.SIGKILL)


def _wait(child: Child, done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 300
    while child.poll() is None:
        if done():
            return
        assert time.monotonic() < deadline, "it neither ends nor says that it is at work"
        time.sleep(0.05)


@pytest.mark.parametrize("command", commands())
def test_no_command_believes_the_current_folder(program: Daemon, trap: Trap, command: str) -> None:
    arguments = [argument.format(home=program.home) for argument in ARGUMENTS.get(command, [])]
    # The measurements take minutes; when they have a database, they have read all that they read.
    program.environment["TMPDIR"] = str(program.home)
    status, said = run_there(
        program,
        trap,
        *command.split(),
        *arguments,
        until=lambda said: STAYS.get(command, "\0") in said,
    )
    assert not trap.was_reached, said
    assert not trap.marker.exists(), said
    assert trap.opened() == [], said
    assert trap.address not in said
    assert status != 2 or "needs a terminal" in said, f"say in ARGUMENTS what it needs\n{said}"
    assert "unexpected" not in said


def test_what_was_believed_stands_at_home(program: Daemon, trap: Trap) -> None:
    _, said = run_there(program, trap, "doctor")
    assert f"✓ {ADA}: active, Gmail answers" in said
    home = program.home / ".email-assistant" / ".env"
    assert f"settings: from the environment and {home}; {trap.folder / '.env'} is not read" in said


def test_up_says_that_a_file_here_is_not_read(program: Daemon, trap: Trap, google: Google) -> None:
    _, said = run_there(program, trap, "up", "--port", "0", until=lambda _: bool(google.calls("history.list")))
    assert said.count(f"{trap.folder / '.env'} is not read: settings come from") == 1
    (trap.folder / ".env").unlink()
    _, said = run_there(program, trap, "up", "--port", "0", until=lambda said: "Your inbox:" in said)
    assert "is not read" not in said


@pytest.mark.long
def test_a_client_in_that_folder_starts_what_was_printed(program: Daemon, trap: Trap) -> None:
    """With the variables of the folder in its environment, as some editors put them there."""
    printed = json.loads(program.cli("mcp", "config", "--account", ADA))["mcpServers"]["email-assistant-mail"]
    assert Path(printed["command"]).is_absolute()
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
    messages = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {
            "jsonrpc": "2.0",
            "id": 2,
            "method": "tools/call",
            "params": {"name": "search_mail", "arguments": {"query": "from:bob"}},
        },
    ]
    environment = program.environment | trap.settings() | printed["env"]
    with subprocess.Popen(
        [printed["command"], *printed["args"]],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment,
        cwd=trap.folder,
        text=True,
    ) as client:
        assert client.stdin
        assert client.stdout
        for message in messages:
            client.stdin.write(json.dumps(message) + "\n")
        client.stdin.flush()
        answers = [json.loads(client.stdout.readline()) for _ in range(2)]
        client.stdin.close()
    assert "isError" not in answers[1]["result"] or not answers[1]["result"]["isError"], answers
    assert not trap.was_reached
    assert trap.opened() == []


def test_tools_of_ours_do_not_run_in_the_current_folder(program: Daemon, trap: Trap) -> None:
    """`npx` and `uv` take programs and registries from the folder that they run in."""
    where = program.home / "where"
    write = f"import os; open({str(where)!r}, 'w').write(os.getcwd())"
    tools = {
        "servers": {"own": {"command": [sys.executable, "-c", write]}},
        "tools": {"look": {"backend": "own", "type": "x"}},
    }
    (program.home / ".email-assistant" / "tools.yaml").write_text(json.dumps(tools))
    run_there(program, trap, "tools")
    assert where.read_text() == str(program.home / ".email-assistant")


@pytest.mark.parametrize("before", [True, False])
def test_a_file_that_is_named_takes_the_place_of_the_one_at_home(program: Daemon, trap: Trap, before: bool) -> None:
    other = program.home / "other.env"
    home = program.home / ".email-assistant" / ".env"
    home.rename(other)
    home.write_text("EMAIL_ASSISTANT_POLL_SECONDS=often\n")
    option = ["--env-file", str(other)]
    status, said = run_there(program, trap, *(option if before else []), "status", *([] if before else option))
    assert (status, said.splitlines()[1].partition(":")[0]) == (0, ADA), said
    status, said = run_there(program, trap, "status")
    assert (status, "EMAIL_ASSISTANT_POLL_SECONDS" in said) == (1, True)
    status, said = run_there(program, trap, "mcp", "serve", "mail", *option)
    assert (status, said) == (0, "")
    printed = program.cli("mcp", "config", *option)
    assert json.loads(printed)["mcpServers"]["email-assistant-mail"]["args"][-2:] == option


def test_the_environment_comes_first(program: Daemon, trap: Trap) -> None:
    program.environment["EMAIL_ASSISTANT_POLL_SECONDS"] = "often"
    status, said = run_there(program, trap, "status")
    assert (status, "EMAIL_ASSISTANT_POLL_SECONDS" in said) == (1, True)


def test_the_file_at_home_names_no_other_home(program: Daemon, trap: Trap) -> None:
    home = program.home / ".email-assistant"
    with (home / ".env").open("a") as file:
        file.write(f"EMAIL_ASSISTANT_HOME={trap.folder / 'home'}\n")
    status, said = run_there(program, trap, "status")
    assert status == 1
    assert f"{home / '.env'} can't name another folder than its own" in said
    text = (home / ".env").read_text().replace(str(trap.folder / "home"), "~/.email-assistant")
    (home / ".env").write_text(text)
    assert run_there(program, trap, "status")[0] == 0


@pytest.mark.parametrize("home", ["home", "./home", "../repository/home"])
def test_the_home_is_no_folder_of_the_current_one(program: Daemon, trap: Trap, home: str) -> None:
    program.environment["EMAIL_ASSISTANT_HOME"] = home
    status, said = run_there(program, trap, "tools")
    assert (status, "EMAIL_ASSISTANT_HOME: takes a path from / or ~ on" in said) == (1, True)
    assert not trap.marker.exists()


def test_files_of_tools_are_named_from_the_home_on(program: Daemon, trap: Trap) -> None:
    with (program.home / ".email-assistant" / ".env").open("a") as file:
        file.write("EMAIL_ASSISTANT_TOOLS=tools.yaml\n")
    status, said = run_there(program, trap, "tools")
    assert status == 1
    assert f"{program.home / '.email-assistant' / 'tools.yaml'}: can't be read" in said


@pytest.mark.parametrize("before", [0o777, 0o775])
def test_a_home_that_was_open_is_closed_to_others_writing(tmp_path: Path, before: int) -> None:
    home = tmp_path / "home"
    home.mkdir()
    home.chmod(before)

    subprocess.run(
        [sys.executable, "-m", "email_assistant", "tools"],
        env=os.environ | {"EMAIL_ASSISTANT_HOME": str(home)},
        check=True,
        capture_output=True,
        timeout=WAIT_SECONDS,
    )

    assert home.stat().st_mode & 0o777 == 0o755
