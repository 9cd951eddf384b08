"""`/agents`: what agents of others asked, and what became of it."""

from datetime import UTC, tzinfo
from pathlib import Path
from typing import Annotated

from fastapi import Depends, Query
from fastapi.responses import FileResponse, Response

from email_assistant.features.gate_server.record import PAGE, Record
from email_assistant.web.rendering import render
from email_assistant.web.routers import Assistant, for_pages

_FOLDER = Path(__file__).parent

router = for_pages("/agents")

Before = Annotated[int | None, Query(ge=1, description="Older than this one.")]


async def _record(app: Assistant) -> Record:
    return Record(app.pool)


OnRecord = Annotated[Record, Depends(_record)]


@router.get("")
async def show_sessions(app: Assistant, record: OnRecord, before: Before = None) -> Response:
    found = await record.sessions(app.user_id, before)
    following = found[-1].id if len(found) == PAGE else None
    return render(_FOLDER / "agents.html", sessions=found, session=None, following=following, zone=await _zone(app))


@router.get("/live.js", include_in_schema=False)
async def live() -> FileResponse:
    return FileResponse(_FOLDER / "live.js", media_type="text/javascript")


@router.get("/session")
async def show_session(
    app: Assistant, record: OnRecord, name: Annotated[str, Query(max_length=500)], before: Before = None
) -> Response:
    session = await record.session(app.user_id, name)
    calls = await record.calls(session, before)
    following = calls[-1].id if len(calls) == PAGE else None
    zone = await _zone(app)
    return render(_FOLDER / "agents.html", session=session, calls=calls, following=following, zone=zone)


async def _zone(app: Assistant) -> tzinfo:
    """That of the person's first mailbox."""
    return next((account.zone for account in await app.accounts.of_user(app.user_id)), UTC)
