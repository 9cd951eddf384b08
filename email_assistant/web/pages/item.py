"""`/items/{id}`: one item, all that speaks for and against it, and the answers to it."""

from collections.abc import Mapping
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Form, Request
from fastapi.responses import RedirectResponse, Response

from email_assistant.app import App
from email_assistant.inbox.items import Conflict, Invalid, Item
from email_assistant.inbox.listing import Wanted
from email_assistant.inbox.sentences import sentence
from email_assistant.mail.compose import reply_subject
from email_assistant.mail.diff import Piece, compare
from email_assistant.tools.meeting_time import MeetingTime
from email_assistant.trail.context import Contexts
from email_assistant.web.dependencies import Assistant, ItemId, ToldContexts
from email_assistant.web.forms import Field, ProposalForm
from email_assistant.web.pages.answered import BY, Answered, is_asleep, just_answered
from email_assistant.web.pages.listing import Listed, Listing, Text
from email_assistant.web.pages.news import News, Telling, nothing
from email_assistant.web.pages.proposal import answer_of, arguments_in, fields_of, form_of, inputs_of, taken_back_in
from email_assistant.web.pages.snooze import CHOICES, wake
from email_assistant.web.rendering import render
from email_assistant.web.wording import PROFILE_NAMES, TITLES, buttons, did

_NEWEST = 5  # mails of a long conversation that stand on the page
_LONGEST = 6000  # characters of each of them

router = APIRouter()


@router.get("/items/{item_id}")
async def show(
    app: Assistant,
    contexts: ToldContexts,
    item_id: ItemId,
    listing: Listed,
    news: News,
    answered: Text = None,
    whole: bool = False,
    fresh: bool = False,
) -> Response:
    """`whole`: all of the conversation, not only its newest mails; `fresh`: without what the person had typed before
    they took their answer back."""
    just = await just_answered(app, answered)
    posted: dict[str, str] | None = {} if fresh else None
    return await _page(app, contexts, item_id, listing, posted, just=just, whole=whole, news=news)


@router.post("/items/{item_id}")
async def decide(
    app: Assistant, contexts: ToldContexts, request: Request, item_id: ItemId, listing: Listed
) -> Response:
    """Take the answer and go on to the next item; `preview` only shows what an edit would change."""
    posted = await fields_of(request)
    item = await app.inbox.get(app.user_id, item_id)
    if posted.get("answer") == "preview":
        return await _page(app, contexts, item_id, listing, posted)
    try:
        given = answer_of(await form_of(app, item), posted)
        await app.inbox.decide(app.user_id, item_id, given, by=BY, asked=_asked(posted) or item.first_asked)
    except (Conflict, Invalid) as refusal:
        return await _page(app, contexts, item_id, listing, posted, refusal)
    return await _go_on(app, item, listing)


@router.post("/items/{item_id}/undo")
async def undo(app: Assistant, contexts: ToldContexts, item_id: ItemId, listing: Listed) -> Response:
    try:
        await app.inbox.undo(app.user_id, item_id)
    except Conflict as refusal:
        return await _page(app, contexts, item_id, listing, refusal=refusal)
    return RedirectResponse(listing.link(f"/items/{item_id}"), 303)


@router.post("/items/{item_id}/snooze")
async def snooze(
    app: Assistant, contexts: ToldContexts, item_id: ItemId, listing: Listed, until: Annotated[str, Form()] = ""
) -> Response:
    """Put the item to sleep and go on to the next one; without a time, bring it back."""
    item = await app.inbox.get(app.user_id, item_id)
    try:
        await app.inbox.snooze(app.user_id, item_id, wake(until, item.zone))
    except (Conflict, Invalid) as refusal:
        return await _page(app, contexts, item_id, listing, refusal=refusal)
    if not until:
        return RedirectResponse(listing.link(f"/items/{item_id}"), 303)
    return await _go_on(app, item, listing)


async def _go_on(app: App, answered: Item, listing: Listing) -> Response:
    following = await _next(app, answered, listing)
    path = f"/items/{following.id}" if following else "/"
    return RedirectResponse(listing.link(path, answered=str(answered.id)), 303)


async def _page(
    app: App,
    contexts: Contexts,
    item_id: UUID,
    listing: Listing,
    posted: Mapping[str, str] | None = None,
    refusal: Conflict | Invalid | None = None,
    just: Answered | None = None,
    *,
    whole: bool = False,
    news: Telling = nothing,
) -> Response:
    item = await app.inbox.get(app.user_id, item_id)
    form = await form_of(app, item)
    posted = taken_back_in(form, item) if posted is None else posted
    given = arguments_in(posted)
    changed = form.changed(given)
    context = await contexts.of(item)
    letters = context.conversation if whole else context.conversation[-_NEWEST:]
    return render(
        "item.html",
        item=item,
        listing=listing,
        refusal=refusal,
        just=just,
        own=Answered(item),
        asleep=is_asleep(item),
        expires_at=app.inbox.expires_at(item),
        snoozes=CHOICES,
        context=context,
        letters=[(letter, *_shortened(letter.text, whole=whole)) for letter in letters],
        earlier=len(context.conversation) - len(letters),
        proposed=form.fields,
        inputs=inputs_of(form, given),
        changed=changed,
        edited=_edited(item, form),
        response=posted.get("response", ""),
        news=await news(),
        first_text=_first_to_edit(form),
        titles=TITLES,
        does=sentence(item, form.home) if item.kind in ("notification", "in_doubt") else None,
        did=did,
        profiles=PROFILE_NAMES,
        buttons=buttons(item),
        zone=form.home,
        written_in=form.zone,
        subject=reply_subject(item.subject or "") if item.kind == "draft" and item.mail_id else None,
        lasts=when.minutes if item.kind == "meeting" and (when := MeetingTime.read(item.args, form.home)) else None,
        newer=await _newer(app, item),
        newer_ids={each["id"] for each in item.newer},
        following=await _next(app, item, listing),
        preceding=await _next(app, item, listing, backwards=True),
    )


def _asked(posted: Mapping[str, str]) -> int | None:
    """The how manieth time the person was asked by the form that they sent."""
    given = posted.get("asked", "")
    return int(given) if given.isdecimal() else None


def _first_to_edit(form: ProposalForm) -> str | None:
    """The field that an edit most often means."""
    shown = [field for field in form.fields if field.kind not in ("hidden", "said")]
    return next((field.name for field in (*(f for f in shown if f.kind == "text"), *shown)), None)


def _edited(item: Item, form: ProposalForm) -> list[tuple[Field, list[Piece]]]:
    """What the decision made of the proposal."""
    after = (item.decision or {}).get("args")
    if not isinstance(after, dict):
        return []
    before = {field.name: field.told for field in form.fields}
    fields = ProposalForm(after, form.model, form.home).fields
    return [(field, compare(before.get(field.name, ""), field.told)) for field in fields]


async def _newer(app: App, item: Item) -> UUID | None:
    """An item of the run that took this one's place."""
    if item.superseded_by is None:
        return None
    newer = await app.inbox.of_run(app.user_id, item.superseded_by)
    return newer[-1].id if newer else None


async def _next(app: App, item: Item, listing: Listing, *, backwards: bool = False) -> Item | None:
    """What waits behind this item in the list that the person came from, or before it; at the end of the list, what
    stands at its other end."""
    wanted: Wanted = {**listing.waiting, "backwards": backwards}
    for cursor in (listing.behind(item), None):
        found, _ = await app.inbox.page(app.user_id, **wanted, cursor=cursor, limit=2)
        if other := next((each for each in found if each.id != item.id), None):
            return other
    return None


def _shortened(text: str, *, whole: bool) -> tuple[str, bool]:
    """A mail's text, and whether it was cut."""
    return (text, False) if whole or len(text) <= _LONGEST else (text[:_LONGEST], True)
