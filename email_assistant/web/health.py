"""`/health`, `/health-check` and `/ready`: open to everybody, and tell no more than whether this process can work."""

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, Literal, TypeVar

from fastapi import Response
from pydantic import BaseModel

from email_assistant.accounts.account import UnknownAccount
from email_assistant.accounts.vault import VaultError
from email_assistant.app import App
from email_assistant.db.migrate import UNRELEASED, is_ours
from email_assistant.db.pool import AWAY, fetched
from email_assistant.web.routers import Assistant, for_anybody

_SECONDS = 2.0
T = TypeVar("T")


class Health(BaseModel):
    status: Literal["ok", "database down"]


class Readiness(BaseModel):
    ready: bool
    reasons: list[str]
    """Why not, each in one plain sentence."""


router = for_anybody("health")


_RESPONSES: dict[int | str, dict[str, Any]] = {503: {"model": Health, "description": "The database does not answer."}}
_UNREADY: dict[int | str, dict[str, Any]] = {503: {"model": Readiness, "description": "It can't do its part now."}}


@router.get("/health-check", responses=_RESPONSES)
@router.get("/health", responses=_RESPONSES)
async def health(app: Assistant, response: Response) -> Health:
    """Whether this daemon can work: whether its database answers within two seconds. Needs no token."""
    try:
        await _in_time(fetched(app.pool, "select 1"))
    except (*AWAY, TimeoutError):
        response.status_code = 503
        return Health(status="database down")
    return Health(status="ok")


@router.get("/ready", responses=_UNREADY)
async def ready(app: Assistant, response: Response) -> Readiness:
    """Whether this process can do its part: the database answers and has this version's tables, logins can be read,
    and what it does over and over is still done. Needs no token."""
    reasons = [*await lacking(app), *app.queue.heartbeat.missed()]
    if reasons:
        response.status_code = 503
    return Readiness(ready=not reasons, reasons=reasons)


async def lacking(app: App) -> list[str]:
    """What this process lacks of its database and its keys, in words."""
    try:
        return await _in_time(_lacking(app))
    except VaultError as error:
        return [str(error)]
    except (*AWAY, TimeoutError):
        return ["the database does not answer"]


async def _lacking(app: App) -> list[str]:
    async with app.pool.connection() as conn:
        if not await is_ours(conn):
            return [UNRELEASED]
    with suppress(UnknownAccount):  # nobody has logged in yet
        await app.accounts.login((await app.accounts.first(app.user_id)).id)
    return []


async def _in_time(work: Coroutine[Any, Any, T]) -> T:
    """Raises TimeoutError. What takes longer is given up without waiting for that: psycopg would ask the server to
    cancel, which may not answer that either."""
    task = asyncio.create_task(work)
    done, _ = await asyncio.wait({task}, timeout=_SECONDS)
    if not done:
        task.cancel()
        task.add_done_callback(lambda given_up: given_up.cancelled() or given_up.exception())
        raise TimeoutError
    return task.result()
