"""One program for many tests, each with a mailbox of its own: starting one costs a second of processor time.

Before each test the account is removed and added again, and Google and the model begin anew. A file takes these
fixtures in place of those of `conftest.py` if its tests look neither at starts nor at logs.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from unittest.mock import patch

import psycopg
import pytest

from email_assistant.app import App, open_app
from email_assistant.settings import Settings
from tests.databases import databases
from tests.doubles.daemon import Daemon
from tests.doubles.google import Google
from tests.doubles.model import Model
from tests.integration.home import log_in
from tests.integration.scene import ADA


@asynccontextmanager
async def opened_at(daemon: Daemon) -> AsyncIterator[App]:
    """What a command of this program works with, in this process: a process of its own costs more."""
    with patch.dict(os.environ, daemon.environment, clear=True):
        settings = Settings()
    async with open_app(settings, daemon.environment["DATABASE_URL"]) as app:
        yield app


async def log_in_at(daemon: Daemon, google: Google) -> None:
    """Add the account, as from now on."""
    async with opened_at(daemon) as app:
        await log_in(app, google, daemon.home, timedelta(0))


@dataclass(frozen=True)
class Program:
    """The program between its doubles, and the settings that it was started with."""

    daemon: Daemon
    google: Google
    model: Model
    settings: dict[str, str]

    def begin(self) -> None:
        """Run, with a mailbox that nobody has used, whatever the test before did."""
        self._forget()  # what is held would hold up the removal
        if self.daemon.environment != self.settings:
            self.daemon.stop()
            self.daemon.environment = dict(self.settings)
        asyncio.run(self._remove())
        self._forget()
        self.model.on_triage("respond")
        asyncio.run(log_in_at(self.daemon, self.google))
        if not any(process.is_running for process in self.daemon.processes if process.name.startswith("up-")):
            self.daemon.up()
        self.daemon.wait_for(lambda: self.google.calls("history.list"), "the mailbox is polled")

    def _forget(self) -> None:
        self.google.forget()
        self.model.forget()

    async def _remove(self) -> None:
        async with opened_at(self.daemon) as app:
            for account in await app.accounts.of_user(app.user_id):
                await app.removal.remove(account)


def look_at_the_settings_again(daemon: Daemon, google: Google) -> None:
    """Let the day pass after which the account's settings are asked for again."""
    known = len(google.calls("settings.get"))
    with psycopg.connect(daemon.environment["DATABASE_URL"], autocommit=True) as conn:
        conn.execute("update email_assistant.accounts set described_at = null")
        daemon.wait_for(lambda: len(google.calls("settings.get")) > known, "the settings are asked for")
        described = "select described_at is not null from email_assistant.accounts"
        daemon.wait_for(lambda: conn.execute(described).fetchone() == (True,), "they are known")


@pytest.fixture(scope="module")
def running(
    request: pytest.FixtureRequest, postgres_url: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Program]:
    """Under settings of the test's own, if it gives some as the fixture's parameter."""
    with (
        Google(ADA, roots=2) as google,
        Model(roots=2) as model,
        databases(postgres_url).migrated() as url,
        Daemon(tmp_path_factory.mktemp("home"), url, google, model, **getattr(request, "param", {})) as daemon,
    ):
        yield Program(daemon, google, model, dict(daemon.environment))


@pytest.fixture
def database_url(running: Program) -> str:
    return running.daemon.environment["DATABASE_URL"]


@pytest.fixture
def daemon(running: Program, database_url: str) -> Iterator[Daemon]:
    running.begin()
    yield running.daemon
    assert running.google.calls("unknown") == []
    assert running.model.violations == []


@pytest.fixture
def google(daemon: Daemon, running: Program) -> Google:
    return running.google


@pytest.fixture
def model(daemon: Daemon, running: Program) -> Model:
    return running.model
