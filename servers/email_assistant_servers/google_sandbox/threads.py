"""Which conversation a message belongs to."""

import re
import sqlite3
from collections.abc import Iterable
from email.message import Message

from . import mime

_REPLY_PREFIX = re.compile(r"^\s*(?:(?:re|fwd?|aw|wg|antw|sv|vs|tr|rif)\s*(?:\[\d+\])?\s*:\s*)+", re.IGNORECASE)


def subject_key(subject: str) -> str:
    """A subject without reply prefixes, case and spacing."""
    return " ".join(_REPLY_PREFIX.sub("", subject).split()).casefold()


def of_incoming(db: sqlite3.Connection, node: Message) -> str | None:
    """The thread of the newest known message that this one refers to, or None."""
    for reference in reversed(mime.references(node)):
        row = db.execute("SELECT thread_id FROM messages WHERE identity = ?", (reference,)).fetchone()
        if row is not None:
            return str(row["thread_id"])
    return None


def accepts(db: sqlite3.Connection, thread_id: str, node: Message) -> bool:
    """Whether a message sent with this threadId joins the thread.

    It does if it refers to a message of the thread and has its subject
    (https://developers.google.com/workspace/gmail/api/guides/threads)."""
    known = db.execute("SELECT identity, raw FROM messages WHERE thread_id = ?", (thread_id,)).fetchall()
    if not {row["identity"] for row in known} & set(mime.references(node)):
        return False
    ours = subject_key(mime.header(node, "subject"))
    return any(ours == subject_key(mime.header(mime.head(row["raw"]), "subject")) for row in known)


class SandboxThreads:
    """Groups of message ids that belong together, in whatever order they turn up (union-find)."""

    def __init__(self) -> None:
        self._parent: dict[str, str] = {}

    def join(self, ids: Iterable[str]) -> None:
        """All of these are in one conversation."""
        first, *others = ids
        root = self.find(first)
        for other in others:
            self._parent[self.find(other)] = root

    def find(self, one: str) -> str:
        """The id that stands for the whole conversation of this one."""
        parent = self._parent.setdefault(one, one)
        while parent != one:
            grandparent = self._parent[parent]
            self._parent[one] = grandparent
            one, parent = parent, grandparent
        return one
