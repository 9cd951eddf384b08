"""What can go wrong with Google, one meaning each. Messages are one plain line without tokens or mail text."""

from datetime import datetime
from typing import ClassVar

from email_assistant.errors import AssistantError, Passes


class GoogleError(AssistantError):
    """Base of everything that this package raises about Google."""

    passes: ClassVar[Passes] = "on another try"
    is_plain = True


class Revoked(GoogleError):
    """Google no longer accepts this login: pause the account until its person logs in again. Never retry."""

    passes = "by itself"
    needs_login = True


class RateLimited(GoogleError):
    """Over quota, nothing happened. `until` is when Google allows the next try (aware), None when it does not say."""

    passes = "by itself"

    def __init__(self, message: str, until: datetime | None) -> None:
        super().__init__(message)
        self.until = until


class Transient(GoogleError):
    """A passing fault after which the same call may be made again: it was a read, may be repeated, or was not sent."""

    passes = "by itself"


class NotFound(GoogleError):
    """The thing asked for is not there, or no longer."""

    passes = "never"


class Deleted(NotFound):
    """It was there, and somebody has deleted it."""


class Refused(GoogleError):
    """Google says no for good and nothing happened. `code` is HTTP's status, `reason` Google's word for it or ""."""

    passes = "never"

    def __init__(self, message: str, code: int, reason: str) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason


class Exists(Refused):
    """The id chosen for a new thing is already taken."""


class Ambiguous(GoogleError):
    """A write that may or may not have happened: look before doing anything else about it."""

    passes = "by itself"


class LoginFailed(GoogleError):
    """A person's login did not come about, and nothing was stored. The message says why and what to do."""


def said(error: GoogleError) -> str:
    """What Google said, for a person: without the name of the call that it said it to."""
    _, _, words = str(error).partition(": ")
    return words or str(error)
