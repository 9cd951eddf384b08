"""A red run means something: which failed test is run again, and what is said of one that passes the second time.

A test is run again, alone and once, if it ended by its time-out, if a process or port that it needs did not start, or
if the browser failed to show a thing. What is asserted of letters, decisions and rows is asked once: a failure there is
a fault until the contrary is shown, however rarely it comes.
"""

import re
import subprocess
import sys
from collections.abc import Generator
from contextlib import suppress
from typing import Any

import psycopg
import pytest

from tests.doubles.ports import NotStarted

MOST = 2
"""More tests than this in one run are no accident of the machine."""

KNOWN = "tests/flaky.txt"
"""Tests that once passed only the second time: in each line an id, and how it failed. Whoever mends it takes it out."""

NEVER = (
    "tests/chaos/",
    *(f"tests/integration/test_{name}.py" for name in ("due", "every_step", "holders", "invariants", "lock_order")),
    *(f"tests/integration/test_{name}.py" for name in ("meanwhile", "queue", "races", "shown_is_sent", "slow_workers")),
)
"""Races, the order of locks, and the invariants; and, wherever they stand, files that kill or freeze processes."""
_KILLS = re.compile(r"\.kill\(|\.freeze\(|\.stop\(|SIGKILL|SIGSTOP")

_MAY_RUN_AGAIN = "may run again"
_TABLES = {
    "mails": "gmail_id, run_id, state, classification, reason",
    "runs": "id, mail_id, attempt, state, reason",
    "inbox_items": "id, run_id, kind, status, decision",
    "effects": "run_id, call_id, state, epoch, external_id, result",
}


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, Any]:
    """Say on a failure whether the test may be run again, and which states it left in its database."""
    report = yield
    if report.failed and call.excinfo is not None:
        if _is_accident(item, call.excinfo):
            report.user_properties.append((_MAY_RUN_AGAIN, True))
        if url := getattr(item, "funcargs", {}).get("database_url"):
            with suppress(psycopg.Error):  # a test of databases may have left none
                report.sections.append(("states in the database", _states(url)))
    return report


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """After a run by several workers, run what may be run again; if all of it passes, the run is green."""
    if not session.config.getoption("numprocesses", None):  # None in a worker, too
        return
    reporter: pytest.TerminalReporter = session.config.pluginmanager.getplugin("terminalreporter")
    failed = [*reporter.stats.get("failed", ()), *reporter.stats.get("error", ())]
    known = {line.split()[0] for line in (session.config.rootpath / KNOWN).read_text().splitlines() if line.strip()}
    ids = {report.nodeid for report in failed}
    if not 0 < len(ids) <= MOST or ids & known or not all(map(_may_run_again, failed)):
        return
    if all(_passes_alone(session, nodeid) for nodeid in sorted(ids)):
        session.exitstatus = pytest.ExitCode.OK
        for outcome in ("failed", "error"):
            reporter.stats.pop(outcome, None)
        reporter.stats["flaky"] = failed


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print of each test that passed the second time its first failure, whole, and last of all its name."""
    flaky = terminalreporter.stats.get("flaky", [])
    for report in flaky:
        terminalreporter.section(f"passed the second time: {report.nodeid}")
        terminalreporter.write_line(report.longreprtext)
        for title, text in report.sections:
            terminalreporter.write_line(f"--- {title}\n{text}")
    for nodeid in sorted({report.nodeid for report in flaky}):
        terminalreporter.write_line(f"FLAKY {nodeid}", yellow=True)


def _is_accident(item: pytest.Item, raised: pytest.ExceptionInfo[BaseException]) -> bool:
    if item.nodeid.startswith(NEVER) or _KILLS.search(item.path.read_text()):
        return False
    if item.nodeid.startswith("tests/browser/"):  # where a bare `assert` is about more than what a page shows
        where = raised.traceback[-1].frame.f_globals.get("__name__", "")
        return not raised.errisinstance(AssertionError) or where.startswith("playwright.")
    timed_out = raised.errisinstance(pytest.fail.Exception) and "from pytest-timeout" in str(raised.value)
    return timed_out or raised.errisinstance(NotStarted)


def _may_run_again(report: pytest.TestReport) -> bool:
    return (_MAY_RUN_AGAIN, True) in map(tuple, getattr(report, "user_properties", ()))


def _passes_alone(session: pytest.Session, nodeid: str) -> bool:
    command = [sys.executable, "-m", "pytest", "-q", "-m", "long or not long", nodeid]
    return subprocess.run(command, cwd=session.config.rootpath, check=False).returncode == 0


def _states(url: str) -> str:
    lines = []
    with psycopg.connect(url, autocommit=True, options="-c search_path=email_assistant") as conn:
        for table, columns in _TABLES.items():
            for row in conn.execute(f"select {columns} from {table} order by 1".encode()).fetchmany(200):
                lines.append(f"{table}: {'  '.join(map(str, row))}")
    return "\n".join(lines)
