"""One root for what this program foresees to go wrong: what a person may be told, its HTTP status, whether it passes.

Whatever has another root is a mistake of ours, or a library's: nobody is told its text.
"""

from datetime import datetime
from http import HTTPStatus
from typing import ClassVar, Literal

Passes = Literal["never", "on another try", "by itself"]
"""`by itself`: what was asked for has no fault, so work waits for as long as it lasts, and then goes on."""


class AssistantError(Exception):
    """Its message is one plain sentence for the person, which says what to do where there is something."""

    status: ClassVar[HTTPStatus] = HTTPStatus.INTERNAL_SERVER_ERROR
    """What a program that asked over HTTP is answered."""
    passes: ClassVar[Passes] = "never"
    needs_login: ClassVar[bool] = False
    """The person must log in to the account again before it can pass."""

    until: datetime | None = None
    """Nothing can go well before this time."""
