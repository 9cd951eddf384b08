"""The person's messages, threads, labels and their history: everything in SQL, nothing about HTTP."""

import json
import sqlite3
import time
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from . import mime, search
from .errors import ApiError, invalid, not_found
from .search import Condition
from .store import FIRST_HISTORY_ID, Store

SYSTEM_LABELS = (
    *("INBOX", "SENT", "DRAFT", "TRASH", "SPAM", "UNREAD", "STARRED", "IMPORTANT", "CHAT"),
    *("CATEGORY_PERSONAL", "CATEGORY_SOCIAL", "CATEGORY_PROMOTIONS", "CATEGORY_UPDATES", "CATEGORY_FORUMS"),
)
# Only Gmail itself sets these: https://developers.google.com/workspace/gmail/api/guides/labels
_AUTOMATIC_LABELS = {"SENT", "DRAFT", "CHAT"}

HISTORY_KINDS = {
    "messageAdded": "messagesAdded",
    "messageDeleted": "messagesDeleted",
    "labelAdded": "labelsAdded",
    "labelRemoved": "labelsRemoved",
}
# History ids are "typically valid for at least a week": users.history.list in the Gmail API reference.
_HISTORY_SECONDS = 7 * 24 * 3600

_HIDDEN_UNLESS_ASKED = ("SPAM", "TRASH")


@dataclass(frozen=True)
class Page:
    """One page of a listing: its rows, where the next begins (None: nowhere), and how many match in all."""

    rows: list[sqlite3.Row]
    next_token: str | None
    total: int


class SandboxMailbox:
    """One person's mailbox."""

    def __init__(self, store: Store, address: str, name: str) -> None:
        self.store = store
        self.address = address
        self.name = name
        with store.transaction() as db:
            db.executemany(
                "INSERT OR IGNORE INTO labels VALUES (?, ?, ?, 'system')",
                [(label, label, search.label_search_name(label)) for label in SYSTEM_LABELS],
            )

    # Messages

    def insert(self, raw: bytes, labels: Iterable[str], internal_date: int, thread_id: str | None = None) -> str:
        """Store a message and return its id; without `thread_id` it starts a thread. `internal_date` in ms."""
        root = mime.parse(raw)
        text = mime.readable_text(root)
        has_attachment = any(part.is_attachment and part.filename for part in root.walk())
        with self.store.transaction() as db:
            message_id = self.store.new_id()
            db.execute(
                "INSERT INTO messages VALUES (?, ?, ?, ?, 0, ?, ?, ?)",
                (
                    message_id,
                    thread_id or message_id,
                    mime.identity(raw, root.node),
                    internal_date,
                    mime.snippet(text),
                    has_attachment,
                    raw,
                ),
            )
            db.execute(
                "INSERT INTO search_texts VALUES (?, ?, ?, ?, ?, ?, ?)", (message_id, *_search_texts(root, text))
            )
            db.executemany("INSERT INTO message_labels VALUES (?, ?)", [(message_id, label) for label in set(labels)])
            self._record("messagesAdded", message_id)
        return message_id

    def delete(self, message_id: str) -> None:
        """Remove a message for good."""
        with self.store.transaction() as db:
            self._record("messagesDeleted", message_id)
            db.execute("DELETE FROM messages WHERE id = ?", (message_id,))

    def message(self, message_id: str) -> sqlite3.Row:
        """The stored row. Raises ApiError (404)."""
        return self.store.one("SELECT * FROM messages WHERE id = ?", message_id)

    def labels_of(self, message_id: str) -> list[str]:
        """The ids of a message's labels."""
        rows = self.store.rows("SELECT label_id FROM message_labels WHERE message_id = ? ORDER BY 1", message_id)
        return [row["label_id"] for row in rows]

    def modify(self, message_id: str, add: Iterable[str], remove: Iterable[str]) -> None:
        """Add and remove labels; only real changes make history. Raises ApiError (404)."""
        with self.store.transaction() as db:
            self.message(message_id)
            present = set(self.labels_of(message_id))
            added, removed = sorted(set(add) - present), sorted(set(remove) & present)
            db.executemany("INSERT INTO message_labels VALUES (?, ?)", [(message_id, label) for label in added])
            if added:
                self._record("labelsAdded", message_id, added)
            db.executemany(
                "DELETE FROM message_labels WHERE message_id = ? AND label_id = ?",
                [(message_id, label) for label in removed],
            )
            if removed:
                self._record("labelsRemoved", message_id, removed)

    def thread(self, thread_id: str) -> list[sqlite3.Row]:
        """The messages of a thread, oldest first. Raises ApiError (404)."""
        found = self.store.rows("SELECT * FROM messages WHERE thread_id = ? ORDER BY internal_date, id", thread_id)
        if not found:
            raise not_found()
        return found

    def thread_summary(self, thread_id: str) -> sqlite3.Row:
        """The `snippet` of a thread's newest message, and the newest `history_id` of all."""
        return self.store.one(
            "SELECT snippet, (SELECT max(history_id) FROM messages WHERE thread_id = ?1) AS history_id"
            " FROM messages WHERE thread_id = ?1 ORDER BY internal_date DESC, id DESC LIMIT 1",
            thread_id,
        )

    # Listings

    def where(self, q: str, label_ids: Iterable[str], include_spam_trash: bool) -> Condition:
        """The condition that a listing's parameters mean. Raises ApiError (400)."""
        wanted = list(label_ids)
        query = search.parse(q, self.address, datetime.now(UTC))
        conditions = [query.condition, *map(search.labelled, wanted)]
        if not (include_spam_trash or query.everywhere or set(wanted) & set(_HIDDEN_UNLESS_ASKED)):
            conditions += [~search.labelled(label) for label in _HIDDEN_UNLESS_ASKED]
        return search.all_of(conditions)

    def list_messages(self, where: Condition, limit: int, token: str | None) -> Page:
        """Messages, newest first; rows are (key, at, thread_id)."""
        source = "SELECT m.id AS key, m.internal_date AS at, m.thread_id FROM messages m"
        return self._page(source, where, limit, token)

    def list_threads(self, where: Condition, limit: int, token: str | None) -> Page:
        """Threads with a matching message, newest match first; rows are (key, at)."""
        source = "SELECT m.thread_id AS key, max(m.internal_date) AS at FROM messages m"
        return self._page(source, where, limit, token, grouping="GROUP BY m.thread_id")

    def list_drafts(self, where: Condition, limit: int, token: str | None) -> Page:
        """Drafts, newest first; rows are (key, at, thread_id, draft_id)."""
        source = (
            "SELECT m.id AS key, m.internal_date AS at, m.thread_id, d.id AS draft_id"
            " FROM drafts d JOIN messages m ON m.id = d.message_id"
        )
        return self._page(source, where, limit, token)

    def _page(self, source: str, where: Condition, limit: int, token: str | None, grouping: str = "") -> Page:
        at, key = _read_token(token)
        # The statements below are put together from this file's and search.py's own fragments; values are parameters.
        listing = f"{source} WHERE {where.sql} {grouping}"
        with self.store.reading() as db:
            total = db.execute(f"SELECT count(*) AS n FROM ({listing})", where.parameters).fetchone()["n"]
            rows = db.execute(
                f"SELECT * FROM ({listing}) WHERE (at, key) < (?, ?) ORDER BY at DESC, key DESC LIMIT ?",
                (*where.parameters, at, key, limit + 1),
            ).fetchall()
        more = len(rows) > limit
        return Page(rows[:limit], _token(rows[limit - 1]) if more else None, total)

    def totals(self) -> tuple[int, int]:
        """How many messages and how many threads there are."""
        row = self.store.one("SELECT count(*) AS m, count(DISTINCT thread_id) AS t FROM messages")
        return row["m"], row["t"]

    # Labels

    def labels(self) -> list[sqlite3.Row]:
        """All labels, the system's first."""
        return self.store.rows("SELECT * FROM labels ORDER BY type, id")

    def label(self, label_id: str) -> sqlite3.Row:
        """One label. Raises ApiError (404)."""
        return self.store.one("SELECT * FROM labels WHERE id = ?", label_id)

    def label_counts(self, label_id: str) -> dict[str, int]:
        """Messages and threads under a label, all and unread, by Gmail's field names."""
        sql = (
            "SELECT count(*) AS messagesTotal, count(u.message_id) AS messagesUnread,"
            " count(DISTINCT m.thread_id) AS threadsTotal,"
            " count(DISTINCT iif(u.message_id IS NULL, NULL, m.thread_id)) AS threadsUnread"
            " FROM message_labels l JOIN messages m ON m.id = l.message_id"
            " LEFT JOIN message_labels u ON u.message_id = m.id AND u.label_id = 'UNREAD' WHERE l.label_id = ?"
        )
        return dict(self.store.one(sql, label_id))

    def create_label(self, name: str) -> str:
        """Make a label of the person's own and return its id. Raises ApiError (409) if the name is taken."""
        with self.store.transaction() as db:
            if self.label_named(name) is not None:
                raise ApiError(409, "aborted", "Label name exists or conflicts")
            label_id = self.store.new_label_id()
            db.execute("INSERT INTO labels VALUES (?, ?, ?, 'user')", (label_id, name, search.label_search_name(name)))
        return label_id

    def delete_label(self, label_id: str) -> None:
        """Remove a label of the person's own, and from every message. Raises ApiError (404, or 400 for a system's)."""
        with self.store.transaction() as db:
            if self.label(label_id)["type"] == "system":
                raise invalid("Invalid delete request")
            db.execute("DELETE FROM message_labels WHERE label_id = ?", (label_id,))
            db.execute("DELETE FROM labels WHERE id = ?", (label_id,))

    def label_named(self, name: str) -> str | None:
        """The id of the label with that name, case aside, or None."""
        row = self.store.first("SELECT id FROM labels WHERE name = ?", name)
        return None if row is None else str(row["id"])

    def check_labels(self, label_ids: Iterable[str]) -> None:
        """Refuse labels that don't exist or that only Gmail itself sets. Raises ApiError (400)."""
        known = {row["id"] for row in self.labels()} - _AUTOMATIC_LABELS
        for label_id in label_ids:
            if label_id not in known:
                raise invalid(f"Invalid label: {label_id}")

    # History

    def history(self, start: int, limit: int) -> list[sqlite3.Row]:
        """Up to `limit` changes after `start`, in order. Raises ApiError (404) if the start is too old or unknown."""
        with self.store.reading() as db:
            horizon = db.execute(
                "SELECT max(id) AS id FROM history WHERE happened < ?", (time.time() - _HISTORY_SECONDS,)
            ).fetchone()["id"]
            if not max(FIRST_HISTORY_ID, horizon or 0) <= start <= self.store.history_id():
                raise not_found()
            return db.execute("SELECT * FROM history WHERE id > ? ORDER BY id LIMIT ?", (start, limit)).fetchall()

    def _record(self, kind: str, message_id: str, changed: Iterable[str] = ()) -> None:
        history_id = self.store.new_history_id()
        labels = json.dumps(self.labels_of(message_id))
        with self.store.transaction() as db:
            db.execute(
                "INSERT INTO history SELECT ?, ?, id, thread_id, ?, ?, ? FROM messages WHERE id = ?",
                (history_id, kind, labels, json.dumps(list(changed)), time.time(), message_id),
            )
            db.execute("UPDATE messages SET history_id = ? WHERE id = ?", (history_id, message_id))


def resource(
    mailbox: SandboxMailbox, row: sqlite3.Row, message_format: str = "full", wanted: Iterable[str] = ()
) -> dict[str, Any]:
    """A message as Gmail's API shows it in that format."""
    shown: dict[str, Any] = {
        "id": row["id"],
        "threadId": row["thread_id"],
        "labelIds": mailbox.labels_of(row["id"]),
        "snippet": row["snippet"],
        "historyId": str(row["history_id"]),
        "internalDate": str(row["internal_date"]),
        "sizeEstimate": len(row["raw"]),
    }
    if message_format == "raw":
        shown["raw"] = mime.base64url(row["raw"])
    elif message_format == "full":
        shown["payload"] = mime.payload(mime.parse(row["raw"]), row["id"])
    elif message_format == "metadata":
        shown["payload"] = mime.headers_only(mime.parse(row["raw"]), wanted)
    return shown


def _search_texts(root: mime.NumberedPart, text: str) -> tuple[str, ...]:
    columns = [mime.words(mime.header(root.node, name)) for name in ("from", "to", "cc", "bcc", "subject")]
    filenames = " ".join(part.filename for part in root.walk())
    return (*columns, " ".join([*columns, mime.words(text), mime.words(filenames)]))


def _token(row: sqlite3.Row) -> str:
    return mime.base64url(json.dumps([row["at"], row["key"]]).encode())


def _read_token(token: str | None) -> tuple[int, str]:
    if token is None:
        return 2**62, ""
    try:
        at, key = json.loads(mime.from_base64url(token))
        return int(at), str(key)
    except (ValueError, TypeError):
        raise invalid("Invalid pageToken") from None
