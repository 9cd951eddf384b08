"""What the program's log says of an exception: its kind and where it was raised, never its words."""

import subprocess
import sys

_CAUGHT = """
import logging
from email_assistant.telemetry import log_to_stderr
log_to_stderr("INFO")
try:
    raise LookupError("Dear Ada, the code is 4711")
except LookupError:
    logging.getLogger("email_assistant.somewhere").exception("no luck")
"""
_UNCAUGHT = """
from email_assistant.telemetry import log_to_stderr
log_to_stderr("INFO")
try:
    raise LookupError("Dear Ada, the code is 4711")
except LookupError as cause:
    raise RuntimeError("while reading: Dear Ada, the code is 4711") from cause
"""


def log_of(program: str) -> str:
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stderr


def test_a_logged_exception_is_shown_without_its_words() -> None:
    log = log_of(_CAUGHT)
    assert "ERROR email_assistant.somewhere: no luck" in log
    assert "<string>:6 in <module>" in log
    assert "builtins.LookupError" in log
    assert "4711" not in log


def test_nor_does_one_that_ends_the_program_show_its_words() -> None:
    log = log_of(_UNCAUGHT)
    assert "builtins.RuntimeError" in log
    assert "4711" not in log
