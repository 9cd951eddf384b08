"""What waits for a person, and what became of it: one item, as its row says."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from http import HTTPStatus
from typing import Any, Final, Literal
from uuid import UUID
from zoneinfo import ZoneInfo

from psycopg.rows import kwargs_row

from email_assistant.db.pool import Connection, rows_of
from email_assistant.db.statements import statements
from email_assistant.db.values import time_in_json, zone_named
from email_assistant.errors import AssistantError
from email_assistant.gate.doubt import Doubt
from email_assistant.inbox.describe import HERE, Newer, describe, in_gmail
from email_assistant.inbox.kept import UNREADABLE, judged
from email_assistant.inbox.listing import Status
from email_assistant.inbox.marks import Mark, RecipientMark, in_words
from email_assistant.inbox.recipients import RecipientMarks, addresses_in
from email_assistant.inbox.standing import (
    ACTS,
    PART_IS_GONE,
    Part,
    answer_words,
    answered_where,
    day,
    is_asleep,
    other_parts,
    takes_effect,
    waits_for,
)
from email_assistant.mail.report import Told, note
from email_assistant.outgoing.entry import InGmail
from email_assistant.plugins import takes_calls
from email_assistant.tools.spec import LETTER, MEETING, Answer, Kind, is_blank
from email_assistant.tools.times import MeetingTime

PAGE = 100
MOST_AT_ONCE = 200
TOGETHER: tuple[Kind, ...] = ("draft", "meeting", "confirmation")
"""Kinds that may be accepted several at once, each of them shown whole."""
NIL: Final = UUID(int=0)
"""Account, thread and run of what has none: a call of somebody else's agent, which waits for the answer (RFC 9562)."""
_WAS_DONE: Final = {LETTER: "reply was sent", MEETING: "meeting was put into the calendar"}
"""What came of the tools that a mail's proposals are made with."""
_TO_COME: Final = """(not exists (select from effects d where d.run_id = {0}.run_id and d.call_id = {0}.call_id
    and d.state <> 'planned') and (
    r.state = 'acting' or r.state = 'waiting' and exists (
        select from inbox_items o where o.run_id = {0}.run_id and o.group_id is not distinct from {0}.group_id
        and o.status in ('pending', 'decided'))))"""
"""Of an applied item: nothing was begun of it, and will be once the person has said more of the other calls of its
message, of which one was refused, or changed when they were asked again."""
_SQL = statements("inbox", "items.sql", nil=str(NIL), to_come_i=_TO_COME.format("i"), to_come_p=_TO_COME.format("p"))
_IN_ROW = 3
"""Values that a row shows of each mark."""
JOINED = _SQL["joined"]
"""What is joined to `inbox_items i` for the columns of an item."""


class NoItem(AssistantError):
    """No such item in this person's inbox."""

    status = HTTPStatus.NOT_FOUND


class Conflict(AssistantError):
    """The item can't take this answer any more; the message says what became of it."""

    status = HTTPStatus.CONFLICT


class Invalid(AssistantError):
    """The answer can't be taken as it stands; the item still waits."""

    status = HTTPStatus.UNPROCESSABLE_ENTITY


@dataclass(frozen=True, slots=True)
class Item:
    id: UUID
    user_id: UUID
    account_id: UUID
    account: str
    """The account's address; empty: it has none."""
    thread_id: UUID
    run_id: UUID
    mail_id: str | None
    """Gmail's id of the mail it is about; None: it comes from a chat."""
    chat: str | None
    """Id of the chat that it comes from."""
    undelivered: str | None
    """Half a sentence on what became of a letter of theirs, if it is about a report on that."""
    sender: str | None
    """Of the mail; of a call without a run, the agent; of a report, whom the letter did not reach."""
    sender_name: str | None
    """As the mail itself has it; whoever writes may call themselves anything."""
    subject: str | None
    """Of the mail; of a chat, what the person asked for; of a report, the letter's."""
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
    kept_marks: list[dict[str, Any]]
    """`marks` as they are kept."""
    kept_doubts: list[dict[str, Any]]
    """Likewise of what it says (`gate.doubt.Doubt`)."""
    first_answer: str | None
    """The From that it answers, if the mail that is stored knows of no mail to it."""
    knows_letters: bool
    """A letter of the person's is stored; else nobody counts as known, which is said once, and not of each."""
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
    teachable: bool
    """An answer to it can be learned from."""
    teaches: bool
    """The one that it was given is: the person may have said not to."""
    taken_back: dict[str, Any] | None
    """While it waits: the edit or the text that the person had answered with before, {type, args}."""
    in_gmail: InGmail | None
    """While it waits: what the person has made of its draft in Gmail, as last heard of."""
    decided_by: str | None
    decided_at: datetime | None
    undo_until: datetime | None
    applied_at: datetime | None
    is_stopped: bool
    """The person has stopped everything, so that nothing is done about their answer."""
    is_paused: bool
    """Its mailbox is, likewise."""
    held_up: str | None
    """While it is being carried out: why it takes longer."""
    done_beside: list[str]
    """While it waits: the tools that did something for the same mail already, as the person had approved."""
    reported: str
    """What mail systems reported of a letter that was sent; empty: nothing."""
    stands: Literal["to come", "asked again"] | None
    """Of an answer that acts and is past undoing, where it has not been carried out."""
    undone: bool
    """Of a letter or a meeting that is decided for good: nothing of it was done."""
    overwritten: str | None
    """What the person had written into its draft in Gmail, which was sent as they had approved it."""
    superseded_by: UUID | None
    """The run that took its place."""
    ended_because: str | None
    """Why it was superseded, or expired, or the run was closed that was to carry it out."""
    newer: list[Newer]
    """While it can still be answered: mail that came since, newest first, and is not what it answers."""
    snoozed_until: datetime | None
    """While it is pending, it is left out of listings until then."""
    urgency: int
    """Its rank in the order of urgency, by kind alone; 0 comes first."""
    created_at: datetime
    waits_until: datetime | None
    """Until when somebody else's agent waits for the answer; None: none does."""
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
    def is_held(self) -> bool:
        """Whether somebody else's agent waits for the answer."""
        return self.run_id == NIL

    @property
    def is_blank(self) -> bool:
        """Whether it is a letter that the person is to write, as nothing was proposed."""
        return is_blank(self.kind, self.args)

    @property
    def is_about_mail(self) -> bool:
        """Whether dismissing it can say something of mail like the one it is about."""
        return self.mail_id is not None and self.kind not in ("in_doubt", "link") and not self.undelivered

    @property
    def marks(self) -> list[Mark]:
        """What must be seen before this is decided; of what the person has edited, what still stands there."""
        reasons = [Mark.gate_reason(self.because)] if self.because and self._is_as_proposed else []
        if self.undelivered:
            reasons = [Mark.undelivered(self.undelivered)]
        return [*self._of_recipients, *reasons, *map(Mark.doubt, self._doubts)]

    @property
    def warnings(self) -> list[str]:
        """Its marks in words, a line each."""
        return in_words(self.marks)

    @property
    def at_a_glance(self) -> str:
        """The same as a row has room for."""
        return "; ".join(in_words(self.marks, _IN_ROW))

    @property
    def _of_recipients(self) -> list[Mark]:
        reached = addresses_in(self._final)
        marks = [_mark(**mark) for mark in self.kept_marks]
        return [m for m in marks if m.address in reached or (m.kind == "lookalike" and not reached)]

    @property
    def _doubts(self) -> list[Doubt]:
        kept = [Doubt(**doubt) for doubt in self.kept_doubts]
        if self.is_held:  # it is never edited, and its arguments have names of somebody else's
            return kept
        reached = addresses_in(self._final)
        return [doubt for doubt in kept if doubt.holds(self._final, reached)]

    @property
    def _final(self) -> dict[str, Any]:
        """The arguments as they go out: as the person's edit has left them."""
        is_edit = self.decision is not None and self.decision["type"] == "edit"
        return self.decision["args"] if self.decision and is_edit else self.args

    @property
    def _is_as_proposed(self) -> bool:
        edited = self.reopened and self.reopened["args"] is not None
        return self._final == (self.reopened["args"] if self.reopened and edited else self.args)

    @property
    def new_recipients(self) -> list[str]:
        """Addresses that the action would reach and that are not known to have been written to."""
        return RecipientMarks(self._of_recipients).new_recipients

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
        return describe(self, self.notes)

    @property
    def hash(self) -> str:
        """Of all that is shown of it to be decided on: what was accepted under another is another thing."""
        shown = [str(self.id), self.asked, self.kind, self.account, self.sender, self.subject, describe(self, ())]
        return hashlib.sha256(json.dumps([*shown, self.args]).encode()).hexdigest()

    @property
    def alone(self) -> str | None:
        """Why it can't be accepted among others; None: it can."""
        if self.unreadable:
            return UNREADABLE
        if self.kind not in TOGETHER:
            return "this is no letter or event that is shown whole; decide it by itself"
        if self.in_gmail:
            return f"{self.in_gmail.why}; decide it by itself"
        if self.marks:
            return f"look at it by itself: {'; '.join(self.warnings)}"
        return None

    @property
    def first_asked(self) -> int:
        """The how manieth time they were asked when the item was made: what an answer counts for that does not say."""
        return 1 if self.interrupt_id else self.asked

    @property
    def waits_for(self) -> list[UUID]:
        """The parts that the person has yet to decide before anything is done about the answer to this one."""
        waits = self.status == "decided" or (self.stands == "to come" and self.decision is not None)
        return [part.id for part in self.parts if part.answer is None] if waits else []

    @property
    def coming(self) -> str:
        """When its answer takes effect."""
        paused = "once its mailbox is watched again" if self.is_paused else None
        held = "once you go on" if self.is_stopped else paused
        until, answer = self.undo_until or self.decided_at, (self.decision or {})["type"]
        return takes_effect(self.kind, answer, until, self.parts, self.zone, held=held)

    @property
    def answered_where(self) -> str:
        return answered_where(self.decided_by)

    @property
    def waits_for_more(self) -> bool:
        """Nothing comes of the answer yet, so that it can be taken back, however long ago it was given."""
        return self.status == "decided" and (self.is_stopped or self.is_paused or bool(self.waits_for))

    @property
    def asked_because(self) -> str | None:
        """Why they are asked again: it was refused, accepted together with what then was not, or newer mail came."""
        if self.refusal or self.reopened:
            return self.refusal or (self.reopened["because"] if self.reopened else None)
        return self.in_gmail.why if self.in_gmail else None

    @property
    def both_texts(self) -> str:
        """Its letter as it stands in Gmail and as it stands here, to follow a sentence; empty: they are one."""
        if self.in_gmail is None or not self.in_gmail.text:
            return ""
        return f". {in_gmail(self.in_gmail)}\n{self.in_gmail.text}\n\n{HERE}\n{self.args.get('response_text', '')}"

    @property
    def notes(self) -> list[str]:
        """What the person should know of the parts beside it before they decide it, one line each."""
        if self.status != "pending":
            return []
        if self.unreadable:
            return [UNREADABLE.capitalize()]
        if self.is_held:
            return [waits_for(self.waits_until) if takes_calls() else PART_IS_GONE]
        done = [
            f"{'Another' if tool == self.action else 'The'} {_WAS_DONE[tool]} already"
            for tool in self.done_beside
            if tool in _WAS_DONE
        ]
        return done + other_parts(self.kind, self.parts, self.zone, one_proposal=self.chat is None)

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
                return self.coming
            case "applied":
                answer = (self.decision or {})["type"]
                said = answer_words(self.kind, answer)
                if answer not in ACTS:
                    return said
                if self.stands == "asked again":
                    return f"{said}, and asked about again"
                if self.waits_for:
                    return f"{said}; {self.coming}"
                if self.undone:
                    return ": ".join(filter(None, (f"{said}, but not done", self.ended_because)))
                kept = f"what you wrote into its draft in Gmail was not sent: {self.overwritten}"
                return "; ".join(filter(None, (said, self.held_up, kept if self.overwritten else "", self.reported)))
            case "superseded" | "expired":
                return self.ended_because or self.status


def _mark(kind: RecipientMark, address: str, text: str) -> Mark:
    """One of a recipient, as it is kept."""
    match kind:
        case "new_recipient":
            return Mark.new(address)
        case "unknown_recipient":
            return Mark.unknown(address)
        case "outside":
            return Mark.outside(address)
        case "lookalike":
            return Mark(kind, address, text)


async def read(conn: Connection, where: str, *parameters: object) -> list[Item]:
    """The items that a condition on `inbox_items i` finds."""
    return await read_from(conn, f"inbox_items i {JOINED} where {where}", *parameters)


async def read_from(conn: Connection, tables: str, *parameters: object, plan_anew: bool = False) -> list[Item]:
    query = f"select {_SQL['columns']} from {tables}"
    return await rows_of(conn, kwargs_row(_item), query, parameters, plan_anew=plan_anew)


def _item(
    parts: Sequence[Mapping[str, Any]] | None, newer: Sequence[Newer], told: Sequence[Told] | None, **columns: Any
) -> Item:
    kept = judged(columns)
    kept["in_gmail"] = InGmail(**kept["in_gmail"]) if kept["in_gmail"] else kept["in_gmail"]
    came = [Newer(**{**each, "received_at": time_in_json(each["received_at"]).isoformat()}) for each in newer]
    return Item(parts=[Part.of(part) for part in parts or ()], newer=came, reported=note(told or ()), **kept)
