"""All that a test of this folder needs: the program's processes, the doubles, and a Postgres server of its own."""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, closing, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import httpx
import psycopg
from cryptography.fernet import Fernet
from procrastinate import App, SyncPsycopgConnector

from email_assistant.db.pool import session_settings
from tests.chaos.postgres import PostgresServer
from tests.chaos.slots import Slot, Weather
from tests.chaos.world import ALIAS
from tests.doubles.google import Google
from tests.doubles.model import Model
from tests.doubles.nursery import nursery
from tests.doubles.ports import NO_CERTIFICATES, free_port

_SERVES = ("up", "api")
"""Commands that serve the inbox."""
_ADDRESS = "ada@example.com"
_TOKEN = "token-of-the-person"
_DATABASE = "chaos"
_ZONE = "Europe/Berlin"
_START_SECONDS = 60.0
_HTTP_SECONDS = 15.0
_SETTINGS: dict[str, object] = {
    "GOOGLE_NAME": "double",  # each process reaches it by a proxy of its own
    "LEASE_SECONDS": 2,
    "GOOGLE_TIMEOUT_SECONDS": 1,
    "MODEL_TIMEOUT_SECONDS": 5,
    "MODEL_PROBE_SECONDS": 1,
    "POLL_SECONDS": 0.5,
    "SWEEP_SECONDS": 0.5,
    "UNDO_SECONDS": 0,
    "REPLIES_PER_DAY": 10_000,
    # A death counts as a try at the mail that was worked on, and here no mail is to blame for it.
    "MAX_TRIES": 1_000,
}


@dataclass
class Stage:
    weather: Weather
    google: Google
    model: Model
    postgres: PostgresServer
    slots: Sequence[Slot]
    others: Sequence[Google]
    """The person's other mailboxes."""
    apis: Sequence[httpx.AsyncClient]
    """The person's way to each process that serves."""

    def tidy(self) -> None:
        """Have a worker do now what it does every ten minutes."""
        url = self.postgres.url(_DATABASE)
        connector = SyncPsycopgConnector(conninfo=url, kwargs=session_settings(url), min_size=1, max_size=1)
        with App(connector=connector).open() as queue:
            queue.configure_task("tidy", queue="background").defer(timestamp=0)


@asynccontextmanager
async def stage(
    folder: Path, processes: Sequence[str], weather: Weather, others: Sequence[str] = (), **settings: object
) -> AsyncIterator[Stage]:
    """Everything open and running, with one mailbox connected, and others; settings of the program as keywords."""
    asyncio.get_running_loop().set_exception_handler(
        lambda _, context: weather.tally.own_errors.append(f"{context['message']}: {context.get('exception')!r}")
    )
    async with AsyncExitStack() as stack:
        postgres = stack.enter_context(closing(PostgresServer(folder / "postgres.log")))
        google, model = stack.enter_context(Google(_ADDRESS)), stack.enter_context(Model())
        google.add_alias(ALIAS, "", "")
        postgres.start()
        with psycopg.connect(postgres.url(), autocommit=True) as conn:
            conn.execute(f"create database {_DATABASE}")
        environment = _environment(folder, {name.upper(): value for name, value in settings.items()})
        more = [google.another(address, _ZONE) for address in others]
        for mailbox in (google, *more):
            _add_account(environment, mailbox, google.root, postgres.url(_DATABASE), folder)
        slots, apis = [], []
        for number, role in enumerate(processes):
            arguments = [role]
            if role in _SERVES:
                port = free_port()
                arguments += ["--host", "127.0.0.1", "--port", str(port)]
                apis.append(await stack.enter_async_context(_client(port)))
            slots.append(Slot(number, role, arguments, environment, folder, nursery(), weather))
            stack.push_async_callback(slots[-1].close)
        for slot in slots:
            await slot.open(google.root, model.root, postgres.port, partial(postgres.url, _DATABASE))
        await asyncio.gather(*map(_answers, apis))
        yield Stage(weather, google, model, postgres, slots, more, apis)


async def _answers(api: httpx.AsyncClient) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline:
        with suppress(httpx.TransportError):
            if (await api.get("/health")).is_success:
                return
        await asyncio.sleep(0.1)
    raise TimeoutError(f"{api.base_url} does not answer")


def _client(port: int) -> httpx.AsyncClient:
    headers = {"Authorization": f"Bearer {_TOKEN}"}
    root = f"http://127.0.0.1:{port}"
    # As many connections as a test opens at once: answers that queue up behind each other do not race.
    limits = httpx.Limits(max_connections=100)
    return httpx.AsyncClient(
        base_url=root, headers=headers, trust_env=False, verify=NO_CERTIFICATES, timeout=_HTTP_SECONDS, limits=limits
    )


def _environment(folder: Path, chosen: Mapping[str, object]) -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}
    fixed = {"HOME": folder / "assistant", "API_TOKEN": _TOKEN, "SECRET_KEY": Fernet.generate_key().decode()}
    settings = {f"EMAIL_ASSISTANT_{name}": str(value) for name, value in {**_SETTINGS, **fixed, **chosen}.items()}
    return {**kept, **settings, "HOME": str(folder), "LANG": "C.UTF-8", "OPENAI_API_KEY": "key"}


def _add_account(
    environment: Mapping[str, str], mailbox: Google, google_root: str, database_url: str, folder: Path
) -> None:
    """Connect the mailbox by the command line, before anything goes wrong."""
    token = mailbox.write_token_file(folder / f"{mailbox.address}.json")
    direct = {"EMAIL_ASSISTANT_GOOGLE_ROOT": google_root, "DATABASE_URL": database_url}
    command = [
        sys.executable,
        "-m",
        "email_assistant",
        "account",
        "add",
        mailbox.address,
        "--token-file",
        str(token),
        "--mode",
        "send",
    ]
    subprocess.run(command, env={**environment, **direct}, cwd=folder, check=True, capture_output=True)
