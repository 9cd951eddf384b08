"""`/api/inbox`: what waits for a person, and the answers."""

from datetime import timedelta
from http import HTTPStatus
from typing import Annotated, Literal

import psycopg
from fastapi import Query
from pydantic import BeforeValidator, Field

from email_assistant.app import App
from email_assistant.errors import AssistantError
from email_assistant.inbox.items import PAGE, Item
from email_assistant.inbox.listing import Sort, Status, read_age
from email_assistant.inbox.person import Outcome
from email_assistant.tools.spec import Kind
from email_assistant.web import schemas
from email_assistant.web.errors import documented
from email_assistant.web.routers import Assistant, BlankAsNone, ItemId, ToldContexts, for_programs

MOST = 500
_LONGEST_QUERY = 500


def _age(value: object) -> timedelta | None:
    """Raises ValueError."""
    return read_age(str(value)) if value else None


Age = Annotated[
    timedelta | None,
    BeforeValidator(_age, json_schema_input_type=str),
    Query(description="A number and m, h, d or w (minutes to weeks).", examples=["3d"]),
]

router = for_programs("inbox", "/api/inbox")


@router.get("", responses=documented(401, 422))
async def list_items(
    app: Assistant,
    status: Annotated[Status | None, BlankAsNone] = None,
    account: Annotated[str | None, BlankAsNone, Query(description="Its address.")] = None,
    kind: Annotated[Kind | None, BlankAsNone] = None,
    q: Annotated[
        # A length outside the union would be measured of None as well.
        Annotated[str, Field(max_length=_LONGEST_QUERY)] | None,
        BlankAsNone,
        Query(
            description="What stands in the item: whole words, parts of addresses, and "
            '"several words" in that order; all of them must be there.',
            examples=["invoice @example.org"],
        ),
    ] = None,
    older_than: Age = None,
    newer_than: Age = None,
    sort: Annotated[
        Sort,
        Query(
            description="`age`: longest waiting first. `newest`. `urgency`: of pending items; by kind alone (in doubt, "
            "meeting, question, draft, notification), longest waiting first in each. Nothing is guessed from the text."
        ),
    ] = "age",
    snoozed: Annotated[
        bool | Literal["only"], Query(description="Whether snoozed items are listed among the pending, or alone.")
    ] = False,
    cursor: Annotated[
        str | None, BlankAsNone, Query(description="`next` of the page before, with all else as it was.")
    ] = None,
    limit: Annotated[int, Query(ge=1, le=MOST)] = PAGE,
) -> schemas.ItemPage:
    """One page of what waits for the person, or has waited, by the order and the filters that are asked for.

    `next` leads to the page after it; an item that comes in meanwhile is neither shown twice nor makes another be left
    out."""
    items, following = await app.inbox.page(
        app.user_id,
        status=status,
        account=account,
        kind=kind,
        q=q,
        older_than=older_than,
        newer_than=newer_than,
        sort=sort,
        snoozed=snoozed,
        cursor=cursor,
        limit=limit,
    )
    return schemas.ItemPage.model_validate({"items": items, "next": following})


@router.get("/counts", responses=documented(401))
async def count_items(app: Assistant) -> schemas.CountsOut:
    """How many items there are of each status, and how many wait of each kind and in each account.

    Each group is counted no further than `most`, so that the answer costs the same however long the inbox is."""
    return schemas.CountsOut.model_validate(await app.inbox.counts(app.user_id))


@router.post("/decisions", responses=documented(400, 401, 403, 413, 422))
async def decide_many(app: Assistant, decisions: schemas.Decisions) -> schemas.Results:
    """Answer several items: all the same, each for itself; or each in its own way, and then what is one proposal is
    taken as a whole or not at all.

    What has something done (accept, edit) is taken only for items that are named with their `hash` as they were served.
    Among items of several proposals it is never taken for marked ones, questions and notices: those are answered one by
    one."""
    if decisions.answers is not None:
        answers = [(each.id, each.hash, each.model_dump(include={"type", "args"})) for each in decisions.answers]
        outcomes = await app.inbox.decide_parts(app.user_id, answers, by="api")
    else:
        assert decisions.decision is not None
        outcomes = await app.inbox.decide_many(app.user_id, decisions.seen, decisions.decision.model_dump(), by="api")
    return schemas.Results(items=[await _result(app, outcome) for outcome in outcomes])


@router.get("/{item_id}", responses=documented(401, 404, 422))
async def show_item(app: Assistant, item_id: ItemId) -> schemas.ItemOut:
    """One item: the mail, what the assistant proposes, which answers it takes, and what became of it."""
    return schemas.ItemOut.model_validate(await app.inbox.get(app.user_id, item_id))


@router.get("/{item_id}/context", responses=documented(401, 404, 422))
async def show_context(app: Assistant, item_id: ItemId, contexts: ToldContexts) -> schemas.ContextOut:
    """What a decision on an item may rest on: its conversation, why the mail is here, what was decided on items of the
    same kind about the same sender's mail, and what was learned."""
    return schemas.ContextOut.model_validate(await contexts.of(await app.inbox.get(app.user_id, item_id)))


@router.post("/{item_id}/decision", responses=documented(400, 401, 403, 404, 409, 413, 422))
async def decide(app: Assistant, item_id: ItemId, answer: schemas.AnswerIn) -> schemas.AnsweredOut:
    """Answer an item. An answer is taken once; what was not answered by then is not approved."""
    given = answer.model_dump(include={"type", "args"})
    asked = answer.asked or (await app.inbox.get(app.user_id, item_id)).first_asked
    return await _answered(app, await app.inbox.decide(app.user_id, item_id, given, by="api", asked=asked))


@router.post("/{item_id}/undo", responses=documented(401, 403, 404, 409, 422))
async def undo(app: Assistant, item_id: ItemId) -> schemas.ItemOut:
    """Take an answer back, until its `undo_until`."""
    return schemas.ItemOut.model_validate(await app.inbox.undo(app.user_id, item_id))


@router.post("/{item_id}/snooze", responses=documented(400, 401, 403, 404, 409, 413, 422))
async def snooze(app: Assistant, item_id: ItemId, wanted: schemas.Snooze) -> schemas.ItemOut:
    """Leave a pending item out of listings until a time; it comes back by itself, and can be answered meanwhile."""
    return schemas.ItemOut.model_validate(await app.inbox.snooze(app.user_id, item_id, wanted.until))


async def _answered(app: App, item: Item) -> schemas.AnsweredOut:
    notice = None if item.is_held else await app.accounts.why_kept(app.presence, item.account_id)
    return schemas.AnsweredOut.model_validate(item).model_copy(update={"notice": notice})


async def _result(app: App, outcome: Outcome) -> schemas.Result:
    taken = await _answered(app, outcome.item) if outcome.item else None
    match outcome.refused:
        case None:
            status, detail = HTTPStatus.OK, None
        case AssistantError() as refused:
            status, detail = refused.status, str(refused)
        case psycopg.DataError():
            status, detail = HTTPStatus.UNPROCESSABLE_ENTITY, "a value can't be stored"
        case _:
            status, detail = HTTPStatus.SERVICE_UNAVAILABLE, "the database can't be reached; try again in a moment"
    return schemas.Result(id=outcome.id, status=status, detail=detail, item=taken)
