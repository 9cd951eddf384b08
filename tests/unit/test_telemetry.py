"""What the program's log says of an exception: its kind and where it was raised, never its words."""

import json
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

_BESIDE = """
import asyncio, logging
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from email_assistant.google.client import GoogleClient
from email_assistant.telemetry import about, log_to_stderr
log_to_stderr("INFO", "json")

class Login:
    async def bearer(self, call, refused):
        return SimpleNamespace(token="token", is_new=False)

class Request:
    methodId = "gmail.users.getProfile"
    def execute(self, http, num_retries):
        logging.getLogger("email_assistant.somewhere").warning("in a thread")
        return {}

async def ask(mail):
    with about(mail):
        await GoogleClient(Login(), SimpleNamespace(threads=threads, transport=None), 60, None).read(Request(), dict)

async def both():
    await asyncio.gather(ask("18c2f0a1b2c3d4e5"), ask("18c2f0a1b2c3d4e6"))

with ThreadPoolExecutor(1) as threads:
    asyncio.run(both())
logging.getLogger("email_assistant.somewhere").warning("about nothing")
try:
    raise LookupError("Dear Ada, the code is 4711")
except LookupError:
    logging.getLogger("email_assistant.somewhere").exception("no luck")
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


def test_json_has_the_same_with_the_id_that_a_call_is_about_in_its_thread_too() -> None:
    lines = [json.loads(line) for line in log_of(_BESIDE).splitlines()]
    *beside, nothing, caught = lines
    assert {line["about"] for line in beside} == {"18c2f0a1b2c3d4e5", "18c2f0a1b2c3d4e6"}
    assert {line["message"] for line in beside} == {"in a thread"}
    assert set(nothing) == {"at", "level", "logger", "message"}
    assert caught["error"].endswith("builtins.LookupError")
    assert "4711" not in json.dumps(lines)
