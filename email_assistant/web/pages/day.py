"""`/items/{id}/day`: the calendar on the day of a proposed meeting. Google may be slow, so it stands alone."""

import asyncio
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from fastapi import APIRouter
from fastapi.responses import Response

from email_assistant.accounts.account import UnknownAccount
from email_assistant.accounts.vault import VaultError
from email_assistant.google.calendar import Event
from email_assistant.google.errors import GoogleError
from email_assistant.tools.meeting_time import MeetingTime, beside
from email_assistant.web.dependencies import Assistant, ItemId
from email_assistant.web.rendering import render

_SECONDS = 6.0

router = APIRouter()


@dataclass(frozen=True, slots=True)
class Slot:
    """What takes a part of the day."""

    start: datetime
    end: datetime
    what: str
    all_day: bool = False
    busy: bool = True
    proposed: bool = False
    beside: str = ""  # when that is in the timezone in which it is proposed, if its clocks show another time


@router.get("/items/{item_id}/day")
async def day(app: Assistant, item_id: ItemId) -> Response:
    item = await app.inbox.get(app.user_id, item_id)
    proposal = _proposal(item.args, item.zone) if item.kind == "meeting" else None
    events: tuple[Event, ...] = ()
    trouble = None if proposal else "This proposes no time."
    if proposal:
        try:
            async with asyncio.timeout(_SECONDS):
                client = await app.clients.get(item.account_id)
                events = (await client.calendar.day(proposal.start.date(), item.zone)).events
        except (TimeoutError, GoogleError, VaultError, UnknownAccount):
            trouble = "Your calendar can't be read just now."
    slots = [_slot(event, item.zone) for event in events] + ([proposal] if proposal else [])
    return render(
        "day.html",
        item=item,
        day=proposal.start if proposal else None,
        slots=sorted(slots, key=lambda slot: (slot.start, slot.end)),
        conflicts=[
            _slot(event, item.zone)
            for event in events
            if proposal and event.busy and event.overlaps(proposal.start, proposal.end, item.zone)
        ],
        trouble=trouble,
    )


def _proposal(args: dict[str, Any], zone: ZoneInfo) -> Slot | None:
    when = MeetingTime.read(args, zone)
    if when is None:
        return None
    start, end = when.start.astimezone(zone), when.end.astimezone(zone)
    return Slot(start, end, str(args.get("title", "")), proposed=True, beside=beside(when.start, zone))


def _slot(event: Event, zone: ZoneInfo) -> Slot:
    start, end = (moment.astimezone(zone) for moment in event.span(zone))
    return Slot(start, end, event.summary or "(no title)", event.all_day, event.busy)
