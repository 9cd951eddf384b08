"""The inbox: every wait for a person is one row, decided once. All SQL that changes `inbox_items` stands here.

A row is `pending → decided → applied`, or `superseded`, or `expired`; undo is `decided → pending`. Every step is a
compare-and-set. `applied` is the point of no return, before any effect.
"""

import hashlib
import json
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from typing import Any, Unpack
from uuid import UUID
from zoneinfo import ZoneInfo

import psycopg
from psycopg.rows import kwargs_row
from psycopg.types.json import Json

from email_assistant.accounts.accounts import SERVED
from email_assistant.db.pool import Connection, Pool
from email_assistant.db.values import time_in_json, zone_named
from email_assistant.errors import AssistantError
from email_assistant.inbox import counts
from email_assistant.inbox.counts import Counts
from email_assistant.inbox.describe import Newer, Overtaken, describe, not_done
from email_assistant.inbox.kept import UNREADABLE, UnreadableAnswer, args_in, decision_in, judged
from email_assistant.inbox.listing import AWAKE, STATUSES, Status, Wanted, listed, order, position
from email_assistant.inbox.recipients import Judged, Mark, addresses_in, unproposed
from email_assistant.inbox.search import WORDS, words
from email_assistant.inbox.standing import (
    ACTS,
    EXPIRY,
    Part,
    acts,
    asked_again,
    beside,
    day,
    is_asleep,
    said_of,
    takes_effect,
)
from email_assistant.outgoing.entry import Effect
from email_assistant.tools.meeting_time import MEETING, MeetingTime
from email_assistant.tools.send_email import LETTER
from email_assistant.tools.spec import Answer, Kind, ToolError, check_storable

__all__ = ["PAGE", "STATUSES", "Asked", "Conflict", "Inbox", "Invalid", "Item", "NoItem", "Outcome", "Status"]

PAGE = 100
MOST_AT_ONCE = 200

Enqueue = Callable[[Connection, UUID, datetime | None], Awaitable[None]]
"""Wakes a conversation, for a person, at a time or at once, in the caller's transaction."""
Complete = Callable[[Mapping[str, Any], str, dict[str, Any]], Awaitable[dict[str, Any]]]
"""Checks and completes a call's arguments for a run; raises ToolError."""

_EXPIRED_AT_ONCE = 200
TOGETHER: tuple[Kind, ...] = ("draft", "meeting", "confirmation")
"""Kinds that may be accepted several at once, each of them shown whole."""
_COLUMNS = """i.id, i.user_id, i.account_id, a.address as account, i.thread_id, i.run_id, i.mail_id, t.chat_id as chat,
    m.sender, coalesce(m.subject, r.input->>'request') as subject, i.call_id, i.interrupt_id, i.kind, i.action,
    i.args::text as args, i.mail_text, i.marks::text as kept_marks,
    case when not exists (select from effects e where e.account_id = i.account_id and e.state = 'done'
                          and e.recipient = i.first_answer) then i.first_answer end as first_answer,
    i.left_out, i.conflicts, i.calendars, i.asked,
    i.asked_because as refusal, i.because,
    a.mode = 'shadow' as shadow,
    case when a.mode = 'shadow' and i.kind <> 'notification'
         then array_remove(array_remove(i.allowed, 'accept'), 'edit') else i.allowed end as allowed,
    case when i.status = 'pending' then i.taken_back::text end as taken_back,
    case when i.status in ('superseded', 'expired') then r.reason end as ended_because,
    case when i.status = 'applied' and r.state = 'acting' then coalesce(m.reason, r.reason) end as held_up,
    case when i.status in ('pending', 'decided') then array(
        select json_build_object('id', n.gmail_id, 'sender', n.sender, 'subject', n.subject,
                                 'classification', n.classification, 'received_at', n.received_at)
        from mails n where n.thread_id = i.thread_id and not n.own and n.gmail_id <> m.gmail_id
        and ((n.received_at, n.gmail_id) > (m.received_at, m.gmail_id) or n.run_id = i.run_id)
        order by n.received_at desc, n.gmail_id desc limit 10) else '{}' end as newer,
    coalesce(i.group_id, i.run_id::text) as "group", i.reopened::text as reopened, i.reopened_at, a.timezone,
    case when i.status in ('pending', 'decided') then (
        select json_agg(json_build_object('id', p.id, 'kind', p.kind, 'decision', p.decision::text,
                                          'undo_until', p.undo_until, 'snoozed_until', p.snoozed_until)
                        order by p.created_at, p.id)
        from inbox_items p where p.run_id = i.run_id and p.id <> i.id and p.status in ('pending', 'decided')
    ) end as parts,
    i.status, i.decision::text as decision, i.decided_by, i.decided_at, i.undo_until, i.applied_at, i.superseded_by,
    i.snoozed_until, i.urgency, i.created_at"""
_JOINED = """join accounts a on a.id = i.account_id join runs r on r.id = i.run_id
    join threads t on t.id = i.thread_id left join mails m on m.account_id = i.account_id and m.gmail_id = i.mail_id"""
FORGET_RESTORABLE = """update inbox_items set reopened = jsonb_set(reopened::jsonb, '{item}', 'null')::json
    where status = 'pending' and json_typeof(reopened) = 'object'"""
"""SQL: what was accepted before now does not come back when the answer is taken back that made it be asked again."""
_TYPED_BEFORE = "taken_back = case when decision->>'type' in ('edit', 'response') then decision end"
"""SQL: keep what the person had typed, as their answer is taken back."""
_LOCK_THREAD = "select from threads where id = (select thread_id from inbox_items where id = %s) for no key update"
_AGAIN = "you are asked again about this: see why, and answer once more"
_ASKED = "1 + coalesce((select max(asked) from inbox_items where run_id = %s and call_id = %s), 0)"
_TABLES = f"inbox_items i {_JOINED}"


_MOST_NAMED = 5


class NoItem(AssistantError, LookupError):
    """No such item in this person's inbox."""

    status = HTTPStatus.NOT_FOUND


class Conflict(AssistantError):
    """The item can't take this answer any more; the message says what became of it."""

    status = HTTPStatus.CONFLICT


class Invalid(AssistantError, ValueError):
    """The answer can't be taken as it stands; the item still waits."""

    status = HTTPStatus.UNPROCESSABLE_ENTITY


class _TakenMeanwhile(Conflict):
    def __init__(self, item_id: UUID, became: str = "") -> None:
        super().__init__(became)
        self.item_id = item_id


@dataclass(frozen=True, slots=True)
class Asked:
    """A question that a run's graph has come to rest at."""

    interrupt_id: str
    value: Mapping[str, Any]
    """{action, args, call_id, kind, allowed, teaches}."""
    judged: Judged
    """Those whom it would reach."""
    conflicts: list[str] | None
    """None: the calendar could not be read."""
    calendars: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Item:
    id: UUID
    user_id: UUID
    account_id: UUID
    account: str
    """The account's address."""
    thread_id: UUID
    run_id: UUID
    mail_id: str | None
    """Gmail's id of the mail it is about; None: it comes from a chat."""
    chat: str | None
    """Id of the chat that it comes from."""
    sender: str | None
    subject: str | None
    """Of the mail; of a chat, what the person asked for."""
    call_id: str
    interrupt_id: str | None
    kind: Kind
    action: str
    args: dict[str, Any]
    allowed: list[Answer]
    """What it takes now; nothing that acts while its account is in shadow mode."""
    shadow: bool
    """It only shows what would have been done."""
    mail_text: str
    """The mail it is about, as plain text."""
    kept_marks: list[dict[str, Any]] | None
    """`marks` as they are kept; None: an earlier version made the item."""
    first_answer: str | None
    """The From that it answers, if the mail that is stored knows of no mail to it."""
    left_out: list[str]
    """Who of the people of the mail that is answered would get no copy, as it was proposed; of very many, the last
    entry says how many more."""
    conflicts: list[str] | None
    """What stood in the calendar at the proposed time when the item was made, such as "10:00-11:00 Dentist"; None if
    that could not be known."""
    calendars: list[str]
    """Names of the calendars in which that was looked for."""
    asked: int
    """The how manieth time the person is asked about its call."""
    refusal: str | None
    """How it was refused after they had decided it, or what newer mail kept from being done."""
    because: str | None
    """Why they are asked at all, where their own rule would not have it."""
    status: Status
    decision: dict[str, Any] | None
    """{type, args}."""
    taken_back: dict[str, Any] | None
    """While it waits: the edit or the text that the person had answered with before, {type, args}."""
    decided_by: str | None
    decided_at: datetime | None
    undo_until: datetime | None
    applied_at: datetime | None
    held_up: str | None
    """While it is being carried out: why it takes longer."""
    superseded_by: UUID | None
    """The run that took its place."""
    ended_because: str | None
    """Why it was superseded, or expired."""
    newer: list[Newer]
    """While it can still be answered: mail that came since, newest first, and is not what it answers."""
    snoozed_until: datetime | None
    """While it is pending, it is left out of listings until then."""
    urgency: int
    """Its rank in the order of urgency, by kind alone; 0 comes first."""
    created_at: datetime
    group: str
    """Tells its proposal from others: the calls of one message of the model are one."""
    parts: Sequence[Part]
    """What is open beside it: nothing is done before all of that is decided."""
    reopened: Mapping[str, Any] | None
    """It had been accepted: why it is asked about again, and what the answer was."""
    reopened_at: datetime | None
    timezone: str | None
    """The account's."""
    unreadable: bool
    """Its row holds what this program never writes: none of that is shown, and it can only be ignored."""

    @property
    def zone(self) -> ZoneInfo:
        return zone_named(self.timezone)

    @property
    def marks(self) -> list[Mark]:
        """What must be seen before this is decided. Nobody has judged what an earlier version made."""
        if self.kept_marks is None:
            return [Mark.unknown(address) for address in addresses_in(self.args)]
        return [Mark(**mark) for mark in self.kept_marks]

    @property
    def new_recipients(self) -> list[str]:
        """Addresses that the action would reach and that are not known to have been written to."""
        return Judged(self.marks).new_recipients

    @property
    def sent_from(self) -> str | None:
        """The address that a mail would go from; None: it sends none, or by somebody else's tool."""
        if self.action != LETTER:
            return None
        return str(self.args.get("from_address") or self.account)

    @property
    def when(self) -> str | None:
        """When the meeting is that it proposes, at home and as it is written; None: it proposes none."""
        when = MeetingTime.read(self.args, self.zone) if self.action == MEETING else None
        return when.told(self.zone) if when else None

    @property
    def description(self) -> str:
        """Mail and proposal as escaped Markdown."""
        return self._described(self.notes)

    def _described(self, notes: Sequence[str]) -> str:
        return describe(
            self.mail_text,
            self.action,
            self.args,
            self.marks,
            self.first_answer,
            self.conflicts,
            newer=self.newer,
            when=self.when,
            sent_from=self.sent_from,
            left_out=self.left_out,
            calendars=self.calendars,
            asked_because=self.asked_because,
            notes=notes,
        )

    @property
    def hash(self) -> str:
        """Of all that is shown of it to be decided on: what was accepted under another is another thing."""
        shown = [str(self.id), self.asked, self.kind, self.account, self.sender, self.subject, self._described(())]
        return hashlib.sha256(json.dumps([*shown, self.args]).encode()).hexdigest()

    @property
    def alone(self) -> str | None:
        """Why it can't be accepted among others; None: it can."""
        if self.unreadable:
            return UNREADABLE
        if self.kind not in TOGETHER:
            return "this is no letter or event that is shown whole; decide it by itself"
        if self.marks:
            return f"look at it by itself: {'; '.join(mark.text for mark in self.marks)}"
        return None

    @property
    def first_asked(self) -> int:
        """The how manieth time they were asked when the item was made: what an answer counts for that does not say."""
        return 1 if self.interrupt_id else self.asked

    @property
    def waits_for(self) -> list[UUID]:
        """The parts that the person has yet to decide before anything is done about the answer to this one."""
        return [part.id for part in self.parts if part.answer is None] if self.status == "decided" else []

    @property
    def asked_because(self) -> str | None:
        """Why they are asked again: it was refused, accepted together with what then was not, or newer mail came."""
        return self.refusal or (self.reopened["because"] if self.reopened else None)

    @property
    def notes(self) -> list[str]:
        """What the person should know before they decide it: why they are asked, and of the parts beside it; one line
        each."""
        if self.status != "pending":
            return []
        if self.unreadable:
            return [UNREADABLE.capitalize()]
        why = [f"You are asked because {self.because}"] if self.because else []
        return why + beside(self.kind, self.parts, self.zone, one_proposal=self.chat is None)

    @property
    def state(self) -> str:
        """How it stands, in plain words."""
        match self.status:
            case "pending" | "decided" | "applied" if self.unreadable and self.decision is None:
                return UNREADABLE
            case "pending" if self.snoozed_until and is_asleep(self.snoozed_until):
                return f"put off until {day(self.snoozed_until, self.zone)}"
            case "pending":
                return f"waits for you again: {self.asked_because}" if self.asked_because else "waits for you"
            case "decided":
                answer = (self.decision or {})["type"]
                return takes_effect(self.kind, answer, self.undo_until, self.parts, self.zone)
            case "applied":
                answer = (self.decision or {})["type"]
                said = said_of(self.kind, answer)
                return f"{said}; {self.held_up}" if self.held_up and answer in ACTS else said
            case "superseded" | "expired":
                return self.ended_because or self.status


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of answering one item of several."""

    id: UUID
    item: Item | None
    """As it is now, if it took the answer."""
    refused: NoItem | Conflict | Invalid | psycopg.Error | None


@dataclass(frozen=True, slots=True)
class Taught:
    """What stands around an answer that is learned from."""

    bulk: bool
    """The mail came from a mailing list or a mass sender."""
    automatic: bool
    """A machine sent it."""
    beside_accepted: bool
    """Something else that was proposed on the same mail was accepted."""
    mails: Sequence[str]
    """What the mails of its conversation say, each with its sender's name, its subject and what it quotes."""
    items: Sequence[Item]
    """What the assistant has asked in its conversation, itself too."""


class Inbox:
    def __init__(
        self,
        pool: Pool,
        *,
        enqueue: Enqueue,
        complete: Complete,
        undo_window: timedelta,
        lifetime: timedelta | None = None,
    ) -> None:
        self._pool = pool
        self._enqueue = enqueue
        self._complete = complete
        self._undo_window = undo_window
        self._lifetime = lifetime

    async def page(
        self, user_id: UUID, *, cursor: str | None = None, limit: int = PAGE, **wanted: Unpack[Wanted]
    ) -> tuple[list[Item], str | None]:
        """One page, longest waiting first unless another order is wanted, and the cursor of the next page, if any.

        Raises:
            BadCursor.
            Invalid: an order, or a way to be left out, of what is pending is wanted for another status.
        """
        if wanted.get("status") not in (None, "pending") and (
            wanted.get("sort") == "urgency" or wanted.get("snoozed") == "only"
        ):
            raise Invalid("only what is pending is urgent or snoozed; leave the status out")
        where, parameters = listed(user_id, wanted, cursor)
        # The page is chosen before anything is joined to it, so that no plan ever joins the whole inbox.
        query = f"""select {_COLUMNS} from (select * from inbox_items i where {where} limit %s) as i {_JOINED}
                    order by {order(wanted)}"""
        items = await self._read(query, *parameters, limit + 1)
        if len(items) <= limit:
            return items, None
        last = items[limit - 1]
        return items[:limit], position(wanted, last.created_at, last.urgency, last.id)

    async def waiting(self, user_id: UUID, account_id: UUID, *, but_run: UUID, most: int) -> tuple[list[Item], int]:
        """What waits in an account but for one run's, longest waiting first, and how much that is in all."""
        where = f"i.user_id = %s and i.account_id = %s and i.status = 'pending' and {AWAKE} and i.run_id <> %s"
        given = (user_id, account_id, but_run)
        items = await self._items(f"{where} order by i.created_at, i.id limit %s", *given, most)
        async with self._pool.connection() as conn:
            cursor = await conn.execute(f"select count(*) as n from inbox_items i where {where}".encode(), given)
            row = await cursor.fetchone()
        return items, int(row["n"]) if row else 0

    async def counts(self, user_id: UUID) -> Counts:
        """How many items there are of each status, and how many wait of each kind and in each account."""
        return await counts.count(self._pool, user_id)

    async def get(self, user_id: UUID, item_id: UUID) -> Item:
        """Raises NoItem."""
        found = await self._items("i.user_id = %s and i.id = %s", user_id, item_id)
        if not found:
            raise NoItem(f"there is no item {item_id}")
        return found[0]

    async def of_run(self, user_id: UUID, run_id: UUID) -> list[Item]:
        """The items of one run, oldest first."""
        return await self._items("i.user_id = %s and i.run_id = %s order by i.created_at, i.id", user_id, run_id)

    async def of_thread(self, user_id: UUID, thread_id: UUID) -> list[Item]:
        """The items of one conversation, oldest first."""
        return await self._items("i.user_id = %s and i.thread_id = %s order by i.created_at, i.id", user_id, thread_id)

    async def find(self, user_id: UUID, prefix: str) -> Item:
        """The item whose id begins with `prefix`. Raises NoItem."""
        where = "i.user_id = %s and starts_with(i.id::text, %s) order by i.created_at, i.id limit %s"
        found = await self._items(where, user_id, prefix.lower(), _MOST_NAMED + 1)
        if not found:
            raise NoItem(f"there is no item whose id begins with {prefix}; `inbox list` shows them")
        if len(found) > 1:
            which = ", ".join(str(item.id) for item in found[:_MOST_NAMED])
            more = " and more" if len(found) > _MOST_NAMED else ""
            raise NoItem(f"more than one item's id begins with {prefix}: {which}{more}; give more of it")
        return found[0]

    async def decide(
        self,
        user_id: UUID,
        item_id: UUID,
        answer: Mapping[str, Any],
        by: str,
        *,
        teaches: bool = True,
        asked: int | None = None,
        undo_window: timedelta | None = None,
    ) -> Item:
        """Take a person's answer, once. What repeats the answer that was taken changes nothing, and is no fault.

        Args:
            answer: {type: accept | edit | ignore | response, args}: for edit the tool's arguments, for response a text.
            by: where it was given, such as "cli".
            teaches: whether something may be learned from it.
            asked: the how manieth time they were asked when they answered; None: as they are asked now.
            undo_window: how long it can be taken back; None: as long as everywhere.

        Raises:
            NoItem, Conflict, Invalid.
        """
        item = await self.get(user_id, item_id)
        if asked not in (None, item.asked):
            raise Conflict(_AGAIN if item.status == "pending" else _became(item))
        if await self._is_repeat(item, answer):
            return item
        decision = await self._checked(item, answer)
        window = self._undo_window if undo_window is None else undo_window
        try:
            await self._decide([(item, decision)], by, window, teaches=teaches)
        except _TakenMeanwhile:
            now = await self.get(user_id, item_id)
            if now.asked != item.asked or not await self._is_repeat(now, answer):
                raise
        return await self.get(user_id, item_id)

    async def asked_again_because_of(self, item: Item) -> list[Item]:
        """The parts that are asked about again because of the answer to an item."""
        return await self._items("i.run_id = %s and i.reopened->>'item' = %s order by i.id", item.run_id, str(item.id))

    async def decide_parts(
        self, user_id: UUID, answers: Sequence[tuple[UUID, str | None, Mapping[str, Any]]], by: str
    ) -> list[Outcome]:
        """Take an answer to each of several items. Those of one proposal are taken together: all of them or none.

        Args:
            answers: each with the item and its hash, as `decide_many` takes them.
        """
        outcomes: dict[UUID, Outcome] = {}
        proposals: dict[str, list[tuple[Item, str | None, Mapping[str, Any]]]] = defaultdict(list)
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
        self, user_id: UUID, parts: Sequence[tuple[Item, str | None, Mapping[str, Any]]], by: str, *, among_others: bool
    ) -> list[Outcome]:
        at_fault = parts[0][0].id
        try:
            decisions: list[tuple[Item, dict[str, Any]]] = []
            for item, shown, answer in parts:
                at_fault = item.id
                if await self._is_repeat(item, answer):
                    continue
                if acts(item.kind, answer.get("type")):
                    _check_shown(item, shown, among_others=among_others)
                decisions.append((item, await self._checked(item, answer)))
            if decisions:
                await self._decide(decisions, by, self._undo_window)
        except (NoItem, Conflict, Invalid, psycopg.Error) as refused:
            at_fault = refused.item_id if isinstance(refused, _TakenMeanwhile) else at_fault
            aside = Conflict(f"not taken, as another part of the same proposal was not: {refused}")
            return [Outcome(i.id, None, refused if i.id == at_fault else aside) for i, _, _ in parts]
        return [Outcome(item.id, await self.get(user_id, item.id), None) for item, _, _ in parts]

    async def decide_together(self, user_id: UUID, answers: Sequence[tuple[UUID, Mapping[str, Any]]], by: str) -> None:
        """Take answers to several items of one conversation: all or none, and for good, with no time to undo them.

        Nobody is woken: the caller carries them out.

        Raises:
            NoItem, Conflict, Invalid: of the first that can't be taken.
        """
        items = [(await self.get(user_id, item_id), answer) for item_id, answer in answers]
        decisions = [(item, await self._checked(item, answer)) for item, answer in items]
        await self._decide(decisions, by, window=None)

    async def _decide(
        self,
        decisions: Sequence[tuple[Item, Mapping[str, Any]]],
        by: str,
        window: timedelta | None,
        *,
        teaches: bool = True,
    ) -> None:
        """Take checked answers to items of one conversation: all or none.

        Args:
            window: how long they can be undone; None: not at all, and nobody is woken, as the caller carries them out.

        Raises:
            Conflict: of the first that is pending no more.
        """
        try:
            async with self._pool.connection() as conn, conn.transaction():
                for item, decision in sorted(decisions, key=lambda pair: pair[0].id):
                    undo_until = await self._take(conn, item, decision, by, window or timedelta(0), teaches=teaches)
                    if not undo_until:
                        raise _TakenMeanwhile(item.id)
                await self._reopen_accepted(conn, decisions, by)
                if window is not None:
                    await self._enqueue(conn, decisions[0][0].thread_id, undo_until if window else None)
        except _TakenMeanwhile as taken:
            user_id = decisions[0][0].user_id
            now = await self.get(user_id, taken.item_id)
            is_as_asked = any(item.id == now.id and item.asked == now.asked for item, _ in decisions)
            raise _TakenMeanwhile(taken.item_id, _became(now) if is_as_asked else _AGAIN) from None

    async def _reopen_accepted(
        self, conn: Connection, decisions: Sequence[tuple[Item, Mapping[str, Any]]], by: str
    ) -> None:
        """Ask once more about the parts that were accepted before, and apart from, one that now was not: they were
        accepted with it. What is asked for in a chat is not one proposal of ours, and is approved part by part."""
        taken = [item.id for item, _ in decisions]
        for item, decision in decisions:
            if item.chat is not None or not _turns_down(item, decision):
                continue
            for part in item.parts:
                await conn.execute(
                    """update inbox_items set status = 'pending', decision = null, decided_by = null,
                              decided_at = null, undo_until = null, asked = asked + 1,
                              reopened_at = statement_timestamp(),
                              reopened = json_build_object(
                                  'because', %s::text, 'item', %s::uuid, 'decision', decision, 'decided_by', decided_by,
                                  'decided_at', decided_at, 'undo_until', undo_until,
                                  'args', case decision->>'type' when 'edit' then args end),
                              args = case decision->>'type' when 'edit' then decision->'args' else args end
                       where id = %s and status = 'decided' and interrupt_id is not null
                       and decision->>'type' = any(%s) and not id = any(%s)""",
                    (asked_again(item.kind, part.kind, decision["type"], by), item.id, part.id, list(ACTS), taken),
                )

    async def _take(
        self, conn: Connection, item: Item, decision: Mapping[str, Any], by: str, window: timedelta, *, teaches: bool
    ) -> datetime | None:
        """Decide a pending item; returns until when that can be undone, None if it is pending no more."""
        await self._check_mode(conn, item, decision)
        await conn.execute("select from threads where id = %s for no key update", (item.thread_id,))
        edited = addresses_in(decision["args"]) if decision["type"] == "edit" else []
        others = [address for address in edited if address not in addresses_in(item.args)]
        typed = await unproposed(conn, item.account_id, others)
        cursor = await conn.execute(
            """update inbox_items i set status = 'decided', decision = %s, decided_by = %s,
                      decided_at = statement_timestamp(), undo_until = statement_timestamp() + %s,
                      teaches = i.teaches and %s, typed = array(select distinct unnest(i.typed || %s::text[])),
                      args = case when i.reopened->>'args' is null then i.args else i.reopened->'args' end,
                      reopened = null, reopened_at = null, taken_back = null
               from accounts a where i.id = %s and i.user_id = %s and i.status = 'pending' and i.asked = %s
               and a.id = i.account_id and a.state <> 'removing' returning i.undo_until""",
            (Json(decision), by, window, teaches and not item.unreadable, typed, item.id, item.user_id, item.asked),
        )
        taken = await cursor.fetchone()
        if taken is None:
            return None
        # A person's answer doesn't wait out a back-off from before it.
        await conn.execute("update threads set not_before = '-infinity' where id = %s", (item.thread_id,))
        undo_until: datetime = taken["undo_until"]
        return undo_until

    async def _check_mode(self, conn: Connection, item: Item, decision: Mapping[str, Any]) -> None:
        """Refuse what acts in shadow mode, which nobody can switch on before the caller's transaction has ended."""
        cursor = await conn.execute(
            "select mode = 'shadow' as shadow from accounts where id = %s for share", (item.account_id,)
        )
        row = await cursor.fetchone()
        if row and row["shadow"] and acts(item.kind, decision["type"]):
            raise Invalid(_shadowed(item))

    async def take_back(self, conn: Connection, account_id: UUID) -> None:
        """Ask again for what the person said to do in an account, and what is not being carried out yet."""
        await conn.execute(
            f"""update inbox_items set status = 'pending', {_TYPED_BEFORE}, decision = null, decided_by = null,
                       decided_at = null, undo_until = null
                where id in (select id from inbox_items where account_id = %s and status = 'decided'
                             and kind <> 'notification' and decision->>'type' = any(%s)
                             order by id for no key update)""".encode(),
            (account_id, list(ACTS)),
        )
        await conn.execute(FORGET_RESTORABLE + " and account_id = %s", (account_id,))

    def expires_at(self, item: Item) -> datetime | None:
        """When a pending item is ignored by itself; None if it never is. What may have happened is always told."""
        if (
            self._lifetime is None
            or item.status != "pending"
            or "ignore" not in item.allowed
            or item.kind == "in_doubt"
        ):
            return None
        since = (item.created_at, item.snoozed_until, item.reopened_at)
        return max(at for at in since if at) + self._lifetime

    async def expire(self, provider: str) -> None:
        """Ignore what has waited too long; nothing is learned from that."""
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

    async def decide_many(
        self,
        user_id: UUID,
        seen: Sequence[tuple[UUID, str | None]],
        answer: Mapping[str, Any],
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
        return [await self._outcome(user_id, item_id, shown, answer, by, undo_window) for item_id, shown in seen]

    async def _outcome(
        self,
        user_id: UUID,
        item_id: UUID,
        shown: str | None,
        answer: Mapping[str, Any],
        by: str,
        undo_window: timedelta | None,
    ) -> Outcome:
        try:
            item = await self.get(user_id, item_id)
            if acts(item.kind, answer.get("type")):
                _check_shown(item, shown, among_others=True)
            decided = await self.decide(user_id, item_id, answer, by, undo_window=undo_window)
            return Outcome(item_id, decided, None)
        except (NoItem, Conflict, Invalid, psycopg.Error) as refused:
            return Outcome(item_id, None, refused)

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
            cursor = await conn.execute(
                "update inbox_items set snoozed_until = %s where id = %s and user_id = %s and status = 'pending'",
                (until, item_id, user_id),
            )
        item = await self.get(user_id, item_id)
        if cursor.rowcount == 0:
            raise Conflict("it was taken back just now; try again" if item.status == "pending" else _became(item))
        return item

    async def undo(self, user_id: UUID, item_id: UUID) -> Item:
        """Take a decision back while its window is open, or while it waits for another part to be decided. What was
        asked about again because of it stands as it stood before.

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
            cursor = await conn.execute(
                f"""update inbox_items i set status = 'pending', {_TYPED_BEFORE}, decision = null, decided_by = null,
                           decided_at = null, undo_until = null
                    where id = %s and user_id = %s and status = 'decided' and (
                        undo_until > clock_timestamp() or exists (
                            select from inbox_items p where p.run_id = i.run_id and p.status = 'pending'))""".encode(),
                (item_id, user_id),
            )
            if cursor.rowcount:
                await self._restore(conn, item_id)
        item = await self.get(user_id, item_id)
        if cursor.rowcount == 0:
            raise Conflict("there is nothing to undo" if item.status == "pending" else _became(item))
        return item

    async def _restore(self, conn: Connection, item_id: UUID) -> None:
        """Give back the answers to parts that were asked about again because of an item."""
        await conn.execute(
            """update inbox_items set status = 'decided', decision = reopened->'decision',
                      decided_by = reopened->>'decided_by', decided_at = (reopened->>'decided_at')::timestamptz,
                      undo_until = (reopened->>'undo_until')::timestamptz,
                      args = case when reopened->>'args' is null then args else reopened->'args' end,
                      reopened = null, reopened_at = null
               where run_id = (select run_id from inbox_items where id = %s) and status = 'pending'
               and reopened->>'item' = %s""",
            (item_id, str(item_id)),
        )

    async def project(self, conn: Connection, run_id: UUID, mail_text: str, asked: Iterable[Asked]) -> None:
        """Make a row of each question; a repeat changes nothing.

        What the person had decided in runs that this one took the place of was not done: what it asks first says so,
        and what they had written stands in its field again.
        """
        overtaken = await self._overtaken(conn, run_id)
        for question in asked:
            value = question.value
            told = "; ".join(map(not_done, overtaken)) or None
            typed = next((again for each in overtaken if (again := each.typed_again(value))), None)
            await conn.execute(
                f"""insert into inbox_items (user_id, account_id, thread_id, run_id, mail_id, mail_text, call_id,
                                            interrupt_id, group_id, kind, action, args, allowed, new_recipients, marks,
                                            first_answer, left_out, conflicts, calendars, teaches, because,
                                            asked_because, taken_back, words)
                   select user_id, account_id, thread_id, id, mail_id, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s,
                          %s, %s, %s, %s, %s, %s, {WORDS}
                   from runs where id = %s on conflict (run_id, interrupt_id) do nothing""".encode(),
                (
                    mail_text,
                    value["call_id"],
                    question.interrupt_id,
                    value.get("group"),
                    value["kind"],
                    value["action"],
                    Json(value["args"]),
                    value["allowed"],
                    question.judged.new_recipients,
                    Json([asdict(mark) for mark in question.judged.marks]),
                    question.judged.first_answer,
                    question.left_out,
                    question.conflicts,
                    question.calendars,
                    value["teaches"],
                    value.get("because"),
                    told,
                    Json(typed) if typed else None,
                    *words(mail_text, value["args"]),
                    run_id,
                ),
            )

    async def _overtaken(self, conn: Connection, run_id: UUID) -> list[Overtaken]:
        """What the person had decided to do in the runs that a run took the place of, before it asks anything: of each
        kind the last."""
        cursor = await conn.execute(
            """with recursive before as (
                   select id, thread_id from runs where id = %(run)s
                   union select r.id, r.thread_id from runs r
                         join before b on r.thread_id = b.thread_id and r.superseded_by = b.id)
               select distinct on (kind) kind, args::text, decision::text from inbox_items
               where run_id in (select id from before) and status = 'superseded'
               and decision->>'type' in ('accept', 'edit') and kind <> 'notification'
               and not exists (select from inbox_items where run_id = %(run)s)
               order by kind, decided_at desc""",
            {"run": run_id},
        )
        rows = await cursor.fetchall()
        read = [(row["kind"], args_in(row["args"]), decision_in(row["decision"])) for row in rows]
        return [Overtaken(kind, args, decision) for kind, args, decision in read if decision]

    async def ask_again(self, conn: Connection, effect: Effect, mail_text: str) -> None:
        """Ask the person about an effect that was refused, or of which nobody can tell whether it happened."""
        if effect.state == "unknown":
            await self._raise(conn, effect.run_id, "in_doubt", effect.call_id, effect.tool, effect.args, mail_text)
        else:
            await self._ask_about_refusal(conn, effect, mail_text)

    async def _ask_about_refusal(self, conn: Connection, effect: Effect, mail_text: str) -> None:
        """Show what they decided once more, as it is now, and why it was not done."""
        await conn.execute(
            f"""insert into inbox_items (user_id, account_id, thread_id, run_id, mail_id, mail_text, call_id, kind,
                                        action, args, allowed, new_recipients, marks, first_answer, left_out, conflicts,
                                        calendars, teaches, because, words, asked, asked_because, group_id)
               select user_id, account_id, thread_id, run_id, mail_id, mail_text, call_id, kind, action, %s,
                      array_remove(allowed, 'response'), new_recipients, marks, first_answer, left_out, conflicts,
                      calendars, false, because, {WORDS}, {_ASKED}, %s, group_id
               from inbox_items i where run_id = %s and call_id = %s and interrupt_id is not null
               on conflict (run_id, call_id, kind) where interrupt_id is null and status in ('pending', 'decided')
               do nothing""".encode(),
            (
                Json(effect.args),
                *words(mail_text, effect.args),
                effect.run_id,
                effect.call_id,
                effect.result,
                effect.run_id,
                effect.call_id,
            ),
        )

    async def ask_to_open(self, conn: Connection, run_id: UUID, url: str, why: str, mail_text: str) -> None:
        """Ask the person to open a link that a tool needs; *accept* says that it was done."""
        await self._raise(conn, run_id, "link", "open_link", "open_link", {"url": url, "message": why}, mail_text)

    async def _raise(
        self,
        conn: Connection,
        run_id: UUID,
        kind: Kind,
        call_id: str,
        action: str,
        args: Mapping[str, Any],
        mail_text: str,
    ) -> None:
        """Ask what no interrupt asks; while it waits, a repeat changes nothing."""
        await conn.execute(
            f"""insert into inbox_items (user_id, account_id, thread_id, run_id, mail_id, mail_text, call_id, kind,
                                        action, args, allowed, new_recipients, marks, teaches, words, asked)
               select user_id, account_id, thread_id, id, mail_id, %s, %s, %s, %s, %s, %s, %s, '[]', false, {WORDS},
                      {_ASKED}
               from runs where id = %s
               on conflict (run_id, call_id, kind) where interrupt_id is null and status in ('pending', 'decided')
               do nothing""".encode(),
            (
                mail_text,
                call_id,
                kind,
                action,
                Json(args),
                ["accept", "ignore"],
                [],
                *words(mail_text, args),
                run_id,
                call_id,
                run_id,
            ),
        )

    async def apply(self, conn: Connection, run_id: UUID) -> Sequence[Item]:
        """Pass the point of no return for all of a run's decided items, or for none while one is still open.

        Raises:
            UnreadableAnswer.
        """
        cursor = await conn.execute(
            """select bool_and(status = 'decided' and undo_until <= clock_timestamp()) as ready
               from (select status, undo_until from inbox_items where run_id = %s and status in ('pending', 'decided')
                     order by id for no key update) as open""",
            (run_id,),
        )
        row = await cursor.fetchone()
        if row is None or not row["ready"]:
            return []
        cursor = await conn.execute(
            """update inbox_items set status = 'applied', applied_at = clock_timestamp(),
                      learned_at = case when decision->>'type' = 'accept' then clock_timestamp() end
               where run_id = %s and status = 'decided' returning id""",
            (run_id,),
        )
        ids = [r["id"] for r in await cursor.fetchall()]
        async with conn.cursor(row_factory=kwargs_row(_item)) as items:
            await items.execute(f"select {_COLUMNS} from {_TABLES} where i.id = any(%s)".encode(), (ids,))
            return [_believed(item) for item in await items.fetchall()]

    async def answers(self, run_id: UUID) -> dict[str, dict[str, Any]]:
        """The applied answers of a run by interrupt id: the map that its graph is resumed with.

        Raises:
            UnreadableAnswer.
        """
        items = await self._items("i.run_id = %s and i.status = 'applied' and i.interrupt_id is not null", run_id)
        return {str(i.interrupt_id): dict(_believed(i).decision or {}) for i in items}

    async def supersede(self, conn: Connection, run_ids: Sequence[UUID], by: UUID | None) -> None:
        """Close what still waits in these runs; the rows stay and show what took their place."""
        await supersede(conn, run_ids, by)

    async def closed_with(self, run_id: UUID) -> list[Item]:
        """What waited in a run when that was closed, and nothing took the place of."""
        return await self._items(
            """i.run_id = %s and i.status = 'superseded' and i.superseded_by is null and i.decision is null
               and i.interrupt_id is not null""",
            run_id,
        )

    async def reopen(self, conn: Connection, run_id: UUID) -> None:
        """Let what was closed with a run wait again, as if it had been asleep meanwhile."""
        await conn.execute(
            """update inbox_items set status = 'pending', ended_at = null, snoozed_until = clock_timestamp()
               where run_id = %s and status = 'superseded' and superseded_by is null and decision is null
               and interrupt_id is not null""",
            (run_id,),
        )

    async def said_in(self, run_ids: Sequence[UUID]) -> tuple[list[str], str | None]:
        """What the person said in runs that were superseded: their instructions, and the reply they had approved."""
        async with self._pool.connection() as conn:
            cursor = await conn.execute(
                """select kind, args::text, coalesce(decision, reopened->'decision')::text as decision, status
                   from inbox_items
                   where run_id = any(%s) and coalesce(decision, reopened->'decision') is not null
                   order by coalesce(decided_at, (reopened->>'decided_at')::timestamptz)""",
                (list(run_ids),),
            )
            rows = await cursor.fetchall()
        said = [(row, decision) for row in rows if (decision := decision_in(row["decision"]))]
        instructions = [decision["args"] for _, decision in said if decision["type"] == "response"]
        approved = [
            str((decision["args"] or args_in(row["args"])).get("response_text", ""))
            for row, decision in said
            if row["kind"] == "draft" and row["status"] == "superseded" and decision["type"] in ACTS
        ]
        return instructions, approved[-1] if approved else None

    async def decided(self, run_id: UUID) -> set[str]:
        """Ids of the interrupts that a run's decided items answer."""
        items = await self._items("i.run_id = %s and i.status = 'decided' and i.interrupt_id is not null", run_id)
        return {str(i.interrupt_id) for i in items}

    async def to_be_done(self, run_id: UUID) -> set[str]:
        """Ids of the calls that a run's decided items say to carry out."""
        items = await self._items("i.run_id = %s and i.status = 'decided'", run_id)
        return {i.call_id for i in items if (i.decision or {}).get("type") in ACTS}

    async def expire_run(self, conn: Connection, run_id: UUID) -> None:
        """Close what still waits in a run that failed."""
        await conn.execute(
            """update inbox_items set status = 'expired'
               where id in (select id from inbox_items where run_id = %s and status in ('pending', 'decided')
                            order by id for no key update)""",
            (run_id,),
        )

    async def next_lesson(self, account_id: UUID) -> Item | None:
        """The next applied item to learn from; None if there is none now."""
        items = await self._items(
            """i.account_id = %s and i.status = 'applied' and i.teaches and i.learned_at is null
               and i.learn_after <= clock_timestamp() order by i.applied_at, i.id limit 1""",
            account_id,
        )
        return items[0] if items else None

    async def taught(self, item: Item) -> Taught:
        """What stands around an applied answer."""
        async with self._pool.connection() as conn:
            cursor = await conn.execute(
                """select coalesce((m.content->>'bulk')::boolean, false) as bulk,
                          coalesce((m.content->>'auto_submitted')::boolean, false) as automatic,
                          exists (select from inbox_items p where p.run_id = i.run_id and p.id <> i.id
                                  and p.kind <> 'notification' and p.status = 'applied'
                                  and p.decision->>'type' = any(%s)) as beside_accepted,
                          array(select concat_ws(E'\n', c.content->'sender'->>'name', c.subject, c.content->>'text')
                                from mails c where c.thread_id = i.thread_id) as mails
                   from inbox_items i left join mails m on m.account_id = i.account_id and m.gmail_id = i.mail_id
                   where i.id = %s""",
                (list(ACTS), item.id),
            )
            row = await cursor.fetchone()
        if row is None:
            raise NoItem(f"there is no item {item.id}")
        # What no interrupt asks is what the person had decided, in their own words maybe.
        asked = [each for each in await self.of_thread(item.user_id, item.thread_id) if each.interrupt_id]
        return Taught(**row, items=asked)

    async def learned(self, item_id: UUID) -> None:
        async with self._pool.connection() as conn:
            await conn.execute("update inbox_items set learned_at = clock_timestamp() where id = %s", (item_id,))

    async def learn_later(self, item_id: UUID, most_tries: int | None) -> bool:
        """Back off after a failed try; with `most_tries`, give up after so many. Returns whether it was given up."""
        async with self._pool.connection() as conn:
            cursor = await conn.execute(
                """update inbox_items set
                          learn_after = clock_timestamp() + back_off(learn_tries, '1 second', '5 minutes'),
                          learned_at = case when learn_tries >= %s then clock_timestamp() end
                   where id = %s returning learned_at is not null as given_up""",
                (most_tries if most_tries is not None else 2**31 - 1, item_id),
            )
            row = await cursor.fetchone()
        return bool(row and row["given_up"])

    async def unlearned(self, provider: str) -> list[UUID]:
        """Accounts with applied items that something may still be learned from, now."""
        async with self._pool.connection() as conn:
            cursor = await conn.execute(
                """select distinct i.account_id from inbox_items i join accounts a on a.id = i.account_id
                   where i.status = 'applied' and i.teaches and i.learned_at is null
                   and i.learn_after <= clock_timestamp() and a.provider = %s and a.state = 'active'""",
                (provider,),
            )
            return [row["account_id"] for row in await cursor.fetchall()]

    async def waiting_in(self, user_id: UUID, run_ids: Sequence[UUID]) -> dict[UUID, Item]:
        """By run, the oldest of its items that nobody has answered; runs where nothing waits are left out."""
        items = await self._items(
            """i.user_id = %s and i.run_id = any(%s) and i.status = 'pending' order by i.created_at desc, i.id desc""",
            user_id,
            list(run_ids),
        )
        return {item.run_id: item for item in items}

    async def check(self, item: Item, answer: Mapping[str, Any]) -> None:
        """Whether an item would take an answer now. Raises Conflict, Invalid."""
        await self._checked(item, answer)

    async def _is_repeat(self, item: Item, answer: Mapping[str, Any]) -> bool:
        """Whether an item was given this very answer already."""
        if item.status not in ("decided", "applied") or item.decision is None:
            return False
        try:
            return await self._read_answer(item, answer) == item.decision
        except Invalid:
            return False

    async def _checked(self, item: Item, answer: Mapping[str, Any]) -> dict[str, Any]:
        if item.status != "pending":
            raise Conflict(_became(item))
        return await self._read_answer(item, answer)

    async def _read_answer(self, item: Item, answer: Mapping[str, Any]) -> dict[str, Any]:
        """The answer as it is kept. Raises Invalid."""
        kind, args = answer.get("type"), answer.get("args")
        try:
            check_storable(args)
        except ToolError as error:
            raise Invalid(str(error)) from None
        if item.unreadable and kind not in item.allowed:
            raise Invalid(UNREADABLE)
        if item.shadow and acts(item.kind, kind):
            raise Invalid(_shadowed(item))
        if kind not in item.allowed:
            raise Invalid(f"{kind!r} is no answer to this; it takes {', '.join(item.allowed)}")
        match kind:
            case "edit":
                return {"type": "edit", "args": await self._edited(item, args)}
            case "response":
                if not isinstance(args, str) or not args.strip():
                    raise Invalid("a response is a text")
                return {"type": "response", "args": args}
            case "accept" if item.reopened and item.reopened["args"] is not None:
                return {"type": "edit", "args": item.args}  # as the person had left it, and is shown it
            case _:
                return {"type": kind, "args": None}

    async def _edited(self, item: Item, args: object) -> dict[str, Any]:
        """An edit takes the place of the proposed arguments; it is checked before it is taken."""
        if isinstance(args, Mapping) and isinstance(args.get("args"), Mapping) and "action" in args:
            args = args["args"]  # the public Agent Inbox sends the whole action request
        if not isinstance(args, Mapping):
            raise Invalid("an edit is an object with the tool's arguments")
        given = dict(args)
        if item.action == LETTER:
            if "email_address" not in given:
                raise Invalid("email_address is left out: an edit is all of the arguments, so it says to whom it goes")
            if not str(given["email_address"] or "").strip():
                raise Invalid("To is empty: say to whom it goes")
            given.setdefault("additional_recipients", [])  # nobody: who else was proposed is not put back either
        async with self._pool.connection() as conn:
            cursor = await conn.execute("select input from runs where id = %s", (item.run_id,))
            row = await cursor.fetchone()
        assert row is not None
        try:
            complete = await self._complete(row["input"], item.action, given)
        except ToolError as error:
            raise Invalid(str(error)) from None
        except (KeyError, TypeError):  # what the run was given is none of ours
            raise Invalid(UNREADABLE) from None
        if str(given.get("from_address") or item.sent_from).lower() != str(item.sent_from).lower():
            raise Invalid(f"from_address: this goes from {item.sent_from}; leave {given['from_address']} out")
        if complete.get("from_address") != item.args.get("from_address"):
            raise Invalid(f"it would not go from {item.sent_from} any more: accept it, and you are shown from where")
        return complete

    async def _items(self, where: str, *parameters: object) -> list[Item]:
        return await self._read(f"select {_COLUMNS} from {_TABLES} where {where}", *parameters)

    async def _read(self, query: str, *parameters: object) -> list[Item]:
        async with self._pool.connection() as conn, conn.cursor(row_factory=kwargs_row(_item)) as cursor:
            await cursor.execute(query.encode(), parameters)
            return await cursor.fetchall()


def _item(parts: Sequence[Mapping[str, Any]] | None, newer: Sequence[Newer], **columns: Any) -> Item:
    came = [Newer(**{**each, "received_at": time_in_json(each["received_at"]).isoformat()}) for each in newer]
    return Item(parts=[Part.of(part) for part in parts or ()], newer=came, **judged(columns))


def _believed(item: Item) -> Item:
    """The item, if its answer is one that was given to what was shown, or that has nothing done."""
    if item.unreadable and (item.decision is None or item.decision["type"] != "ignore"):
        raise UnreadableAnswer
    return item


def _turns_down(item: Item, decision: Mapping[str, Any]) -> bool:
    """Whether an answer says no to a part as it was proposed; a question is only answered."""
    return decision["type"] == "ignore" or (decision["type"] == "response" and item.kind != "question")


async def supersede(conn: Connection, run_ids: Sequence[UUID], by: UUID | None) -> None:
    """Close what still waits in these runs; the rows stay and show what took their place."""
    await conn.execute(
        """update inbox_items set status = 'superseded', superseded_by = %s
           where id in (select id from inbox_items where run_id = any(%s) and status in ('pending', 'decided')
                        order by id for no key update)""",
        (by, list(run_ids)),
    )


def _check_shown(item: Item, shown: str | None, *, among_others: bool) -> None:
    """Whether an item that waits may be accepted by whoever was shown it, together with others or with those of its own
    proposal only. Raises Conflict, Invalid."""
    if item.status != "pending":
        return
    if shown is None:
        raise Invalid("what is accepted among others is named with the hash that it was shown with, as {id, hash}")
    if shown != item.hash:
        raise Conflict("this is not as it was shown; look at it again")
    if among_others and item.alone:
        raise Invalid(item.alone)


def _shadowed(item: Item) -> str:
    return (
        f"{item.account} is in shadow mode: this is what would have been done, and nothing is sent; "
        f"`email-assistant account mode {item.account} send` ends that"
    )


def _became(item: Item) -> str:
    match item.status:
        case "decided" | "applied":
            answer = (item.decision or {}).get("type")
            return f"already answered ({answer}) by {item.decided_by} at {item.decided_at:%Y-%m-%d %H:%M:%S %Z}"
        case "superseded":
            why = item.ended_because or "the conversation went on"
            return f"superseded: {why}" + ("; see the newer item" if item.superseded_by else "")
        case "expired":
            return "expired: it can no longer be answered"
        case "pending":
            return "its account is being removed"
