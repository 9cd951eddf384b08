"""No command waits for ever for a disk or the database. After ten seconds it says which one does not answer, and exits.

Two waits are longer, and a line tells of them after ten seconds: the embedded server has more time to start
(`expect_server`), and a program that is started once and stays waits for its database without end (`tell_of_waiting`).

A thread watches, since what hangs may be the main one: a read from a disk that is gone can't be interrupted. Ending at
once is safe: a process of this program may die anywhere.
"""

import asyncio
import math
import os
import threading
import time
from collections.abc import Callable
from typing import Self

import psycopg
from psycopg import conninfo

from email_assistant.cli.context import complain, err
from email_assistant.db.pool import parameters

SECONDS = 10.0
_LOOK_SECONDS = 5.0  # Commands that are done within this time are not watched at all. Two looks make `SECONDS`.


class Watchdog:
    """Says in one line what has not answered in its time, and ends the process with status 1."""

    def __init__(self) -> None:
        self._done = threading.Event()
        self._expect(_never, "", math.inf)

    def __enter__(self) -> Self:
        threading.Thread(target=self._watch, name="watchdog", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop_watching()

    def stop_watching(self) -> None:
        """From now on, the command may wait as long as it likes."""
        self._done.set()

    def expect_files(self, folder: object) -> None:
        """From now on, files of this folder are read."""
        self._expect(_never, f"the files under {folder} could not be read within {SECONDS:.0f} s: {_DISK}", SECONDS)

    def expect_server(self, folder: object, seconds: float) -> None:
        """From now on, the embedded server is started or joined. It has so many seconds, not `SECONDS`."""
        notice = f"Waiting for the database under {folder} to start …"
        self._expect(_never, f"the database under {folder} did not start within {seconds:.0f} s", seconds, notice)

    def tell_of_waiting(self, url: str) -> None:
        """From now on, the database may take as long as it likes. A line says that it is waited for."""
        self._expect(lambda: _answers(url), "", math.inf, "Waiting for the database to answer …")

    def expect_opening(self, folder: object, url: str) -> None:
        """From now on, files and database are opened, in the event loop that runs."""
        loop = asyncio.get_running_loop()
        self._expect(
            lambda: _turns(loop) and _answers(url), f"the database, or {folder}, has not answered {_WITHIN}", SECONDS
        )

    def expect_database(self, url: str) -> None:
        """From now on, the database alone is waited for: a person may be asked, which holds the event loop up."""
        self._expect(lambda: _answers(url), f"the database has not answered {_WITHIN}", SECONDS)

    def _expect(self, answers: Callable[[], bool], line: str, seconds: float, notice: str | None = None) -> None:
        self._expected = (answers, line, seconds, notice)
        self._since = time.monotonic()

    def _watch(self) -> None:
        while not self._done.wait(_LOOK_SECONDS):
            expected, since = self._expected, self._since
            answers, line, seconds, notice = expected
            if answers():
                since = time.monotonic()
            if expected is not self._expected or self._done.is_set():
                continue
            self._since = since
            waited = time.monotonic() - since
            if waited >= seconds:
                complain(f"{line}; nothing that was stored is lost")
                os._exit(1)
            if notice and waited >= SECONDS:
                err.print(notice, markup=False, soft_wrap=True)
                self._expected = (answers, line, seconds, None)


_DISK = "look whether its disk is there"
_WITHIN = f"for {SECONDS:.0f} s: look whether it is there, and what holds it up"


def with_lock_timeout(url: str) -> str:
    """The URL with a lock timeout of `SECONDS`."""
    given = parameters(url)
    options = f"{given.pop('options', None) or ''} -c lock_timeout={SECONDS:.0f}s"
    return conninfo.make_conninfo(**given, options=options.strip())


def _never() -> bool:
    return False


def _answers(url: str) -> bool:
    try:
        psycopg.connect(url, connect_timeout=round(_LOOK_SECONDS)).close()
    except psycopg.OperationalError:
        return False
    return True


def _turns(loop: asyncio.AbstractEventLoop) -> bool:
    turned = threading.Event()
    try:
        loop.call_soon_threadsafe(turned.set)
    except RuntimeError:  # it is closed: the command has ended
        return True
    return turned.wait(_LOOK_SECONDS)
