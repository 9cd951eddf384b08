"""The benchmarks, as a person runs them."""

import json
import os
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
        "notify, ignored": (2, 900),
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


def test_the_inbox_is_asked_for_everything_that_a_person_asks_it(tmp_path: Path) -> None:
    """On a small inbox: the ceilings are for a machine that does nothing else."""
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": os.environ.get("PYTHONPATH", ""), "HOME": str(tmp_path)}
    command = [sys.executable, "-m", "email_assistant", "bench", "inbox", "--items", "1000", "--json"]

    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=300)

    assert done.stdout, done.stderr
    report = json.loads(done.stdout)
    assert (report["items"], done.returncode) == (1000, 0 if all(case["within"] for case in report["cases"]) else 1)
    assert {case["case"] for case in report["cases"]} >= {"first page", "search: rare word", "counts", "decision"}
    for case in report["cases"]:
        assert case["requests"] >= 100
        assert 0 < case["p50"] <= case["p95"] <= case["max"]
