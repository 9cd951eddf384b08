"""`/health` and `/health-check`: open to everybody, and says no more than whether the database answers."""

import asyncio
from typing import Any, Literal

from fastapi import APIRouter, Response
from pydantic import BaseModel

from email_assistant.db.pool import AWAY
from email_assistant.web.dependencies import Assistant

_SECONDS = 2.0


class Health(BaseModel):
    status: Literal["ok", "database down"]


router = APIRouter(tags=["health"])


_RESPONSES: dict[int | str, dict[str, Any]] = {503: {"model": Health, "description": "The database does not answer."}}


@router.get("/health-check", responses=_RESPONSES)
@router.get("/health", responses=_RESPONSES)
async def health(app: Assistant, response: Response) -> Health:
    """Whether this daemon can work: whether its database answers within two seconds. Needs no token."""
    try:
        async with asyncio.timeout(_SECONDS), app.pool.connection() as conn:
            await conn.execute("select 1")
    except (*AWAY, TimeoutError):
        response.status_code = 503
        return Health(status="database down")
    return Health(status="ok")
