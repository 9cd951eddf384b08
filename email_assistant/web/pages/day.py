"""`/items/{id}/day`: the calendar on the day of a proposed meeting, or on those of which a letter speaks. Google may be
slow, so it stands alone. The same is shown beside an invitation."""

import asyncio
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any
from zoneinfo import ZoneInfo

from fastapi.responses import Response

from email_assistant.accounts.account import UnknownAccount
from email_assistant.accounts.vault import VaultError
from email_assistant.app import App
from email_assistant.google.calendar import Event
from email_assistant.google.errors import GoogleError
from email_assistant.inbox.items import Item
from email_assistant.tools.offered_times import days_named
from email_assistant.tools.times import MeetingTime, as_written
from email_assistant.web.pages.proposal import LETTER_TEXT
from email_assistant.web.rendering import render
from email_assistant.web.routers import Assistant, ItemId, for_pages

_SECONDS = 6.0

router = for_pages()


@dataclass(frozen=True, slots=True)
class Slot:
    """What takes a part of the day."""

    start: datetime
    end: datetime
    what: str
    all_day: bool = False
    busy: bool = True
    is_meant: bool = False  # what the day is shown for
    beside: str = ""  # when that is in the timezone in which it is proposed, if its clocks show another time


@dataclass(frozen=True, slots=True)
class ShownDay:
    day: date
    slots: list[Slot]
    conflicts: list[Slot] | None
    """What stands in the way of the thing that the day is shown for; None: it is shown for nothing of one time."""
    trouble: str | None = None


@router.get("/items/{item_id}/day")
async def day(app: Assistant, item_id: ItemId) -> Response:
    item = await app.inbox.get(app.user_id, item_id)
    meant = _proposal(item.args, item.zone) if item.kind == "meeting" else None
    days = await asyncio.gather(*(day_of(app, item, each, meant) for each in days_of(item)))
    return render("day.html", item=item, days=days)


def days_of(item: Item) -> list[date]:
    """The days of the times that an item is about."""
    if item.kind == "meeting":
        meant = _proposal(item.args, item.zone)
        return [meant.start.date()] if meant else []
    if item.kind != "draft":
        return []
    mail = item.mail_text.partition("\n\n")[2].partition("\n\n")[2]  # below whom it is from
    return days_named(str(item.args.get(LETTER_TEXT, "")), mail, datetime.now(item.zone).date())


async def day_of(app: App, item: Item, day: date, meant: Slot | None, uid: str = "") -> ShownDay:
    """A day of the person's, with what it is shown for. `uid`: what calendars know that by, where it is in theirs."""
    itself = [meant] if meant else []
    try:
        async with asyncio.timeout(_SECONDS):
            client = await app.clients.get(item.account_id)
            found = (await client.calendar.day(day, item.zone)).events
    except (TimeoutError, GoogleError, VaultError, UnknownAccount):
        return ShownDay(day, itself, [], "Your calendar can't be read just now.")
    events = [event for event in found if not uid or event.uid != uid]
    slots = sorted([*(_slot(event, item.zone) for event in events), *itself], key=lambda slot: (slot.start, slot.end))
    if meant is None:
        return ShownDay(day, slots, None)
    taken = [event for event in events if event.busy and event.overlaps(meant.start, meant.end, item.zone)]
    return ShownDay(day, slots, [_slot(event, item.zone) for event in taken])


def _proposal(args: dict[str, Any], zone: ZoneInfo) -> Slot | None:
    when = MeetingTime.read(args, zone)
    if when is None:
        return None
    start, end = when.start.astimezone(zone), when.end.astimezone(zone)
    return Slot(start, end, str(args.get("title", "")), is_meant=True, beside=as_written(when.start, zone))


def _slot(event: Event, zone: ZoneInfo) -> Slot:
    start, end = (moment.astimezone(zone) for moment in event.span(zone))
    return Slot(start, end, event.summary or "(no title)", event.all_day, event.busy)
