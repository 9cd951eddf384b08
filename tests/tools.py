"""What some tests need beside Python's packages, each by its name and with how one gets it."""

import os
import subprocess
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from shutil import which

import pytest

HERE = Path(__file__).parent
MCP_PROGRAMS = HERE / "mcp/node_modules/.bin"
LLAMA = HERE / "llama/.venv/bin/python"
OPEN_EDISON = HERE / "open_edison/.venv/bin/python"
AXE = HERE / "browser/node_modules/axe-core/axe.min.js"
CHROMIUM = which("chromium") or which("chromium-browser") or which("google-chrome")
CHROMIUM_ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
CHROMIUM_WITHOUT_WINDOWS = which("chromium-headless-shell") or CHROMIUM
"""The same engine, which shows no notices; with windows of its own it takes half as much time again."""


def _has_node(version: int, path: str | None = None) -> bool:
    node = which("node", path=path)
    said = subprocess.run([node, "--version"], capture_output=True, text=True).stdout if node else "v0"
    return int(said.removeprefix("v").partition(".")[0]) >= version


TOOLS: Mapping[str, tuple[Callable[[], object], str]] = {
    "Chromium": (lambda: CHROMIUM, "`apt-get install chromium`"),
    "axe-core": (AXE.exists, "`npm ci --prefix tests/browser`"),
    "Node 20": (lambda: _has_node(20), "https://nodejs.org"),
    "Node 22": (lambda: _has_node(22, f"{MCP_PROGRAMS}:{os.environ['PATH']}"), "`npm ci --prefix tests/mcp`, on Linux"),
    "the emulated Google": (
        (HERE / "doubles/google_emulator/node_modules").exists,
        "`npm ci --prefix tests/doubles/google_emulator`",
    ),
    "the protocol's conformance suite": ((MCP_PROGRAMS / "conformance").exists, "`npm ci --prefix tests/mcp`"),
    "llama.cpp": (LLAMA.exists, "two commands in CONTRIBUTING.md"),
    "open-edison": (OPEN_EDISON.exists, "two commands in CONTRIBUTING.md"),
    "promtool": (lambda: which("promtool"), "`apt-get install prometheus`"),
    "systemd-analyze": (lambda: which("systemd-analyze"), "`apt-get install systemd`"),
    "openssl": (lambda: which("openssl"), "`apt-get install openssl`"),
    "curl": (lambda: which("curl"), "`apt-get install curl`"),
    "git": (lambda: which("git"), "`apt-get install git`"),
    "uv": (lambda: which("uv"), "`pip install uv`"),
}


def need(*names: str) -> None:
    """Who lacks a tool goes without the tests that need it, and is told; in CI nothing is left out."""
    missing = [f"{name} ({how})" for name in names for is_there, how in [TOOLS[name]] if not is_there()]
    if missing:
        say = pytest.fail if os.environ.get("CI") else pytest.skip
        say(f"missing: {', '.join(missing)}")


def show(reporter: pytest.TerminalReporter) -> None:
    """Print how many tests were skipped, by what for."""
    for reason, count in Counter(report.longrepr[2] for report in reporter.stats.get("skipped", ())).items():
        reporter.write_line(f"{count} skipped: {reason.removeprefix('Skipped: ')}")
