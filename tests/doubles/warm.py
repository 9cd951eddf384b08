"""The warm process: it has imported everything, and the processes that tests start are forked off it.

Importing costs 2 s of processor time, forking next to none, and the suite starts hundreds of processes. What runs after
the imports is the same. What tests the imports, or an environment that they read, starts cold (`sys.executable`).
"""

import atexit
import gc
import marshal
import os
import runpy
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages

from tests.doubles.launcher import answer, ask

_ROOT = Path(__file__).parents[2]
_LAUNCHER = Path(__file__).with_name("launcher.py")
_OURS = (_ROOT / "email_assistant", _ROOT / "servers" / "email_assistant_servers")
_LIBRARIES = (  # which the program loads when it is about to use them
    *("langgraph.store.postgres.aio", "prometheus_client", "uvicorn.protocols.http.h11_impl", "uvicorn.lifespan.on"),
    *("uvicorn.loops.asyncio", "apscheduler.triggers.interval", "openai.resources.chat.completions"),
    *("anyio._backends._asyncio", "httpcore", "httpcore2", "truststore", "mcp.server.stdio"),
    *("sklearn.ensemble", "textual.app", "textual.widgets"),
)
_joined: list[str] = []


def join(address: str) -> None:
    """Have processes forked off another's warm one, as the workers of one run do."""
    _joined.append(address)


def cold(*arguments: str) -> list[str]:
    """Python itself. It orders sets in a way of its own at each start, and imports."""
    return [sys.executable, *arguments]


def command(*arguments: str) -> list[str]:
    """What to start in the place of Python with `-m MODULE ...` or `-c SCRIPT ...`."""
    if not hasattr(os, "fork"):
        return cold(*arguments)
    return [sys.executable, "-S", "-E", str(_LAUNCHER), address(), *arguments]


@cache
def address() -> str:
    """Where the warm process listens; it is started if this run has none."""
    if _joined:
        return _joined[0]
    folder = tempfile.mkdtemp(prefix="email-assistant-warm-", dir="/tmp")  # a socket has a short path
    path = f"{folder}/socket"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen(100)
        warm = subprocess.Popen(
            [sys.executable, "-c", f"from tests.doubles.warm import serve; serve({listener.fileno()})"],
            stdin=subprocess.PIPE,
            pass_fds=[listener.fileno()],
            cwd=_ROOT,
            env={**os.environ, "LANG": "C.UTF-8"},
        )

    def end() -> None:
        warm.communicate()
        shutil.rmtree(folder)

    atexit.register(end)
    return path


class Forked:
    """A child of the warm process, as `subprocess.Popen` shows one. It is killed once nobody holds this object."""

    def __init__(
        self, arguments: Sequence[str], environment: Mapping[str, str], folder: Path, files: tuple[int, int, int]
    ) -> None:
        """
        Args:
            arguments: Python's, from `-m` or `-c` on.
            files: for standard input, output and errors.
        """
        self._arguments = arguments
        self._warm = ask(address(), list(arguments), dict(environment), str(folder), files)
        self.pid = answer(self._warm)
        self._code: int | None = None

    def poll(self) -> int | None:
        with suppress(subprocess.TimeoutExpired):
            return self.wait(0)
        return None

    def wait(self, timeout: float | None = None) -> int:
        if self._code is None:
            self._warm.settimeout(timeout)
            try:
                self._code = answer(self._warm)
            except (BlockingIOError, TimeoutError):
                raise subprocess.TimeoutExpired(list(self._arguments), timeout or 0) from None
        return self._code

    def send_signal(self, sig: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, sig)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class _Forks:
    """Within the warm process: forks what is asked for at a socket, until standard input ends."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self._askers: dict[int, socket.socket] = {}
        self._selector = selectors.DefaultSelector()
        self._deaths, tells = os.pipe()
        os.set_blocking(tells, False)
        signal.set_wakeup_fd(tells, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # what is forked takes it, and whoever asked for that sees to it
        for file, then in ((listener, self._fork), (self._deaths, self._bury), (0, self._end)):
            self._selector.register(file, selectors.EVENT_READ, then)

    def run(self) -> None:
        while True:
            for key, _ in self._selector.select():
                key.data()

    def _fork(self) -> None:
        asker, _ = self._listener.accept()
        _, files, _, _ = socket.recv_fds(asker, 1, 3)
        try:
            with asker.makefile("rb") as words:
                arguments, environment, folder = marshal.load(words)
        except EOFError:  # who asked was killed meanwhile
            asker.close()
            return
        pid = os.fork()
        if not pid:
            _become(arguments, environment, folder, files)
        for file in files:
            os.close(file)
        self._askers[pid] = asker
        self._selector.register(asker, selectors.EVENT_READ, partial(self._kill, pid))
        self._tell(asker, pid)

    def _kill(self, pid: int) -> None:
        """Who asked for it is gone."""
        self._selector.unregister(self._askers[pid])
        os.kill(pid, signal.SIGKILL)

    def _bury(self) -> None:
        os.read(self._deaths, 4096)
        while self._askers:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return
            asker = self._askers.pop(pid)
            with suppress(KeyError):
                self._selector.unregister(asker)
            self._tell(asker, os.waitstatus_to_exitcode(status))
            asker.close()

    def _end(self) -> None:
        for pid in self._askers:
            os.kill(pid, signal.SIGKILL)
        sys.exit()

    @staticmethod
    def _tell(asker: socket.socket, number: int) -> None:
        with suppress(OSError):
            asker.sendall(number.to_bytes(8, "big", signed=True))


def _become(arguments: list[str], environment: dict[str, str], folder: str, files: list[int]) -> None:
    """Be, in a fork, what Python would be if it had been started with these."""
    code = 1
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.environ.clear()
        os.environ.update(environment)
        time.tzset()
        os.chdir(folder)
        for number, file in enumerate(files):
            os.dup2(file, number)
        os.closerange(3, 4096)
        _open_files()
        code = _run(arguments)
    finally:
        os._exit(code)


def _open_files() -> None:
    """Look anew at the files: whether one is a pipe or a terminal, Python asks at its start, and Rich at its import."""
    buffering = 1 if os.isatty(1) else -1
    sys.__stdin__ = open(0, errors="surrogateescape", closefd=False)  # type: ignore[misc] # noqa: SIM115
    sys.__stdout__ = open(1, "w", buffering, errors="surrogateescape", closefd=False)  # type: ignore[misc] # noqa: SIM115
    sys.__stderr__ = open(2, "w", 1, errors="backslashreplace", closefd=False)  # type: ignore[misc] # noqa: SIM115
    sys.stdin, sys.stdout, sys.stderr = sys.__stdin__, sys.__stdout__, sys.__stderr__
    if os.isatty(1) or os.isatty(2):
        for name in [name for name in sys.modules if name.startswith("email_assistant.cli")]:
            del sys.modules[name]


def _run(arguments: list[str]) -> int:
    kind, what, *given = arguments
    sys.argv = [kind, *given]
    code: object = None
    try:
        if kind == "-m":
            runpy.run_module(what, run_name="__main__", alter_sys=True)
        else:
            exec(compile(what, "<string>", "exec"), {"__name__": "__main__"})
    except SystemExit as ended:
        code = ended.code
    except BaseException:
        sys.excepthook(*sys.exc_info())
        code = 1
    if not isinstance(code, int | None):
        sys.stderr.write(f"{code}\n")
        code = 1
    # All that an interpreter does at its end, but for taking apart the modules, of which each page would be copied.
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    return code or 0


def _ours() -> Iterator[str]:
    """All of the program, which imports most of itself where it is used."""
    for package in _OURS:
        for module in walk_packages([str(package)], f"{package.name}."):
            if not module.name.endswith("__main__"):
                yield module.name


def serve(listening: int) -> None:
    """Be the warm process."""
    for name in (*_ours(), *_LIBRARIES):
        import_module(name)
    gc.freeze()
    with socket.socket(fileno=listening) as listener:
        _Forks(listener).run()
