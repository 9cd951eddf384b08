"""One embedded Postgres server a run, one fresh database a test."""

import itertools
import os
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from email_assistant.db.embedded import EmbeddedPostgres

_numbers = itertools.count()


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Iterator[EmbeddedPostgres]:
    """The run's one server: under xdist the first worker starts it and the others join."""
    base = tmp_path_factory.getbasetemp()
    shared = base if worker_id == "master" else base.parent
    with EmbeddedPostgres(shared / "postgres") as server:
        yield server


@pytest.fixture(scope="session")
def kept(postgres: EmbeddedPostgres) -> Iterator[EmbeddedPostgres]:
    """The server, started again by this process if the worker that owned it has finished first."""
    import threading

    done = threading.Event()

    def keep() -> None:
        while not done.wait(0.5):
            postgres.keep()

    thread = threading.Thread(target=keep, daemon=True)
    thread.start()
    yield postgres
    done.set()
    thread.join()


@pytest.fixture
def database_url(kept: EmbeddedPostgres, worker_id: str) -> Iterator[str]:
    """A fresh, empty database of the run's one server."""
    name = f"test_{worker_id}_{os.getpid()}_{next(_numbers)}"
    with psycopg.connect(kept.url(), autocommit=True) as conn:
        conn.execute(f'create database "{name}"')
    yield kept.url(name)
    kept.keep()  # the worker that owned the server may just have finished
    with psycopg.connect(kept.url(), autocommit=True) as conn:
        conn.execute(f'drop database "{name}" with (force)')


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """An empty EMAIL_ASSISTANT_HOME."""
    path = tmp_path / "home"
    path.mkdir(mode=0o700)
    return path
