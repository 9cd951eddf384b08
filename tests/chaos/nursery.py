"""Starts the program's processes: each as a user would, or forked off one that has imported everything.

Importing costs 2 s of processor time, forking next to none, so a long run has its kills in a tenth of the time. What
runs after the imports is the same. Linux only.
"""

import ctypes
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

_SET_CHILD_SUBREAPER = 36
_PROGRAM = "email_assistant"
_WARM = f"""
import importlib, json, os, runpy, sys
from contextlib import suppress

for name in ("cli", "cli.serve", "daemon", "agents.mail.graph", "queue.handover"):
    with suppress(ImportError):
        importlib.import_module("{_PROGRAM}." + name)
with suppress(ImportError):
    importlib.import_module("langgraph.store.postgres.aio")
print("warm", flush=True)
for line in sys.stdin:
    wanted = json.loads(line)
    read, write = os.pipe()
    if not (first := os.fork()):
        if second := os.fork():
            os.write(write, str(second).encode())
            os._exit(0)
        os.environ.clear()
        os.environ.update(wanted["environment"])
        os.chdir(wanted["folder"])
        log = os.open(wanted["log"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.closerange(3, 100)
        sys.argv = ["{_PROGRAM}", *wanted["arguments"]]
        runpy.run_module("{_PROGRAM}", run_name="__main__", alter_sys=True)
        os._exit(0)
    os.waitpid(first, 0)
    print(os.read(read, 20).decode(), flush=True)
    os.close(read)
    os.close(write)
"""


class Child(Protocol):
    """A process of ours, as `subprocess.Popen` shows it."""

    pid: int

    def poll(self) -> int | None: ...
    def wait(self, timeout: float | None = None) -> int: ...
    def send_signal(self, sig: int) -> None: ...


class Nursery:
    """Starts each process as a user would."""

    def start(self, arguments: Sequence[str], environment: Mapping[str, str], folder: Path, log: Path) -> Child:
        with log.open("wb") as output:
            return subprocess.Popen(
                [sys.executable, "-m", _PROGRAM, *arguments],
                env=environment,
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )

    def close(self) -> None:
        """Start no more."""


class ForkingNursery(Nursery):
    """Forks each process off a warm one."""

    def __init__(self) -> None:
        # Whoever the warm process leaves an orphan becomes ours, so that we can wait for it.
        ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1)
        self._warm = subprocess.Popen(
            [sys.executable, "-c", _WARM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )
        self._answer()

    def start(self, arguments: Sequence[str], environment: Mapping[str, str], folder: Path, log: Path) -> Child:
        assert self._warm.stdin
        wanted = {"arguments": arguments, "environment": environment, "folder": str(folder), "log": str(log)}
        self._warm.stdin.write(json.dumps(wanted) + "\n")
        return _Forked(int(self._answer()))

    def close(self) -> None:
        self._warm.kill()
        self._warm.communicate()

    def _answer(self) -> str:
        assert self._warm.stdout
        return self._warm.stdout.readline()


class _Forked:
    """A process that has become our child."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._code: int | None = None

    def poll(self) -> int | None:
        if self._code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self._code = os.waitstatus_to_exitcode(status) if pid else None
        return self._code

    def wait(self, timeout: float | None = None) -> int:
        deadline = time.monotonic() + (timeout if timeout is not None else 3600)
        while (code := self.poll()) is None:
            if time.monotonic() > deadline:
                raise subprocess.TimeoutExpired(_PROGRAM, timeout or 0)
            time.sleep(0.002)
        return code

    def send_signal(self, sig: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, signal.Signals(sig))
