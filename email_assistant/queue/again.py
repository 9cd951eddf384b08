"""What follows when a person is asked about an effect again: it was refused, or nobody can tell whether it happened."""

from collections.abc import Sequence

from email_assistant.db.pool import Connection
from email_assistant.inbox.items import Item
from email_assistant.tools.effects import Ledger


async def resolve(ledger: Ledger, conn: Connection, applied: Sequence[Item]) -> None:
    """Carry out what a person said about effects that they were asked about again."""
    for item in applied:
        answer = item.decision or {}
        if answer.get("type") == "ignore":
            await ledger.leave(conn, item.run_id, item.call_id)
        else:
            await ledger.again(conn, item.run_id, item.call_id, answer.get("args"))
