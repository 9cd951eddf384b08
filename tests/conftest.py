"""One embedded Postgres server for a run that needs one, one clean database a test."""

import asyncio
import gc
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from zlib import crc32

import hypothesis
import psycopg
import pytest

from email_assistant.db.embedded import EmbeddedPostgres
from email_assistant.db.migrate import migrate
from tests import tables, tools
from tests.databases import TEMPLATE, databases
from tests.doubles import warm

pytest_plugins = ["tests.reruns", "tests.unchanged"]

# The same cases every time, however slow the machine is.
hypothesis.settings.register_profile("steady", deadline=None, derandomize=True)
hypothesis.settings.load_profile("steady")

_SERVER = pytest.StashKey[EmbeddedPostgres]()
_FOLDER = pytest.StashKey[Path]()
_CHAOS = Path(__file__).parent / "chaos"


def pytest_configure(config: pytest.Config) -> None:
    # A shell has what runs in its background ignore Ctrl-C, and every process that a test starts would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if hasattr(config, "workerinput"):
        warm.join(config.workerinput["warm"])


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Look for no garbage among what is collected: it stays to the end, and to look through it once takes a second."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--share", metavar="K/N", help="of what is long, but chaos, the Kth of N shares")


@pytest.hookimpl(tryfirst=True)  # before `-m` chooses
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Of a function with many cases the first lane takes the first; of a unit test, which costs nothing, all."""
    for item in _further_cases(items):
        item.add_marker("long")
    if share := config.getoption("share"):
        number, shares = map(int, share.split("/"))
        in_turn = [i for i in items if i.get_closest_marker("long") and not i.path.is_relative_to(_CHAOS)]
        left = {item for item in in_turn if crc32(item.nodeid.encode()) % shares != number - 1}
        config.hook.pytest_deselected(items=list(left))
        items[:] = [item for item in items if item not in left]


def _further_cases(items: list[pytest.Item]) -> list[pytest.Item]:
    sampled: set[str] = set()
    further = []
    for item in items:
        if item.path.parent.name == "unit" and not item.get_closest_marker("sampled"):
            continue
        function = item.nodeid.partition("[")[0]
        if function in sampled:
            further.append(item)
        sampled.add(function)
    return further


def _server(config: pytest.Config) -> EmbeddedPostgres:
    """The run's one server, started by the first who needs it.

    It doesn't wait for disks, as no power cut tests it here; the template of every database is migrated.
    """
    if _SERVER not in config.stash:
        config.stash[_FOLDER] = Path(tempfile.mkdtemp(prefix="email-assistant-tests-"))
        server = config.stash[_SERVER] = EmbeddedPostgres(config.stash[_FOLDER] / "postgres")
        with psycopg.connect(server.start(), autocommit=True) as conn:
            for setting in ("fsync", "full_page_writes"):
                conn.execute(f"alter system set {setting} = off")
            conn.execute("select pg_reload_conf()")
            conn.execute(f"create database {TEMPLATE}")
        asyncio.run(migrate(server.url(TEMPLATE)))
    return config.stash[_SERVER]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Two to a core, as tests wait for processes of theirs half of the time."""
    return 2 * (os.cpu_count() or 1)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tell a worker of pytest-xdist where the server and the warm process are: this one, which outlives all workers,
    starts them."""
    node.workerinput["postgres_url"] = _server(node.config).url()
    node.workerinput["warm"] = warm.address()


def pytest_unconfigure(config: pytest.Config) -> None:
    if server := config.stash.get(_SERVER, None):
        server.stop()
        shutil.rmtree(config.stash[_FOLDER], ignore_errors=True)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print what the tests have filled in, and what they lacked."""
    tables.show(terminalreporter)
    tools.show(terminalreporter)


@pytest.fixture(scope="session")
def postgres_url(request: pytest.FixtureRequest) -> str:
    """The run's one server, as the URL of its database `postgres`."""
    if hasattr(request.config, "workerinput"):
        return str(request.config.workerinput["postgres_url"])
    return _server(request.config).url()


@pytest.fixture
def database_url(postgres_url: str) -> Iterator[str]:
    """A database of the run's one server, with this version's schema and no rows."""
    with databases(postgres_url).migrated() as url:
        yield url


@pytest.fixture
def empty_database_url(postgres_url: str) -> Iterator[str]:
    """A database of the run's one server that no version has migrated."""
    with databases(postgres_url).empty() as url:
        yield url
