"""What becomes of an account's proposals."""

from email_assistant.accounts.account import Account, Mode
from email_assistant.accounts.accounts import Accounts
from email_assistant.db.pool import Pool
from email_assistant.inbox.items import Inbox


async def set_mode(pool: Pool, accounts: Accounts, inbox: Inbox, account: Account, mode: Mode) -> None:
    """Change it from now on. What is past its undo window is still carried out; what is not, shadow mode asks again."""
    async with pool.connection() as conn, conn.transaction():
        await accounts.set_mode(conn, account.id, mode)
        if mode == "shadow":
            await inbox.take_back(conn, account.id)
