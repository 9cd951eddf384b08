"""Langfuse is shown what the agents do if our own setting says so, and is not even loaded if only its variables do."""

import gzip
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from pydantic import SecretStr

from email_assistant.model.client import Client
from tests.doubles.daemon import Daemon
from tests.doubles.google import Google
from tests.doubles.model import Model
from tests.doubles.receiver import Delivery, Receiver
from tests.integration.conftest import Start
from tests.integration.home import OpenHome, in_one_loop
from tests.integration.scene import BOB, DONE, reply

SECRET = "sk-lf-secret"
CLOSED = "http://127.0.0.1:9"


@pytest.fixture
def langfuse() -> Iterator[Receiver]:
    with Receiver() as server:
        yield server


def keys(url: str) -> dict[str, Any]:
    """Settings; the client is kept by its public key for the whole process, so every test has its own."""
    return {
        "langfuse_public_key": f"pk-lf-{uuid.uuid4()}",
        "langfuse_secret_key": SecretStr(SECRET),
        "langfuse_base_url": url,
    }


def variables(url: str) -> dict[str, str]:
    return {"LANGFUSE_PUBLIC_KEY": "pk-lf-1", "LANGFUSE_SECRET_KEY": SECRET, "LANGFUSE_HOST": url}


ON = {"EMAIL_ASSISTANT_TRACING": "langfuse"}
OPENED = """
import asyncio, sys
from email_assistant.app import open_app
from email_assistant.daemon import open_daemon
from email_assistant.settings import Settings

async def main():
    settings = Settings.load()
    async with open_app(settings, settings.database_url) as app, open_daemon(app):
        print("langfuse" in sys.modules)

asyncio.run(main())
"""


def python(program: Daemon, script: str, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", script, *arguments],
        env=program.environment | variables, cwd=program.home, capture_output=True, text=True, timeout=60,
    )  # fmt: skip


def spans(deliveries: list[Delivery]) -> list[Span]:
    found = []
    for delivery in deliveries:
        assert delivery.path == "/api/public/otel/v1/traces"
        request = ExportTraceServiceRequest.FromString(gzip.decompress(delivery.body))
        found += [s for resource in request.resource_spans for scope in resource.scope_spans for s in scope.spans]
    return found


class TestOn:
    @in_one_loop
    async def test_a_run_is_shown_with_its_steps_and_what_the_model_was_asked(
        self, open_home: OpenHome, model: Model, langfuse: Receiver
    ) -> None:
        model.script([[reply("Yes, gladly."), DONE]])
        async with open_home(tracing="langfuse", **keys(langfuse.url)) as home:
            await home.receive("Lunch?", "Does Friday suit you?")
            [item] = await home.pending()
            await home.answer(item, "accept")
        shown = spans(langfuse.deliveries)
        names = {span.name for span in shown}
        assert {"triage_router", "response_agent", "llm_call", "act", "mark_as_read_node", Client.__name__} <= names
        assert {span.name for span in shown if b"Does Friday suit you?" in span.SerializeToString()} >= {
            Client.__name__
        }
        assert not any(text in span.SerializeToString() for span in shown for text in (SECRET.encode(), b"model-key"))

    @pytest.mark.long
    @in_one_loop
    async def test_a_server_that_is_gone_or_never_answers_holds_up_nothing(
        self, open_home: OpenHome, model: Model, langfuse: Receiver, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("LANGFUSE_TIMEOUT", "60")
        began = time.monotonic()
        for url in (CLOSED, langfuse.url):
            langfuse.hold()
            model.script([[reply("Yes, gladly."), DONE]])
            async with open_home(tracing="langfuse", **keys(url)) as home:
                mail_id = await home.receive("Lunch?", "Does Friday suit you?")
                [item] = await home.pending()
                await home.answer(item, "accept")
                assert await home.is_done(mail_id)
        assert langfuse.deliveries
        assert time.monotonic() - began < 45

    def test_nothing_is_said_of_it_in_the_log(self, connect: Start, google: Google, model: Model) -> None:
        model.script([[reply("Yes, gladly."), DONE]])
        daemon: Daemon = connect()
        daemon.environment |= ON | variables(CLOSED) | {"LANGFUSE_DEBUG": "true", "LANGFUSE_FLUSH_INTERVAL": "1"}
        up = daemon.up()
        google.deliver(BOB, "Lunch?", "Does Friday suit you?")
        daemon.pending()
        up.stop()
        assert "Friday" not in up.log
        assert SECRET not in up.log

    def test_without_the_package_it_is_said_what_to_install(self, connect: Start) -> None:
        script = "import sys; sys.modules['langfuse'] = None; from email_assistant.cli import main; main()"
        done = python(connect(), script, "up", "--port", "0", **ON, **variables(CLOSED))
        assert done.returncode != 0
        assert "pip install 'email-assistant[langfuse]'" in done.stderr
        assert "Traceback" not in done.stderr


class TestOff:
    @pytest.mark.long
    def test_the_variables_alone_send_nothing_and_load_nothing(
        self, connect: Start, google: Google, model: Model, langfuse: Receiver
    ) -> None:
        model.script([[reply("Yes, gladly."), DONE]])
        daemon: Daemon = connect()
        daemon.environment |= variables(langfuse.url) | {"LANGFUSE_TRACING_ENABLED": "true"}
        up = daemon.up()
        google.deliver(BOB, "Lunch?", "Does Friday suit you?")
        daemon.pending()
        up.stop()
        assert langfuse.deliveries == []
        assert python(daemon, OPENED).stdout == "False\n"
        assert python(daemon, OPENED, **ON).stdout == "True\n"

    def test_doctor_says_that_it_is_off_though_the_variables_are_there(self, connect: Start) -> None:
        daemon: Daemon = connect()
        daemon.environment |= variables(CLOSED)
        assert "✓ tracing: off; LANGFUSE_… alone turn nothing on" in daemon.run("doctor").stdout

    def test_the_setting_without_keys_is_refused(self, connect: Start) -> None:
        daemon: Daemon = connect()
        daemon.environment |= ON
        done = daemon.run("status")
        assert done.returncode != 0
        assert "EMAIL_ASSISTANT_TRACING=langfuse needs LANGFUSE_PUBLIC_KEY" in done.stderr
