"""What all agents' prompts say in the same way."""

from typing import Protocol


class Addressee(Protocol):
    """Whom the assistant works for, as prompts tell it."""

    @property
    def name(self) -> str: ...

    @property
    def address(self) -> str: ...

    @property
    def background(self) -> str: ...


def person(account: Addressee) -> str:
    """Whom the assistant works for."""
    return f"{account.name} <{account.address}>" if account.name else account.address


def section(title: str, text: str) -> str:
    """A titled paragraph; nothing where there is nothing to say."""
    return f"{title}:\n{text.strip()}\n" if text.strip() else ""
