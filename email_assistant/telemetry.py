"""Logs on standard error, as plain lines or as JSON, without a secret or a word of anybody's mail.

Each line about a mail bears its id, Gmail's, as `mails` shows it; one about a chat, the id of its conversation.
"""

import asyncio
import json
import logging
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from types import TracebackType
from typing import Literal

_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(about)s%(message)s"
_about: ContextVar[str | None] = ContextVar("what is being worked on", default=None)


@contextmanager
def about(id_: str | None) -> Iterator[None]:
    """Lines of the block, of its tasks and of threads that get its context, bear this id; None: one is named later."""
    token = _about.set(id_)
    try:
        yield
    finally:
        _about.reset(token)


def now_about(id_: str) -> None:
    """From here to the end of the block of `about`, it is this."""
    _about.set(id_)


def log_to_stderr(level: str, form: Literal["text", "json"] = "text") -> None:
    """Log our own messages from `level` on; libraries speak up at warnings only, since theirs may quote arguments."""
    handler = logging.StreamHandler()
    handler.setFormatter(_Text(_FORMAT) if form == "text" else _Json())
    handler.addFilter(_is_news)
    handler.addFilter(_with_id)
    logging.basicConfig(level="WARNING", handlers=[handler], force=True)
    logging.getLogger("email_assistant").setLevel(level)
    # Procrastinate logs each job at these levels, and a stopped worker's tasks; both are ordinary here.
    logging.getLogger("procrastinate").setLevel("ERROR")
    # APScheduler warns whenever a job takes longer than its interval.
    logging.getLogger("apscheduler").setLevel("ERROR")
    # The MCP library quotes messages that it can't read.
    logging.getLogger("mcp").setLevel("CRITICAL")
    sys.excepthook = _report


def _is_news(record: logging.LogRecord) -> bool:
    """What a stop cancels is no error. Only the MCP library logs without a name, and quotes what it was sent."""
    return record.name != "root" and not (record.exc_info and isinstance(record.exc_info[1], asyncio.CancelledError))


def _with_id(record: logging.LogRecord) -> bool:
    record.id = id_ = _about.get()
    record.about = f"[{id_}] " if id_ else ""
    return True


class _Text(logging.Formatter):
    """An exception is shown by its type and where it was raised: its message may quote a mail, a row or a token."""

    def formatException(  # noqa: N802 - logging's name
        self,
        ei: tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None],
    ) -> str:
        return _where(ei[0], ei[2])


class _Json(_Text):
    """One object a line: `at`, `level`, `logger`, `about` if an id is known, `message`, `error` if one is told."""

    def format(self, record: logging.LogRecord) -> str:
        told = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "about": getattr(record, "id", None),
            "message": record.getMessage(),
            "error": self.formatException(record.exc_info) if record.exc_info else None,
        }
        return json.dumps({name: value for name, value in told.items() if value is not None})


def _report(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    sys.stderr.write(f"{_where(kind, trace)}\n")


def _where(kind: type[BaseException] | None, trace: TracebackType | None) -> str:
    frames = [f"  {f.filename}:{f.lineno} in {f.name}" for f in traceback.extract_tb(trace)]
    return "\n".join([*frames, f"{kind.__module__}.{kind.__qualname__}" if kind else "no exception"])
