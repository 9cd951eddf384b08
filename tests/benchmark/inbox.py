"""How fast the inbox answers with very much waiting in it.

The real API runs as a process of its own, on a throwaway database filled with generated mail, and is asked over HTTP,
100 times for each case. Times are the client's. Ends with 1 above a ceiling.
"""

import argparse
import asyncio
import os
import sys
import time
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import accumulate
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any
from uuid import UUID, uuid4

import httpx
from psycopg.types.json import Json, Jsonb

from email_assistant.app import App, open_app
from email_assistant.db.pool import Connection
from email_assistant.errors import AssistantError
from email_assistant.home import database
from email_assistant.inbox.listing import WORDS, words
from email_assistant.settings import Settings
from tests.benchmark.measured import percentile, spread

REQUESTS = 100
_WARMING = 5
_EACH = _WARMING + REQUESTS
_SEED = 20260521
_TOKEN = "bench-of-the-inbox"
_ADDRESSES = ("ada@bench.example", "ada@work.example")
_NOWHERE = "http://127.0.0.1:1"  # in Google's place: nothing of it is needed
_START_SECONDS = 60

FREQUENT, RARE, PART = "budget", "xylophone", "@fjord"
"""Stands in about a third of the items, in one of them, and in the addresses of one sender in a thousand."""

_PAGE_MS, _SEARCH_MS, _LIVE_MS = 50.0, 100.0, 1000.0

Send = Callable[[int], Awaitable[httpx.Response]]


class BenchFailed(AssistantError):
    """The server gave something else than was asked for."""


@dataclass(frozen=True, slots=True)
class Timing:
    """Milliseconds from sending a request to having read all of its answer, at the client."""

    case: str
    took: Sequence[float]
    most_p95: float | None  # the ceiling that the product sets itself; None where it sets none

    @property
    def within(self) -> bool:
        return self.most_p95 is None or percentile(self.took, 95) <= self.most_p95


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--items", type=int, default=100_000, help="how many wait; at least 1,000")


def main(given: argparse.Namespace) -> None:
    timings = asyncio.run(_measure(given.items))
    for timing in timings:
        ceiling = f"; 95 % at most {timing.most_p95:g} ms" if timing.most_p95 else ""
        print(f"{timing.case:35} {spread(timing.took)}{ceiling}{'' if timing.within else ': above'}")
    if not all(timing.within for timing in timings):
        raise SystemExit(1)


async def _measure(items: int) -> list[Timing]:
    """Fill a database of its own and ask the API. Raises BenchFailed, EmbeddedError."""
    with TemporaryDirectory(prefix="email-assistant-bench-") as folder:
        settings = Settings(home=Path(folder), database_url=None, google_root=_NOWHERE, undo_seconds=0)
        with database(settings, keep=True) as url:
            async with open_app(settings, url) as app:
                began = time.monotonic()
                await fill(app, items)
                print(f"{items:,} items, filled in {time.monotonic() - began:.0f} s", flush=True)
                async with _served(settings.folder, url) as root, _client(root) as http:
                    ids = await _ids(app)
                    timings = [await _time(case) for case in _cases(http, ids[:_EACH])]
                    return [*timings, await _time_live(http, ids[_EACH:])]


# What is asked


@dataclass(frozen=True, slots=True)
class _Case:
    name: str
    send: Send
    most_p95: float | None
    expects: Callable[[httpx.Response], bool]


def _cases(http: httpx.AsyncClient, ids: Sequence[UUID]) -> Iterator[_Case]:
    def listing(**query: str) -> Send:
        return lambda _: http.get("/api/inbox", params={"status": "pending", **query})

    def some(answer: httpx.Response) -> bool:
        return len(answer.json()["items"]) > 0

    def has(count: int) -> Callable[[httpx.Response], bool]:
        return lambda answer: len(answer.json()["items"]) == count

    cursor: str | None = None

    async def next_page(_: int) -> httpx.Response:
        nonlocal cursor
        answer = await http.get("/api/inbox", params={"status": "pending", **({"cursor": cursor} if cursor else {})})
        cursor = answer.json()["next"]
        return answer

    yield _Case("first page, as HTML", lambda _: http.get("/"), _PAGE_MS, lambda answer: "/items/" in answer.text)
    yield _Case("first page", listing(), _PAGE_MS, some)
    yield _Case("next page", next_page, _PAGE_MS, some)
    yield _Case("newest first", listing(sort="newest"), _PAGE_MS, some)
    yield _Case("most urgent first", listing(sort="urgency"), _PAGE_MS, some)
    yield _Case("of one kind", listing(kind="in_doubt"), _PAGE_MS, some)
    yield _Case("of one account, older than 30 days", listing(account=_ADDRESSES[1], older_than="30d"), _PAGE_MS, some)
    yield _Case("search: frequent word", listing(q=FREQUENT), _SEARCH_MS, some)
    yield _Case("search: rare word", listing(q=RARE), _SEARCH_MS, has(1))
    yield _Case("search: part of an address", listing(q=PART), _SEARCH_MS, some)
    yield _Case("search: two frequent words", listing(q=f"{FREQUENT} report"), _SEARCH_MS, some)
    yield _Case("search: no hit", listing(q="nosuchword"), _SEARCH_MS, has(0))
    yield _Case("counts", lambda _: http.get("/api/inbox/counts"), None, lambda answer: "by_status" in answer.json())
    yield _Case(
        "one item", lambda number: http.get(f"/api/inbox/{ids[number]}"), None, lambda answer: "id" in answer.json()
    )
    yield _Case(
        "one item, as HTML",
        lambda number: http.get(f"/items/{ids[number]}"),
        None,
        lambda answer: "<main" in answer.text,
    )
    yield _Case(
        "decision",
        lambda number: http.post(f"/api/inbox/{ids[number]}/decision", json={"type": "ignore"}),
        None,
        lambda answer: answer.json()["status"] == "decided",
    )


async def _time(case: _Case) -> Timing:
    took = []
    for number in range(_EACH):
        began = time.perf_counter()
        answer = await case.send(number)
        took.append((time.perf_counter() - began) * 1000)
        if answer.status_code != 200 or not case.expects(answer):
            raise BenchFailed(f"{case.name}: {answer.status_code} {answer.text[:200]}")
    return Timing(case.name, took[_WARMING:], case.most_p95)


async def _time_live(http: httpx.AsyncClient, ids: Sequence[UUID]) -> Timing:
    """From the sending of an answer to when another page, which is open, has been told of it."""
    took = []
    async with http.stream("GET", "/api/events") as stream:
        lines = stream.aiter_lines()
        await _line_with("event: reload", lines)
        for item_id in ids:
            began = time.perf_counter()
            await http.post(f"/api/inbox/{item_id}/decision", json={"type": "ignore"})
            await _line_with(str(item_id), lines)
            took.append((time.perf_counter() - began) * 1000)
    return Timing("an open page is told of a decision", took[_WARMING:], _LIVE_MS)


async def _line_with(text: str, lines: AsyncIterator[str]) -> None:
    async for line in lines:
        if text in line:
            return
    raise BenchFailed(f"the stream of events ended before {text}")


@asynccontextmanager
async def _served(home: Path, url: str) -> AsyncIterator[str]:
    """The address of `email-assistant api`, as a process."""
    environment = {name: os.environ[name] for name in ("PATH", "PYTHONPATH", "LANG") if name in os.environ} | {
        "HOME": str(home),
        "DATABASE_URL": url,
        "EMAIL_ASSISTANT_HOME": str(home),
        "EMAIL_ASSISTANT_API_TOKEN": _TOKEN,
        "EMAIL_ASSISTANT_GOOGLE_ROOT": _NOWHERE,
    }
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-P", "-m", "email_assistant", "api", "--port", "0",
        env=environment, cwd=home, stdout=PIPE, stderr=DEVNULL,
    )  # fmt: skip
    assert process.stdout is not None
    try:
        async with asyncio.timeout(_START_SECONDS):
            line = await process.stdout.readline()
        _, found, rest = line.decode().partition("http://")
        if not found:
            raise BenchFailed("the API did not start")
        yield f"http://{rest.partition('/')[0]}"
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


def _client(root: str) -> httpx.AsyncClient:
    return httpx.AsyncClient(
        base_url=root, headers={"Authorization": f"Bearer {_TOKEN}"}, trust_env=False, timeout=_START_SECONDS
    )


async def _ids(app: App) -> list[UUID]:
    """Drafts from all over the inbox, each to be asked for or decided once."""
    rows = await _rows(app, f"select id from inbox_items where kind = 'draft' order by md5(id::text) limit {2 * _EACH}")
    if len(rows) < 2 * _EACH:
        raise BenchFailed("there are too few items to measure anything")
    return [row["id"] for row in rows]


# What waits


_SYLLABLES = ("ba", "co", "di", "fu", "ga", "he", "ki", "lo", "mu", "ne", "po", "ra", "si", "to", "vu", "wa", "ze")
_FIRST = ("Ada", "Bob", "Cleo", "Dan", "Eva", "Finn", "Gita", "Hugo", "Ines", "Jan", "Kira", "Leo", "Mia", "Nils")
_KINDS = ("draft", "meeting", "notification", "question", "in_doubt")
_OFTEN = (60, 10, 20, 9, 1)


@dataclass(frozen=True, slots=True)
class _Waiting:
    """One waiting item with all that it hangs on."""

    thread: UUID
    run: UUID
    mail: str
    account: int
    sender: str
    subject: str
    kind: str
    action: str
    args: dict[str, Any]
    text: str
    at: datetime


class _Generator:
    """Mail of varied length on a vocabulary as skewed as a language's; the same for the same seed."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self._words = ["".join(self._random.choices(_SYLLABLES, k=self._random.randint(1, 4))) for _ in range(8000)]
        self._weights = list(accumulate(1 / (rank + 3) for rank in range(len(self._words))))
        hosts = [f"{self._words[self._random.randrange(8000)]}.example" for _ in range(700)]
        self._senders = [
            (f"{self._random.choice(_FIRST)} {name.capitalize()}", f"{name}{number}@{self._random.choice(hosts)}")
            for number, name in enumerate(self._random.choices(self._words, k=5000))
        ]
        for number in range(0, len(self._senders), 1000):
            name, _ = self._senders[number]
            self._senders[number] = (name, f"office{number}@fjord-{number}.example")

    def waiting(self, number: int, now: datetime) -> _Waiting:
        random = self._random
        name, sender = random.choice(self._senders)
        subject = " ".join(self._text(random.randint(2, 8))).capitalize()
        body = self._text(random.randint(20, 220))
        if random.random() < 1 / 3:
            body[random.randrange(len(body))] = FREQUENT
        if random.random() < 1 / 5:
            body[random.randrange(len(body))] = "report"
        if number == 0:
            body[0] = RARE
        account = int(random.random() < 0.2)
        text = "\n".join(
            [f"{name}: {subject}", "", f"From: {name} <{sender}>", f"To: {_ADDRESSES[account]}", "", " ".join(body)]
        )
        kind = random.choices(_KINDS, _OFTEN)[0]
        action, args = self._proposal(kind, sender, now)
        at = now - timedelta(days=90 * random.random())
        return _Waiting(
            _uuid(random), _uuid(random), f"m{number}", account, sender, subject, kind, action, args, text, at
        )

    def _proposal(self, kind: str, sender: str, now: datetime) -> tuple[str, dict[str, Any]]:
        words_ = " ".join(self._text(self._random.randint(10, 60)))
        match kind:
            case "draft" | "in_doubt":
                return "send_email_tool", {"email_address": sender, "response_text": words_}
            case "meeting":
                start = now + timedelta(hours=self._random.randint(1, 500))
                times = {"start_time": start.isoformat(), "end_time": (start + timedelta(minutes=45)).isoformat()}
                return "schedule_meeting_tool", {"attendees": [sender], "title": words_[:40], **times}
            case "question":
                return "Question", {"content": words_}
            case _:
                return "Email Assistant: notify", {}

    def _text(self, length: int) -> list[str]:
        return self._random.choices(self._words, cum_weights=self._weights, k=length)


def _uuid(random: Random) -> UUID:
    return UUID(int=random.getrandbits(128), version=4)


async def fill(app: App, items: int) -> None:
    """Store so many waiting items with their mails, by COPY, then let the planner know of them."""
    now, generator = datetime.now(UTC), _Generator(_SEED)
    since = now - timedelta(days=365)
    accounts = [(await app.accounts.add(app.user_id, each, {"bench": str(uuid4())}, since)).id for each in _ADDRESSES]
    made = [generator.waiting(number, now) for number in range(items)]
    async with app.pool.connection() as conn, conn.transaction(), _at_rest(conn, "mails", "inbox_items"):
        await conn.execute(
            f"""create temporary table waiting on commit drop as
                select {_ITEM}, ''::text as body, '{{}}'::text[] as endings from inbox_items with no data""".encode()
        )
        for table, row in _tables(app.user_id, accounts):
            await _copy(conn, table, (row(each) for each in made))
        await conn.execute(
            f"""insert into inbox_items ({_ITEM}, words)
                select {_ITEM}, {WORDS.replace("%s", "body", 1).replace("%s", "endings", 1)}
                from waiting order by created_at""".encode()
        )
    async with app.pool.connection() as conn:
        for table in ("threads", "runs", "mails", "inbox_items"):
            await conn.execute(f"vacuum analyze {table}".encode())


_ITEM = """user_id, account_id, thread_id, run_id, mail_id, call_id, interrupt_id, kind, action, args, allowed,
           mail_text, marks, teaches, created_at"""
_ALLOWED = ["accept", "edit", "ignore", "response"]

Row = Callable[[_Waiting], tuple[Any, ...]]


def _tables(user: UUID, accounts: Sequence[UUID]) -> Iterator[tuple[str, Row]]:
    """Tables in the order of their references, and the values that an item gives them."""
    yield (
        "threads (id, user_id, account_id, gmail_id)",
        lambda w: (w.thread, user, accounts[w.account], f"t-{w.mail}"),
    )
    yield (
        "runs (id, user_id, account_id, thread_id, mail_id, attempt, input, state)",
        lambda w: (w.run, user, accounts[w.account], w.thread, w.mail, 1, Jsonb({}), "waiting"),
    )
    yield (
        """mails (account_id, gmail_id, user_id, thread_id, own, sender, subject, content, received_at, state,
                  classification, run_id)""",
        lambda w: (
            accounts[w.account], w.mail, user, w.thread, False, w.sender, w.subject, Jsonb({"text": w.text}), w.at,
            "waiting", "respond", w.run,
        ),
    )  # fmt: skip
    yield (
        f"waiting ({_ITEM}, body, endings)",
        lambda w: (
            user, accounts[w.account], w.thread, w.run, w.mail, "call", f"i-{w.mail}", w.kind, w.action, Json(w.args),
            _ALLOWED, w.text, Json([]), True, w.at, *words(w.text, w.args),
        ),
    )  # fmt: skip


@asynccontextmanager
async def _at_rest(conn: Connection, *tables: str) -> AsyncIterator[None]:
    """Without triggers and indexes that are no constraints, which are built anew at the end: much faster than row by
    row."""
    found = await conn.execute(
        """select c.relname as name, pg_get_indexdef(i.indexrelid) as definition
           from pg_index i join pg_class c on c.oid = i.indexrelid
           where i.indrelid = any(%s::regclass[]) and not i.indisunique""",
        (list(tables),),
    )
    indexes = await found.fetchall()
    for table in tables:
        await conn.execute(f"alter table {table} disable trigger user".encode())
    for index in indexes:
        await conn.execute(f"drop index {index['name']}".encode())
    yield
    for index in indexes:
        await conn.execute(index["definition"].encode())
    for table in tables:
        await conn.execute(f"alter table {table} enable trigger user".encode())


async def _copy(conn: Connection, table: str, rows: Iterator[tuple[Any, ...]]) -> None:
    async with conn.cursor() as cursor, cursor.copy(f"copy {table} from stdin".encode()) as copy:
        for row in rows:
            await copy.write_row(row)


async def _rows(app: App, query: str) -> list[dict[str, Any]]:
    async with app.pool.connection() as conn:
        return await (await conn.execute(query.encode())).fetchall()
