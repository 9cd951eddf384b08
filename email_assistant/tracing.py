"""What the agents do, shown elsewhere: in Langfuse each run of a graph, with what the model was asked and answered, or
by OpenTelemetry the steps of a mail's way, without a word of it (`spans`).

Langfuse's traces hold the mail's text. Its variables turn nothing on, nor do OpenTelemetry's: our own setting must.
"""

import asyncio
import logging
import os
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import TYPE_CHECKING

from email_assistant.settings import Settings
from email_assistant.settings.environment import SettingsError
from email_assistant.spans import spans_go_to

if TYPE_CHECKING:
    from langchain_core.callbacks import BaseCallbackHandler
    from langfuse import Langfuse
    from opentelemetry.sdk.trace import TracerProvider

_FLUSH_SECONDS = 3
"""How long a stop waits for what was not sent yet."""
_MAY_QUOTE_MAIL = ("langfuse", "opentelemetry", "langchain_core.callbacks")
"""Loggers that put into words what they could not send."""


@asynccontextmanager
async def tracing(settings: Settings) -> AsyncIterator["list[BaseCallbackHandler]"]:
    """The `callbacks` for the configuration that a graph is run with; none unless tracing is turned on.

    Traces are sent from a thread of their own. A server that is slow or gone loses them, and disturbs nothing else.

    Raises:
        SettingsError: tracing is turned on and its package is not installed.
    """
    match settings.tracing:
        case "off":
            yield []
        case "otel":
            provider = _open_otel(settings)
            try:
                with spans_go_to(provider.get_tracer("email_assistant")):
                    yield []
            finally:
                await _flush(provider.shutdown)
        case "langfuse":
            client, handler = _open_langfuse(settings)
            try:
                yield [handler]
            finally:
                await _flush(client.shutdown)


def keep_langsmith_off() -> None:
    """Mail must not reach LangSmith because some variable says so: LangChain's callbacks would heed it by themselves.

    Langfuse's variables need no such care, since nothing reads them until `tracing` does.
    """
    for name in ("LANGSMITH_TRACING", "LANGSMITH_TRACING_V2", "LANGCHAIN_TRACING", "LANGCHAIN_TRACING_V2"):
        os.environ[name] = "false"


def _open_langfuse(settings: Settings) -> "tuple[Langfuse, BaseCallbackHandler]":
    try:
        from langfuse import Langfuse
        from langfuse.langchain import CallbackHandler
        from opentelemetry.sdk.trace import TracerProvider
    except ImportError:
        raise SettingsError(
            "EMAIL_ASSISTANT_TRACING=langfuse needs a package: pip install 'email-assistant[langfuse]'"
        ) from None
    assert settings.langfuse_secret_key
    os.environ["LANGFUSE_DEBUG"] = "false"  # it prints all that is sent, each time that a part of this program opens it
    client = Langfuse(
        public_key=settings.langfuse_public_key,
        secret_key=settings.langfuse_secret_key.get_secret_value(),
        base_url=settings.langfuse_base_url,
        # Of our own, so that nothing else in the process is traced, and that its end is not waited for twice.
        tracer_provider=TracerProvider(shutdown_on_exit=False),
    )
    for name in _MAY_QUOTE_MAIL:
        logging.getLogger(name).setLevel("CRITICAL")
    return client, CallbackHandler(public_key=settings.langfuse_public_key)


def _open_otel(settings: Settings) -> "TracerProvider":
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError:
        raise SettingsError(
            "EMAIL_ASSISTANT_TRACING=otel needs a package: pip install 'email-assistant[otel]'"
        ) from None
    logging.getLogger("opentelemetry").setLevel("CRITICAL")  # it is a line for each batch that is not taken
    named = {"service.name": "email-assistant", "service.version": version("email-assistant")}
    provider = TracerProvider(resource=Resource(named), shutdown_on_exit=False)
    exporter = OTLPSpanExporter(endpoint=f"{settings.otel_endpoint.rstrip('/')}/v1/traces")
    provider.add_span_processor(BatchSpanProcessor(exporter))
    return provider


async def _flush(shutdown: Callable[[], object]) -> None:
    thread = threading.Thread(target=shutdown, name="traces-flush", daemon=True)
    thread.start()
    await asyncio.to_thread(thread.join, _FLUSH_SECONDS)
