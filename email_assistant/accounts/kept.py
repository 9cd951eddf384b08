"""What becomes of an answer that was just taken, where nothing carries it out for now."""

from uuid import UUID

from email_assistant.accounts.accounts import Accounts
from email_assistant.db.presence import Presence


async def why_kept(accounts: Accounts, presence: Presence, account_id: UUID) -> str | None:
    """What to tell of it; None: some process works on this account, whichever server's it is.

    Raises:
        UnknownAccount.
    """
    account = await accounts.get(account_id)
    absence = await presence.absence_of(account.provider if account.has_mailbox else None)
    if absence is None:
        return None
    away = accounts.away(account)
    return f"It is kept, and not done as things are: {account.address} {away}." if away else absence.kept
