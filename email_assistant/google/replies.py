"""What Google's answers other than success mean."""

import json
import re
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any, Final

from email_assistant.google.errors import Exists, GoogleError, NotFound, RateLimited, Refused, Revoked
from email_assistant.google.transport import GoogleCall, HttpReply

# https://developers.google.com/workspace/gmail/api/guides/handle-errors
_QUOTA_REASONS: Final = {"dailyLimitExceeded", "quotaExceeded", "rateLimitExceeded", "userRateLimitExceeded"}

# The only parts of a body that may reach a message: codes, never free text.
_CODE: Final = re.compile(r"[A-Za-z_]{1,64}")
_RETRY_AFTER: Final = re.compile(r"Retry after (\d{4}-\d\d-\d\dT[\d:.]+(?:Z|[+-]\d\d:?\d\d)?)")


def refusal(call: GoogleCall, reply: HttpReply) -> GoogleError:
    """The error that a status outside 200 to 299 stands for."""
    reason = code(reply)
    said = f"{call.name}: Google answered {reply.status}" + (f" ({reason})" if reason else "")
    match reply.status:
        case 401:
            return Revoked(f"{said}: log in again")
        case 404 | 410:
            return NotFound(said)
        case 409:
            return Exists(said, reply.status, reason)
        case 429:
            return RateLimited(said, _retry_time(reply))
        case 403 if reason in _QUOTA_REASONS:
            return RateLimited(said, _retry_time(reply))
        case status if 400 <= status < 500 and status != 408:
            return Refused(said, status, reason)
        case status:
            return call.failure(f"Google answered {status}")


def code(reply: HttpReply) -> str:
    """Google's code for what is wrong, "" when the answer holds none."""
    error = _error(reply)
    if isinstance(error, str):  # OAuth's shape, RFC 6749 section 5.2
        candidates: list[Any] = [error]
    else:
        entries = [*_dicts(error.get("errors")), *_dicts(error.get("details"))]
        candidates = [*(entry.get("reason") for entry in entries), error.get("status")]
    return next((text for text in candidates if isinstance(text, str) and _CODE.fullmatch(text)), "")


def _error(reply: HttpReply) -> dict[str, Any] | str:
    try:
        error = json.loads(reply.data)["error"]
    except (ValueError, TypeError, KeyError):
        return {}
    return error if isinstance(error, dict | str) else {}


def _dicts(value: Any) -> list[dict[str, Any]]:
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []


def _retry_time(reply: HttpReply) -> datetime | None:
    """When the next try may be made, from the header Retry-After or else from the text of the error."""
    header = reply.headers.get("retry-after", "").strip()
    try:
        if header.isdigit():
            return datetime.now(UTC) + timedelta(seconds=int(header))
        if header:
            return _aware(parsedate_to_datetime(header))
        error = _error(reply)
        written = _RETRY_AFTER.search(str(error.get("message"))) if isinstance(error, dict) else None
        return _aware(datetime.fromisoformat(written[1])) if written else None
    except (ValueError, OverflowError):
        return None


def _aware(moment: datetime) -> datetime:
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
