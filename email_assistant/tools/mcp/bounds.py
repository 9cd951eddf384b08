"""How much a server may say: it is somebody else's program, which may be broken, or mean harm."""

import time
from typing import Final

from email_assistant.errors import AssistantError

MOST_BYTES: Final = 4_000_000  # of one message
MOST_MESSAGES: Final = 2_000
"""That nobody asked for, such as progress, within `PERIOD`; it takes about a tenth of that time to read them."""
PERIOD: Final = 10.0  # seconds


class TooMuch(AssistantError):
    """A server says more than it may."""


class Unreached(AssistantError):
    """A request that was not sent."""


class Status(AssistantError):
    """A request that was answered with a status of HTTP by which it was not carried out."""


class Redirect(AssistantError):
    """A request that was answered with another address, which is never followed."""


Undone = dict[int | str, Exception]  # by a request's id: why it got no answer of the server's own


class Meter:
    """Counts the messages of one server that nobody asked for."""

    def __init__(self) -> None:
        self._begun = time.monotonic()
        self._count = 0

    def count(self, messages: int = 1) -> None:
        """Raises TooMuch."""
        now = time.monotonic()
        if now - self._begun > PERIOD:
            self._begun, self._count = now, 0
        self._count += messages
        if self._count > MOST_MESSAGES:
            raise TooMuch(f"sent more than {MOST_MESSAGES} messages within {PERIOD:g} s")
