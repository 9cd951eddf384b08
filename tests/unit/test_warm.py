"""A process that is forked off the warm one is to whoever starts it like one that Python was started for."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.doubles import warm

SAYS = """
import os, sys
print(sys.argv[1:], input(), os.environ["WORD"], os.getcwd())
sys.exit(sys.argv[1])
"""
WAITS = "import os, signal; print(os.getpid(), flush=True); signal.pause()"


@pytest.mark.parametrize("script", [SAYS, "1 / 0", "raise SystemExit(7)", "import os; os.kill(os.getpid(), 9)"])
def test_what_it_says_and_how_it_ends_are_the_same(tmp_path: Path, script: str) -> None:
    arguments = ("-c", script, "one", "\udcff")
    cold, forked = (
        subprocess.run(
            started, input="hello\n", env={"WORD": "ä", "LANG": "C.UTF-8"}, cwd=tmp_path, capture_output=True, text=True
        )
        for started in ([sys.executable, *arguments], warm.command(*arguments))
    )
    assert (forked.returncode, forked.stdout) == (cold.returncode, cold.stdout)
    assert forked.stderr.splitlines()[-1:] == cold.stderr.splitlines()[-1:]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_signal_ends_it_with_who_stands_for_it(number: signal.Signals) -> None:
    with subprocess.Popen(warm.command("-c", WAITS), stdout=subprocess.PIPE, text=True) as started:
        assert started.stdout
        pid = int(started.stdout.readline())
        assert pid != started.pid
        started.send_signal(number)
        assert started.stdout.read() == ""  # the process itself held it open
        assert started.wait() == -number


def test_it_is_killed_once_nobody_holds_it() -> None:
    reading, writing = os.pipe()
    with os.fdopen(reading) as said:
        forked = warm.Forked(["-c", WAITS], os.environ, Path.cwd(), (0, writing, 2))
        os.close(writing)
        assert int(said.readline()) == forked.pid
        assert forked.poll() is None
        del forked
        assert said.read() == ""
