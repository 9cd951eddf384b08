"""The one SQLite file that holds everything the sandbox knows."""

import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_SCHEMA = """
CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS counters (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS codes (
    code TEXT PRIMARY KEY,
    expires REAL NOT NULL,
    redirect_uri TEXT NOT NULL,
    challenge TEXT NOT NULL,        -- PKCE, method S256
    scope TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS grants (refresh_token TEXT PRIMARY KEY, scope TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS bearers (
    token TEXT PRIMARY KEY,
    expires REAL NOT NULL,
    refresh_token TEXT NOT NULL REFERENCES grants ON DELETE CASCADE
) WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS messages (
    id TEXT PRIMARY KEY,
    thread_id TEXT NOT NULL,
    identity TEXT NOT NULL,         -- Message-ID without its brackets, or sha256:<hex> of the bytes
    internal_date INTEGER NOT NULL, -- milliseconds since 1970
    history_id INTEGER NOT NULL,
    snippet TEXT NOT NULL,
    has_attachment INTEGER NOT NULL,
    raw BLOB NOT NULL
);
CREATE INDEX IF NOT EXISTS messages_newest ON messages (internal_date DESC, id DESC);
CREATE INDEX IF NOT EXISTS messages_thread ON messages (thread_id, internal_date);
CREATE INDEX IF NOT EXISTS messages_identity ON messages (identity);

CREATE TABLE IF NOT EXISTS search_texts (
    message_id TEXT PRIMARY KEY REFERENCES messages (id) ON DELETE CASCADE,
    sender TEXT NOT NULL,
    recipient TEXT NOT NULL,
    cc TEXT NOT NULL,
    bcc TEXT NOT NULL,
    subject TEXT NOT NULL,
    anywhere TEXT NOT NULL
) WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS labels (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL UNIQUE COLLATE NOCASE,
    search_name TEXT NOT NULL,      -- as people write it after label:
    type TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS message_labels (
    message_id TEXT NOT NULL REFERENCES messages (id) ON DELETE CASCADE,
    label_id TEXT NOT NULL REFERENCES labels (id),
    PRIMARY KEY (message_id, label_id)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS message_labels_label ON message_labels (label_id, message_id);

CREATE TABLE IF NOT EXISTS aliases (
    address TEXT PRIMARY KEY,       -- in lower case
    name TEXT NOT NULL,
    signature TEXT NOT NULL,        -- HTML
    verified INTEGER NOT NULL
);

CREATE TABLE IF NOT EXISTS drafts (
    id TEXT PRIMARY KEY,
    message_id TEXT NOT NULL UNIQUE REFERENCES messages (id)
) WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS history (
    id INTEGER PRIMARY KEY,
    kind TEXT NOT NULL,             -- messagesAdded | messagesDeleted | labelsAdded | labelsRemoved
    message_id TEXT NOT NULL,
    thread_id TEXT NOT NULL,
    message_labels TEXT NOT NULL,   -- JSON list: the message's labels after the change
    changed_labels TEXT NOT NULL,   -- JSON list: the labels that were added or removed
    happened REAL NOT NULL
);
CREATE INDEX IF NOT EXISTS history_happened ON history (happened);

CREATE TABLE IF NOT EXISTS calendars (
    id TEXT PRIMARY KEY,            -- those beside the primary one
    summary TEXT NOT NULL,
    zone TEXT NOT NULL,
    selected INTEGER NOT NULL,
    hidden INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS events (
    calendar TEXT NOT NULL,
    id TEXT NOT NULL,
    status TEXT NOT NULL,
    starts REAL NOT NULL,           -- seconds since 1970
    ends REAL NOT NULL,
    updated TEXT NOT NULL,
    body TEXT NOT NULL,             -- the resource, as JSON
    PRIMARY KEY (calendar, id)
);
CREATE INDEX IF NOT EXISTS events_time ON events (calendar, starts, ends);

CREATE TABLE IF NOT EXISTS deliveries (
    name TEXT PRIMARY KEY,          -- what arrives; once ever
    due REAL NOT NULL,              -- seconds since 1970
    delivered INTEGER NOT NULL DEFAULT 0,
    in_reply_to TEXT                -- id of the message that it answers
) WITHOUT ROWID;
"""

FIRST_HISTORY_ID = 1000
"""A new mailbox begins here, so that an earlier start is recognisably too old."""


class Store:
    """One connection behind one lock: endpoints run in a thread pool, and SQLite has one writer anyway."""

    def __init__(self, path: Path) -> None:
        """Open or create the file. Raises sqlite3.Error if it is no such file or can't be written."""
        self._lock = threading.RLock()
        self._connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=5)
        self._connection.row_factory = sqlite3.Row
        # NORMAL: a commit survives the death of the process, though not always that of the machine.
        self._connection.executescript("PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA foreign_keys=ON;")
        self._connection.executescript(_SCHEMA)
        with self.transaction() as db:
            db.execute("INSERT OR IGNORE INTO counters VALUES ('id', 0), ('history', ?)", (FIRST_HISTORY_ID,))

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._connection.close()

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """The connection, with nobody else writing meanwhile."""
        with self._lock:
            yield self._connection

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """All or nothing. Inside another transaction of the same thread it is a part of that one."""
        with self._lock:
            if self._connection.in_transaction:
                yield self._connection
                return
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
            except BaseException:
                self._connection.execute("ROLLBACK")
                raise
            self._connection.execute("COMMIT")

    def fact(self, name: str) -> str | None:
        """A fact about this mailbox that outlives the process, or None."""
        with self.reading() as db:
            row = db.execute("SELECT value FROM facts WHERE name = ?", (name,)).fetchone()
        return None if row is None else str(row["value"])

    def remember(self, name: str, value: str) -> None:
        """Store a fact, replacing an older one."""
        with self.transaction() as db:
            db.execute(
                "INSERT INTO facts VALUES (?, ?) ON CONFLICT DO UPDATE SET value = excluded.value", (name, value)
            )

    def new_id(self) -> str:
        """A fresh id of 16 hex digits; later ids are greater."""
        now = time.time_ns() // 1_000_000 << 20
        return f"{self._advance('id', now):016x}"

    def new_history_id(self) -> int:
        """The next history id."""
        return self._advance("history", 0)

    def history_id(self) -> int:
        """The id of the mailbox's newest history record."""
        with self.reading() as db:
            return int(db.execute("SELECT value FROM counters WHERE name = 'history'").fetchone()["value"])

    def _advance(self, counter: str, at_least: int) -> int:
        with self.transaction() as db:
            row = db.execute(
                "UPDATE counters SET value = max(value + 1, ?) WHERE name = ? RETURNING value", (at_least, counter)
            ).fetchone()
        return int(row["value"])
