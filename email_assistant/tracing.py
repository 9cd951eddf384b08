"""What the agents do, shown in Langfuse: each run of a graph, its steps, and what the model was asked and answered.

Traces hold the mail's text, so Langfuse's own variables turn nothing on: our own setting must.
"""

import asyncio
import logging
import os
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from email_assistant.settings import Settings, SettingsError

if TYPE_CHECKING:
    from langchain_core.callbacks import BaseCallbackHandler
    from langfuse import Langfuse

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
    if settings.tracing == "off":
        yield []
        return
    client, handler = _open_langfuse(settings)
    try:
        yield [handler]
    finally:
        await _flush(client)


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


async def _flush(client: "Langfuse") -> None:
    thread = threading.Thread(target=client.shutdown, name="langfuse-flush", daemon=True)
    thread.start()
    await asyncio.to_thread(thread.join, _FLUSH_SECONDS)
