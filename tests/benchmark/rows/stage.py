"""The program as a process of its own, on a database server of the bench's, which counts statements."""

import asyncio
import base64
import json
import os
import signal
import sys
import time
from asyncio.subprocess import DEVNULL, Process
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx
import psycopg
from pydantic import SecretStr

from email_assistant.app import open_app
from email_assistant.db.embedded import EmbeddedPostgres, die_with_parent
from email_assistant.settings import Settings
from tests.benchmark.rows.figures import SpeedUnknown
from tests.benchmark.rows.outside import PERSON, Outside, Way, outside
from tests.benchmark.rows.processes import check_proc, cpu_seconds
from tests.doubles.ports import NotStarted, free_port

OURS = "/* asked by the bench */"
"""Marks what the bench itself asks of the database, which counts nowhere."""
NEVER_SECONDS = 86400
"""Between polls, where the bench has mailboxes looked at itself, as a push from Gmail does."""
_PLENTY = 6_000_000
"""Google's units of a minute: they are counted as at Google, where there are fewer."""
_SECRET = "bench-of-the-speed-only-for-as-long-as-it-runs"
_KEY = base64.urlsafe_b64encode(b"0123456789abcdef" * 2).decode()
_PATIENCE_SECONDS = 300.0
_LOOK_SECONDS = 0.05
_STOP_SECONDS = 30


class _Ended(SpeedUnknown, NotStarted):
    """The program did not come up: its port may have been taken in between."""


@dataclass(frozen=True, slots=True)
class Server:
    """A Postgres server that counts its statements."""

    embedded: EmbeddedPostgres
    data: Path

    @property
    def pid(self) -> int:
        return int((self.data / "postmaster.pid").read_text().split()[0])

    def create(self, database: str) -> str:
        """A new database; its URL."""
        with self.watch() as conn:
            conn.execute(f"create database {database}".encode())
        return self.embedded.url(database)

    @contextmanager
    def watch(self, url: str | None = None) -> Iterator["psycopg.Connection[tuple[Any, ...]]"]:
        """A connection of the bench's own; without a URL, beside all databases that are measured."""
        with psycopg.connect(
            url or self.embedded.url(), autocommit=True, options="-c search_path=email_assistant,public"
        ) as conn:
            yield conn


@contextmanager
def scratch() -> Iterator[Path]:
    """A folder for everything, gone afterwards. Raises SpeedUnknown where nothing can be measured."""
    check_proc()
    with TemporaryDirectory(prefix="email-assistant-bench-") as folder:
        yield Path(folder)


@contextmanager
def postgres(folder: Path) -> Iterator[Server]:
    """Raises EmbeddedError."""
    data = folder / "postgres"
    embedded = EmbeddedPostgres(data)
    with embedded, psycopg.connect(embedded.url(), autocommit=True) as conn:
        conn.execute("alter system set shared_preload_libraries = 'pg_stat_statements'")
        conn.execute("alter system set track_activity_query_size = 16384")
    with embedded:
        server = Server(embedded, data)
        with server.watch() as conn:
            conn.execute("create extension if not exists pg_stat_statements")
        yield server


@dataclass(frozen=True)
class Place:
    """Where the program runs: its folder, its database, its settings."""

    home: Path
    url: str | None
    """None: the database that it brings."""
    outside: Outside
    settings: Mapping[str, object]

    @property
    def environment(self) -> dict[str, str]:
        chosen = {
            "home": self.home / "assistant",
            "api_token": _SECRET,
            "secret_key": _KEY,
            "model": "canned",
            "google_root": self.outside.root,
            "google_name": "bench",
            "push_topic": "projects/bench/topics/mail",
            "push_token": f"{_SECRET}-push",
            "gmail_units_per_minute": _PLENTY,
            "poll_seconds": NEVER_SECONDS,
            "undo_seconds": 0,
            "backfill_days": 0,
            **self.settings,
        }
        return {
            **{name: os.environ[name] for name in ("PATH", "PYTHONPATH", "LANG") if name in os.environ},
            "HOME": str(self.home),
            **({"DATABASE_URL": self.url} if self.url else {}),
            "OPENAI_API_KEY": "bench",
            "OPENAI_BASE_URL": self.outside.model_url,
            **{f"EMAIL_ASSISTANT_{name.upper()}": str(value) for name, value in chosen.items()},
        }

    async def connect(self, *addresses: str) -> None:
        """Connect mailboxes, of which the sandbox is each."""
        assert self.url is not None
        settings = Settings(
            home=self.home / "assistant",
            database_url=self.url,
            google_root=self.outside.root,
            google_name="bench",
            secret_key=SecretStr(_KEY),
        )
        async with open_app(settings, self.url) as app:
            since = datetime.now(UTC) - timedelta(days=1)
            for address in addresses:
                await app.accounts.add(app.user_id, address, self.outside.token, since)

    async def run(self, *arguments: str) -> float:
        """Run one command to its end; the seconds that it took."""
        began = time.perf_counter()
        process = await self._start(*arguments)
        async with _stopped(process):
            if code := await process.wait():
                raise SpeedUnknown(f"`email-assistant {' '.join(arguments)}` ended with {code}")
        return time.perf_counter() - began

    @asynccontextmanager
    async def up(self) -> AsyncIterator["Program"]:
        """The program, once it answers."""
        port = free_port()
        process = await self._start("up", "--host", "127.0.0.1", "--port", str(port))
        headers = {"Authorization": f"Bearer {_SECRET}"}
        async with (
            _stopped(process),
            httpx.AsyncClient(
                base_url=f"http://127.0.0.1:{port}", headers=headers, timeout=120, trust_env=False
            ) as http,
        ):
            await until(lambda: _answers(process, http), "it starts", every=0.01)
            yield Program(process.pid, http, self)

    async def _start(self, *arguments: str) -> Process:
        self.home.mkdir(exist_ok=True)
        with (self.home / "bench.log").open("ab") as log:
            return await asyncio.create_subprocess_exec(
                *(sys.executable, "-P", "-m", "email_assistant", *arguments),
                env=self.environment,
                cwd=self.home,
                stdin=DEVNULL,
                stdout=DEVNULL,
                stderr=log,
                start_new_session=True,  # Ctrl-C in the terminal is for the bench, which then stops it in good order
                preexec_fn=die_with_parent(signal.SIGKILL),
            )


@dataclass(frozen=True)
class Program:
    pid: int
    http: httpx.AsyncClient
    place: Place

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """It does nothing while the block lasts, and keeps all that it has."""
        os.kill(self.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(self.pid, signal.SIGCONT)

    async def look(self, address: str = PERSON) -> None:
        """Have a mailbox looked at now."""
        data = base64.b64encode(json.dumps({"emailAddress": address, "historyId": 1}).encode()).decode()
        token = self.place.environment["EMAIL_ASSISTANT_PUSH_TOKEN"]
        answer = await self.http.post("/google/push", params={"token": token}, json={"message": {"data": data}})
        answer.raise_for_status()

    async def accept(self, item_id: str) -> None:
        """A person looks at an item and takes the proposal as it is."""
        shown = (await self.http.get(f"/api/inbox/{item_id}")).raise_for_status().json()
        decision = {"type": "accept", "args": None, "asked": shown.get("asked")}
        (await self.http.post(f"/api/inbox/{item_id}/decision", json=decision)).raise_for_status()


@dataclass(frozen=True)
class Stage:
    """The program at work on one mailbox, beside a watch on its database."""

    server: Server
    program: Program
    outside: Outside
    watch: "psycopg.Connection[tuple[Any, ...]]"

    def cpu(self) -> float:
        """Seconds of processor time so far, the program's and the database server's."""
        return cpu_seconds(self.program.pid, self.server.pid)

    async def handle(self, way: Way, count: int) -> None:
        """So many mails come in at once, and go their way to its end."""
        mails = await self.outside.deliver(way, count)
        await self.program.look()
        if way == "accepted":
            await self.accept(mails)
        await self.until_done(mails)

    async def accept(self, mails: Sequence[str]) -> None:
        """A person accepts what is proposed, one after the other as it comes."""
        left = set(mails)
        while left:
            found = await self.waiting(left, 1)
            for mail, item in found.items():
                await self.program.accept(item)
                left.discard(mail)

    async def waiting(self, mails: "set[str]", count: int) -> dict[str, str]:
        """Items that wait, by their mails, once there are so many."""
        found: dict[str, str] = {}

        def look() -> bool:
            query = f"""select mail_id, id::text from inbox_items
                        where status = 'pending' and mail_id = any(%s) {OURS}"""
            found.update(self.watch.execute(query.encode(), (list(mails),)).fetchall())
            return len(found) >= count

        await until(look, f"{count} of {len(mails)} items wait")
        return found

    async def until_done(self, mails: Sequence[str]) -> None:
        query = f"select count(*) from mails where gmail_id = any(%s) and state = 'done' {OURS}".encode()

        def look() -> bool:
            [row] = self.watch.execute(query, (list(mails),)).fetchall()
            return bool(row[0] == len(mails))

        await until(look, f"{len(mails)} mails are done")

    async def until_listed(self, accounts: int) -> None:
        """Wait until so many mailboxes have been looked at."""
        query = f"select count(*) from accounts where listed_at is not null {OURS}".encode()

        def look() -> bool:
            [row] = self.watch.execute(query).fetchall()
            return bool(row[0] >= accounts)

        await until(look, f"{accounts} mailboxes are looked at", every=0.5)

    async def until_at_rest(self) -> None:
        """Wait until older mail has been fetched, too, and nothing is left to do."""
        query = f"""select exists (select from accounts where backfilled_at is null)
                           or exists (select from mails where state in ('new', 'triaging'))
                           or exists (select from procrastinate_jobs where status in ('todo', 'doing')) {OURS}"""

        def look() -> bool:
            [(is_busy,)] = self.watch.execute(query.encode()).fetchall()
            return not is_busy

        await until(look, "nothing is left to do", every=0.5)


@asynccontextmanager
async def staged(
    server: Server, folder: Path, name: str, addresses: Sequence[str] = (PERSON,), **settings: object
) -> AsyncIterator[Stage]:
    """The program on a new database, with its mailboxes known."""
    home = folder / name
    home.mkdir()
    url = server.create(name)
    async with outside(home) as around:
        place = Place(home, url, around, settings)
        await place.connect(*addresses)
        async with place.up() as program:
            with server.watch(url) as watch:
                stage = Stage(server, program, around, watch)
                await stage.until_listed(len(addresses))
                yield stage


async def until(condition: Callable[[], bool | Awaitable[bool]], what: str, *, every: float = _LOOK_SECONDS) -> None:
    """Ask until it is so. Raises SpeedUnknown when that takes too long."""
    try:
        async with asyncio.timeout(_PATIENCE_SECONDS):
            while True:
                answer = condition()
                if answer if isinstance(answer, bool) else await answer:
                    return
                await asyncio.sleep(every)
    except TimeoutError:
        raise SpeedUnknown(f"waited {_PATIENCE_SECONDS:.0f} s in vain until {what}") from None


@asynccontextmanager
async def _stopped(process: Process) -> AsyncIterator[None]:
    """Have it stop at the end of the block, if it has not by itself; at once when it takes too long."""
    try:
        yield
    finally:
        if process.returncode is None:
            process.terminate()
            try:
                async with asyncio.timeout(_STOP_SECONDS):
                    await process.wait()
            except TimeoutError:
                process.kill()
                await process.wait()


async def _answers(process: Process, http: httpx.AsyncClient) -> bool:
    if process.returncode is not None:
        raise _Ended(f"the program ended with {process.returncode} before it answered")
    try:
        return (await http.get("/health")).status_code == 200
    except httpx.TransportError:
        return False
