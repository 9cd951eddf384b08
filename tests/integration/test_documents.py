"""Every command that README, CONTRIBUTING and docs/ show is run through a shell as it stands there, or stands in a
table with the reason why not. A command in no table is a failure, and so is one in a table that is shown nowhere.

`uv run email-assistant` starts this checkout without a look at its packages; all else is as a person types it.
"""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from typer.testing import CliRunner

from email_assistant.cli import app
from tests.documents import ROOT, documents
from tests.doubles.daemon import WAIT_SECONDS
from tests.doubles.model import Model
from tests.integration.home import until
from tests.integration.test_login import ALEX, Sandbox
from tests.tools import need

OF_OTHERS = {
    **dict.fromkeys(("pip", "npm"), "they install from registries, as `.ci/run` does"),
    "gcloud": "it needs a project at Google; what follows from it is in `test_google_push.py`",
    **dict.fromkeys(
        ("docker", "kubectl", "sed", "sudo", "git", "umask", "cat", "cd", "uvx"),
        "they deploy; the test of `deploy/` starts the same processes without Docker, systemd and a cluster",
    ),
}
"""Programs of others, by their names, and why they are not run."""

NOT_RUN = {
    "uv sync --locked --group dev": "the tests run in what it makes",
    "uv build --wheel": "`test_wheel.py` does, and runs the demo from it",
    "uv venv tests/llama/.venv": "it installs from a registry, as `.ci/run` does",
    "uv pip install --python tests/llama/.venv --no-deps --require-hashes -r tests/llama/requirements.txt": "likewise",
    "uv venv --seed tests/open_edison/.venv": "likewise",
    "tests/open_edison/.venv/bin/pip install --no-deps --ignore-requires-python --require-hashes "
    "-r tests/open_edison/requirements.txt": "likewise",
    "uv run --group dev python -m tests.benchmark gate_server": "`test_benchmark.py` does, with less of everything",
    "uv run ruff check . && uv run ruff format --check . && uv run mypy": "`.ci/run` does",
    "uv run --group dev pytest -n auto": "this is it",
    "uv run --group dev pytest -n auto -m long": "this is the other lane",
    'uv run pytest -m "long or not long" tests/integration/test_kill.py': "a part of both",
    'EMAIL_ASSISTANT_CHAOS_KILLS=1000 uv run pytest -s -m "long or not long" tests/chaos/test_storm.py': "20 minutes; "
    "the storm of the tests themselves is a short one",
    'EMAIL_ASSISTANT_CHAOS_SOAK=2000 uv run pytest -s -m "long or not long" tests/chaos/test_soak.py': "half an hour; "
    "the second lane runs it with fewer mails",
    "uv run python -m tests.picture docs/inbox.png": "`browser/test_picture.py` does",
    "uv run --group dev python -m tests.benchmark cost": "likewise",
    "uv run --group dev python -m tests.benchmark speed": "likewise",
    "uv run --group dev python -m tests.benchmark speed --only cpu --only statements": "likewise",
    "uv run --group dev python -m tests.benchmark speed --json > speed.json": "likewise",
    "uv run --group dev python -m tests.benchmark capacity --measured speed.json": "likewise",
    "uv run --group dev python -m tests.benchmark inbox": "likewise",
    "uv run email-assistant rehearse": "`test_own_rehearsal.py` does",
    'uv run email-assistant rehearse --mbox "All mail.mbox" --address you@example.com': "`test_rehearse.py` does",
    'uv run email-assistant eval rehearsal --mbox "All mail.mbox" --address you@example.com': "`test_rehearse.py` does",
    "uv run email-assistant eval triage --data labelled.jsonl": "`test_rehearse.py` does",
    "uv run email-assistant eval chat --model gpt-5-nano": "`test_evaluate.py` does, with a model of its own",
    "uv run email-assistant replay --model gpt-5-nano --last 200": "`test_replay.py` does",
    "uv run email-assistant bench toolbench --tools toolenv/tools --queries G1_instruction.json "
    "--server http://localhost:8080/virtual": "`test_toolbench.py` does, with servers of its own",
}


@dataclass(frozen=True)
class Comes:
    """What has to come of a command."""

    says: str
    """A regular expression that fits somewhere in what it prints."""
    code: int = 0
    keys: bytes | None = None
    """It needs a terminal; once it has said so much, these are typed."""
    stays: bool = False
    """It runs until it is stopped: once it has said so much, it is, by Ctrl-C."""
    put: Mapping[str, str] = field(default_factory=dict)
    """What takes the place of what the documents leave open; `{name}` is what the stage knows by it."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """Variables of this command alone."""


ANY_PORT = {"email-assistant up": "email-assistant up --port 0"}  # the usual one may be taken

ON_THE_DEMO = {
    "uv run email-assistant inbox list --demo": Comes("{item}"),
    "uv run email-assistant inbox list": Comes("{item}"),
    "uv run email-assistant inbox show ITEM": Comes("\nTo: ", put={"ITEM": "{item}"}),
    "uv run email-assistant inbox": Comes("waiting for you", keys=b"q"),
    "uv run email-assistant mails files MAIL": Comes("quote-shelves.csv", put={"MAIL": "{with_file}"}),
    "uv run email-assistant mails files MAIL --save 1": Comes("Saved as quote-", put={"MAIL": "{with_file}"}),
    "uv run email-assistant why MAIL": Comes("It came in from", put={"MAIL": "{with_file}"}),
    "uv run email-assistant export my-data.zip": Comes("Wrote my-data.zip"),
    "uv run email-assistant forget mail MAIL": Comes("Nothing was forgotten yet", put={"MAIL": "{with_file}"}),
    "uv run email-assistant forget correspondent bob@example.org": Comes("forgotten yet|is stored"),
    "uv run email-assistant status": Comes("Waiting for you: [1-9]"),
    "uv run email-assistant doctor": Comes("✓ database"),
    'uv run email-assistant chat "what waits for me?"': Comes("wait"),
    "uv run email-assistant chat --list": Comes("what waits for me"),
    "uv run email-assistant chat": Comes("Ctrl-D ends this.*> ", keys=b"\x04"),
    "uv run email-assistant chat answer THREAD --approve CALL": Comes(
        ".", put={"THREAD": "{thread}", "CALL": "{call}"}
    ),
    'curl http://127.0.0.1:8764/run -H "Authorization: Bearer TOKEN" -H "Content-Type: application/json" '
    """-d '{"thread_id": "errands", "user_request": "what waits for me?"}'""": Comes(
        '"status": ?"success"', put={"http://127.0.0.1:8764": "{root}", "TOKEN": "{token}"}
    ),
    'curl http://127.0.0.1:8765/metrics -H "Authorization: Bearer TOKEN"': Comes(
        "email_assistant_mails", put={"http://127.0.0.1:8765": "{root}", "TOKEN": "{token}"}
    ),
    "uv run email-assistant memory lessons": Comes("{lesson}"),
    "uv run email-assistant memory undo LESSON": Comes(".", put={"LESSON": "{lesson}"}),
    'uv run email-assistant memory add response_preferences "Sign with Ada, without a greeting."': Comes("."),
    "uv run email-assistant memory show": Comes("Sign with Ada, without a greeting."),
    'uv run email-assistant memory background "I teach at a school, and answer parents formally."': Comes("."),
    "uv run email-assistant tools": Comes("list_waiting"),
    "uv run email-assistant tools show list_waiting": Comes("list_waiting"),
    "uv run email-assistant gate explain --example > call.json": Comes("^$"),
    "uv run email-assistant gate explain call.json": Comes("you would be asked"),
    "uv run email-assistant gate serve": Comes("Your inbox: http", stays=True, put={"serve": "serve --port 0"}),
    "uv run email-assistant gate key": Comes(r"^[\w-]{32}\n$"),
    "uv run email-assistant gate verify": Comes("all of them as they were written"),
    "uv run email-assistant notify status": Comes("."),
    "uv run email-assistant notify test": Comes("there is nobody to tell yet", code=1),
    "uv run email-assistant mcp config": Comes('"mcpServers"'),
    "uv run email-assistant auction --bidders 4 --seed 7": Comes("Sold to .*The sellers took"),
    "uv run email-assistant mcp serve mail --http": Comes(
        "Serving at http", stays=True, put={"--http": "--http --port 0"}
    ),
}
"""Run with `--demo`, beside the demo's own command: its mailbox stands for one's own."""

THE_DEMO = "uv run email-assistant demo"

DEMOS = {
    "uv run email-assistant demo --exit-when-idle --json": Comes('"waiting": [1-9]'),
    "uv run email-assistant demo --exit-when-idle --answer accept": Comes("model_calls: "),
    'uv run email-assistant demo --mbox "All mail.mbox"': Comes("Your inbox: http", stays=True),
}
"""On another home, one after the other."""

ON_ONES_OWN = {
    "export OPENAI_API_KEY=…": Comes("^$"),
    "uv run email-assistant auth login --client-secret client_secret_….json": Comes(f"{ALEX}.*shadow mode"),
    # As far as Google's page, which nobody answers.
    "uv run email-assistant auth login other@gmail.com": Comes(
        "login_hint=other%40gmail.com.*Choose the account", code=130, stays=True, settings={"BROWSER": "true"}
    ),
    "uv run email-assistant up": Comes("Your inbox: http", stays=True, put=ANY_PORT),
    "uv run email-assistant status --env-file work.env": Comes(f"{ALEX}: active"),
    "uv run email-assistant backup assistant.tar.gz": Comes("Wrote assistant.tar.gz"),
    "uv run email-assistant restore --check assistant.tar.gz": Comes("can be restored: in "),
    "uv run email-assistant restore --replace assistant.tar.gz": Comes(f"Restored {ALEX}"),
    "EMAIL_ASSISTANT_HOME=~/assistant-of-eve uv run email-assistant up --port 8775": Comes(
        "Your inbox: http", stays=True, put={"8775": "0"}, settings={"DATABASE_URL": "{eves}"}
    ),
}
"""On a mailbox of one's own, between the sandbox and the model's double."""


def test_every_command_is_in_a_table() -> None:
    shown = {command for document in documents() for command in document.commands}
    ours = {command for command in shown if command.split()[0] not in OF_OTHERS}
    assert ours == {*ON_THE_DEMO, THE_DEMO, *DEMOS, *ON_ONES_OWN, *NOT_RUN}


def test_what_the_gate_explains_is_what_is_shown(tmp_path: Path) -> None:
    [page] = [document for document in documents() if document.name == "docs/gate.md"]
    shown = dict(page.blocks)
    said = [
        CliRunner().invoke(app, ["gate", "explain", *given], env={"EMAIL_ASSISTANT_HOME": str(tmp_path)}, input=stdin)
        for given, stdin in ((["--example"], ""), (["-"], shown["json"]))
    ]
    assert said[0].stdout == shown["json"]
    assert [line.rstrip() for line in said[1].stdout.splitlines()] == shown["text"].splitlines()


class Shell:
    """A person's shell, in a home folder of their own."""

    def __init__(self, home: Path, *options: str, **settings: str) -> None:
        """
        Args:
            options: those that every command of ours is given.
            settings: further variables; of the caller's own none but the search path is there.
        """
        need("curl")
        self.home = home
        self.known: dict[str, str] = {}
        """What stands for what the documents leave open."""
        programs = home / "-".join(["programs", *options])
        programs.mkdir()
        program = shlex.join([sys.executable, "-m", "email_assistant", *options])
        _script(programs / "uv", f'[ "$1 $2" = "run email-assistant" ] && shift 2 && exec {program} "$@"')
        agree = "import sys, httpx; from tests.doubles.consent import agree; "
        agree += "agree(httpx.Client(follow_redirects=True, trust_env=False, timeout=60), sys.argv[1])"
        _script(programs / "browser", f'exec {shlex.join([sys.executable, "-c", agree])} "$1"')
        self._environment = {
            "PATH": f"{programs}:{os.environ['PATH']}",
            "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]),
            "HOME": str(home),
            "LANG": "C.UTF-8",
            "TERM": "xterm",
            "BROWSER": f"{programs / 'browser'} %s",
            "EMAIL_ASSISTANT_UNDO_SECONDS": "0",
            **settings,
        }

    async def run(self, command: str, comes: Comes) -> str | None:
        """Run it to its end; what it did other than it has to, if anything."""
        log = self.home / "printed.log"
        with log.open("wb") as printed:
            child = self._start(command, comes, printed)
        says = re.compile(self._filled(comes.says), re.DOTALL)
        try:
            if comes.stays or comes.keys:
                await until(lambda: says.search(_read(log)) or child.poll() is not None)
            if comes.keys and child.stdin:
                child.stdin.write(comes.keys)
                child.stdin.flush()
            if comes.stays:
                await _serving(_read(log))
                os.killpg(child.pid, signal.SIGINT)
            await until(lambda: child.poll() is not None)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()
        if says.search(_read(log)) and child.returncode == comes.code:
            return None
        return f"{command}\nended with {child.returncode}, and printed:\n{_read(log)}"

    async def run_all(self, table: Mapping[str, Comes]) -> None:
        """Run one after the other; tell at the end what went wrong."""
        wrong = [why for command, comes in table.items() if (why := await self.run(command, comes))]
        assert not wrong, "\n".join(wrong)

    def _start(self, command: str, comes: Comes, printed: BinaryIO) -> "subprocess.Popen[bytes]":
        for left_open, value in comes.put.items():
            command = command.replace(left_open, self._filled(value))
        shell = ["bash", "-c", command]
        return subprocess.Popen(
            [sys.executable, "-c", _IN_A_TERMINAL, *shell] if comes.keys else shell,
            cwd=self.home,
            env=self._environment | {name: self._filled(value) for name, value in comes.settings.items()},
            stdin=subprocess.PIPE if comes.keys else subprocess.DEVNULL,
            stdout=printed,
            stderr=printed,
            start_new_session=True,
        )

    def _filled(self, text: str) -> str:
        for name, value in self.known.items():
            text = text.replace(f"{{{name}}}", value)
        return text


_IN_A_TERMINAL = "import os, pty, sys; sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))"


async def _serving(printed: str) -> None:
    """Wait until there is an answer at the address that was printed: before that, Ctrl-C ends a start."""
    address = urlsplit(re.findall(r"http://\S+", printed)[-1])

    async def answers() -> bool:
        with suppress(httpx.TransportError):
            await http.get("/health")
            return True
        return False

    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{address.port}", trust_env=False) as http:
        await until(answers)


def _read(log: Path) -> str:
    return log.read_text(errors="replace")


def _script(path: Path, line: str) -> None:
    path.write_text(f"#!/bin/sh\n{line}\n")
    path.chmod(0o755)


@asynccontextmanager
async def demo(shell: Shell) -> AsyncIterator[None]:
    """A demo that runs while the block lasts, as somebody has used it: something waits, and something was learned."""
    log = shell.home / "demo.log"
    with log.open("wb") as printed:
        child = shell._start(THE_DEMO, Comes(""), printed)
    try:
        await until(lambda: re.search(r"Your inbox: (http\S+)", _read(log)) or child.poll() is not None)
        link = re.search(r"Your inbox: (http\S+)", _read(log))
        assert link, _read(log)
        [token] = parse_qs(urlsplit(link[1]).query)["token"]
        shell.known |= {"root": f"http://127.0.0.1:{urlsplit(link[1]).port}", "token": token}
        headers = {"Authorization": f"Bearer {token}"}
        async with httpx.AsyncClient(
            base_url=shell.known["root"], headers=headers, trust_env=False, timeout=WAIT_SECONDS
        ) as http:
            await _use(shell, http)
        yield
        os.killpg(child.pid, signal.SIGINT)
        await until(lambda: child.poll() is not None)
        assert child.returncode == 0, _read(log)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()


async def _use(shell: Shell, http: httpx.AsyncClient) -> None:
    """Have it learn, begin a chat that waits for a word, and leave something waiting."""

    async def some(path: str, key: str, enough: Callable[[list[Any]], object]) -> list[Any]:
        found: list[Any] = []

        async def look() -> object:
            found[:] = (await http.get(path)).raise_for_status().json()[key]
            return enough(found)

        await until(look)
        return found

    def alone(items: list[Any]) -> list[Any]:
        """Drafts that are all of their proposal: of one with other parts nothing is done before these are decided."""
        groups = [item["group"] for item in items]
        return [item for item in items if item["kind"] == "draft" and groups.count(item["group"]) == 1]

    learned, other, *_ = alone(await some("/api/inbox", "items", lambda items: len(alone(items)) > 1))
    (await http.post(f"/api/inbox/{learned['id']}/decision", json={"type": "ignore"})).raise_for_status()
    shell.known["item"] = other["id"][:8]
    [lesson, *_] = await some(f"/api/memory/lessons?account={learned['account']}", "lessons", len)
    shell.known["lesson"] = lesson["id"][:8]
    mails = (await http.get("/api/mails?limit=200")).raise_for_status().json()["items"]
    shell.known["with_file"] = next(mail["id"] for mail in mails if "wall shelves" in mail["subject"])
    asked = {"thread_id": "lunch", "user_request": "Schedule a meeting called Lunch tomorrow at 12:00"}
    waiting = (await http.post("/run", json=asked)).json()
    shell.known |= {"thread": "lunch", "call": waiting["pending_action"]["tool_calls"][0]["call_id"]}


@pytest.mark.long
async def test_what_is_shown_on_waiting_mail(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    async with demo(shell):
        beside = Shell(tmp_path, "--demo")
        beside.known = shell.known
        await beside.run_all(ON_THE_DEMO)
        async with httpx.AsyncClient(base_url=shell.known["root"], trust_env=False) as http:
            headers = {"Authorization": f"Bearer {shell.known['token']}"}
            served = (await http.get("/openapi.json", headers=headers)).raise_for_status().json()["paths"]
        assert {call for call in told_calls() if not is_served(served, *call)} == set()


def told_calls() -> set[tuple[str, str]]:
    """Method and path of each call that the API's page lists."""
    [page] = [document for document in documents() if document.name == "docs/api.md"]
    found = set(re.findall(r"`(GET|POST|PUT|DELETE) (/[^`?]+)", page.text.partition("`/docs`")[0]))
    assert len(found) > 15
    return found


def is_served(paths: Mapping[str, Mapping[str, Any]], method: str, path: str) -> bool:
    pattern = re.sub(r"\\{\w+\\}", r"\\{\\w+\\}", re.escape(path))
    return any(re.fullmatch(pattern, served) and method.lower() in methods for served, methods in paths.items())


@pytest.mark.long
async def test_what_is_shown_of_the_demo(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    (tmp_path / "All mail.mbox").write_bytes(
        b"From x Thu Jan  1 00:00:00 1970\nFrom: bob@example.org\nTo: ada@example.com\nDelivered-To: ada@example.com\n"
        b"Subject: Old\n\nOld.\n"
    )
    await shell.run_all(DEMOS)


@pytest.mark.long
async def test_what_is_shown_on_a_mailbox_of_ones_own(
    tmp_path: Path, database_url: str, empty_database_url: str
) -> None:
    (tmp_path / "client_secret_….json").write_text(
        json.dumps({"installed": {"client_id": "the-client", "client_secret": "the-client-secret"}})
    )
    (tmp_path / "work.env").write_text("EMAIL_ASSISTANT_LOG_LEVEL=ERROR\n")
    with Model() as model:
        sandbox = Sandbox(tmp_path, ALEX)
        try:
            shell = Shell(
                tmp_path,
                DATABASE_URL=database_url,
                EMAIL_ASSISTANT_GOOGLE_ROOT=sandbox.root,
                OPENAI_API_KEY="model-key",
                OPENAI_BASE_URL=model.root,
            )
            shell.known["eves"] = empty_database_url
            await shell.run_all(ON_ONES_OWN)
        finally:
            sandbox.close()
