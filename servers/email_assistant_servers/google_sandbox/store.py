"""The one SQLite file that holds everything the sandbox knows."""

import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .errors import NOT_FOUND, not_found

_SCHEMA = Path(__file__).with_name("schema.sql").read_text()

FIRST_HISTORY_ID = 1000  # a new mailbox begins here, so that an earlier start is recognisably too old


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
            db.executemany(
                "INSERT OR IGNORE INTO counters VALUES (?, ?)", [("id", 0), ("label", 0), ("history", FIRST_HISTORY_ID)]
            )

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._connection.close()

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """The connection, with nobody else writing meanwhile."""
        with self._lock:
            yield self._connection

    def rows(self, query: str, *given: object) -> list[sqlite3.Row]:
        """All that a query finds."""
        with self.reading() as db:
            return db.execute(query, given).fetchall()

    def first(self, query: str, *given: object) -> sqlite3.Row | None:
        """The first row that a query finds, if any."""
        return next(iter(self.rows(query, *given)), None)

    def one(self, query: str, *given: object, refusal: str = NOT_FOUND) -> sqlite3.Row:
        """As `first`. Raises ApiError (404)."""
        if (row := self.first(query, *given)) is None:
            raise not_found(refusal)
        return row

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
        row = self.first("SELECT value FROM facts WHERE name = ?", name)
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

    def new_label_id(self) -> str:
        """An id that no label ever had."""
        return f"Label_{self._advance('label', 0)}"

    def new_history_id(self) -> int:
        """The next history id."""
        return self._advance("history", 0)

    def history_id(self) -> int:
        """The id of the mailbox's newest history record."""
        return int(self.one("SELECT value FROM counters WHERE name = 'history'")["value"])

    def _advance(self, counter: str, at_least: int) -> int:
        with self.transaction() as db:
            row = db.execute(
                "UPDATE counters SET value = max(value + 1, ?) WHERE name = ? RETURNING value", (at_least, counter)
            ).fetchone()
        return int(row["value"])
