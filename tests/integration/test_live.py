"""Live updates: what an open page is told, by whichever process serves it, and how soon."""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import psycopg

from email_assistant.db.pool import session_settings
from tests.doubles.daemon import API_TOKEN, WAIT_SECONDS, Daemon, Process
from tests.doubles.google import Google
from tests.doubles.model import Model
from tests.doubles.ports import free_port
from tests.integration.conftest import Start
from tests.integration.scene import BOB, DONE, reply

BEARER = {"Authorization": f"Bearer {API_TOKEN}"}


class Page:
    """An open stream, read in a thread of its own: every event with the time at which it came."""

    def __init__(self, root: str, headers: dict[str, str]) -> None:
        self.events: list[tuple[datetime, str, dict[str, Any]]] = []
        self.ended = threading.Event()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._read, args=(root, headers), daemon=True)
        self._thread.start()

    def _read(self, root: str, headers: dict[str, str]) -> None:
        try:
            with (
                httpx.Client(trust_env=False, timeout=WAIT_SECONDS) as http,
                http.stream("GET", f"{root}/api/events", headers=headers) as answer,
            ):
                assert answer.headers["content-type"].startswith("text/event-stream")
                name = ""
                for line in answer.iter_lines():
                    if line.startswith("event: "):
                        name = line.removeprefix("event: ")
                    elif line.startswith("data: "):
                        self.events.append((datetime.now(UTC), name, json.loads(line.removeprefix("data: "))))
                    if self._stop.is_set():
                        return
        except httpx.TransportError:
            pass
        finally:
            self.ended.set()

    def names(self) -> list[str]:
        return [name for _, name, _ in self.events]

    def told_of(self, kind: str, **wanted: str) -> datetime | None:
        """When it was first told of a thing that is so."""
        return next(
            (
                at
                for at, _, data in self.events
                for thing in data.get(kind, [])
                if all(thing.get(name) == value for name, value in wanted.items())
            ),
            None,
        )


@contextmanager
def served_apart(daemon: Daemon) -> Iterator[tuple[str, Process]]:
    """One more process that serves the API and does nothing else."""
    port = free_port()
    process = daemon._start("api", "api", "--port", str(port))
    root = f"http://127.0.0.1:{port}"

    def healthy() -> bool:
        try:
            return httpx.get(f"{root}/health", trust_env=False).status_code == 200
        except httpx.TransportError:
            return False

    daemon.wait_for(healthy, "the api answers")
    yield root, process


def opened(daemon: Daemon, root: str) -> Page:
    """A page that will miss nothing from now on."""
    page = Page(root, BEARER)
    daemon.wait_for(lambda: page.names()[:1] == ["reload"], "the stream is open")
    return page


def until_told(daemon: Daemon, page: Page, kind: str, **wanted: str) -> datetime:
    """When the page was told of a thing that is so, once it was."""
    told = daemon.wait_for(lambda: page.told_of(kind, **wanted), f"it is told of {wanted}")
    assert told is not None
    return told


def root_of(daemon: Daemon) -> str:
    return str(daemon.http.base_url).rstrip("/")


def test_every_process_tells_of_a_new_item_and_of_what_becomes_of_it(
    start: Start, google: Google, model: Model
) -> None:
    model.script(lambda _: [reply("Fine."), DONE])
    daemon = start()
    with served_apart(daemon) as (apart, _):
        pages = [opened(daemon, root) for root in (root_of(daemon), apart)]
        mail_id = google.deliver(BOB, "Lunch?", "Does Friday suit you?")
        [item] = daemon.pending()
        for page in pages:
            told = until_told(daemon, page, "items", id=item["id"], status="pending")
            assert told - datetime.fromisoformat(item["created_at"]) < timedelta(seconds=1)
        daemon.accept(item)
        daemon.until_done(mail_id)
        for page in pages:
            until_told(daemon, page, "items", id=item["id"], status="applied")
            until_told(daemon, page, "mails", id=mail_id, state="done")
            assert "Lunch" not in json.dumps([data for _, _, data in page.events])
            assert "bob" not in json.dumps([data for _, _, data in page.events])


def test_a_snooze_that_ends_is_told(start: Start, google: Google, model: Model, database_url: str) -> None:
    model.script(lambda _: [reply("Fine."), DONE])
    daemon = start()
    google.deliver(BOB, "Lunch?", "Does Friday suit you?")
    [item] = daemon.pending()
    page = opened(daemon, root_of(daemon))
    until = datetime.now(UTC) + timedelta(seconds=3)
    body = {"until": until.isoformat()}
    assert daemon.http.post(f"/api/inbox/{item['id']}/snooze", json=body).status_code == 200
    assert daemon.items(status="pending") == []

    def told_after() -> list[datetime]:
        return [at for at, _, data in page.events if at >= until and any(i["id"] == item["id"] for i in data["items"])]

    assert daemon.wait_for(told_after, "the end of the snooze is told")[0] - until < timedelta(seconds=2.5)
    assert len(daemon.items(status="pending")) == 1


def test_a_lost_connection_to_the_database_makes_pages_look_anew(
    start: Start, google: Google, model: Model, database_url: str
) -> None:
    model.script(lambda _: [reply("Fine."), DONE])
    daemon = start()
    page = opened(daemon, root_of(daemon))
    with psycopg.connect(database_url, autocommit=True, **_plain(database_url)) as conn:
        [(ended,)] = conn.execute(
            """select count(pg_terminate_backend(pid)) from pg_stat_activity
               where query ~* '^\\s*(listen email_assistant|select now.at)'
               and pid <> pg_backend_pid() and datname = current_database()"""
        ).fetchall()
    assert ended >= 1
    daemon.wait_for(lambda: page.names().count("reload") >= 2, "the page is told to look anew")
    google.deliver(BOB, "Lunch?", "Does Friday suit you?")
    [item] = daemon.pending()
    until_told(daemon, page, "items", id=item["id"])


def test_a_burst_is_told_in_few_words(start: Start, google: Google, model: Model, database_url: str) -> None:
    model.on_triage("ignore")
    daemon = start()
    page = opened(daemon, root_of(daemon))
    before = len(page.events)
    with psycopg.connect(database_url, autocommit=True, **_plain(database_url)) as conn:
        conn.execute(
            """with t as (insert into threads (user_id, account_id, gmail_id)
                          select user_id, id, 'burst' from accounts returning *)
               insert into mails (account_id, gmail_id, user_id, thread_id, own, sender, subject, content, received_at,
                                  state)
               select account_id, 'burst' || n, user_id, id, false, '', '', '{}', now(), 'done'
               from t, generate_series(1, 1000) as n"""
        )
    daemon.wait_for(lambda: "reload" in page.names()[before:], "the burst is told")
    assert len(page.events) - before < 20


def test_open_pages_hold_up_no_stop_and_a_page_that_leaves_is_forgotten(start: Start, database_url: str) -> None:
    daemon = start()
    own = daemon.wait_for(lambda: _listening(database_url), "`up` listens, to tell of what happens")
    with served_apart(daemon) as (apart, process):
        pages = [opened(daemon, apart) for _ in range(3)]
        assert _listening(database_url) > own
        began = time.monotonic()
        process.stop()
        assert time.monotonic() - began < 10  # so long is waited for what holds up
        for page in pages:
            assert page.ended.wait(WAIT_SECONDS)
        assert "Traceback" not in process.log
    daemon.wait_for(lambda: _listening(database_url) == own, "nobody else listens")
    page = Page(root_of(daemon), BEARER)
    daemon.wait_for(lambda: _listening(database_url) == own + 1, "one more listens")
    page._stop.set()
    daemon.wait_for(lambda: page.ended.is_set() or _touch(database_url), "the page leaves")
    daemon.wait_for(lambda: _listening(database_url) == own, "it listens no more")


def test_a_browser_that_leaves_costs_no_connection(start: Start, database_url: str) -> None:
    daemon = start()
    with httpx.Client(base_url=root_of(daemon), trust_env=False, timeout=WAIT_SECONDS) as browser:
        browser.get("/", params={"token": API_TOKEN})
        with (
            browser.stream("GET", "/api/events") as answer,
            psycopg.connect(database_url, **_plain(database_url)) as conn,
        ):
            lines = answer.iter_lines()
            assert next(line for line in lines if line.startswith("event")) == "event: reload"
            conn.execute("lock table sessions in access exclusive mode")
            _touch(database_url)
            daemon.wait_for(lambda: _waits_for_sessions(database_url), "it asks whether the browser is still logged in")
            answer.close()
            for _ in range(20):  # turns of the server's loop, in which it notes that
                daemon.http.get("/health")
    daemon.wait_for(lambda: not _waits_for_sessions(database_url), "it has its answer")
    daemon.stop()
    assert "psycopg" not in daemon.logs()


def test_it_asks_for_the_token(start: Start) -> None:
    daemon = start()
    refused = httpx.get(f"{root_of(daemon)}/api/events", trust_env=False)
    assert refused.status_code == 401
    with httpx.Client(base_url=root_of(daemon), trust_env=False, timeout=WAIT_SECONDS) as browser:
        assert browser.get("/", params={"token": API_TOKEN}).status_code == 303
        with browser.stream("GET", "/api/events", headers={"Last-Event-ID": "anything"}) as answer:
            assert answer.status_code == 200
            lines = answer.iter_lines()
            assert next(line for line in lines if line.startswith("event")) == "event: reload"


def _plain(url: str) -> dict[str, Any]:
    return {name: value for name, value in session_settings(url).items() if name in ("options", "application_name")}


def _listening(url: str) -> int:
    with psycopg.connect(url, autocommit=True, **_plain(url)) as conn:
        rows = conn.execute(
            """select count(*) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()
               and query ~* '^\\s*(listen email_assistant$|select now.at)'"""
        ).fetchall()
    return int(rows[0][0])


def _waits_for_sessions(url: str) -> bool:
    with psycopg.connect(url, autocommit=True, **_plain(url)) as conn:
        return bool(
            conn.execute("select from pg_locks where not granted and relation = 'sessions'::regclass").fetchall()
        )


def _touch(url: str) -> bool:
    """Change something that is told, so that the server writes to the stream and the page reads on."""
    with psycopg.connect(url, autocommit=True, **_plain(url)) as conn:
        conn.execute("update accounts set last_error = clock_timestamp()::text")
    return False
