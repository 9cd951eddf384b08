"""Which failure is asked twice, and what becomes of the run (tests/reruns.py), each in a suite of its own."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
ONCE = """
from pathlib import Path
from tests.doubles.ports import NotStarted
def first(name):
    marked = Path(__file__).with_suffix(f".{name}")
    try:
        return not marked.exists()
    finally:
        marked.touch()
"""


def run(folder: Path, tests: dict[str, str], flaky: str = "") -> subprocess.CompletedProcess[str]:
    """Run a suite of these files by a worker."""
    (folder / "pytest.ini").write_text("[pytest]\nmarkers = long: second lane\n")
    for name, text in (tests | {"tests/flaky.txt": flaky}).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text((ONCE if name.endswith(".py") else "") + text)
    plugins = ["-p", "xdist", "-p", "tests.reruns", "-p", "no:cacheprovider"]
    return subprocess.run(
        [sys.executable, "-m", "pytest", *plugins, "-n", "1", "--import-mode=importlib"],
        cwd=folder,
        env={"PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
    )


NOT_STARTED = "def test_it():\n    if first('it'): raise NotStarted('port 1234 is taken')\n"


def test_what_did_not_start_passes_the_second_time_and_is_named_last(tmp_path: Path) -> None:
    done = run(tmp_path, {"tests/test_port.py": NOT_STARTED + "def test_other(): pass\n"})
    assert done.returncode == 0, done.stdout
    assert "port 1234 is taken" in done.stdout
    assert done.stdout.splitlines()[-2:] == ["FLAKY tests/test_port.py::test_it", done.stdout.splitlines()[-1]]


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("tests", "flaky"),
    [
        ({"tests/test_sent.py": "def test_it(): assert not first('it'), 'sent twice'\n"}, ""),
        ({"tests/test_port.py": NOT_STARTED}, "tests/test_port.py::test_it port 1234 was taken last week\n"),
        ({"tests/chaos/test_storm.py": NOT_STARTED}, ""),
        ({"tests/integration/test_races.py": NOT_STARTED}, ""),
        ({"tests/test_port.py": "def kills(process): process.kill()\n" + NOT_STARTED}, ""),
        ({f"tests/test_{n}.py": NOT_STARTED for n in "abc"}, ""),
        ({"tests/test_port.py": "def test_it(): raise NotStarted('never')\n"}, ""),
        ({"tests/browser/test_page.py": "def test_it(): assert not first('it'), 'decided'\n"}, ""),
    ],
    ids=["asserted", "known", "chaos", "race", "kills", "many", "always", "decided"],
)
def test_the_run_stays_red(tmp_path: Path, tests: dict[str, str], flaky: str) -> None:
    done = run(tmp_path, tests, flaky)
    assert done.returncode == 1, done.stdout
    assert "FLAKY" not in done.stdout
