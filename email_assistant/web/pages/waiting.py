"""`/`: what waits, found, filtered, and answered many at once; and what is shown before several are accepted: every
letter whole, and what is left out."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated
from uuid import UUID

from fastapi import Form
from fastapi.responses import Response

from email_assistant.app import App
from email_assistant.inbox.describe import list_banner
from email_assistant.inbox.items import Conflict, Invalid, Item, NoItem
from email_assistant.inbox.listing import STATUSES
from email_assistant.inbox.standing import SNOOZES
from email_assistant.mail.compose import reply_subject
from email_assistant.plugins import mailbox_pages
from email_assistant.web.forms import Field, form_of
from email_assistant.web.pages.answered import BY, Answered, News, Telling, each, just_answered, nothing
from email_assistant.web.pages.item import wake
from email_assistant.web.pages.listing import AGES, SORTS, Listed, Listing, Text, rows_of, zones
from email_assistant.web.pages.start import Start, Starting
from email_assistant.web.rendering import render
from email_assistant.web.routers import Assistant, for_pages
from email_assistant.web.wording import KINDS, SHOWN, TITLES, does

router = for_pages()
_SHOWN = ("pending", "snoozed", *STATUSES[1:], "all")
Seen = Annotated[list[str], Form(default_factory=list)]
Notices = Annotated[list[UUID], Form(alias="notice", default_factory=list)]
Ticked = Annotated[list[UUID], Form(alias="item", default_factory=list)]


@dataclass(frozen=True, slots=True)
class Whole:
    """An item, and all that would be done."""

    item: Item
    fields: Sequence[Field]
    subject: str | None  # of the letter, where it has no field for that

    @property
    def seen(self) -> str:
        """What says that the item was shown like this."""
        return f"{self.item.id}@{self.item.hash}"


async def show_together(app: App, listing: Listing, item_ids: Sequence[UUID]) -> Response:
    """The page on which what is ticked is read and then accepted. Nothing is accepted by asking for it."""
    shown: list[Whole] = []
    left_out: list[Answered] = []
    for item_id in dict.fromkeys(item_ids):
        try:
            item = await app.inbox.get(app.user_id, item_id)
            await app.inbox.check(item, {"type": "accept"})
        except NoItem:
            continue
        except Conflict as refusal:
            left_out.append(Answered(item, str(refusal)))
            continue
        except Invalid as refusal:
            left_out.append(Answered(item, item.alone or str(refusal)))
            continue
        if item.alone:
            left_out.append(Answered(item, item.alone))
        else:
            shown.append(await _whole(app, item))
    called = does([each.item for each in shown]) if shown else ""
    return render("together.html", shown=shown, does=called, left_out=left_out, listing=listing, titles=TITLES)


async def results_of(app: App, seen: Sequence[str]) -> list[Answered]:
    """What became of accepting items that were shown."""
    outcomes = await app.inbox.decide_many(app.user_id, list(map(_read, seen)), {"type": "accept"}, by=BY)
    results: list[Answered] = []
    for outcome in outcomes:
        match outcome.refused:
            case None if outcome.item:
                results.append(Answered(outcome.item))
            case Conflict() | Invalid():
                results.append(Answered(await app.inbox.get(app.user_id, outcome.id), str(outcome.refused)))
            case NoItem() | None:
                pass
            case failure:
                raise failure
    return results


async def _whole(app: App, item: Item) -> Whole:
    form = form_of(app.tools, item)
    subject = reply_subject(item.subject or "") if item.kind == "draft" and item.mail_id else None
    return Whole(item, form.fields, subject)


def _read(seen: str) -> tuple[UUID, str]:
    """Raises Invalid."""
    item_id, _, shown = seen.partition("@")
    try:
        return UUID(item_id), shown
    except ValueError:
        raise Invalid("this names no item") from None


@router.get("/")
async def waiting(
    app: Assistant,
    listing: Listed,
    start: Starting,
    news: News,
    cursor: Text = None,
    answered: Text = None,
    ticked: Text = None,
) -> Response:
    just = await just_answered(app, answered)
    return await _page(app, listing, start, cursor, just, ticked=ticked == "all", news=news)


@router.post("/answers")
async def answer_all(
    app: Assistant,
    listing: Listed,
    start: Starting,
    items: Ticked,
    kind: Annotated[str, Form(alias="answer")] = "",
    response: Annotated[str, Form()] = "",
    until: Annotated[str, Form()] = "",
) -> Response:
    """Give the same answer to all that are ticked, or put them off. What is to be done is shown first. `dismiss` puts
    notices away, from which nothing is learned, and turns the rest down."""
    items = await _whole_proposals(app, items)
    if kind == "accept":
        return await show_together(app, listing, items)
    zone = zones(await app.accounts.of_user(app.user_id))

    async def step(item_id: UUID) -> Item:
        item = await app.inbox.get(app.user_id, item_id)
        if kind != "snooze":
            answer = {"type": kind, "args": response if kind == "response" else None}
            return await app.inbox.decide(app.user_id, item_id, answer, by=BY)
        return await app.inbox.snooze(app.user_id, item_id, wake(until, zone[item.account]))

    return await _page(app, listing, start, results=await each(app, items, step))


@router.post("/answers/done")
async def done_all(app: Assistant, listing: Listed, start: Starting, notices: Notices) -> Response:
    """Put away the notices that were shown, but those that are marked; nothing is learned from that."""

    async def step(item_id: UUID) -> Item:
        item = await app.inbox.get(app.user_id, item_id)
        if item.kind != "notification" or item.marks:
            raise Invalid("this is no notice that could be put away among others")
        return await app.inbox.decide(app.user_id, item_id, {"type": "accept"}, by=BY)

    return await _page(app, listing, start, results=await each(app, notices, step))


@router.post("/answers/accept")
async def accept_all(app: Assistant, listing: Listed, start: Starting, seen: Seen) -> Response:
    """Accept what was shown whole, each as it was shown."""
    return await _page(app, listing, start, results=await results_of(app, seen))


@router.post("/answers/undo")
async def undo_all(app: Assistant, listing: Listed, start: Starting, items: Ticked) -> Response:
    """Take back what was answered together."""
    return await _page(
        app, listing, start, results=await each(app, items, lambda item_id: app.inbox.undo(app.user_id, item_id))
    )


async def _whole_proposals(app: App, item_ids: Sequence[UUID]) -> list[UUID]:
    """All parts of the proposals that they are of."""
    found: list[UUID] = []
    for item_id in item_ids:
        with suppress(NoItem):
            found += [part.id for part in await app.inbox.proposal(await app.inbox.get(app.user_id, item_id))]
    return found


async def _page(
    app: App,
    listing: Listing,
    start: Start,
    cursor: str | None = None,
    results: Sequence[Answered] = (),
    *,
    ticked: bool = False,
    news: Telling = nothing,
) -> Response:
    items, following = await app.inbox.page(app.user_id, **listing.wanted, cursor=cursor)
    accounts = await app.accounts.of_user(app.user_id)
    failed = await app.mails.failed(app.user_id)
    return render(
        "waiting.html",
        rows=rows_of(items, zones(accounts)),
        listing=listing,
        kinds=[("", "all"), *KINDS.items()],
        ages=AGES,
        sorts=SORTS,
        shown=[(each, SHOWN[each]) for each in _SHOWN],
        snoozes=SNOOZES,
        counts=await app.inbox.counts(app.user_id),
        accounts=accounts,
        failed=failed,
        above=list(list_banner(items, failed)),
        steps=start.steps(accounts),
        mailbox_pages=mailbox_pages(),
        today="" if items else await start.today(accounts),
        results=results,
        ticked=ticked,
        news=await news(),
        cursor=cursor,
        following=listing.link("/", cursor=following) if following else None,
    )
