"""Starts the program's processes: forked off the warm one, or each as a user would."""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Protocol

from tests.doubles.warm import Forked

_PROGRAM = ("-m", "email_assistant")


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
        out.write_bytes(b"")
        with out.open("ab") as output, (err or out).open("ab") as errors:
            return self._start((*_PROGRAM, *arguments), environment, folder, output.fileno(), errors.fileno())

    def _start(
        self, arguments: Sequence[str], environment: Mapping[str, str], folder: Path, out: int, err: int
    ) -> Child:
        return subprocess.Popen(
            [sys.executable, *arguments],
            env=environment,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
        )


class ForkingNursery(Nursery):
    """Forks each process off the warm one."""

    def _start(
        self, arguments: Sequence[str], environment: Mapping[str, str], folder: Path, out: int, err: int
    ) -> Child:
        with Path(os.devnull).open() as nothing:
            return Forked(arguments, environment, folder, (nothing.fileno(), out, err))


@cache
def nursery() -> Nursery:
    """The one of this test run."""
    return ForkingNursery() if hasattr(os, "fork") else Nursery()
