"""`/api/inbox`: what waits for a person, and the answers."""

from typing import Annotated

from fastapi import APIRouter, Query

from email_assistant.inbox.items import PAGE, Status
from email_assistant.servers.api.dependencies import Assistant, BlankAsNone, ItemId
from email_assistant.servers.api.errors import documented
from email_assistant.servers.api.schemas import Decision, ItemOut, ItemPage

MOST = 500

router = APIRouter(prefix="/api/inbox", tags=["inbox"])


@router.get("", responses=documented(401, 422))
async def list_items(
    app: Assistant,
    status: Annotated[Status | None, BlankAsNone] = None,
    account: Annotated[str | None, BlankAsNone] = None,
    cursor: Annotated[str | None, BlankAsNone] = None,
    limit: Annotated[int, Query(ge=1, le=MOST)] = PAGE,
) -> ItemPage:
    """One page of the inbox, oldest first."""
    items, following = await app.inbox.page(app.user_id, status=status, account=account, cursor=cursor, limit=limit)
    return ItemPage.of(items, following)


@router.get("/{item_id}", responses=documented(401, 404, 422))
async def show_item(app: Assistant, item_id: ItemId) -> ItemOut:
    """One item."""
    return ItemOut.model_validate(await app.inbox.get(app.user_id, item_id))


@router.post("/{item_id}/decision", responses=documented(401, 403, 404, 409, 422))
async def decide(app: Assistant, item_id: ItemId, decision: Decision) -> ItemOut:
    """Answer an item. An answer is taken once; what was not answered by then is not approved."""
    return ItemOut.model_validate(await app.inbox.decide(app.user_id, item_id, decision.model_dump(), by="api"))


@router.post("/{item_id}/undo", responses=documented(401, 403, 404, 409, 422))
async def undo(app: Assistant, item_id: ItemId) -> ItemOut:
    """Take an answer back, until its `undo_until`."""
    return ItemOut.model_validate(await app.inbox.undo(app.user_id, item_id))
