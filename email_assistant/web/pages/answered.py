"""What a page tells at its head: what a person has just answered, with a way back while there is one, what was learned,
and what waits for the person's word."""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated
from uuid import UUID

from fastapi import Depends

from email_assistant.app import App
from email_assistant.inbox.items import MOST_AT_ONCE, Conflict, Invalid, Item, NoItem
from email_assistant.memory.lessons import HeldLesson, Learned
from email_assistant.web.memory import Rules
from email_assistant.web.routers import Assistant

BY = "web"


@dataclass(frozen=True, slots=True)
class Answered:
    """An answer, or what became of the attempt."""

    item: Item
    refusal: str | None = None
    asked_again: Sequence[Item] = ()  # what it made the person be asked about again

    @property
    def seconds(self) -> int | None:
        """How long it can still be taken back; None if it can't, or if it is somebody else's answer."""
        if self.refusal or self.item.status != "decided" or self.item.undo_until is None:
            return None
        left = (self.item.undo_until - datetime.now(UTC)).total_seconds()
        return round(left) if left > 0 else None


async def just_answered(app: App, item_ids: str | None) -> list[Answered]:
    """The items that the address names as just answered or put off, but those that wait again."""
    found: list[Item] = []
    for item_id in (item_ids or "").split(",")[:MOST_AT_ONCE]:
        with suppress(ValueError, NoItem):
            found.append(await app.inbox.get(app.user_id, UUID(item_id)))
    return [await _taken(app, item) for item in found if item.status in ("decided", "applied") or is_asleep(item)]


def is_asleep(item: Item) -> bool:
    return item.status == "pending" and item.snoozed_until is not None and item.snoozed_until > datetime.now(UTC)


async def _taken(app: App, item: Item) -> Answered:
    return Answered(item, asked_again=await app.inbox.asked_again_because_of(item))


async def each(app: App, item_ids: Iterable[UUID], step: Callable[[UUID], Awaitable[Item]]) -> list[Answered]:
    """What became of each of several items; those that are not there are left out."""
    found = [await _one(app, item_id, step) for item_id in dict.fromkeys(item_ids)]
    return [result for result in found if result]


async def _one(app: App, item_id: UUID, step: Callable[[UUID], Awaitable[Item]]) -> Answered | None:
    try:
        return await _taken(app, await step(item_id))
    except NoItem:
        return None
    except (Conflict, Invalid) as refusal:
        return Answered(await app.inbox.get(app.user_id, item_id), str(refusal))


Telling = Callable[[], Awaitable[Sequence[Learned | HeldLesson]]]
"""What was learned and not told on a page yet; once asked for, it counts as told. What is held is told until they have
answered."""


async def nothing() -> Sequence[Learned | HeldLesson]:
    """Told by a page that answers a form: nothing."""
    return []


def _news(app: Assistant, memory: Rules) -> Telling:
    async def told() -> Sequence[Learned | HeldLesson]:
        return [*await memory.lessons.news(app.user_id, "web"), *await memory.held.page(app.user_id)]

    return told


News = Annotated[Telling, Depends(_news)]  # called last, when nothing stands in the way of the page
