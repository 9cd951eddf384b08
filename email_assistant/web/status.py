"""`/api/status`, `/api/stop` and `/api/go-on`: whether mail is worked on, what holds it up, and what stops it all."""

from datetime import datetime

from pydantic import BaseModel, Field

from email_assistant.web.errors import documented
from email_assistant.web.routers import Assistant, for_programs
from email_assistant.web.schemas import Told

router = for_programs("status", "/api")


class ModelRefusesOut(Told):
    """A model's server that refuses, whoever asks; mail waits for it, and goes on by itself."""

    server: str
    model: str = Field(description="Empty: whatever model it is asked for.")
    reason: str = Field(description="In words, its own among them.")
    since: datetime
    next_at: datetime = Field(description="When it is asked again.")


class StatusOut(BaseModel):
    running: bool = Field(description="Whether anything works on the mail.")
    last_sign_of_life: datetime | None = Field(description="Null while it runs, or where nothing ever has.")
    stopped_since: datetime | None = Field(description="Null unless everything was stopped.")
    failed: int = Field(description="Mails of the last seven days that could not be worked on.")
    model_refuses: list[ModelRefusesOut] = Field(description="The longest first.")


@router.get("/status", responses=documented(401))
async def show_status(app: Assistant) -> StatusOut:
    """Whether mail is worked on, and what holds it up."""
    absence = await app.presence.absence()
    refusing = await app.model_servers.standing(app.settings.model_server)
    return StatusOut(
        running=absence is None,
        last_sign_of_life=absence.since if absence else None,
        stopped_since=await app.accounts.stopped_since(app.user_id),
        failed=await app.mails.failed(app.user_id),
        model_refuses=[ModelRefusesOut.model_validate(each) for each in refusing],
    )


class StopOut(BaseModel):
    stopped_since: datetime | None = Field(description="Null while it goes on.")


@router.get("/stop", responses=documented(401))
async def show_stop(app: Assistant) -> StopOut:
    """Whether everything is stopped, and since when it is so."""
    return StopOut(stopped_since=await app.accounts.stopped_since(app.user_id))


@router.post("/stop", responses=documented(401, 403))
async def stop(app: Assistant) -> StopOut:
    """Stop everything: once this is answered, nothing starts any more for any account; what is under way ends. What is
    answered meanwhile is kept."""
    await app.accounts.stop(app.user_id)
    return await show_stop(app)


@router.post("/go-on", responses=documented(401, 403))
async def go_on(app: Assistant) -> StopOut:
    """Go on as before the stop. An account that was paused on its own is paused still."""
    await app.queue.poll(await app.accounts.go_on(app.user_id))
    return await show_stop(app)
