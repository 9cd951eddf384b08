"""Langfuse, or a collector of OpenTelemetry, is shown what the agents do if our own setting says so; neither is even
loaded if only its variables do."""

import gzip
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status
from pydantic import SecretStr

from email_assistant.model.client import Client
from tests.doubles.daemon import WAIT_SECONDS, Daemon
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
        env=program.environment | variables, cwd=program.home, capture_output=True, text=True, timeout=2 * WAIT_SECONDS,
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


OTLP = "/v1/traces"
OTEL_VARIABLES = {"OTEL_TRACES_EXPORTER": "otlp", "OTEL_SDK_DISABLED": "false", "OTEL_SERVICE_NAME": "other"}


def exported(deliveries: list[Delivery]) -> list[Span]:
    assert {delivery.path for delivery in deliveries} <= {OTLP}
    requests = [ExportTraceServiceRequest.FromString(delivery.body) for delivery in deliveries]
    resources = [resource for request in requests for resource in request.resource_spans]
    assert {a.value.string_value for r in resources for a in r.resource.attributes if a.key == "service.name"} <= {
        "email-assistant"
    }
    return [span for resource in resources for scope in resource.scope_spans for span in scope.spans]


class TestOpenTelemetry:
    @in_one_loop
    async def test_each_step_of_a_mails_way_is_a_span_and_none_holds_a_word_of_it(
        self, open_home: OpenHome, model: Model
    ) -> None:
        model.script([[reply("Yes, gladly."), DONE]])
        with Receiver() as collector:
            async with open_home(tracing="otel", otel_endpoint=collector.url) as home:
                mail_id = await home.receive("Lunch?", "Does Friday suit you?")
                [item] = await home.pending()
                await home.answer(item, "accept")
            shown = exported(collector.deliveries)
        names = {span.span_id: span.name for span in shown}
        assert set(names.values()) == {"mail", "triage", "propose", "decide", "act", "model", "google"}
        within = {(span.name, names.get(span.parent_span_id)) for span in shown}
        assert within >= {
            ("mail", None),
            ("triage", "mail"),
            ("model", "triage"),
            ("propose", "mail"),
            ("model", "propose"),
            ("decide", "mail"),
            ("act", "mail"),
            ("google", "act"),
        }
        assert {name for name, parent in within if parent is None} == {"mail"}  # no poll by itself
        ids = {a.value.string_value for s in shown if s.name == "mail" for a in s.attributes}
        assert mail_id in ids
        for text in (b"Lunch", b"Friday", b"gladly", b"bob@example.org", b"ada@example.com", b"model-key"):
            assert not any(text in span.SerializeToString() for span in shown), text

    @in_one_loop
    async def test_what_goes_wrong_is_told_by_its_type(self, open_home: OpenHome, model: Model) -> None:
        model.fault("triage", status=500)
        with Receiver() as collector:
            async with open_home(tracing="otel", otel_endpoint=collector.url) as home:
                home.google.deliver(BOB, "Lunch?", "Does Friday suit you?")
                await home.sync()
                await home.step()
            failed = [span for span in exported(collector.deliveries) if span.status.code == Status.STATUS_CODE_ERROR]
        assert {span.name for span in failed} == {"mail", "triage", "model"}
        for span in failed:
            assert {a.value.string_value for a in span.attributes if a.key == "error.type"} == {"ModelFault"}
            assert not span.events
            assert span.status.message == ""

    @in_one_loop
    async def test_a_collector_that_is_gone_holds_up_nothing(self, open_home: OpenHome, model: Model) -> None:
        model.script([[reply("Yes, gladly."), DONE]])
        async with open_home(tracing="otel", otel_endpoint=CLOSED) as home:
            mail_id = await home.receive("Lunch?", "Does Friday suit you?")
            [item] = await home.pending()
            await home.answer(item, "accept")
            assert await home.is_done(mail_id)

    @pytest.mark.long
    def test_its_variables_alone_send_nothing_and_load_nothing(
        self, connect: Start, google: Google, model: Model
    ) -> None:
        model.script([[reply("Yes, gladly."), DONE]])
        with Receiver() as collector:
            daemon: Daemon = connect()
            daemon.environment |= OTEL_VARIABLES | {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url}
            up = daemon.up()
            google.deliver(BOB, "Lunch?", "Does Friday suit you?")
            daemon.pending()
            up.stop()
            assert collector.deliveries == []
        # Where it is installed, langsmith loads the rest of it in any case.
        opened = OPENED.replace("langfuse", "opentelemetry.exporter")
        assert python(daemon, opened).stdout == "False\n"
        assert python(daemon, opened, EMAIL_ASSISTANT_TRACING="otel").stdout == "True\n"

    def test_without_the_package_it_is_said_what_to_install(self, connect: Start) -> None:
        script = "import sys; sys.modules['opentelemetry.sdk'] = None; from email_assistant.cli import main; main()"
        done = python(connect(), script, "up", "--port", "0", EMAIL_ASSISTANT_TRACING="otel")
        assert done.returncode != 0
        assert "pip install 'email-assistant[otel]'" in done.stderr
        assert "Traceback" not in done.stderr

    def test_doctor_says_whether_the_collector_is_there(self, connect: Start) -> None:
        daemon: Daemon = connect()
        daemon.environment |= {"EMAIL_ASSISTANT_TRACING": "otel", "OTEL_EXPORTER_OTLP_ENDPOINT": CLOSED}
        assert f"✗ tracing: {CLOSED} can't be reached" in daemon.run("doctor").stdout
        with Receiver() as collector:
            daemon.environment |= {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url}
            told = f"✓ tracing: {collector.url} is shown each step, without the text of the mail"
            assert told in daemon.run("doctor").stdout


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
