"""The pages: what waits, one item, all mail. Plain forms that post; nothing of it needs a script."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, Literal
from urllib.parse import urlencode
from uuid import UUID
from zoneinfo import ZoneInfo

from fastapi import APIRouter, Form, Request
from fastapi.responses import RedirectResponse, Response
from pydantic import BaseModel

from email_assistant.accounts.accounts import Account
from email_assistant.inbox.items import STATUSES, Conflict, Invalid, Item, Status
from email_assistant.inbox.mails import STATES, State
from email_assistant.servers.api.dependencies import Assistant, BlankAsNone, ItemId, Services
from email_assistant.servers.api.forms import Field, ProposalForm
from email_assistant.servers.api.rendering import render
from email_assistant.servers.api.wording import buttons, sentence
from email_assistant.tools.spec import ToolError

_BY = "web"
_ARGUMENT = "arg."
"""Prefix of the form fields that are arguments."""

Text = Annotated[str | None, BlankAsNone]

router = APIRouter(include_in_schema=False)


@router.get("/")
async def waiting(
    app: Assistant, status: Status | Literal["all"] = "pending", account: Text = None, cursor: Text = None
) -> Response:
    chosen = None if status == "all" else status
    items, following = await app.inbox.page(app.user_id, status=chosen, account=account, cursor=cursor)
    accounts = await app.accounts.of_user(app.user_id)
    zones = _zones(accounts)
    return render(
        "waiting.html",
        rows=[(item, sentence(item, zones[item.account])) for item in items],
        status=status,
        statuses=[*STATUSES, "all"],
        account=account,
        accounts=accounts,
        following=_link("/", status=status, account=account, cursor=following),
    )


@router.get("/items/{item_id}")
async def show(app: Assistant, item_id: ItemId) -> Response:
    return await _item_page(app, item_id)


@router.post("/items/{item_id}")
async def decide(app: Assistant, request: Request, item_id: ItemId) -> Response:
    posted = {name: str(value).replace("\r\n", "\n") for name, value in (await request.form()).items()}
    item = await app.inbox.get(app.user_id, item_id)
    try:
        await app.inbox.decide(app.user_id, item_id, _answer(await _form(app, item), posted), by=_BY)
    except (Conflict, Invalid) as refusal:
        return await _item_page(app, item_id, posted, refusal)
    return RedirectResponse(f"/items/{item_id}", 303)


@router.post("/items/{item_id}/undo")
async def undo(app: Assistant, item_id: ItemId) -> Response:
    try:
        await app.inbox.undo(app.user_id, item_id)
    except Conflict as refusal:
        return await _item_page(app, item_id, refusal=refusal)
    return RedirectResponse(f"/items/{item_id}", 303)


@router.get("/mails")
async def mails(
    app: Assistant, state: Annotated[State | None, BlankAsNone] = None, account: Text = None, cursor: Text = None
) -> Response:
    return await _mails_page(app, state, account, cursor)


@router.post("/mails/{mail_id}/retry")
async def retry(app: Assistant, mail_id: str, account: Annotated[str, Form()]) -> Response:
    try:
        await app.mails.retry(app.user_id, mail_id, account)
    except Conflict as refusal:
        return await _mails_page(app, refusal=refusal)
    return RedirectResponse("/mails", 303)


async def _mails_page(
    app: Services,
    state: State | None = None,
    account: str | None = None,
    cursor: str | None = None,
    refusal: Exception | None = None,
) -> Response:
    rows, following = await app.mails.page(app.user_id, state=state, account=account, cursor=cursor)
    accounts = await app.accounts.of_user(app.user_id)
    return render(
        "mails.html",
        status_code=409 if refusal else 200,
        refusal=refusal,
        mails=rows,
        state=state,
        states=STATES,
        account=account,
        accounts=accounts,
        zones=_zones(accounts),
        following=_link("/mails", state=state, account=account, cursor=following),
    )


async def _item_page(
    app: Services, item_id: UUID, posted: Mapping[str, str] | None = None, refusal: Conflict | Invalid | None = None
) -> Response:
    item = await app.inbox.get(app.user_id, item_id)
    form = await _form(app, item)
    given = _arguments(posted or {})
    seconds = (item.undo_until - datetime.now(UTC)).total_seconds() if item.undo_until else 0
    return render(
        "item.html",
        status_code=200 if refusal is None else 409 if isinstance(refusal, Conflict) else 422,
        item=item,
        refusal=refusal,
        proposed=form.fields,
        fields=form.typed(given),
        changed=form.changed(given),
        edited=_edited(item, form),
        response=(posted or {}).get("response", ""),
        buttons=buttons(item),
        zone=form.zone,
        undo_seconds=round(seconds) if item.status == "decided" and seconds > 0 else None,
        newer=await _newer(app, item),
    )


async def _form(app: Services, item: Item) -> ProposalForm:
    account = await app.accounts.find(app.user_id, item.account)
    return ProposalForm(item.args, _arguments_of(app, item.action), account.zone)


def _arguments_of(app: Services, action: str) -> type[BaseModel] | None:
    """None for what is no tool, such as a notification."""
    try:
        return app.tools.get(action).spec.arguments
    except ToolError:
        return None


def _answer(form: ProposalForm, posted: Mapping[str, str]) -> dict[str, Any]:
    """The answer that a person's button and fields make.

    Raises:
        Invalid: "accept" with a changed proposal. What is on the screen is not what would be sent.
    """
    kind, given = posted.get("answer"), _arguments(posted)
    match kind:
        case "accept" if form.changed(given):
            raise Invalid("you changed the proposal: save the edit and accept it, or take the change back")
        case "edit" if form.changed(given):
            return {"type": "edit", "args": form.read(given)}
        case "edit":
            return {"type": "accept"}
        case "response":
            return {"type": "response", "args": posted.get("response", "")}
        case _:
            return {"type": kind}


def _arguments(posted: Mapping[str, str]) -> dict[str, str]:
    return {name.removeprefix(_ARGUMENT): text for name, text in posted.items() if name.startswith(_ARGUMENT)}


def _edited(item: Item, form: ProposalForm) -> list[Field]:
    """What the decision made of the proposal."""
    after = (item.decision or {}).get("args")
    return ProposalForm(after, form.model, form.zone).fields if isinstance(after, dict) else []


async def _newer(app: Services, item: Item) -> UUID | None:
    """An item of the run that took this one's place."""
    if item.superseded_by is None:
        return None
    newer = await app.inbox.of_run(app.user_id, item.superseded_by)
    return newer[-1].id if newer else None


def _zones(accounts: Iterable[Account]) -> Mapping[str, ZoneInfo]:
    """Each account's timezone; UTC for one that was removed just now."""
    return defaultdict(lambda: ZoneInfo("UTC"), {each.address: each.zone for each in accounts})


def _link(path: str, **query: str | None) -> str | None:
    """The next page, if there is one."""
    given = {name: value for name, value in query.items() if value}
    return f"{path}?{urlencode(given)}" if query["cursor"] else None
