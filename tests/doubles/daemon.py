"""The real program, driven from outside: subprocesses of `email-assistant`, its command line and its HTTP interface."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import httpx
from cryptography.fernet import Fernet

from tests.doubles.front import Front
from tests.doubles.model import Model
from tests.doubles.nursery import Nursery, nursery
from tests.doubles.ports import NO_CERTIFICATES, NotStarted, free_port

T = TypeVar("T")

Item = dict[str, Any]
"""An inbox item, or a mail, as the API shows it."""

API_TOKEN = "api-token-of-the-test"
MCP_TOKEN = "mcp-token-of-the-test"

WAIT_SECONDS = 120.0
"""How long a test waits for something before it fails: so long that no machine is too busy for it."""


class Process:
    """One running process of the program, with its log."""

    def __init__(
        self, name: str, arguments: Sequence[str], environment: Mapping[str, str], folder: Path, nursery: Nursery
    ) -> None:
        self.name = name
        self.log_path = folder / f"{name}.log"
        self._child = nursery.start(arguments, environment, folder, self.log_path)

    @property
    def log(self) -> str:
        return self.log_path.read_text(errors="replace")

    @property
    def pid(self) -> int:
        return self._child.pid

    @property
    def exit_code(self) -> int | None:
        """None while it runs."""
        return self._child.poll()

    @property
    def is_running(self) -> bool:
        return self.exit_code is None

    def freeze(self) -> None:
        """Stop it in mid-air. The process keeps its connections and knows nothing of the time that passes."""
        self._child.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._child.send_signal(signal.SIGCONT)

    def kill(self, sig: signal.Signals = signal.SIGKILL) -> None:
        """Send a signal and wait until the process has ended."""
        if self.is_running:
            self._child.send_signal(sig)
            self._child.wait(timeout=WAIT_SECONDS)

    def stop(self) -> None:
        """Ask it to stop, and wait until it has finished what it was doing."""
        self.kill(signal.SIGTERM)


class Daemon:
    """The program on one home folder and one database.

    Settings given as keywords go into the environment in capitals: `undo_seconds=60` is EMAIL_ASSISTANT_UNDO_SECONDS.
    """

    def __init__(self, home: Path, database_url: str, google: Front, model: Model, /, **settings: object) -> None:
        self.home, self._google = home, google
        self.nursery = nursery()
        self.processes: list[Process] = []
        chosen = {
            "home": home / "assistant",
            "api_token": API_TOKEN,
            "mcp_token": MCP_TOKEN,
            "secret_key": Fernet.generate_key().decode(),
            "model": "stub-model",
            "google_root": google.root,
            "google_name": "double",  # under whichever of its roots
            "poll_seconds": 0.5,
            "undo_seconds": 0,
            "lease_seconds": 4,
            "google_timeout_seconds": 1.5,
            "sweep_seconds": 0.5,
            "model_probe_seconds": 0.5,
            "working_hours": "09:00-18:00",
        } | settings
        self.environment = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
            "HOME": str(home),
            "LANG": "C.UTF-8",
            "DATABASE_URL": database_url,
            "OPENAI_API_KEY": "model-key",
            "OPENAI_BASE_URL": model.root,
            **{f"EMAIL_ASSISTANT_{name.upper()}": str(value) for name, value in chosen.items()},
        }
        self._port = free_port()
        self.http = httpx.Client(
            base_url=f"http://127.0.0.1:{self._port}",
            headers={"Authorization": f"Bearer {API_TOKEN}"},
            trust_env=False,
            verify=NO_CERTIFICATES,
            timeout=WAIT_SECONDS,
        )

    def __enter__(self) -> "Daemon":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End every process at once."""
        self.http.close()
        for process in self.processes:
            process.kill()

    # Processes

    def account_add(self, address: str, mode: str = "send") -> None:
        """Connect a mailbox, as a person would from the command line."""
        token_file = self._google.write_token_file(self.home / f"{address}.json")
        self.cli("account", "add", address, "--token-file", str(token_file), "--mode", mode)

    def up(self, *arguments: str) -> Process:
        """Start the daemon; return when it answers."""
        process = self._start("up", "up", "--host", "127.0.0.1", "--port", str(self._port), *arguments)
        self.wait_for(lambda: self._is_healthy() or not process.is_running, "the daemon answers /health")
        if not process.is_running:
            raise NotStarted(f"the daemon ended\n{self.logs()}")
        return process

    def worker(self, *, google_root: str | None = None, model_root: str | None = None) -> Process:
        """Start a worker process, which may reach Google and the model by roots of its own."""
        own = {"EMAIL_ASSISTANT_GOOGLE_ROOT": google_root, "OPENAI_BASE_URL": model_root}
        return self._start("worker", "worker", **{name: value for name, value in own.items() if value})

    def api(self) -> Process:
        """Start a process that only serves the inbox and the API; return when it answers."""
        process = self._start("api", "api", "--host", "127.0.0.1", "--port", str(self._port))
        self.wait_for(self._is_healthy, "the API answers /health")
        return process

    def scheduler(self, **settings: str) -> Process:
        """Start a process that has mailboxes looked at."""
        return self._start("scheduler", "scheduler", **settings)

    def gate(self) -> tuple[Process, str]:
        """Start a gate's server; return it and its address, once it answers."""
        port = free_port()
        process = self._start("gate", "gate", "serve", "--port", str(port))
        self.wait_for(lambda: "Your inbox" in process.log or not process.is_running, "the gate listens")
        return process, f"http://127.0.0.1:{port}"

    def mcp(self, what: str, *arguments: str) -> tuple[Process, str]:
        """Start an MCP server over HTTP; return it and its address, at which it listens."""
        port = free_port()
        process = self._start(what, "mcp", "serve", what, "--http", "--port", str(port), *arguments)
        self.wait_for(lambda: "Serving at" in process.log or not process.is_running, "the MCP server listens")
        return process, f"http://127.0.0.1:{port}/mcp"

    def kill(self, sig: signal.Signals = signal.SIGKILL) -> None:
        """Send every process a signal and wait until it has ended."""
        for process in self.processes:
            process.kill(sig)

    def stop(self) -> None:
        """Stop every process in good order, so that nothing more can happen."""
        self.kill(signal.SIGTERM)

    def _start(self, name: str, *arguments: str, **environment: str) -> Process:
        name = f"{name}-{len(self.processes) + 1}"
        process = Process(name, arguments, self.environment | environment, self.home, self.nursery)
        self.processes.append(process)
        return process

    def _is_healthy(self) -> bool:
        try:
            return self.http.get("/health", timeout=5).status_code == 200
        except httpx.TransportError:
            return False

    # Its command line

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run one command to its end, whatever comes of it."""
        out, err = (self.home / f"command.{name}" for name in ("out", "err"))
        err.write_text("")
        child = self.nursery.start(arguments, self.environment, self.home, out, err)
        try:
            code = child.wait(WAIT_SECONDS * 2)
        except subprocess.TimeoutExpired:
            child.send_signal(signal.SIGKILL)
            raise
        return subprocess.CompletedProcess(arguments, code, out.read_text(), err.read_text())

    def cli(self, *arguments: str) -> Any:
        """Run one command that must succeed; return what it printed, parsed if `--json` was asked for."""
        done = self.run(*arguments)
        if done.returncode != 0:
            raise AssertionError(f"{' '.join(arguments)} ended with {done.returncode}\n{done.stdout}{done.stderr}")
        return json.loads(done.stdout) if "--json" in arguments else done.stdout

    def rules(self, profile: str) -> list[str]:
        """The rules learned so far in one profile, from the command line."""
        return [rule["text"] for rule in self.cli("memory", "show", "--json")[profile]]

    # Its HTTP interface

    def items(self, **query: str) -> list[Item]:
        """The inbox, over HTTP."""
        return self._listed("/api/inbox", query)

    def item(self, item_id: str) -> Item:
        return self._get(f"/api/inbox/{item_id}")

    def mails(self) -> list[Item]:
        return self._listed("/api/mails", {})

    def mail(self, mail_id: str) -> Item:
        """One mail by its Gmail id; empty while the daemon has not stored it."""
        return next((mail for mail in self.mails() if mail["id"] == mail_id), {})

    def decide(self, item_id: str, type_: str, args: object = None) -> httpx.Response:
        """Answer an item by whoever has just looked at it."""
        shown = self.http.get(f"/api/inbox/{item_id}").json()
        answer = {"type": type_, "args": args, "asked": shown.get("asked")}
        return self.http.post(f"/api/inbox/{item_id}/decision", json=answer)

    def answer(self, item: Item, type_: str, args: object = None) -> None:
        """A person's answer that must be taken."""
        answered = self.decide(item["id"], type_, args)
        assert answered.status_code == 200, answered.text

    def accept(self, item: Item) -> None:
        self.answer(item, "accept")

    def undo(self, item_id: str) -> httpx.Response:
        return self.http.post(f"/api/inbox/{item_id}/undo")

    def _listed(self, path: str, query: dict[str, str]) -> list[Item]:
        items: list[Item] = []
        page = self._get(path, query)
        while True:
            items += page["items"]
            if not page["next"]:
                return items
            page = self._get(path, query | {"cursor": page["next"]})

    def _get(self, path: str, query: dict[str, str] | None = None) -> Item:
        answer = self.http.get(path, params=query)
        answer.raise_for_status()
        parsed: Item = answer.json()
        return parsed

    # Waiting

    def pending(self, count: int = 1) -> list[Item]:
        """The items that wait for the person, once there are `count`."""
        self.wait_for(lambda: len(self.items(status="pending")) == count, f"{count} items wait")
        return self.items(status="pending")

    def until_item(self, item: Item, status: str) -> Item:
        """The item, once it has this status."""
        self.wait_for(lambda: self.item(item["id"])["status"] == status, f"the item is {status}")
        return self.item(item["id"])

    def until_mail(self, mail_id: str, state: str, timeout: float = WAIT_SECONDS) -> Item:
        """The mail, once it is in this state."""
        self.wait_for(lambda: self.mail(mail_id).get("state") == state, f"the mail is {state}", timeout)
        return self.mail(mail_id)

    def until_done(self, *mail_ids: str) -> None:
        """Wait until all these mails are done."""
        for mail_id in mail_ids:
            self.until_mail(mail_id, "done")

    def until_polled(self, times: int) -> None:
        """Let it look for new mail so many more times."""
        polls = len(self._google.calls("history.list"))
        self.wait_for(lambda: len(self._google.calls("history.list")) >= polls + times, f"{times} polls")

    def wait_for(self, found: Callable[[], T], what: str = "", timeout: float = WAIT_SECONDS) -> T:
        """Ask until the answer is true; return it.

        Raises:
            AssertionError: it did not become true in time; the message holds what the processes last wrote.
        """
        deadline = time.monotonic() + timeout
        pause = 0.02
        while True:
            answer = found()
            if answer:
                return answer
            if time.monotonic() > deadline:
                raise AssertionError(f"waited {timeout:g} s in vain: {what}\n{self.logs()}")
            time.sleep(pause)
            pause = min(2 * pause, 0.25)  # each question takes from the program the time in which it would get there

    def logs(self) -> str:
        """The end of each process's log."""
        return "\n".join(f"--- {process.name}\n{process.log[-4000:]}" for process in self.processes)
