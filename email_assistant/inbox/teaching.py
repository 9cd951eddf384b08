"""The lesson's side of the inbox: the answers that something may still be learned from."""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from email_assistant.db.pool import Pool, Statement
from email_assistant.db.statements import statements
from email_assistant.gate.ledger import OWN_LETTERS
from email_assistant.inbox import rows
from email_assistant.inbox.items import Item, NoItem, read
from email_assistant.inbox.standing import ACTS

_SQL = statements("inbox", "teaching.sql", own_letters=OWN_LETTERS.tool)


@dataclass(frozen=True, slots=True)
class Taught:
    """What stands around an answer that is learned from."""

    bulk: bool
    """The mail came from a mailing list or a mass sender."""
    automatic: bool
    """A machine sent it."""
    beside_accepted: bool
    """Something else that was proposed on the same mail was accepted."""
    mails: Sequence[str]
    """What the mails of its conversation say, each with its sender's name, its subject and what it quotes."""
    told: Sequence[str]
    """What tools told the assistant in it, such as what stands in the calendar."""
    items: Sequence[Item]
    """What the assistant has asked in its conversation, itself too."""


class Teaching:
    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    @staticmethod
    def unlearned(provider: str) -> Statement:
        """What gives accounts with applied items that something may still be learned from, now."""
        return _SQL["unlearned"], (provider,)

    async def next_lesson(self, account_id: UUID) -> Item | None:
        """The next applied item to learn from; None if there is none now."""
        async with self._pool.connection() as conn:
            items = await read(
                conn,
                """i.account_id = %s and i.status = 'applied' and i.teaches and i.learned_at is null
                   and i.learn_after <= clock_timestamp() order by i.applied_at, i.id limit 1""",
                account_id,
            )
        return items[0] if items else None

    async def taught(self, item: Item) -> Taught:
        """What stands around an applied answer."""
        async with self._pool.connection() as conn:
            cursor = await conn.execute(_SQL["taught"].encode(), (list(ACTS), item.id))
            row = await cursor.fetchone()
            if row is None:
                raise NoItem(f"there is no item {item.id}")
            # What no interrupt asks is what the person had decided, in their own words maybe.
            asked = "i.user_id = %s and i.thread_id = %s and i.interrupt_id is not null order by i.created_at, i.id"
            return Taught(**row, items=await read(conn, asked, item.user_id, item.thread_id))

    async def learned(self, item_id: UUID) -> None:
        async with self._pool.connection() as conn:
            await rows.learned(conn, item_id)

    async def learn_later(self, item_id: UUID, most_tries: int | None) -> bool:
        """Back off after a failed try; with `most_tries`, give up after so many. Returns whether it was given up."""
        async with self._pool.connection() as conn:
            return await rows.learn_later(conn, item_id, 2**31 - 1 if most_tries is None else most_tries)
