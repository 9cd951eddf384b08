"""What all agents' prompts say in the same way."""

from email_assistant.accounts.account import Account


def person(account: Account) -> str:
    """Whom the assistant works for."""
    return f"{account.name} <{account.address}>" if account.name else account.address


def section(title: str, text: str) -> str:
    """A titled paragraph; nothing where there is nothing to say."""
    return f"{title}:\n{text.strip()}\n" if text.strip() else ""
