"""All that is stored of one person, for other programs to read: a line of JSON for each row, a file for each table, and
a manifest. As many rows as there may be, few of them are in memory at a time.
"""

import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from typing import IO, Any, Final
from uuid import UUID
from zipfile import ZIP_DEFLATED, ZipFile

from psycopg import sql

from email_assistant.db.migrate import schema_hash
from email_assistant.db.pool import Connection, Pool

FORMAT: Final = 1
MANIFEST: Final = "manifest.json"
EXPORTED: Final[Mapping[str, str]] = {
    "users": "you",
    "accounts": "your mailboxes and how they are set up",
    "threads": "conversations: Gmail's, and chats",
    "mails": "mail, its class, its state, and the reason for both",
    "runs": "each try at a mail and each turn of a chat, with what you asked and what was answered",
    "inbox_items": "what was proposed to you, and what you decided",
    "corrections": "where you said what a mail should have been",
    "judgements": "what was thought of mail by your habits, and what was right",
    "past_judgements": "what would have been thought of mail of the past, and what became of it",
    "sorted_again": "what the model said of mail by rules that were tried on it",
    "classifiers": "the versions of what learned from your habits",
    "effects": "what was sent or done, with Google's ids",
    "undelivered": "what mail systems reported of letters that were sent",
    "left_drafts": "drafts that were left in Gmail",
    "store": "the rules that were learned, with every version and where it comes from",
    "lessons": "what was learned, and when you were told",
    "lessons_to_confirm": "what would be learned, and waits for your word",
    "rule_fires": "on which mails a rule had a say",
    "past_mails": "mail of the past that rehearsals have read",
    "asked_recipients": "whom Gmail says that you have written to",
    "forgotten": "mail that you had forgotten, or that was kept for its time, by Gmail's id",
    "model_usage": "each call of a model: tokens and cost",
    "digests": "the daily mails to yourself",
    "channels": "browsers and webhooks that are told",
    "mcp_tools": "what tools of MCP servers said of themselves",
    "gate_calls": "the calls that ran, and what they told",
    "gate_sessions": "sessions of other programs' agents",
    "gate_requests": "the calls that those asked about",
    "gate_ended": "how those calls ended",
    "gate_log": "the gate's log",
    "agent_inbox_approvals": "answers that came from the Agent Inbox app",
    "stops": "whether everything is stopped",
}
"""By table, what it holds."""
LEFT_OUT: Final[Mapping[str, str]] = {
    "sessions": "logins of browsers, which are secrets",
    "backfill": "a list of older mail that is still to be fetched, by Gmail's id",
    "sent_to": "whom your mail was sent to, which is in mails",
    "agent_inbox_served": "what an app was shown last, which is in inbox_items",
    "checkpoints": "the working state of runs; what was proposed, decided and done is in runs, inbox_items and effects",
    "checkpoint_blobs": "as checkpoints",
    "checkpoint_writes": "as checkpoints",
}
"""By table that is somebody's, why it is not exported."""
HIDDEN: Final[Mapping[str, tuple[str, ...]]] = {
    "users": ("vapid_key",),
    "accounts": ("token",),
    "channels": ("address", "address_hash"),
    "inbox_items": ("words",),
    "threads": ("holder",),
    "gate_requests": ("holder",),
}
"""By table, columns that are left out: secrets, and what means nothing elsewhere."""

_OF_PERSON: Final[Mapping[str, str]] = {
    "users": "t.id = %(user)s",
    "store": "split_part(t.prefix, '.', 2) in (select id::text from accounts where user_id = %(user)s)",
}
_AT_ONCE: Final = 200  # rows
_IDLE_TIMEOUT: Final = "10min"  # for whoever takes it to take the next piece

Opens = Callable[[str], AbstractContextManager[IO[bytes]]]
"""Opens one of its files, to be written."""


async def export(pool: Pool, user_id: UUID, version: str, opens: Opens) -> AsyncIterator[tuple[str, int]]:
    """Write it file by file, as it is at one moment; after some rows each, says of which table so many are written."""
    counts: dict[str, int] = {}
    async with pool.connection() as conn, conn.transaction():
        await conn.execute("set transaction isolation level repeatable read, read only")
        await conn.execute(f"set local idle_in_transaction_session_timeout = '{_IDLE_TIMEOUT}'".encode())
        for table in EXPORTED:
            counts[table] = 0
            with opens(f"{table}.jsonl") as file:
                async for rows in _rows(conn, table, user_id):
                    file.write("".join(f"{row}\n" for row in rows).encode())
                    counts[table] += len(rows)
                    yield table, counts[table]
    with opens(MANIFEST) as file:
        file.write(json.dumps(_manifest(version, counts), indent=2).encode())


async def zipped(pool: Pool, user_id: UUID, version: str) -> AsyncIterator[bytes]:
    """Likewise as a zip, piece by piece."""
    pieces = _Pieces()
    with ZipFile(pieces, "w", ZIP_DEFLATED) as archive:
        async for _ in export(pool, user_id, version, into(archive)):
            if piece := pieces.taken():
                yield piece
    yield pieces.taken()


def into(archive: ZipFile) -> Opens:
    """Files of a zip. Of none is the size known before."""
    return lambda name: archive.open(name, "w", force_zip64=True)


class _Pieces:
    """A file that can only be written on, and whose beginning is taken away meanwhile."""

    def __init__(self) -> None:
        self._written = bytearray()

    def write(self, data: bytes) -> int:
        self._written += data
        return len(data)

    def flush(self) -> None:
        """Nothing is held back."""

    def close(self) -> None:
        """There is nothing to give back."""

    def taken(self) -> bytes:
        taken, self._written = bytes(self._written), bytearray()
        return taken


async def _rows(conn: Connection, table: str, user_id: UUID) -> AsyncIterator[list[str]]:
    query = sql.SQL("select (to_jsonb(t) - %(hidden)s::text[])::text as row from {} t where ").format(
        sql.Identifier(table)
    ) + sql.SQL(_OF_PERSON.get(table, "t.user_id = %(user)s"))
    async with conn.cursor(name="export") as cursor:
        await cursor.execute(query, {"user": user_id, "hidden": list(HIDDEN.get(table, ()))})
        while found := await cursor.fetchmany(_AT_ONCE):
            yield [row["row"] for row in found]


def _manifest(version: str, counts: Mapping[str, int]) -> Mapping[str, Any]:
    return {
        "format": FORMAT,
        "program": f"email-assistant {version}",
        "schema": schema_hash(),
        "exported_at": datetime.now(UTC).isoformat(),
        "files": {f"{table}.jsonl": {"rows": counts[table], "what": what} for table, what in EXPORTED.items()},
        "left_out": LEFT_OUT,
        "columns_left_out": HIDDEN,
    }
