"""A pooler before the database: in session mode all is well, one in transaction mode is told from it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from psycopg import conninfo

from email_assistant.db.pool import make_pool, shares_sessions

_ENDS_A_BATCH = (b"Q", b"S")
"""Query and Sync (https://www.postgresql.org/docs/current/protocol-message-formats.html)."""
_IDLE = b"I"

Message = tuple[bytes, bytes]


class TransactionPooler:
    """Lends one session of the server to whoever begins a transaction, for that transaction."""

    def __init__(self, socket: str) -> None:
        self._socket = socket
        self._lent = asyncio.Lock()
        self._greeting = b""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        length = await reader.readexactly(4)
        startup = length + await reader.readexactly(int.from_bytes(length, "big") - 4)
        if not self._greeting:
            self._from_server, self._to_server = await asyncio.open_unix_connection(self._socket)
            self._to_server.write(startup)
            self._greeting, _ = await self._answer()
        writer.write(self._greeting)
        while (message := await _message(reader))[0] != b"X":
            if not self._lent.locked():
                await self._lent.acquire()
            self._to_server.write(b"".join(message))
            if message[0] in _ENDS_A_BATCH:
                answer, state = await self._answer()
                writer.write(answer)
                if state == _IDLE:
                    self._lent.release()
        writer.close()

    async def _answer(self) -> tuple[bytes, bytes]:
        """All that the server says until it is ready for the next query, and whether a transaction is open then."""
        said = b""
        while True:
            kind, rest = await _message(self._from_server)
            said += kind + rest
            if kind == b"Z":
                return said, rest[-1:]


async def _message(reader: asyncio.StreamReader) -> Message:
    kind, length = await reader.readexactly(1), await reader.readexactly(4)
    return kind, length + await reader.readexactly(int.from_bytes(length, "big") - 4)


@asynccontextmanager
async def pooled(url: str) -> AsyncIterator[str]:
    """The address of a pooler in transaction mode before that database."""
    where = conninfo.conninfo_to_dict(url)
    pooler = TransactionPooler(f"{where['host']}/.s.PGSQL.{where['port']}")
    server = await asyncio.start_server(pooler.serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    yield f"postgresql://postgres@127.0.0.1:{port}/{where['dbname']}?sslmode=disable&gssencmode=disable"
    server.close()


async def test_one_in_transaction_mode_is_told_from_the_server(database_url: str) -> None:
    async with make_pool(database_url, size=2, idle_seconds=60) as pool:
        assert not await shares_sessions(pool)
    async with pooled(database_url) as url, make_pool(url, size=2, idle_seconds=60) as pool:
        assert await shares_sessions(pool)
