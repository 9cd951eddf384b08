"""What the view asks of the program: the calls of the plain subcommands, each answered or refused within seconds."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import psycopg

from email_assistant.app import App
from email_assistant.inbox.describe import list_banner
from email_assistant.inbox.items import Item
from email_assistant.inbox.originals import Original, original
from email_assistant.inbox.recipients import addresses_in
from email_assistant.inbox.sentences import sentence
from email_assistant.inbox.standing import wakes_at
from email_assistant.memory.lessons import Learned
from email_assistant.memory.profiles import Memory
from email_assistant.trail.context import Context, Contexts
from email_assistant.trail.story import Happening, Trail
from email_assistant.web.forms import ProposalForm, form_of

_BY = "terminal"
_SECONDS = 5.0  # a database that doesn't answer for so long is as good as gone to the person before the screen


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the list."""

    item: Item
    does: str  # what the assistant would do, in one sentence


@dataclass(frozen=True, slots=True)
class Sight:
    """All that is shown of one item."""

    item: Item
    zone: ZoneInfo  # the account's
    form: ProposalForm
    context: Context
    events: list[Happening]


class Desk:
    """Every method raises psycopg.OperationalError when the database doesn't answer."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._memory = memory = Memory.kept_in(app.pool)
        self._contexts = Contexts(app.pool, memory)
        self._trail = Trail(app.pool, memory)
        self.feed = app.feed

    @property
    def user_id(self) -> UUID:
        return self._app.user_id

    async def waiting(self, query: str, most: int) -> tuple[list[Row], bool, str]:
        """What waits and matches, longest waiting first, whether there is more of it than `most`, and what is to be
        said above it."""
        async with _in_time():
            accounts = await self._app.accounts.of_user(self.user_id)
            zones = {account.address: account.zone for account in accounts}
            items, following = await self._app.inbox.page(self.user_id, status="pending", q=query, limit=most)
            failed = await self._app.mails.failed(self.user_id)
        rows = [Row(item, sentence(item, zones.get(item.account, ZoneInfo("UTC")))) for item in items]
        return rows, following is not None, " ".join(list_banner(items, failed))

    async def look(self, item_id: UUID) -> Sight:
        """Raises NoItem, UnknownAccount."""
        async with _in_time():
            item = await self._app.inbox.get(self.user_id, item_id)
            context = await self._contexts.of(item)
            events = await self._trail.of_mail(self.user_id, item.mail_id, item.account) if item.mail_id else []
        return Sight(item, item.zone, form_of(self._app.tools, item), context, events)

    async def original(self, item: Item) -> Original:
        """Its mail as Gmail has it. Raises NoSuchFile, NoOriginal."""
        return await original(self._app.clients, item.account_id, item.mail_id)

    async def answer(self, item: Item, answer: Mapping[str, Any]) -> Item:
        """Answer an item as it was shown. Raises NoItem, Conflict, Invalid."""
        async with _in_time():
            return await self._app.inbox.decide(self.user_id, item.id, answer, by=_BY, asked=item.asked)

    async def asked_again(self, item: Item) -> list[Item]:
        """What an answer made the person be asked about again."""
        async with _in_time():
            return await self._app.inbox.asked_again_because_of(item)

    async def why_kept(self, item: Item) -> str | None:
        """What to tell of an answer to it if nothing carries that out for now."""
        if item.is_held:
            return None
        async with _in_time():
            return await self._app.accounts.why_kept(self._app.presence, item.account_id)

    async def put_off(self, item: Item) -> Item:
        """Leave it out of the list until tomorrow morning. Raises NoItem, Conflict."""
        async with _in_time():
            return await self._app.inbox.snooze(self.user_id, item.id, wakes_at("tomorrow", item.zone))

    async def undo(self, item: Item) -> None:
        """Take back an answer to it, or bring it back that was put off. Raises NoItem, Conflict."""
        async with _in_time():
            if item.status == "pending":
                await self._app.inbox.snooze(self.user_id, item.id, None)
            else:
                await self._app.inbox.undo(self.user_id, item.id)

    async def stopped_since(self) -> datetime | None:
        """When the person stopped everything; None: they have not."""
        async with _in_time():
            return await self._app.accounts.stopped_since(self.user_id)

    async def stop(self) -> None:
        async with _in_time():
            await self._app.accounts.stop(self.user_id)

    async def go_on(self) -> None:
        async with _in_time():
            await self._app.queue.poll(await self._app.accounts.go_on(self.user_id))

    async def learned(self) -> list[Learned]:
        """What was learned and not told here yet; from now on it counts as told."""
        async with _in_time():
            return await self._memory.lessons.news(self.user_id, "terminal")

    async def unlearn(self, lesson: Learned) -> None:
        """Take back one thing that was learned. Raises NoRule, Conflict."""
        async with _in_time():
            await self._memory.unlearn(lesson, _BY)

    async def strangers(self, item: Item, addresses: Sequence[str]) -> list[str]:
        """Those of an edit's bare addresses that are new: marked in the item, or added and neither known nor typed."""
        before = addresses_in(item.args)
        added = [address for address in addresses if address not in before]
        async with _in_time():
            account = await self._app.accounts.get(item.account_id)
            return [*item.new_recipients, *await self._app.recipients.strangers(account, added)]

    def check(self, item: Item, args: Mapping[str, Any]) -> None:
        """Arguments of a chat's call are checked when they are sent, as their server may have to be asked. Raises
        ToolError: it names what is wrong with each argument."""
        if item.chat is None:
            self._app.tools.check(item.action, args)


@asynccontextmanager
async def _in_time() -> AsyncIterator[None]:
    try:
        async with asyncio.timeout(_SECONDS):
            yield
    except TimeoutError:
        raise psycopg.OperationalError("no answer in time") from None
