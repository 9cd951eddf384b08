"""`/api/stop` and `/api/go-on`: everything stops at one word, and goes on at another."""

from datetime import datetime

from pydantic import BaseModel, Field

from email_assistant.web.dependencies import Assistant
from email_assistant.web.errors import documented
from email_assistant.web.routers import for_programs

router = for_programs("accounts", "/api")


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
