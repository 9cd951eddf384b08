"""What a person is shown before they accept several items at once: every letter whole, and what is left out."""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from fastapi.responses import Response

from email_assistant.app import App
from email_assistant.inbox.items import Conflict, Invalid, Item, NoItem
from email_assistant.mail.compose import reply_subject
from email_assistant.web.forms import Field, form_of
from email_assistant.web.pages.answered import BY, Answered
from email_assistant.web.pages.listing import Listing
from email_assistant.web.rendering import render
from email_assistant.web.wording import TITLES, does


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
