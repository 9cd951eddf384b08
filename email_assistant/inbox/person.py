"""The person's side of the inbox: what waits for them, their answers, each taken once, and the time to undo them."""

import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import psycopg

from email_assistant.accounts.account import Account, Mode
from email_assistant.accounts.accounts import SERVED, Accounts
from email_assistant.db import threads
from email_assistant.db.pool import Connection, Pool, Statement, fetched
from email_assistant.gate import ledger, sessions
from email_assistant.inbox import rows
from email_assistant.inbox.answers import DONE, Answers, Complete, again, became, check_shown, overturned, shadowed
from email_assistant.inbox.items import Conflict, Invalid, Item, NoItem
from email_assistant.inbox.reading import Items
from email_assistant.inbox.recipients import addresses_in, unproposed
from email_assistant.inbox.standing import EXPIRY, SHADOW_BEGAN, acts, asked_again
from email_assistant.telemetry import about

log = logging.getLogger(__name__)

Enqueue = Callable[[Connection, UUID, datetime | None], Awaitable[None]]
"""Wakes a conversation, for a person, at a time or at once, in the caller's transaction."""
Answer = Mapping[str, Any]
"""{type: accept | edit | ignore | response | done, args}: for edit the tool's arguments, for response a text. Only
`done` teaches nothing."""

_EXPIRED_AT_ONCE = 200
_LOCK_THREAD = "select from threads where id = (select thread_id from inbox_items where id = %s) for no key update"
_LOCK_SESSION = """select from gate_sessions where id = (select session_id from gate_requests where item_id = %s)
                   for no key update"""
_STOPPED = "select true as stopped where stopped_since(%s) is not null"
NOBODY_ANSWERED = "nobody answered in time"
_OVERDUE = """select b.item_id from inbox_items i join gate_requests b on b.item_id = i.id
              where i.status = 'pending' and i.run_id is null and not gate_waits(b) limit 200"""


class _TakenMeanwhile(Conflict):
    def __init__(self, item_id: UUID, why: str = "") -> None:
        super().__init__(why)
        self.item_id = item_id


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of answering one item of several."""

    id: UUID
    item: Item | None
    """As it is now, if it took the answer."""
    refused: NoItem | Conflict | Invalid | psycopg.Error | None


async def _release(conn: Connection, item: Item, decision: Answer, by: str) -> None:
    """Answer the agent that waits; a call for which none does any more can only be dismissed.

    Raises:
        _TakenMeanwhile: nobody waits for this answer.
        Conflict: everything is stopped.
    """
    await conn.execute(_LOCK_SESSION, (item.id,))
    if decision["type"] == "accept" and await (await conn.execute(_STOPPED, (item.user_id,))).fetchone():
        raise Conflict("everything is stopped: go on first, then answer")
    if not await rows.release(conn, item, decision, by):
        if decision["type"] == "ignore" and await rows.expire_held_call(conn, item.id):
            await sessions.block(conn, NOBODY_ANSWERED, item=item.id)
            return
        raise _TakenMeanwhile(item.id)
    if decision["type"] == "accept":
        await ledger.released(conn, item.id)
    else:
        await sessions.block(conn, "the person said no", item=item.id)


class Inbox(Items):
    def __init__(
        self,
        pool: Pool,
        *,
        enqueue: Enqueue,
        complete: Complete,
        undo_window: timedelta,
        lifetime: timedelta | None = None,
    ) -> None:
        super().__init__(pool)
        self._enqueue = enqueue
        self._answers = Answers(pool, complete)
        self._undo_window = undo_window
        self._lifetime = lifetime

    async def check(self, item: Item, answer: Answer) -> None:
        """Whether an item would take an answer now. Raises Conflict, Invalid."""
        await self._answers.read(item, answer)

    async def decide(
        self,
        user_id: UUID,
        item_id: UUID,
        answer: Answer,
        by: str,
        *,
        teaches: bool = True,
        asked: int | None = None,
        undo_window: timedelta | None = None,
    ) -> Item:
        """Take a person's answer, once. What repeats the answer that was taken changes nothing, and is no fault.

        Args:
            by: where it was given, such as "cli".
            teaches: whether something may be learned from it.
            asked: the how manieth time they were asked when they answered; None: as they are asked now.
            undo_window: how long it can be taken back; None: as long as everywhere.

        Raises:
            NoItem, Conflict, Invalid.
        """
        item = await self.get(user_id, item_id)
        if asked not in (None, item.asked):
            raise Conflict(again(item) if item.status == "pending" else became(item))
        if await self._answers.is_repeat(item, answer, teaches=teaches):
            return item
        decision = await self._answers.read(item, answer)
        window = self._undo_window if undo_window is None else undo_window
        try:
            neutral = () if teaches and answer.get("type") != DONE else (item.id,)
            await self._decide([(item, decision)], by, window, neutral)
        except _TakenMeanwhile:
            now = await self.get(user_id, item_id)
            if now.asked != item.asked or not await self._answers.is_repeat(now, answer, teaches=teaches):
                raise
        return await self.get(user_id, item_id)

    async def decide_many(
        self,
        user_id: UUID,
        seen: Sequence[tuple[UUID, str | None]],
        answer: Answer,
        by: str,
        *,
        undo_window: timedelta | None = None,
    ) -> list[Outcome]:
        """Take the same answer to several items, each for itself: what one comes to changes nothing for the others.

        Args:
            seen: items, each with its hash as whoever answers was shown it. What acts is taken for those only that were
                shown as they are, and that may be accepted among others.
            undo_window: as of `decide`.
        """

        async def outcome(item_id: UUID, shown: str | None) -> Outcome:
            try:
                item = await self.get(user_id, item_id)
                if acts(item.kind, answer.get("type")):
                    check_shown(item, shown, among_others=True)
                decided = await self.decide(user_id, item_id, answer, by, undo_window=undo_window)
                return Outcome(item_id, decided, None)
            except (NoItem, Conflict, Invalid, psycopg.Error) as refused:
                return Outcome(item_id, None, refused)

        return [await outcome(item_id, shown) for item_id, shown in seen]

    async def decide_parts(
        self, user_id: UUID, answers: Sequence[tuple[UUID, str | None, Answer]], by: str
    ) -> list[Outcome]:
        """Take an answer to each of several items. Those of one proposal are taken together: all of them or none.

        Args:
            answers: each with the item and its hash, as `decide_many` takes them.
        """
        outcomes: dict[UUID, Outcome] = {}
        proposals: dict[str, list[tuple[Item, str | None, Answer]]] = defaultdict(list)
        for item_id, shown, answer in answers:
            try:
                item = await self.get(user_id, item_id)
            except NoItem as refused:
                outcomes[item_id] = Outcome(item_id, None, refused)
            else:
                proposals[item.group].append((item, shown, answer))
        for parts in proposals.values():
            taken = await self._decide_proposal(user_id, parts, by, among_others=len(proposals) > 1)
            outcomes |= {outcome.id: outcome for outcome in taken}
        return [outcomes[item_id] for item_id, _, _ in answers]

    async def _decide_proposal(
        self, user_id: UUID, parts: Sequence[tuple[Item, str | None, Answer]], by: str, *, among_others: bool
    ) -> list[Outcome]:
        at_fault = parts[0][0].id
        neutral = [item.id for item, _, answer in parts if answer.get("type") == DONE]
        try:
            decisions: list[tuple[Item, Answer]] = []
            for item, shown, answer in parts:
                at_fault = item.id
                if await self._answers.is_repeat(item, answer):
                    continue
                if acts(item.kind, answer.get("type")):
                    check_shown(item, shown, among_others=among_others)
                decisions.append((item, await self._answers.read(item, answer)))
            if decisions:
                await self._decide(decisions, by, self._undo_window, neutral)
        except (NoItem, Conflict, Invalid, psycopg.Error) as refused:
            at_fault = refused.item_id if isinstance(refused, _TakenMeanwhile) else at_fault
            aside = Conflict(f"not taken, as another part of the same proposal was not: {refused}")
            return [Outcome(i.id, None, refused if i.id == at_fault else aside) for i, _, _ in parts]
        return [Outcome(item.id, await self.get(user_id, item.id), None) for item, _, _ in parts]

    async def decide_together(self, user_id: UUID, answers: Sequence[tuple[UUID, Answer]], by: str) -> None:
        """Take answers to several items of one conversation: all or none, and for good, with no time to undo them.

        Nobody is woken: the caller carries them out.

        Raises:
            NoItem, Conflict, Invalid: of the first that can't be taken.
        """
        items = [(await self.get(user_id, item_id), answer) for item_id, answer in answers]
        decisions = [(item, await self._answers.read(item, answer)) for item, answer in items]
        await self._decide(decisions, by, window=None)

    async def _decide(
        self,
        decisions: Sequence[tuple[Item, Answer]],
        by: str,
        window: timedelta | None,
        neutral: Collection[UUID] = (),
    ) -> None:
        """Take checked answers to items of one conversation: all or none.

        Args:
            window: how long they can be undone; None: not at all, and nobody is woken, as the caller carries them out.
            neutral: the items whose answers teach nothing.

        Raises:
            Conflict: of the first that is pending no more.
        """
        try:
            async with self._pool.connection() as conn, conn.transaction():
                for item, decision in sorted(decisions, key=lambda pair: pair[0].id):
                    if item.is_held:
                        await _release(conn, item, decision, by)
                        continue
                    teaches = item.id not in neutral
                    undo_until = await self._take(conn, item, decision, by, window or timedelta(0), teaches=teaches)
                await self._reopen_accepted(conn, decisions, by)
                if window is not None and not decisions[0][0].is_held:
                    await self._enqueue(conn, decisions[0][0].thread_id, undo_until if window else None)
        except _TakenMeanwhile as taken:
            item = {item.id: item for item, _ in decisions}[taken.item_id]
            now = await self.get(item.user_id, item.id)
            raise _TakenMeanwhile(item.id, became(now) if item.asked == now.asked else again(now)) from None

    async def _take(
        self, conn: Connection, item: Item, decision: Answer, by: str, window: timedelta, *, teaches: bool
    ) -> datetime:
        """Decide a pending item; returns until when that can be undone. Raises _TakenMeanwhile: it is pending no
        more."""
        mode = await threads.at_once(conn, item.account_id, item.thread_id)  # which locks it, before its items
        if mode == "shadow" and acts(item.kind, decision["type"]):
            raise Invalid(shadowed(item))
        edited = addresses_in(decision["args"]) if decision["type"] == "edit" else []
        others = [address for address in edited if address not in addresses_in(item.args)]
        typed = await unproposed(conn, item.account_id, others)
        lasting = teaches and not item.unreadable
        undo_until = await rows.decide(conn, item, decision, by, window, teaches=lasting, typed=typed)
        if undo_until is None:
            raise _TakenMeanwhile(item.id)
        with about(item.mail_id or str(item.thread_id)):
            log.info("the person answers a %s by %s: %s", item.kind, by, decision["type"])
        return undo_until

    async def _reopen_accepted(self, conn: Connection, decisions: Sequence[tuple[Item, Answer]], by: str) -> None:
        """Ask once more about the parts that were accepted before, and apart from, one that now was not, or not as it
        was: they were accepted with it. What is asked for in a chat is not one proposal of ours, and is approved part
        by part."""
        taken = [item.id for item, _ in decisions]
        for item, decision in decisions:
            if item.chat is None:
                for part in overturned(item, decision):
                    why = asked_again(item.kind, part.kind, decision["type"], by)
                    await rows.ask_once_more(conn, part.id, why, item.id, taken)

    async def undo(self, user_id: UUID, item_id: UUID) -> Item:
        """Take a decision back while its window is open, while it waits for another part to be decided, or while
        everything is stopped, or its mailbox paused. What was asked about again because of it stands as it stood
        before.

        Raises:
            NoItem, Conflict.
        """
        async with self._pool.connection() as conn, conn.transaction():
            # The account and the thread before the items, as whoever decides locks them: none can be applied meanwhile.
            await conn.execute(
                "select from accounts where id = (select account_id from inbox_items where id = %s) for share",
                (item_id,),
            )
            await conn.execute(_LOCK_THREAD, (item_id,))
            undone = await rows.undo(conn, user_id, item_id)
        item = await self.get(user_id, item_id)
        if not undone:
            raise Conflict("there is nothing to undo" if item.status == "pending" else became(item))
        return item

    async def snooze(self, user_id: UUID, item_id: UUID, until: datetime | None) -> Item:
        """Leave a pending item out of listings until a time; it comes back by itself. None brings it back now.

        Raises:
            NoItem, Conflict.
            Invalid: the time has passed.
        """
        if until is not None and until <= datetime.now(UTC):
            raise Invalid("that time has passed; name one to come, or none to bring the item back")
        async with self._pool.connection() as conn, conn.transaction():
            await conn.execute(_LOCK_THREAD, (item_id,))
            snoozed = await rows.snooze(conn, user_id, item_id, until)
        item = await self.get(user_id, item_id)
        if not snoozed:
            raise Conflict("it was taken back just now; try again" if item.status == "pending" else became(item))
        return item

    async def set_mode(self, accounts: Accounts, account: Account, mode: Mode) -> int:
        """Say what becomes of an account's proposals from now on. What is past its undo window is still carried out;
        what is not, shadow mode asks again: returns how many answers that takes back."""
        async with self._pool.connection() as conn, conn.transaction():
            await accounts.set_mode(conn, account.id, mode)
            return await rows.take_back(conn, account.id, SHADOW_BEGAN) if mode == "shadow" else 0

    def expires_at(self, item: Item) -> datetime | None:
        """When a pending item is ignored by itself; None if it never is. What may have happened is always told."""
        stays = item.is_held or item.status != "pending" or "ignore" not in item.allowed or item.kind == "in_doubt"
        if stays or self._lifetime is None:
            return None
        since = (item.created_at, item.snoozed_until, item.reopened_at)
        return max(at for at in since if at) + self._lifetime

    async def expire(self, provider: str) -> None:
        """Ignore what has waited too long; nothing is learned from that. What a server that died held is over."""
        await self.expire_held_calls_overdue()
        if self._lifetime is None:
            return
        overdue = await self._items(
            f"""{SERVED} and i.status = 'pending' and i.kind <> 'in_doubt' and 'ignore' = any(i.allowed)
               and greatest(i.created_at, i.snoozed_until, i.reopened_at) < clock_timestamp() - %s::interval
               order by i.created_at limit %s""",
            provider,
            self._lifetime,
            _EXPIRED_AT_ONCE,
        )
        for item in overdue:
            with suppress(NoItem, Conflict):  # answered, or gone, just now
                await self.decide(item.user_id, item.id, {"type": "ignore", "args": None}, by=EXPIRY, teaches=False)

    @staticmethod
    def overdue() -> Statement:
        """What gives the items that a server held that died."""
        return _OVERDUE, ()

    async def expire_held_calls_overdue(self) -> None:
        """Close what a server held that died."""
        await self.expire_held_calls(await fetched(self._pool, _OVERDUE))

    async def expire_held_calls(self, overdue: Iterable[Mapping[str, Any]]) -> None:
        """`overdue`: rows of the statement of that name."""
        for row in overdue:
            async with self._pool.connection() as conn, conn.transaction():
                await conn.execute(_LOCK_SESSION, (row["item_id"],))
                if await rows.expire_held_call(conn, row["item_id"]):
                    await sessions.block(conn, NOBODY_ANSWERED, item=row["item_id"])
