"""`/api/export`: all that is stored of the person, as a zip that other programs can read."""

from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

from fastapi.responses import StreamingResponse

from email_assistant.db.export import zipped
from email_assistant.web.dependencies import Assistant
from email_assistant.web.errors import documented
from email_assistant.web.routers import for_programs

_ZIP: dict[int | str, dict[str, Any]] = {
    200: {"content": {"application/zip": {"schema": {"type": "string", "format": "binary"}}}}
}

router = for_programs("mails", "/api")


@router.get("/export", response_class=StreamingResponse, responses={**_ZIP, **documented(401)})
async def export(app: Assistant) -> StreamingResponse:
    """All your data: a file of JSON lines for each table, and `manifest.json`. No key, token or login is in it."""
    name = f"email-assistant-{datetime.now(UTC):%Y-%m-%d}.zip"
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    pieces = zipped(app.pool, app.user_id, version("email-assistant"))
    return StreamingResponse(pieces, media_type="application/zip", headers=headers)
