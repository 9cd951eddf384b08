"""What processes use, as Linux tells in /proc."""

import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.benchmark.rows.figures import SpeedUnknown

_PROC = Path("/proc")


@dataclass(frozen=True, slots=True)
class _Stat:
    parent: int
    ticks: int
    """Of itself and of those children that it has outlived."""


def check_proc() -> None:
    """Raises SpeedUnknown where there is no /proc."""
    if sys.platform != "linux":
        raise SpeedUnknown("processor time and memory are read from /proc, which only Linux has: run this on Linux")


def cpu_seconds(*roots: int) -> float:
    """Processor time, user and system, of these processes and all their descendants, dead or alive."""
    found = dict(_stats())
    family = set(roots)
    while grown := {pid for pid, each in found.items() if each.parent in family} - family:
        family |= grown
    return sum(found[pid].ticks for pid in family if pid in found) / os.sysconf("SC_CLK_TCK")


def resident_bytes(pid: int) -> int:
    return int(_status(pid, "VmRSS").split()[0]) * 1024


def threads(pid: int) -> int:
    return int(_status(pid, "Threads"))


def _stats() -> Iterator[tuple[int, _Stat]]:
    for entry in _PROC.iterdir():
        if entry.name.isdecimal():
            try:
                text = (entry / "stat").read_text()
            except (FileNotFoundError, ProcessLookupError):
                continue
            values = text.rpartition(")")[2].split()  # the name before it may hold anything
            yield int(entry.name), _Stat(int(values[1]), sum(map(int, values[11:15])))


def _status(pid: int, name: str) -> str:
    lines = (_PROC / str(pid) / "status").read_text().splitlines()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(f"{name}:")), "")
