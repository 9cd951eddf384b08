"""The Postgres server that ships with the program: one data directory, a unix socket, no port.

Whoever holds the lock beside the data directory owns the server: it started it and will stop it. Every other
process on the same directory only connects. A second lock is inherited by the server itself, so that the next
owner knows for certain when the last server process of the previous one is gone.

Who may connect is asked of the operating system, which knows the user at the other end of a socket (`peer`): root, and
whose directory it is. A server that root starts runs under a number that no other process has.
"""

import contextlib
import ctypes
import errno
import glob
import hashlib
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import IO, Self
from urllib.parse import quote

import psycopg

from email_assistant.db.binaries import EmbeddedError, SystemUser, give, name_of, nobody, runner_of, usable_binaries
from email_assistant.db.environment import hide_variables

START_SECONDS = 60  # crash recovery comes before the first connection
_STOP_SECONDS = 30
_POLL_SECONDS = 0.02
_FULL_DISK_BYTES = 64 << 20  # Postgres writes its log in segments of 16 MB and keeps one spare

_PORT = 5432  # names the socket; nothing listens on TCP
_SOCKET_PATH_BYTES = 103  # sockaddr_un holds 107 bytes on Linux, 103 on macOS
_SHORT_SOCKETS = Path("/tmp")  # noqa: S108 - not TMPDIR, which may differ between two processes

_MAP = "email_assistant"  # names, in `pg_ident.conf`, which users of the system are the database's `postgres`
_DOORS = [f"local {databases} postgres peer map={_MAP}" for databases in ("all", "replication")]

_SETTINGS = {
    "max_connections": "200",
    "log_checkpoints": "off",
    # A failed statement and the detail of its error quote rows, and no mail text belongs in a log.
    "log_min_error_statement": "panic",
    "log_error_verbosity": "terse",
}


class EmbeddedPostgres:
    """The Postgres server of one data directory: started by us, or joined if another process of ours runs it.

    Safe to use from several threads. As a context manager it starts on entry and stops on exit."""

    def __init__(self, data_dir: Path, *, binaries: Path | None = None) -> None:
        self._dir = data_dir.resolve()
        self._binaries = binaries
        self._log = self._beside("log")
        self._log_start = 0  # where the lines of the program that was run last begin
        self._sockets = _socket_dir(self._dir)
        self._mutex = threading.Lock()
        self._wanted = False
        self._lock: IO[bytes] | None = None
        self._server: subprocess.Popen[bytes] | None = None

    @property
    def owner(self) -> bool:
        """Whether this process is the one that starts and stops the server."""
        return self._lock is not None

    def url(self, database: str = "postgres") -> str:
        """The libpq URL of a database on this server."""
        return f"postgresql://postgres@/{quote(database)}?host={quote(str(self._sockets), safe='')}&port={_PORT}"

    def start(self) -> str:
        """Start or join the server, wait until it accepts connections, and return the URL of database "postgres".

        Raises EmbeddedError."""
        if sys.platform == "win32":
            raise EmbeddedError("the embedded Postgres does not run on Windows: set DATABASE_URL to a server of yours")
        with self._mutex, self._explained():
            hide_variables()
            self._dir.parent.mkdir(parents=True, exist_ok=True)
            deadline = time.monotonic() + START_SECONDS
            while not (self.owner or self._own() or self._answers()):
                self._wait(deadline, "the process that owns it did not bring Postgres up")
            self._wanted = True
        return self.url()

    def keep(self) -> None:
        """Start the server again if its owner has left or it has died. Call it every half second or so.

        Does nothing before `start` and after `stop`. Raises EmbeddedError if the server cannot be started; a later
        call tries again."""
        with self._mutex, self._explained():
            if not self._wanted:
                return
            if not self.owner:
                self._own()
            elif self._server is None or self._server.poll() is not None:
                self._serve()

    def stop(self) -> None:
        """Stop the server if it is ours; sessions are ended, committed work is on disk. Otherwise only let go."""
        with self._mutex:
            self._wanted = False
            self._halt()
            if self._lock is not None:
                self._lock.close()
                self._lock = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.stop()

    def _beside(self, ending: str) -> Path:
        return self._dir.with_name(f"{self._dir.name}.{ending}")

    def _own(self) -> bool:
        """Take the lock and serve; False if another process has it."""
        lock = try_lock(self._beside("lock"))
        if lock is None:
            return False
        try:
            self._serve()
        except BaseException:
            lock.close()
            raise
        self._lock = lock
        return True

    def _serve(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        while (running := try_lock(self._beside("server.lock"))) is None:
            # Only Linux ends a server with its owner; elsewhere one that was left behind goes on serving.
            if sys.platform != "linux" and self._answers():
                return
            self._wait(deadline, "a server of an earlier process is still shutting down")
        with running:
            account = runner_of(self._dir)
            binaries, major = usable_binaries(account, self._binaries)
            self._prepare(binaries, major, account)
            self._server = self._launch(binaries, account, running)
        try:
            while not self._answers():
                if self._server.poll() is not None:
                    raise self._failure("Postgres did not start")
                self._wait(deadline, "Postgres did not accept connections")
        except BaseException:
            self._halt()
            raise

    def _prepare(self, binaries: Path, major: int, account: SystemUser) -> None:
        version = self._dir / "PG_VERSION"
        if not version.exists():
            self._initialise(binaries, account)
        elif (found := version.read_text().strip()) != str(major):
            raise EmbeddedError(
                f"{self._dir} was made by Postgres {found}, but the programs in {binaries} are version {major}: "
                f"move it away, or run it with version {found} and set DATABASE_URL"
            )
        # As after a copy by root.
        if account.user is not None and self._dir.stat().st_uid != account.user:
            give((self._dir, *self._dir.rglob("*")), account)
        self._dir.chmod(0o700)
        self._lock_doors(account)
        if self._sockets != self._dir:
            self._prepare_sockets(account)

    def _lock_doors(self, account: SystemUser) -> None:
        """Have the server ask the operating system who connects.

        What the person has added for users of their own making stays."""
        user = os.geteuid() if account.user is None else account.user
        names = sorted({"root", name_of(user) or "root"} - {"nobody"})
        doors, people = self._dir / "pg_hba.conf", self._dir / "pg_ident.conf"
        own = [line for line in _lines(doors) if line not in _DOORS]
        self._rewrite(doors, [*_DOORS, *own], account)
        own = [line for line in _lines(people) if line.split()[0] != _MAP]
        self._rewrite(people, [*(f'{_MAP} "{name}" postgres' for name in names), *own], account)

    def _rewrite(self, file: Path, lines: list[str], account: SystemUser) -> None:
        fresh = file.with_name(f"{file.name}.new")
        fresh.unlink(missing_ok=True)
        with open(fresh, "x", opener=lambda name, flags: os.open(name, flags, 0o600)) as out:
            out.write("\n".join(["# The first lines are written anew at each start.", *lines, ""]))
        give((fresh,), account)
        fresh.replace(file)

    def _initialise(self, binaries: Path, account: SystemUser) -> None:
        """Make the data directory beside its place and move it there whole, so that half a one is never found.

        initdb asks for the name of its user. Where the server's has none, nobody makes the empty data."""
        maker = account if account.user is None or name_of(account.user) else nobody()
        for leftover in self._dir.parent.glob(f"{glob.escape(self._dir.name)}.init-*"):
            shutil.rmtree(leftover, ignore_errors=True)
        fresh = Path(tempfile.mkdtemp(prefix=f"{self._dir.name}.init-", dir=self._dir.parent))
        try:
            give((fresh,), maker)
            command = [str(binaries / "initdb"), "-D", _as_seen_by(maker, fresh), "-U", "postgres", "-A", "peer"]
            command += ["-E", "UTF8", "--locale=C.UTF-8", "--no-instructions"]
            if self._spawn(command, fresh, maker).wait() != 0:
                raise self._failure("initdb failed")
            give((fresh, *fresh.rglob("*")), account)
            try:
                fresh.rename(self._dir)
            except OSError as error:
                raise EmbeddedError(
                    f"{self._dir} must be absent or an empty folder, and no mount point, to become a data directory: "
                    f"{error.strerror}"
                ) from error
        finally:
            shutil.rmtree(fresh, ignore_errors=True)

    def _prepare_sockets(self, account: SystemUser) -> None:
        self._sockets.mkdir(mode=0o700, exist_ok=True)
        found = self._sockets.lstat()  # others can write beside it: it must be a real folder, and ours
        if not stat.S_ISDIR(found.st_mode) or found.st_uid not in (os.geteuid(), account.user):
            raise EmbeddedError(f"{self._sockets} belongs to someone else: use a data directory with a shorter path")
        give((self._sockets,), account)
        self._sockets.chmod(0o700)

    def _launch(self, binaries: Path, account: SystemUser, lock: IO[bytes]) -> subprocess.Popen[bytes]:
        sockets = "." if self._sockets == self._dir else str(self._sockets)
        command = [str(binaries / "postgres"), "-D", _as_seen_by(account, self._dir), "-h", "", "-k", sockets]
        command += ["-p", str(_PORT), *(f"--{name}={value}" for name, value in _SETTINGS.items())]
        return self._spawn(command, self._dir, account, lock)

    def _spawn(
        self, command: list[str], folder: Path, account: SystemUser, lock: IO[bytes] | None = None
    ) -> subprocess.Popen[bytes]:
        """Run a program of Postgres from a thread that lives as long as it does.

        Linux sends the signal of `die_with_parent` when the thread that forked ends, whatever the process does."""
        started: Future[subprocess.Popen[bytes]] = Future()

        def run() -> None:
            try:
                with _open(self._log) as output:
                    self._log_start = output.tell()
                    process = subprocess.Popen(  # noqa: S603
                        command,
                        cwd=folder,
                        env=os.environ | self._disowned_pid(),
                        stdin=subprocess.DEVNULL,
                        stdout=output,
                        stderr=output,
                        pass_fds=() if lock is None else (lock.fileno(),),
                        start_new_session=True,  # Ctrl-C in the terminal is for us, and we still need the server
                        user=account.user,
                        group=account.group,
                        extra_groups=account.groups,
                        preexec_fn=die_with_parent(signal.SIGINT if lock else signal.SIGKILL),  # noqa: PLW1509
                    )
            except BaseException as error:
                started.set_exception(error)
                return
            started.set_result(process)
            process.wait()

        threading.Thread(target=run, name="postgres", daemon=True).start()
        return started.result()

    def _disowned_pid(self) -> dict[str, str]:
        """Tell Postgres that the pid in a left-over postmaster.pid is no server.

        Postgres takes any live process of its own user with that pid for a server and refuses to start, for ever if
        the number was given to a lasting process. We hold the lock that every server of this directory holds, so
        none is alive. Postgres disregards the pid named in this variable (CreateLockFile in its miscinit.c), still
        checks that no process uses the directory's shared memory, and removes the file itself."""
        try:
            return {"PG_GRANDPARENT_PID": (self._dir / "postmaster.pid").read_text().split()[0]}
        except (FileNotFoundError, IndexError):
            return {}

    def _answers(self) -> bool:
        with contextlib.suppress(FileNotFoundError, psycopg.OperationalError):
            if self._sockets.lstat().st_uid == self._dir.stat().st_uid:
                psycopg.connect(self.url(), connect_timeout=2).close()
                return True
        return False

    def _halt(self) -> None:
        server, self._server = self._server, None
        if server is None:
            return
        server.send_signal(signal.SIGINT)
        try:
            server.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            server.send_signal(signal.SIGQUIT)  # at once; the next start recovers from the write-ahead log
            server.wait()

    def _wait(self, deadline: float, problem: str) -> None:
        if time.monotonic() > deadline:
            raise EmbeddedError(f"{self._dir}: {problem} within {START_SECONDS} s; {self._log} may say why")
        time.sleep(_POLL_SECONDS)

    def _failure(self, problem: str) -> EmbeddedError:
        """The error in the words of the program that was run last."""
        words = self._log.read_bytes()[self._log_start :].decode(errors="replace")
        said = " | ".join([line.strip() for line in words.split("\n") if line.strip()][-5:])
        free = shutil.disk_usage(self._dir.parent).free
        if os.strerror(errno.ENOSPC) in words or os.strerror(errno.EDQUOT) in words:
            return EmbeddedError(f"{problem} in {self._dir}: {_disk_full(free)}")
        perhaps = f"{_disk_full(free)}; " if free < _FULL_DISK_BYTES else ""
        return EmbeddedError(f"{problem} in {self._dir}: {perhaps}{said}")

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except KeyError as error:
            raise EmbeddedError(
                f"cannot run Postgres in {self._dir} as root: this system has no user nobody; run it as another user"
            ) from error
        except OSError as error:
            raise EmbeddedError(f"cannot run Postgres in {self._dir}: {self._remedy(error)}") from error

    def _remedy(self, error: OSError) -> str:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            return _disk_full(shutil.disk_usage(self._dir.parent).free)
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            return f"{error}; give yourself the right to it, or choose another folder with EMAIL_ASSISTANT_HOME"
        return str(error)


def _lines(file: Path) -> list[str]:
    """What a file of settings says, without remarks."""
    lines = [line.strip() for line in file.read_text().splitlines()] if file.exists() else []
    return [line for line in lines if line and not line.startswith("#")]


def _disk_full(free: int) -> str:
    """What to do about a disk with so many bytes free."""
    return (
        f"its disk is full ({free >> 20} MB free; {_FULL_DISK_BYTES >> 20} MB are needed): free some space, "
        "then start again; nothing that was stored is lost"
    )


def _socket_dir(data_dir: Path) -> Path:
    """The data directory, or a short folder derived from it if the socket's path would be too long."""
    if len(os.fsencode(data_dir / f".s.PGSQL.{_PORT}")) <= _SOCKET_PATH_BYTES:
        return data_dir
    return _SHORT_SOCKETS / f"email-assistant-{hashlib.sha256(os.fsencode(data_dir)).hexdigest()[:16]}"


def try_lock(path: Path) -> IO[bytes] | None:
    """Open and lock the file; None if another process holds it. Closing it, also by dying, unlocks."""
    import fcntl

    file = _open(path)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        return None
    return file


def _open(path: Path) -> IO[bytes]:
    """Open to append, creating the file for our own eyes."""
    return open(path, "ab", opener=lambda name, flags: os.open(name, flags, 0o600))


def _as_seen_by(account: SystemUser, folder: Path) -> str:
    """The path by which the account reaches the folder that is its working directory.

    Nobody cannot walk through, say, /root to its data, and no folder is opened for it: it is put there instead."""
    return "/proc/self/cwd" if account.user is not None and sys.platform == "linux" else str(folder)


def die_with_parent(last_signal: signal.Signals) -> Callable[[], None] | None:
    """What a new process does before exec so that Linux sends it the signal when we die.

    SIGINT has Postgres end sessions and stop; initdb would finish first, and what it made is of no use to anyone.
    Between fork and exec no lock may be taken, since a thread that no longer exists could hold it: everything is
    looked up beforehand, and only system calls are left."""
    if sys.platform != "linux":
        return None
    prctl, set_death_signal, number = ctypes.CDLL(None).prctl, 1, int(last_signal)
    parent, parent_now, leave = os.getpid(), os.getppid, os._exit

    def before_exec() -> None:
        prctl(set_death_signal, number)
        if parent_now() != parent:  # it died before the signal was set
            leave(1)

    return before_exec
