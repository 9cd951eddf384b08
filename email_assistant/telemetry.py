"""Logs: plain lines on standard error, without a secret or a word of anybody's mail."""

import asyncio
import logging
import sys
import traceback
from types import TracebackType

_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


def log_to_stderr(level: str) -> None:
    """Log our own messages from `level` on; libraries speak up at warnings only, since theirs may quote arguments."""
    handler = logging.StreamHandler()
    handler.setFormatter(_Formatter(_FORMAT))
    handler.addFilter(_is_news)
    logging.basicConfig(level="WARNING", handlers=[handler], force=True)
    logging.getLogger("email_assistant").setLevel(level)
    # Procrastinate logs each job at these levels, and a stopped worker's tasks; both are ordinary here.
    logging.getLogger("procrastinate").setLevel("ERROR")
    # The MCP library quotes messages that it can't read.
    logging.getLogger("mcp").setLevel("CRITICAL")
    sys.excepthook = _report


def _is_news(record: logging.LogRecord) -> bool:
    """What a stop cancels is no error. Only the MCP library logs without a name, and quotes what it was sent."""
    return record.name != "root" and not (record.exc_info and isinstance(record.exc_info[1], asyncio.CancelledError))


class _Formatter(logging.Formatter):
    """An exception is shown by its type and where it was raised: its message may quote a mail, a row or a token."""

    def formatException(  # noqa: N802 - logging's name
        self,
        ei: tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None],
    ) -> str:
        return _where(ei[0], ei[2])


def _report(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    sys.stderr.write(f"{_where(kind, trace)}\n")


def _where(kind: type[BaseException] | None, trace: TracebackType | None) -> str:
    frames = [f"  {f.filename}:{f.lineno} in {f.name}" for f in traceback.extract_tb(trace)]
    return "\n".join([*frames, f"{kind.__module__}.{kind.__qualname__}" if kind else "no exception"])
