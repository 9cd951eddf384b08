"""The program as people chat with it: Ada's account, a scripted model and somebody else's calendar server."""

import asyncio
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.doubles.calendar_server import CalendarServer
from tests.doubles.chat import Talk
from tests.doubles.daemon import Daemon
from tests.doubles.google import Google
from tests.doubles.model import Model, ModelRequest, ToolCall, tool
from tests.integration.scene import ADA
from tests.integration.shared import log_in_at

TEN = "2026-01-16T10:00:00"
NOON = "2026-01-16T12:00:00"


@dataclass(frozen=True)
class Stage:
    daemon: Daemon
    google: Google
    model: Model
    calendar: CalendarServer

    @property
    def asked(self) -> list[ModelRequest]:
        """What the model of the chat was asked, in order."""
        return self.model.calls("chat")

    def up(self, *arguments: str) -> None:
        """Start the program; return when it knows the account's timezone."""
        self.daemon.up(*arguments)
        self.daemon.wait_for(self._is_described, "the account is described")

    def _is_described(self) -> bool:
        accounts = self.daemon.http.get("/api/accounts").json()["items"]
        return all(account["timezone"] for account in accounts)

    def forget(self) -> None:
        """Begin anew: the calendar is in every request's scope, and nothing goes wrong."""
        self.model.clear_faults()
        self.model.requests.clear()
        self.model.violations.clear()
        self.model.on_policy("calendar")
        self.model.on_chat({})
        self.calendar.forget()
        self.calendar.calls.clear()
        self.calendar.events.clear()
        self.calendar.answers.clear()

    def talk(self) -> Talk:
        """A thread that nobody has used."""
        return Talk.on(self.daemon)


@contextmanager
def open_stage(folder: Path, database_url: str, *, account: bool = True, **settings: Any) -> Iterator[Stage]:
    """The program with one account, or with none, not yet started, and settings of the test's own."""
    with (
        Google(ADA, timezone="Europe/Berlin") as google,
        Model() as model,
        CalendarServer() as calendar,
        Daemon(folder, database_url, google, model, **settings) as daemon,
    ):
        daemon.environment["ASSISTANT_MCP_URL"] = calendar.url
        if account:
            asyncio.run(log_in_at(daemon, google))
        stage = Stage(daemon, google, model, calendar)
        stage.forget()
        yield stage
        assert model.violations == []


def event(name: str = "Team Meeting", start: str = TEN, minutes: int = 30, id: str | None = None) -> ToolCall:  # noqa: A002
    """The call that adds an event."""
    args = {"calendar_id": "primary", "start": start, "name": name, "duration_minutes": minutes}
    return ToolCall("create_event", args, id=id)


def move(event_id: str, start: str) -> ToolCall:
    """The call that moves an event."""
    return tool("update_event", event_id=event_id, start=start)


def listing() -> ToolCall:
    """The call that reads events, which nobody is asked about."""
    return tool("list_events", start="2026-01-16", end="2026-01-17")


def ask(question: str, context: str = "Scheduling on the primary calendar.") -> ToolCall:
    return tool("request_clarification", question=question, context=context)


class Eavesdropper:
    """Listens on a port of this machine and keeps the first line that each client says; answers nothing."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        lines = self.lines

        class Line(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                lines.append(self.rfile.readline().decode(errors="replace").strip())

        self._server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Line)
        self.address = f"127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> "Eavesdropper":
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: Any) -> None:
        self._server.shutdown()
        self._server.server_close()
