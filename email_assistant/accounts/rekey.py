"""All that is encrypted in the database, encrypted anew: the last step on the way to another key."""

from typing import Final

from email_assistant.accounts.vault import Vault
from email_assistant.db.pool import Pool

_ENCRYPTED: Final = (("accounts", "token"), ("users", "vapid_key"), ("channels", "address"))
"""Table and column of each, in the order in which rows are locked (`db/order.py`)."""


async def encrypt_anew(pool: Pool, vault: Vault) -> int:
    """Encrypt all with the vault's first key: all of it, or nothing. Processes may be at work that know both keys.

    Returns:
        How many secrets there are.

    Raises:
        VaultError: one of them can be read with none of the vault's keys.
    """
    count = 0
    async with pool.connection() as conn, conn.transaction():
        for table, column in _ENCRYPTED:
            rows = await conn.execute(
                f"select id, {column} as secret from {table} where {column} is not null "
                "order by id for no key update".encode()
            )
            for row in await rows.fetchall():
                anew = vault.renewed(row["secret"])
                await conn.execute(f"update {table} set {column} = %s where id = %s".encode(), (anew, row["id"]))
                count += 1
    return count
