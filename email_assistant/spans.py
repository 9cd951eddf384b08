"""Spans of OpenTelemetry around the steps of a mail's way. Nothing comes of them until `tracing` hands in a tracer.

They hold ids, names of steps and class names of errors: no word of mail, and no error's message, which may quote some.
"""

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import wraps
from typing import TYPE_CHECKING, ParamSpec, TypeVar

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer

P = ParamSpec("P")
R = TypeVar("R")

_tracer: "Tracer | None" = None


@contextmanager
def spans_go_to(tracer: "Tracer") -> Iterator[None]:
    """All of this process's, until the block ends."""
    global _tracer  # noqa: PLW0603 - what is traced is the process, whoever runs in it
    before, _tracer = _tracer, tracer
    try:
        yield
    finally:
        _tracer = before


@contextmanager
def call_span(name: str, **attributes: str) -> Iterator[None]:
    """A span around a call outside, if it is one of a step's: a look at a mailbox that finds nothing is worth none."""
    with span(name, **attributes) if _is_within_a_step() else nullcontext():
        yield


def _is_within_a_step() -> bool:
    if _tracer is None:
        return False
    from opentelemetry.trace import get_current_span

    return get_current_span().get_span_context().is_valid


@contextmanager
def span(name: str, **attributes: str) -> Iterator[None]:
    """A span around the block, within the one that is open where it begins."""
    if _tracer is None:
        yield
        return
    from opentelemetry.trace import StatusCode

    named = {f"email_assistant.{key}": value for key, value in attributes.items()}
    with _tracer.start_as_current_span(
        name, attributes=named, record_exception=False, set_status_on_exception=False
    ) as opened:
        try:
            yield
        except Exception as error:
            opened.set_attribute("error.type", type(error).__name__)
            opened.set_status(StatusCode.ERROR)
            raise


def in_span(name: str) -> Callable[[Callable[P, Awaitable[R]]], Callable[P, Awaitable[R]]]:
    """A coroutine function, each run of which is a span."""

    def decorated(function: Callable[P, Awaitable[R]]) -> Callable[P, Awaitable[R]]:
        @wraps(function)
        async def run(*args: P.args, **kwargs: P.kwargs) -> R:
            with span(name):
                return await function(*args, **kwargs)

        return run

    return decorated
