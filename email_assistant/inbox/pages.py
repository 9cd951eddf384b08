"""Cursors of long listings: opaque to whoever gets one, a position in the order to us."""

import base64
import binascii
import json
from datetime import datetime
from http import HTTPStatus

from email_assistant.errors import AssistantError


class BadCursor(AssistantError, ValueError):
    """A cursor that was not given out here."""

    status = HTTPStatus.UNPROCESSABLE_ENTITY

    def __init__(self) -> None:
        super().__init__("this cursor was not given out here; start from the first page")


def make_cursor(at: datetime, key: str) -> str:
    return base64.urlsafe_b64encode(json.dumps([at.isoformat(), key]).encode()).decode()


def read_cursor(cursor: str) -> tuple[datetime, str]:
    """Raises BadCursor."""
    try:
        at, key = json.loads(base64.urlsafe_b64decode(cursor))
        return datetime.fromisoformat(at), str(key)
    except (binascii.Error, ValueError, TypeError):
        raise BadCursor from None
