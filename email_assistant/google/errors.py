"""What can go wrong with Google, one meaning each. Messages are one plain line without tokens or mail text."""

from datetime import datetime


class GoogleError(Exception):
    """Base of everything that this package raises about Google."""


class Revoked(GoogleError):
    """Google no longer accepts this login: pause the account until its person logs in again. Never retry."""


class RateLimited(GoogleError):
    """Over quota, nothing happened. `until` is when Google allows the next try (aware), None when it does not say."""

    def __init__(self, message: str, until: datetime | None) -> None:
        super().__init__(message)
        self.until = until


class Transient(GoogleError):
    """A passing fault after which the same call may be made again: it was a read, may be repeated, or was not sent."""


class NotFound(GoogleError):
    """The thing asked for is not there, or no longer."""


class Refused(GoogleError):
    """Google says no for good and nothing happened. `status` is HTTP's, `reason` Google's code for it or ""."""

    def __init__(self, message: str, status: int, reason: str) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason


class Exists(Refused):
    """The id chosen for a new thing is already taken."""


class Ambiguous(GoogleError):
    """A write that may or may not have happened: look before doing anything else about it."""


class LoginFailed(GoogleError):
    """A person's login did not come about, and nothing was stored. The message says why and what to do."""


def said(error: GoogleError) -> str:
    """What Google said, for a person: without the name of the call that it said it to."""
    _, _, words = str(error).partition(": ")
    return words or str(error)
