"""What becomes of an account's proposals."""

from email_assistant.accounts.account import Account, Mode
from email_assistant.accounts.accounts import Accounts
from email_assistant.db.pool import Pool
from email_assistant.inbox.person import Inbox

_SHADOW = "shadow mode began before what you decided was done"


async def set_mode(pool: Pool, accounts: Accounts, inbox: Inbox, account: Account, mode: Mode) -> int:
    """Change it from now on. What is past its undo window is still carried out; what is not, shadow mode asks again.

    Returns:
        How many answers were taken back by that.
    """
    async with pool.connection() as conn, conn.transaction():
        await accounts.set_mode(conn, account.id, mode)
        return await inbox.take_back(conn, account.id, _SHADOW) if mode == "shadow" else 0


def taken_back(answers: int) -> str:
    """What to tell of so many answers that were taken back."""
    are = "answer that was not carried out yet is" if answers == 1 else "answers that were not carried out yet are"
    return f"{answers} {are} taken back: you are asked again."
