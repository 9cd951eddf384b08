"""`/items/{id}`: one item, all that speaks for and against it, and the answers to it."""

from bisect import bisect
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated
from uuid import UUID
from zoneinfo import ZoneInfo

from fastapi import Form, Request
from fastapi.responses import RedirectResponse, Response

from email_assistant.app import App
from email_assistant.inbox.items import Conflict, Invalid, Item
from email_assistant.inbox.listing import Wanted
from email_assistant.inbox.sentences import asks
from email_assistant.inbox.standing import SNOOZES, wakes_at
from email_assistant.mail.diff import Piece, compare
from email_assistant.trail.context import Contexts
from email_assistant.web.forms import Field, ProposalForm
from email_assistant.web.pages.anew import before, is_made_anew, successor, why_not
from email_assistant.web.pages.answered import Answered, News, Telling, is_asleep, just_answered, nothing
from email_assistant.web.pages.card import answer_card, parts_of
from email_assistant.web.pages.listing import Listed, Listing, MailRow, Text, rows_of
from email_assistant.web.pages.proposal import fields_of
from email_assistant.web.rendering import render
from email_assistant.web.routers import Assistant, ItemId, ToldContexts, for_pages
from email_assistant.web.wording import CLASSES, PROFILE_NAMES, TITLES, did, does

_NEWEST = 5  # mails of a long conversation that stand on the page
_BESIDE = 30  # items in the list beside it
_LONGEST = 6000  # characters of each of them

router = for_pages()


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
    anew: bool = False,
) -> Response:
    """`whole`: all of the conversation, not only its newest mails; `fresh`: without what the person had typed before
    they took their answer back; `anew`: the item that takes this one's place, as soon as there is one."""
    if anew and (newer := await successor(app, await app.inbox.get(app.user_id, item_id))):
        return RedirectResponse(listing.link(f"/items/{newer.id}"), 303)
    just = await just_answered(app, answered)
    posted: dict[str, str] | None = {} if fresh else None
    return await _page(app, contexts, item_id, listing, posted, just=just, whole=whole, anew=anew, news=news)


@router.post("/items/{item_id}")
async def decide(
    app: Assistant, contexts: ToldContexts, request: Request, item_id: ItemId, listing: Listed
) -> Response:
    """Take the answer and go on to the next mail, or wait where the assistant is to write anew; `preview` only shows
    what an edit would change."""
    posted = await fields_of(request)
    item = await app.inbox.get(app.user_id, item_id)
    if posted.get("answer") == "preview":
        return await _page(app, contexts, item_id, listing, posted)
    try:
        answered = await answer_card(app, item, posted)
    except (Conflict, Invalid) as refusal:
        return await _page(app, contexts, item_id, listing, posted, refusal)
    if is_made_anew(answered):
        path, ids = f"/items/{item_id}", ",".join(str(each.id) for each in answered)
        return RedirectResponse(listing.link(path, anew="true", answered=ids), 303)
    return await _go_on(app, answered, listing)


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
        for part in await app.inbox.proposal(item):
            await app.inbox.snooze(app.user_id, part.id, wake(until, item.zone))
    except (Conflict, Invalid) as refusal:
        return await _page(app, contexts, item_id, listing, refusal=refusal)
    if not until:
        return RedirectResponse(listing.link(f"/items/{item_id}"), 303)
    return await _go_on(app, [item], listing)


async def _go_on(app: App, answered: Sequence[Item], listing: Listing) -> Response:
    """To what is left of the proposal, else to the next one."""
    left = [part for part in await app.inbox.proposal(answered[0]) if part.status == "pending" and not is_asleep(part)]
    following = left[0] if left and left[0].id != answered[0].id else (await _beside(app, answered, listing)).next
    path = f"/items/{following.id}" if following else "/"
    return RedirectResponse(listing.link(path, answered=",".join(str(each.id) for each in answered)), 303)


async def _page(
    app: App,
    contexts: Contexts,
    item_id: UUID,
    listing: Listing,
    posted: Mapping[str, str] | None = None,
    refusal: Conflict | Invalid | None = None,
    just: Sequence[Answered] = (),
    *,
    whole: bool = False,
    anew: bool = False,
    news: Telling = nothing,
) -> Response:
    item = await app.inbox.get(app.user_id, item_id)
    shown = await parts_of(app, item, posted)
    beside = await _beside(app, [part.item for part in shown], listing)
    context = await contexts.of(item)
    letters = context.conversation if whole else context.conversation[-_NEWEST:]
    return render(
        "item.html",
        item=item,
        listing=listing,
        refusal=_with_labels(refusal, shown[0].form) if isinstance(refusal, Invalid) else refusal,
        just=just,
        own=Answered(item),
        asleep=is_asleep(item),
        anew="true" if anew else None,
        expires_at=app.inbox.expires_at(item),
        snoozes=SNOOZES,
        context=context,
        letters=[(letter, *_shortened(letter.text, whole=whole)) for letter in letters],
        earlier=len(context.conversation) - len(letters),
        rows=beside.rows,
        shown=shown,
        does=does([part.item for part in shown if part.can_be_done]),
        asks=asks(item),
        edited=_edited(item, shown[0].form),
        news=await news(),
        titles=TITLES,
        classes=CLASSES,
        did=did,
        profiles=PROFILE_NAMES,
        zone=shown[0].form.home,
        newer=await successor(app, item),
        before=await before(app, shown),
        why_not=await why_not(app, item) if item.status == "applied" else None,
        newer_ids={each["id"] for each in item.newer},
        following=beside.next,
        preceding=beside.previous,
    )


@dataclass(frozen=True, slots=True)
class _Beside:
    """The list beside a card, and what stands in it after the card and before it; round the end, at its other end."""

    rows: Sequence[MailRow]
    next: Item | None
    previous: Item | None


async def _beside(app: App, items: Sequence[Item], listing: Listing) -> _Beside:
    """What waits beside these parts of a card: what needs an answer first, then notices."""
    found, more = await app.inbox.page(app.user_id, **listing.waiting, limit=_BESIDE)
    zone, ids = items[0].zone, {item.id for item in items}
    rows = sorted(rows_of(found, defaultdict(lambda: zone)), key=lambda row: listing.place(row.item))
    if more and listing.is_behind(items[0], found[-1]):
        return _Beside(rows, await _next(app, items, listing), await _next(app, items, listing, backwards=True))
    others = [row.item for row in rows if row.item.id not in ids]
    at = bisect(others, listing.place(items[0]), key=listing.place)
    behind, before = (others[at:], others[:at]) if more else (others[at:] or others, others[:at] or others)
    return _Beside(
        rows,
        behind[0] if behind else await _next(app, found[-1:], listing),
        before[-1] if before else await _next(app, found[:1], listing, backwards=True),
    )


def _with_labels(refusal: Invalid, form: ProposalForm) -> Invalid:
    """With what the page calls its fields."""
    said = str(refusal)
    for field in form.fields:
        said = said.replace(f"{field.name}: ", f"{field.label}: ")
    return Invalid(said)


def _edited(item: Item, form: ProposalForm) -> list[tuple[Field, list[Piece]]]:
    """What the decision made of the proposal."""
    after = (item.decision or {}).get("args")
    if not isinstance(after, dict):
        return []
    before = {field.name: field.told for field in form.fields}
    fields = ProposalForm(after, form.model, form.home).fields
    return [(field, compare(before.get(field.name, ""), field.told)) for field in fields]


async def _next(app: App, items: Sequence[Item], listing: Listing, *, backwards: bool = False) -> Item | None:
    """What waits behind these in the list that the person came from, or before them; at the end of the list, what
    stands at its other end."""
    if not items:
        return None
    wanted: Wanted = {**listing.waiting, "backwards": backwards}
    ids = {item.id for item in items}
    for cursor in (listing.behind(items[0]), None):
        found, _ = await app.inbox.page(app.user_id, **wanted, cursor=cursor, limit=len(ids) + 1)
        if other := next((each for each in found if each.id not in ids), None):
            return other
    return None


def _shortened(text: str, *, whole: bool) -> tuple[str, bool]:
    """A mail's text, and whether it was cut."""
    return (text, False) if whole or len(text) <= _LONGEST else (text[:_LONGEST], True)


def wake(choice: str, zone: ZoneInfo) -> datetime | None:
    """The time until which an item is to sleep; None, for an empty choice, is now. Raises Invalid: no such choice."""
    if choice and choice not in SNOOZES:
        raise Invalid("choose until when it is to sleep")
    return wakes_at(choice, zone) if choice else None
