"""The program between its doubles: as processes (`connect`, `start`, `daemon`) or in this process (`home`)."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from cryptography.fernet import Fernet
from pydantic import SecretStr

from email_assistant.app import open_app
from email_assistant.daemon import open_daemon
from email_assistant.settings import Settings
from tests.doubles.daemon import Daemon
from tests.doubles.google import Google
from tests.doubles.model import Model
from tests.integration.home import Home, OpenHome, log_in
from tests.integration.scene import ADA
from tests.integration.shared import log_in_at, running  # noqa: F401 - a fixture

Start = Callable[..., Daemon]


@pytest.fixture
def google() -> Iterator[Google]:
    """Ada's account, under two roots, so that two workers can be told apart."""
    with Google(ADA, timezone="Europe/Berlin", roots=2) as double:
        yield double
        assert double.calls("unknown") == []


@pytest.fixture
def model() -> Iterator[Model]:
    """Every mail is to be answered, until a test says otherwise; under two roots."""
    with Model(roots=2) as double:
        double.on_triage("respond")
        yield double
        assert double.violations == []


@pytest.fixture
def connect(tmp_path: Path, database_url: str, google: Google, model: Model) -> Iterator[Start]:
    """Make the program with one connected mailbox, and settings of the test's own; nothing runs yet."""
    made: list[Daemon] = []

    def connect_one(**settings: object) -> Daemon:
        made.append(Daemon(tmp_path, database_url, google, model, **settings))
        asyncio.run(log_in_at(made[-1], google))
        return made[-1]

    yield connect_one
    for daemon in made:
        daemon.close()


@pytest.fixture
def start(connect: Start, google: Google) -> Start:
    """Start the daemon with one connected mailbox, and settings of the test's own."""

    def start_one(**settings: object) -> Daemon:
        daemon = connect(**settings)
        daemon.up()
        daemon.wait_for(lambda: google.calls("history.list"), "the mailbox is polled")
        return daemon

    return start_one


@pytest.fixture
def daemon(start: Start) -> Daemon:
    return start()


@pytest.fixture
def open_home(tmp_path: Path, database_url: str, google: Google, model: Model) -> OpenHome:
    secret_key = SecretStr(Fernet.generate_key().decode())

    @asynccontextmanager
    async def open_one(**own: Any) -> AsyncIterator[Home]:
        chosen: dict[str, Any] = {
            "google_timeout_seconds": 10,
            "undo_seconds": 0,
            "max_tries": 2,
            "max_steps": 4,
            "poll_seconds": 0.1,
            "sweep_seconds": 0.1,
            "working_hours": "09:00-18:00",
            "openai_base_url": model.root,
        } | own
        of_features = own.keys() - Settings.model_fields.keys()
        settings = Settings(
            home=tmp_path / "home",
            secret_key=secret_key,
            openai_api_key=SecretStr("model-key"),
            model="stub-model",
            google_root=google.root,
            **{name: value for name, value in chosen.items() if name not in of_features},
        )
        with pytest.MonkeyPatch.context() as environment:
            for name in of_features:
                environment.setenv(f"EMAIL_ASSISTANT_{name.upper()}", str(own[name]))
            async with open_app(settings, database_url) as app, open_daemon(app) as works:
                known = await app.accounts.of_user(app.user_id)
                account = known[0] if known else await log_in(app, google, tmp_path)
                yield Home(app, works, google, account.id)

    return open_one


@pytest_asyncio.fixture(loop_scope="module")
async def home(open_home: OpenHome) -> AsyncIterator[Home]:
    async with open_home() as opened:
        yield opened
