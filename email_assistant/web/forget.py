"""`/api/export` and `/api/mails/{id}/forget`: all that is stored of the person, to take along, and to let go."""

from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any, Self
from uuid import UUID

from fastapi.responses import StreamingResponse
from pydantic import BaseModel, Field

from email_assistant.app import forgetting
from email_assistant.db.export import zipped
from email_assistant.web.dependencies import Assistant
from email_assistant.web.errors import documented
from email_assistant.web.mails import OfAccount
from email_assistant.web.routers import for_programs
from email_assistant.web.schemas import Told
from email_assistant.work.forgetting import WhatGoes


class GoesOut(Told):
    """A conversation that goes as a whole."""

    id: UUID
    account: str
    chat: str | None
    sender: str | None
    subject: str | None
    mails: int
    waiting: int = Field(description="Items that wait for you.")
    decided: int = Field(description="Answers that are not carried out yet, and will not be.")
    done: int = Field(description="Letters and meetings, which stay where they are.")
    drafts: int = Field(description="Left in Gmail, where they stay.")


class ForgetOut(BaseModel):
    what: str
    forgotten: bool = Field(description="False: it is only told what would go.")
    conversations: list[GoesOut]
    rules: list[str]
    past_mails: int
    agents_calls: int = Field(description="Rows of other programs' agents' calls, whose words are taken out.")
    notes: list[str] = Field(description="What is left alone, and what to do about it.")
    refused: list[str] = Field(description="Why it can't be forgotten now.")

    @classmethod
    def of(cls, plan: WhatGoes, *, forgotten: bool) -> Self:
        return cls.model_validate({**plan.told, "forgotten": forgotten})


router = for_programs("mails", "/api")


@router.get("/mails/{mail_id}/forget", responses=documented(401, 404, 422))
async def show_forget(app: Assistant, mail_id: str, account: OfAccount = None) -> ForgetOut:
    """What would go with a mail: its conversation, the chats that name it, and what was learned. Nothing changes."""
    forgets = forgetting(app)
    plan = await forgets.plan(await forgets.of_mail(app.user_id, mail_id, account))
    return ForgetOut.of(plan, forgotten=False)


@router.post("/mails/{mail_id}/forget", responses=documented(401, 403, 404, 409, 422))
async def forget_mail(app: Assistant, mail_id: str, account: OfAccount = None) -> ForgetOut:
    """Delete a mail wherever anything of it is stored; it is not read from Gmail again, where nothing changes. 409: it
    is being worked on, or an open conversation has looked it up."""
    forgets = forgetting(app)
    plan = await forgets.carry_out(await forgets.of_mail(app.user_id, mail_id, account))
    return ForgetOut.of(plan, forgotten=True)


_ZIP: dict[int | str, dict[str, Any]] = {
    200: {"content": {"application/zip": {"schema": {"type": "string", "format": "binary"}}}}
}


@router.get("/export", response_class=StreamingResponse, responses={**_ZIP, **documented(401)})
async def export(app: Assistant) -> StreamingResponse:
    """All your data: a file of JSON lines for each table, and `manifest.json`. No key, token or login is in it."""
    name = f"email-assistant-{datetime.now(UTC):%Y-%m-%d}.zip"
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    pieces = zipped(app.pool, app.user_id, version("email-assistant"))
    return StreamingResponse(pieces, media_type="application/zip", headers=headers)
