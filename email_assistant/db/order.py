"""The one order in which every transaction locks, so that no two ever wait for each other.

Advisory locks → `accounts` → `gate_sessions`, one of them → `threads` → `inbox_items` → `runs` and `mails` → what hangs
on them (effects, drafts, corrections, jobs, …), of which a transaction changes one row, or those of one run or mail.

- Of accounts, threads and items, several are locked in the order of their ids: `select … order by id for no key
  update`, since a plain `update` takes them as it finds them.
- Of accounts no statement both selects rows to lock and updates them: where another has changed a row in between, it
  has locked the new version, and its update waits at the old one, behind whoever waits for it (seen in Postgres 18).
  Items are safe from that, as those that are open are changed only by whoever has locked their thread or account.
- Runs and mails that are there are changed only by whoever has locked their thread, `for share` (under a lease) or
  stronger; so among themselves they need no order. New threads and mails are made in the order of Gmail's ids, as two
  looks at a mailbox wait for each other's.
- Every insert locks the rows that it refers to, `for key share`. So that this waits for nobody, nobody locks a row of
  these five tables `for update` but a removal, be it of some conversations, which locks all that it takes first
  (`lock_all`). `on conflict do update` locks so too if it sets a column of a unique index, even to what it is
  (https://www.postgresql.org/docs/current/explicit-locking.html#LOCKING-ROWS).
- Whoever locks a thread and then makes rows has locked the account before, be it `for key share`: a removal begins
  with it.
"""

from collections.abc import Collection, Sequence
from typing import Literal
from uuid import UUID

from email_assistant.db.pool import Connection

Strength = Literal["key share", "no key update"]

_BELOW = (("threads", "id"), ("inbox_items", "id"), ("runs", "id"), ("mails", "gmail_id"))


async def lock_account(conn: Connection, account_id: UUID, strength: Strength) -> None:
    """Lock an account's row until the caller's transaction ends.

    Args:
        strength: `key share`: it stays there; `no key update`: nobody else changes it, or relies on its state.
    """
    await conn.execute(f"select from accounts where id = %s for {strength}".encode(), (account_id,))


async def lock_accounts(conn: Connection, account_ids: Collection[UUID]) -> None:
    """Lock the rows of several accounts, to change them."""
    await conn.execute("select from accounts where id = any(%s) order by id for no key update", (list(account_ids),))


async def lock_all(conn: Connection, account_id: UUID, threads: Sequence[UUID] | None = None) -> None:
    """Lock everything of an account that others lock, to delete it. `threads`: only these conversations' of what is
    below the account."""
    await conn.execute("select from accounts where id = %s for update", (account_id,))
    for table, key in _BELOW:
        thread = "id" if table == "threads" else "thread_id"
        await conn.execute(
            f"""select from {table} where account_id = %(account)s
                and (%(threads)s::uuid[] is null or {thread} = any(%(threads)s)) order by {key} for update""".encode(),
            {"account": account_id, "threads": threads},
        )
