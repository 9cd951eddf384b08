"""Starts the program's processes: each as a user would, or forked off one that has imported everything.

Importing costs 2 s of processor time, forking next to none, and the suite starts hundreds of processes. What runs after
the imports is the same.
"""

import atexit
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Protocol

_PROGRAM = "email_assistant"
_OURS = (
    *("cli", "cli.serve", "daemon", "agents.mail.graph", "agents.chat.graph", "work.handover", "queue.handover"),
    *("work.worker", "work.by_chat", "tools.mailbox", "tools.write_email", "tools.schedule_meeting"),
)
_LIBRARIES = (  # which the program loads when it is about to use them
    *("langgraph.store.postgres.aio", "prometheus_client", "uvicorn.protocols.http.h11_impl", "uvicorn.lifespan.on"),
    *("uvicorn.loops.asyncio", "apscheduler.triggers.interval", "openai.resources.chat.completions"),
    *("httpcore2", "truststore"),
)
_MODULES = (*(f"{_PROGRAM}.{name}" for name in _OURS), *_LIBRARIES)
_WARM = f"""
import atexit, gc, importlib, json, os, runpy, sys, threading
from contextlib import suppress

for name in {_MODULES}:
    with suppress(ImportError):
        importlib.import_module(name)


def start(arguments, environment, folder, out, err):
    if pid := os.fork():
        return pid
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    for number, path in ((1, out), (2, err)):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), number)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.closerange(3, 100)
    sys.argv = ["{_PROGRAM}", *arguments]
    code = 1
    try:
        runpy.run_module("{_PROGRAM}", run_name="__main__", alter_sys=True)
        code = 0
    except SystemExit as exit:
        code = exit.code
    except BaseException:
        sys.excepthook(*sys.exc_info())
    # All that an interpreter does at its end, but for taking apart the modules, of which each page would be copied.
    threading._shutdown()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code if isinstance(code, int) else int(code is not None))


def poll(pid):
    ended, status = os.waitpid(pid, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if ended else None


gc.freeze()
print("warm", flush=True)
for line in sys.stdin:
    wanted = json.loads(line)
    print(json.dumps(poll(wanted) if isinstance(wanted, int) else start(*wanted)), flush=True)
"""


class Child(Protocol):
    """A process of ours, as `subprocess.Popen` shows it."""

    @property
    def pid(self) -> int: ...
    def poll(self) -> int | None: ...
    def wait(self, timeout: float | None = None) -> int: ...
    def send_signal(self, sig: int) -> None: ...


class Nursery:
    """Starts each process as a user would."""

    def start(
        self, arguments: Sequence[str], environment: Mapping[str, str], folder: Path, out: Path, err: Path | None = None
    ) -> Child:
        """Start a process that writes to these files; its errors too go to `out` if there is no other."""
        with out.open("wb") as output, (err or out).open("ab") as errors:
            return subprocess.Popen(
                [sys.executable, "-m", _PROGRAM, *arguments],
                env=environment,
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=errors,
            )

    def close(self) -> None:
        """Start no more."""


class ForkingNursery(Nursery):
    """Forks each process off a warm one."""

    def __init__(self) -> None:
        self._one_question = threading.Lock()
        self._warm = subprocess.Popen(
            [sys.executable, "-c", _WARM],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "LANG": "C.UTF-8"},
        )
        assert self._warm.stdout
        self._warm.stdout.readline()

    def start(
        self, arguments: Sequence[str], environment: Mapping[str, str], folder: Path, out: Path, err: Path | None = None
    ) -> Child:
        out.write_bytes(b"")
        return _Forked(self, self.ask([list(arguments), dict(environment), str(folder), str(out), str(err or out)]))

    def close(self) -> None:
        self._warm.kill()
        self._warm.communicate()

    def ask(self, what: object) -> Any:
        """Have a process started, or ask for the exit code of one."""
        assert self._warm.stdin
        assert self._warm.stdout
        with self._one_question:
            self._warm.stdin.write(json.dumps(what) + "\n")
            self._warm.stdin.flush()
            return json.loads(self._warm.stdout.readline())


@cache
def nursery() -> Nursery:
    """The one of this test run."""
    opened = ForkingNursery() if hasattr(os, "fork") else Nursery()
    atexit.register(opened.close)
    return opened


class _Forked:
    """A child of the warm process, which alone can wait for it."""

    def __init__(self, nursery: ForkingNursery, pid: int) -> None:
        self.pid = pid
        self._nursery = nursery
        self._code: int | None = None

    def poll(self) -> int | None:
        if self._code is None:
            self._code = self._nursery.ask(self.pid)
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
