"""The wheel, by itself, is the whole program: it runs the demo where there is no repository."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.documents import ROOT
from tests.tools import need

pytestmark = pytest.mark.long
DEMO = ("demo", "--exit-when-idle", "--json", "--answer", "accept", "--port", "0")


def run(*command: str | Path, cwd: Path, **environment: str) -> str:
    done = subprocess.run(command, cwd=cwd, env=environment or None, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_wheel_alone_runs_the_demo(tmp_path: Path) -> None:
    """Installed as `uvx --from WHEEL` does, but with the packages of `uv.lock`."""
    need("uv")
    venv, home, here = (tmp_path / name for name in ("venv", "home", "here"))
    home.mkdir()
    here.mkdir()
    run("uv", "build", "--wheel", "--out-dir", tmp_path, cwd=ROOT)
    [wheel] = tmp_path.glob("*.whl")
    locked = tmp_path / "locked.txt"
    run("uv", "export", "--frozen", "--no-emit-project", "--quiet", "--output-file", locked, cwd=ROOT)
    run("uv", "venv", "--quiet", venv, cwd=here)
    run("uv", "pip", "install", "--quiet", "--no-deps", "--python", venv, "-r", locked, wheel, cwd=here)

    printed = run(venv / "bin" / "email-assistant", *DEMO, cwd=here, PATH=os.defpath, HOME=str(home))

    summary = json.loads(printed)
    assert summary["sent"] > 0
    assert summary["by_state"].get("failed", 0) == 0
    assert list(here.iterdir()) == []
