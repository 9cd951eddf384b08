"""`/.well-known/security.txt` (RFC 9116): whom to tell of a fault."""

import re
from datetime import UTC, datetime, timedelta

from fastapi import Request
from fastapi.responses import PlainTextResponse, Response

from email_assistant.web.routers import for_pages

_VALID_FOR = timedelta(days=180)
_NAME = re.compile(r"[a-z0-9.-]+")

router = for_pages()


@router.get("/.well-known/security.txt")
async def security(request: Request) -> Response:
    """The role address of the host that serves it (RFC 2142, section 4): it is the owner's installation, not ours."""
    host = request.url.hostname or ""
    name = host if _NAME.fullmatch(host) else "localhost"
    expires = (datetime.now(UTC) + _VALID_FOR).replace(microsecond=0)
    return PlainTextResponse(
        f"Contact: mailto:security@{name}\nExpires: {expires.isoformat().replace('+00:00', 'Z')}\n"
        "Preferred-Languages: en\n"
    )
