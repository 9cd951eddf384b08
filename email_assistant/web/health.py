"""`/health`, `/health-check` and `/ready`: open to everybody, and tell no more than whether this process can work."""

import asyncio
from contextlib import suppress
from typing import Any, Literal

from fastapi import APIRouter, Response
from pydantic import BaseModel

from email_assistant.accounts.account import UnknownAccount
from email_assistant.accounts.vault import VaultError
from email_assistant.app import App
from email_assistant.db.migrate import not_applied
from email_assistant.db.pool import AWAY
from email_assistant.web.dependencies import Assistant

_SECONDS = 2.0


class Health(BaseModel):
    status: Literal["ok", "database down"]


class Readiness(BaseModel):
    ready: bool
    reasons: list[str]
    """Why not, each in one plain sentence."""


router = APIRouter(tags=["health"])


_RESPONSES: dict[int | str, dict[str, Any]] = {503: {"model": Health, "description": "The database does not answer."}}
_UNREADY: dict[int | str, dict[str, Any]] = {503: {"model": Readiness, "description": "It can't do its part now."}}


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


@router.get("/ready", responses=_UNREADY)
async def ready(app: Assistant, response: Response) -> Readiness:
    """Whether this process can do its part: the database answers and has this version's tables, logins can be read,
    and what it does over and over is still done. Needs no token."""
    reasons = [*await _of_database(app), *app.queue.pulse.missed()]
    if reasons:
        response.status_code = 503
    return Readiness(ready=not reasons, reasons=reasons)


async def _of_database(app: App) -> list[str]:
    try:
        async with asyncio.timeout(_SECONDS):
            if await not_applied(app.pool):
                return ["the database lacks tables of this version: start any part of it anew, which makes them"]
            with suppress(UnknownAccount):  # nobody has logged in yet
                await app.accounts.login((await app.accounts.first(app.user_id)).id)
    except VaultError as error:
        return [str(error)]
    except (*AWAY, TimeoutError):
        return ["the database does not answer"]
    return []
